//! A tunnel in user space: what the kernel sends by a TUN device goes as UDP datagrams to a peer,
//! and what comes from there goes into the device. A VPN has encryption at the marked places.
//!
//! ```sh
//! tun DEVICE LOCAL PEER          # tun tun0 192.0.2.1:5000 192.0.2.2:5000
//! ip addr add 10.0.0.1/30 dev tun0; ip link set tun0 mtu 1400 up
//! ```
//!
//! The device gives and takes packets of up to 64 KiB. Those that come from it are segmented here,
//! and the datagrams from the peer are merged here: the kernel handles one packet where it would
//! handle forty. The same is done on the other side: one call gives the kernel up to 64 datagrams
//! of one size, which stay together until they leave the host (UDP GSO), and one call takes as many
//! that came together (UDP GRO). docs/howto/library.md in the repository explains the steps.

use linecard::offload::coalesce::{Coalescer, Config};
use linecard::offload::complete_checksum;
use linecard::packet::{BATCH, Batch, ChecksumState, LinkType, Meta, Packet, Pool, PoolBuffer};
use linecard::port::{Port, PortState};
use linecard::time::Instant;
use linecard_tun::egress::Segmenter;
use linecard_tun::udp::{BatchSocket, MAX_RECEIVED};
use linecard_tun::{BUFFER_LEN, Tap, TapConfig, TapKind};
use std::error::Error;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::time::Duration;

/// Calls whose datagrams are merged together.
const CALLS: usize = 8;
/// Buffers for datagrams: a call gives at most 64.
const BUFFERS: usize = 64 * CALLS;
/// Bytes of the longest datagram: of jumbo frames.
const LONGEST: usize = 9_216;
/// Bytes that wait in the kernel while a batch is handled: 2 ms of 20 Gbit/s.
const BUFFERED: usize = 5 << 20;

/// What was done, printed every second in which there was something.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Account {
    read: u64,
    sent: u64,
    received: u64,
    written: u64,
    dropped: u64,
}

struct Tunnel {
    device: Tap,
    peer: BatchSocket,
    segmenter: Segmenter,
    coalescer: Coalescer<PoolBuffer>,
    /// For datagrams from the peer.
    pool: Pool,
    arrived: Vec<PoolBuffer>,
    /// The datagrams of one call.
    room: Vec<u8>,
    /// Packets for the device.
    output: Batch<PoolBuffer>,
    account: Account,
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [device, local, peer] = &arguments[..] else {
        return Err("usage: tun DEVICE LOCAL PEER".into());
    };
    let config = TapConfig { kind: TapKind::Ip, ..TapConfig::new(device) };
    // One packet is handled after the other, in memory that stays in the cache.
    let device = Tap::open(&config, Pool::new(2, BUFFER_LEN))?;
    let socket = UdpSocket::bind(local.parse::<SocketAddr>()?)?;
    socket.connect(peer.parse::<SocketAddr>()?)?;
    let peer = BatchSocket::new(socket)?;
    peer.set_buffers(BUFFERED)?;
    Ok(Tunnel::new(device, peer).run()?)
}

impl Tunnel {
    fn new(device: Tap, peer: BatchSocket) -> Self {
        let config = Config {
            // Nobody waits behind an empty socket: what has come is written at once. To merge
            // across wake-ups, leave this out and call `advance` at `next_wakeup`.
            flush_at_batch_end: true,
            // A number that peers cannot know, for the flow hash.
            secret: RandomState::new().hash_one(0),
            ..Config::default()
        };
        Self {
            device,
            peer,
            segmenter: Segmenter::default(),
            coalescer: Coalescer::new(config),
            pool: Pool::new(BUFFERS, LONGEST),
            arrived: Vec::new(),
            room: vec![0; MAX_RECEIVED],
            output: Batch::new(),
            account: Account::default(),
        }
    }

    fn run(&mut self) -> io::Result<()> {
        let (start, mut told, mut seconds) = (std::time::Instant::now(), self.account, 0);
        loop {
            let both = [self.device.as_fd(), self.peer.as_fd()];
            linecard_tun::wait(&both, Duration::from_secs(1))?;
            let second = start.elapsed().as_secs();
            if second != std::mem::replace(&mut seconds, second) && told != self.account() {
                told = self.account();
                eprintln!("tun: {told:?}");
            }
            // Time is an argument: one look at the clock for a whole batch.
            let now = Instant::from_ns(start.elapsed().as_nanos() as u64);
            if self.take_from_device(now) == PortState::Ended {
                return Err(io::Error::other("the device was removed"));
            }
            self.take_from_peer(now);
        }
    }

    /// With what the device counts itself.
    fn account(&self) -> Account {
        let device = self.device.counters();
        let dropped = self.account.dropped + device.dropped.total();
        Account { read: device.received, written: device.transmitted, dropped, ..self.account }
    }

    /// Takes packets from the device until there is none, at most a batch.
    fn take_from_device(&mut self, now: Instant) -> PortState {
        let mut input = Batch::bounded(1);
        for _ in 0..BATCH {
            let state = self.device.receive(&mut input, now);
            let Some(packet) = input.pop() else { return state };
            self.send(packet);
        }
        PortState::Open
    }

    /// Sends a packet, segmented if it is large, with complete checksums.
    fn send(&mut self, mut packet: Packet<PoolBuffer>) {
        let Self { peer, segmenter, account, .. } = self;
        // (Encrypt here, datagram by datagram.)
        let mut send = |datagrams: &[u8], size: usize| {
            // What a full socket does not take is lost, as in a full queue.
            let taken = peer.send(datagrams, size).unwrap_or(0);
            account.sent += taken.div_ceil(size) as u64;
            account.dropped += (datagrams.len() - taken).div_ceil(size) as u64;
        };
        if packet.meta.gso.is_some() {
            // It was checked when it was read, and can be segmented.
            let _all = segmenter.send(&mut packet, |segments| {
                send(segments.bytes(), segments.size());
                segments.len()
            });
            return;
        }
        if packet.meta.checksum == ChecksumState::Partial {
            complete_checksum(&mut packet);
        }
        send(packet.bytes(), packet.bytes().len());
    }

    /// Takes datagrams from the peer until there is none, in a few calls, and merges them.
    fn take_from_peer(&mut self, now: Instant) {
        if !self.write() {
            return;
        }
        for _ in 0..CALLS {
            // An error may also be that of a datagram sent before: nobody listens yet.
            let Ok(received) = self.peer.receive(&mut self.room) else { break };
            for datagram in received.iter() {
                self.account.received += 1;
                // (Decrypt here.) The copy lets each packet keep its own as long as it is held.
                match copied(&self.pool, datagram) {
                    Some(buffer) => self.arrived.push(buffer),
                    None => self.account.dropped += 1,
                }
            }
        }
        // Nothing is known of the checksums: they are verified before packets merge.
        let meta = Meta { timestamp: now, ..Meta::default() };
        let mut merged = Vec::with_capacity(BATCH);
        let (arrived, source) = (&mut self.arrived, (LinkType::Raw, meta));
        self.coalescer.push_frames(arrived, source, now, &mut |packet, _| merged.push(packet));
        for packet in merged {
            if self.output.room() == 0 && !self.write() {
                self.account.dropped += 1;
                continue;
            }
            let _fits = self.output.push(packet);
        }
        self.write();
    }

    /// Writes packets to the device: merged ones whole where a virtio header can say so. False if
    /// some have to wait, because the device's queue is full.
    fn write(&mut self) -> bool {
        self.device.transmit(&mut self.output, Instant::ZERO);
        self.output.is_empty()
    }
}

fn copied(pool: &Pool, datagram: &[u8]) -> Option<PoolBuffer> {
    let mut buffer = pool.take()?;
    buffer.as_mut().get_mut(..datagram.len())?.copy_from_slice(datagram);
    buffer.truncate(datagram.len());
    Some(buffer)
}
