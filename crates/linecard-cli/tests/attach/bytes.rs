//! Seeded bytes sent over TCP by one kernel and received by another, with a hash at both ends.

use crate::lab::{Host, Lab, PATIENCE, wait_for};
use crate::sys;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

/// Bytes given to the kernel by one call.
const CHUNK: usize = 64 << 10;

/// Where data comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// From the peer to the TAP: merged.
    In,
    /// From the TAP to the peer: cut.
    Out,
}

/// The sent bytes.
#[derive(Debug, Clone)]
pub(crate) struct Transfer {
    pub(crate) way: Way,
    /// The receiver's address.
    pub(crate) to: IpAddr,
    pub(crate) bytes: u64,
    /// How long the receiver does not read at first.
    pub(crate) pause: Duration,
    /// Connections at once, each with all these bytes.
    pub(crate) connections: u32,
}

/// How it went.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Went {
    /// Segments sent again that had been lost. Not those by which TCP asks when an acknowledgment is late,
    /// as it is where threads wait for a core, nor those that the receiver had already (D-SACK, RFC 2883): an
    /// acknowledgment that is late by more than TCP's timeout, or a flow that the sender's kernel moves to another
    /// queue afterwards, is not loss.
    pub(crate) again: u64,
    pub(crate) seconds: f64,
}

impl Transfer {
    /// Over IPv4.
    pub(crate) fn new(way: Way, bytes: u64) -> Self {
        let to = if way == Way::In { [10, 9, 0, 2] } else { [10, 9, 0, 1] };
        Self { way, to: to.into(), bytes, pause: Duration::ZERO, connections: 1 }
    }

    /// Between these places; every byte has to arrive.
    pub(crate) fn run(&self, lab: &Lab) -> Went {
        self.run_while(lab, |_| {})
    }

    /// The same, with something done meanwhile, which is told whether a time is over or all has
    /// arrived.
    pub(crate) fn run_while(
        &self,
        lab: &Lab,
        work: impl FnOnce(&dyn Fn(Duration) -> bool),
    ) -> Went {
        let (from, to) = match self.way {
            Way::In => (&lab.peer, &lab.host),
            Way::Out => (&lab.host, &lab.peer),
        };
        let needless = || from.tcp("TCPLossProbes") + from.tcp("TCPDSACKRecvSegs");
        let (begun, needless_before) = (Instant::now(), needless());
        let (ready, address) = channel();
        let again = thread::scope(|scope| {
            let receive = scope.spawn(move || self.receive(to, &ready));
            let address = address.recv().expect("it listens");
            let send = |number| scope.spawn(move || send(from, address, self.bytes, number));
            let senders: Vec<_> = (0..self.connections).map(send).collect();
            work(&|time| {
                let end = Instant::now() + time;
                while Instant::now() < end && !receive.is_finished() {
                    thread::sleep(Duration::from_millis(5));
                }
                receive.is_finished()
            });
            let mut sent: Vec<_> = senders.into_iter().map(joined).collect();
            let mut received = joined(receive);
            sent.sort_unstable();
            received.sort_unstable();
            let hashes: Vec<_> = sent.iter().map(|(hash, _)| *hash).collect();
            assert_eq!(hashes, received, "what arrived is not what was sent: {self:?}");
            sent.iter().map(|(_, again)| u64::from(*again)).sum::<u64>()
        });
        let needless = needless() - needless_before;
        Went { again: again.saturating_sub(needless), seconds: begun.elapsed().as_secs_f64() }
    }

    /// Accepts as many connections as there are; the hash of each.
    fn receive(&self, place: &Host, ready: &Sender<SocketAddr>) -> Vec<u64> {
        place.enter();
        let listener = TcpListener::bind((self.to, 0)).expect("the address is ours");
        let _heard = ready.send(listener.local_addr().expect("it is bound"));
        thread::scope(|scope| {
            let accepted: Vec<_> = (0..self.connections)
                .map(|_| {
                    let stream = accept(&listener);
                    scope.spawn(move || receive_one(stream, self.pause, self.bytes))
                })
                .collect();
            accepted.into_iter().map(joined).collect()
        })
    }
}

/// Does not wait for ever: who was to connect may have failed.
fn accept(listener: &TcpListener) -> TcpStream {
    listener.set_nonblocking(true).expect("it is a socket");
    let mut accepted = None;
    wait_for("a connection", || {
        accepted = listener.accept().ok();
        accepted.is_some()
    });
    let (stream, _) = accepted.expect("just seen");
    stream.set_nonblocking(false).expect("it is a socket");
    stream
}

fn joined<T>(thread: thread::ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn receive_one(mut stream: TcpStream, pause: Duration, bytes: u64) -> u64 {
    stream.set_read_timeout(Some(PATIENCE)).expect("it is not zero");
    thread::sleep(pause);
    let (mut hash, mut buffer, mut received) = (Hash::default(), vec![0; CHUNK], 0);
    loop {
        let len = stream.read(&mut buffer).unwrap_or_else(|error| {
            panic!("{received} of {bytes} bytes have come: {error}");
        });
        hash.add(&buffer[..len]);
        received += len as u64;
        if len == 0 {
            assert_eq!(received, bytes, "bytes that have come");
            return hash.0;
        }
    }
}

/// Gives the hash, and how many segments were sent again.
fn send(place: &Host, to: SocketAddr, bytes: u64, number: u32) -> (u64, u32) {
    place.enter();
    let mut stream = TcpStream::connect_timeout(&to, PATIENCE).expect("somebody listens");
    stream.set_write_timeout(Some(PATIENCE)).expect("it is not zero");
    stream.set_read_timeout(Some(PATIENCE)).expect("it is not zero");
    let mut random = Random(0x9E37_79B9_7F4A_7C15 ^ u64::from(number));
    let (mut hash, mut buffer, mut left) = (Hash::default(), vec![0; CHUNK], bytes);
    while left > 0 {
        let len = left.min(CHUNK as u64) as usize;
        random.fill(&mut buffer[..len]);
        hash.add(&buffer[..len]);
        let sent = stream.write_all(&buffer[..len]);
        sent.unwrap_or_else(|error| panic!("{left} of {bytes} bytes are left: {error}"));
        left -= len as u64;
    }
    stream.shutdown(Shutdown::Write).expect("it is open");
    // The other end closes when it has everything.
    let rest = stream.read(&mut buffer);
    assert!(matches!(rest, Ok(0)), "{rest:?}");
    (hash.0, sys::retransmissions(&stream).expect("it is a TCP socket"))
}

/// Sends and receives without end until the returned sender is dropped; errors of the
/// connection do not matter.
pub(crate) fn stream<'scope>(
    scope: &'scope thread::Scope<'scope, '_>,
    lab: &'scope Lab,
) -> Sender<()> {
    let (stop, stopped) = channel::<()>();
    let (ready, address) = channel();
    let short = Some(Duration::from_millis(100));
    scope.spawn(move || -> io::Result<()> {
        lab.host.enter();
        let listener = TcpListener::bind("10.9.0.2:0")?;
        let _heard = ready.send(listener.local_addr()?);
        let mut stream = accept(&listener);
        stream.set_read_timeout(Some(Duration::from_secs(1)))?;
        while stream.read(&mut [0; CHUNK])? > 0 {}
        Ok(())
    });
    let address = address.recv().expect("it listens");
    scope.spawn(move || -> io::Result<()> {
        lab.peer.enter();
        let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
        stream.set_write_timeout(short)?;
        while stopped.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {
            let _later = stream.write(&[7; CHUNK]);
        }
        Ok(())
    });
    stop
}

/// Numbers that look random, always the same ones (xorshift64*).
#[derive(Debug)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    pub(crate) fn fill(&mut self, bytes: &mut [u8]) {
        for word in bytes.chunks_mut(8) {
            word.copy_from_slice(&self.next().to_le_bytes()[..word.len()]);
        }
    }
}

/// FNV-1a.
struct Hash(u64);

impl Default for Hash {
    fn default() -> Self {
        Self(0xCBF2_9CE4_8422_2325)
    }
}

impl Hash {
    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3);
        }
    }
}
