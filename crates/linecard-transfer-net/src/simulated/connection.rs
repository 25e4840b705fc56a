//! A TCP connection in memory, which may be cut or lose its path: the control connection, or that of a lane.

use super::Time;
use crate::stream::Stream;
use linecard::time::Instant;
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, MutexGuard};

/// Bytes under way at most, as in the buffers of a kernel.
const BUFFER_BYTES: usize = 256 << 10;

/// The fault of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ConnectionFault {
    /// Nothing.
    Lives,
    /// Somebody resets it.
    Cut(Instant),
    /// Its path carries nothing for a while. A kernel that has noticed by then has given it up: that of the sender, and that
    /// of the receiver.
    Lost { from: Instant, noticed: [Instant; 2], until: Instant },
}

/// Parameters of a connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct ConnectionSettings {
    pub(super) delay_ns: u64,
    /// Of each direction.
    pub(super) rate_bits_per_second: u64,
    /// When each end has it: before, nothing is taken and nothing comes.
    pub(super) open: [Instant; 2],
    pub(super) fault: ConnectionFault,
}

/// Bytes under way in one direction, and when they come.
#[derive(Debug, Default)]
struct Pipe {
    under_way: VecDeque<(Instant, Vec<u8>)>,
    bytes: usize,
    /// When the last of them has left its host.
    left: Instant,
    /// Its writer waits for room.
    is_full: bool,
    /// When its end comes, if its writer is gone, and whether that has said so (an alert of TLS).
    closed: Option<(Instant, bool)>,
}

/// Both directions: from the sender, and from the receiver.
#[derive(Debug, Clone)]
pub(super) struct Connection {
    time: Time,
    settings: ConnectionSettings,
    pipes: [Arc<Mutex<Pipe>>; 2],
    /// Of each end: it has heard that the connection is over, or is gone.
    is_over: Arc<Mutex<[bool; 2]>>,
}

impl Connection {
    pub(super) fn new(time: &Time, settings: ConnectionSettings) -> Self {
        let pipes = [(); 2].map(|()| Arc::default());
        Self { time: time.clone(), settings, pipes, is_over: Arc::default() }
    }

    /// An end: 0 is that of the sender, 1 that of the receiver.
    pub(super) fn end(&self, end: usize) -> MemoryStream {
        MemoryStream { connection: self.clone(), end }
    }

    /// An end is gone, which its kernel tells the other; if `is_said`, it has done so itself before.
    pub(super) fn close(&self, end: usize, is_said: bool) {
        let arrival = self.arrival(self.time.now());
        let mut pipe = self.pipe(end);
        let last = pipe.under_way.back().map_or(arrival, |(at, _)| arrival.max(*at));
        pipe.closed.get_or_insert((last, is_said));
        self.over()[end] = true;
    }

    /// When an end has something to read, an error, or room for what it could not write.
    pub(super) fn next_event(&self, end: usize) -> Instant {
        if self.over()[end] {
            return Instant::NEVER;
        }
        let pipe = self.pipe(1 - end);
        let first = pipe.under_way.front().map(|(at, _)| *at);
        let closed = pipe.closed.map(|(at, _)| at);
        let arrival = first.or(closed).unwrap_or(Instant::NEVER);
        drop(pipe);
        let own = self.pipe(end);
        let has_room = own.is_full && own.bytes < BUFFER_BYTES;
        let room = if has_room { self.settings.open[end] } else { Instant::NEVER };
        arrival.max(self.settings.open[end]).min(room).min(self.failure(end).0)
    }

    /// When an end has it.
    pub(super) const fn opens(&self, end: usize) -> Instant {
        self.settings.open[end]
    }

    /// An end does nothing any more, and does not say so.
    pub(super) fn leave(&self, end: usize) {
        self.over()[end] = true;
    }

    /// Whether neither end has it any more.
    pub(super) fn is_gone(&self) -> bool {
        *self.over() == [true; 2]
    }

    fn pipe(&self, from: usize) -> MutexGuard<'_, Pipe> {
        self.pipes[from].lock().expect("one thread has them all")
    }

    fn over(&self) -> MutexGuard<'_, [bool; 2]> {
        self.is_over.lock().expect("one thread has them all")
    }

    /// When the kernel of an end gives the connection up, and for which reason.
    fn failure(&self, end: usize) -> (Instant, i32) {
        match self.settings.fault {
            ConnectionFault::Lives => (Instant::NEVER, 0),
            ConnectionFault::Cut(at) => (at, libc::ECONNRESET),
            ConnectionFault::Lost { noticed, until, .. } if until <= noticed[0].min(noticed[1]) => {
                (Instant::NEVER, 0)
            }
            // The other has given it up, and answers with a reset when it is reached again.
            ConnectionFault::Lost { noticed, until, .. } if until <= noticed[end] => {
                (until.plus_ns(self.settings.delay_ns), libc::ECONNRESET)
            }
            ConnectionFault::Lost { noticed, .. } => (noticed[end], libc::ETIMEDOUT),
        }
    }

    fn check(&self, end: usize) -> io::Result<()> {
        match self.failure(end) {
            (at, code) if at <= self.time.now() => {
                self.over()[end] = true;
                Err(io::Error::from_raw_os_error(code))
            }
            _ if self.settings.open[end] > self.time.now() => Err(would_block()),
            _ => Ok(()),
        }
    }

    /// When what leaves then arrives.
    fn arrival(&self, leaves: Instant) -> Instant {
        match self.settings.fault {
            // It is sent again and again.
            ConnectionFault::Lost { from, until, .. } if (from..until).contains(&leaves) => until,
            _ => leaves,
        }
        .plus_ns(self.settings.delay_ns)
    }
}

fn would_block() -> io::Error {
    io::Error::from_raw_os_error(libc::EAGAIN)
}

/// An end of the connection.
#[derive(Debug)]
pub(super) struct MemoryStream {
    connection: Connection,
    end: usize,
}

impl MemoryStream {
    /// Whether its process has more to write.
    pub(super) fn want_room(&self, wants: bool) {
        self.connection.pipe(self.end).is_full = wants;
    }

    /// As its process does that closes it.
    pub(super) fn close(&self) {
        self.connection.close(self.end, true);
    }
}

impl Read for MemoryStream {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let now = self.connection.time.now();
        if self.connection.settings.open[self.end] > now {
            return self.connection.check(self.end).and(Err(would_block()));
        }
        let mut pipe = self.connection.pipe(1 - self.end);
        if let Some((at, first)) = pipe.under_way.front_mut()
            && *at <= now
        {
            let count = first.len().min(bytes.len());
            bytes[..count].copy_from_slice(&first[..count]);
            first.drain(..count);
            if first.is_empty() {
                pipe.under_way.pop_front();
            }
            pipe.bytes -= count;
            return Ok(count);
        }
        self.connection.check(self.end)?;
        let closed = pipe.closed.filter(|(at, _)| pipe.under_way.is_empty() && *at <= now);
        let Some((_, is_said)) = closed else { return Err(would_block()) };
        self.connection.over()[self.end] = true;
        if is_said { Ok(0) } else { Err(ErrorKind::UnexpectedEof.into()) }
    }
}

impl Write for MemoryStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let connection = &self.connection;
        let checked = connection.check(self.end);
        let is_gone = connection.pipe(1 - self.end).closed.is_some();
        let mut pipe = connection.pipe(self.end);
        let room = if checked.is_ok() { BUFFER_BYTES - pipe.bytes } else { 0 };
        let count = bytes.len().min(room);
        pipe.is_full = count < bytes.len();
        checked?;
        if count == 0 && !bytes.is_empty() {
            return Err(would_block());
        }
        if is_gone {
            return Ok(count);
        }
        let begun = pipe.left.max(connection.time.now());
        let rate = u128::from(connection.settings.rate_bits_per_second);
        pipe.left = begun.plus_ns((count as u128 * 8_000_000_000 / rate) as u64);
        let before = pipe.under_way.back().map_or(Instant::ZERO, |(at, _)| *at);
        let arrival = connection.arrival(pipe.left).max(before);
        pipe.bytes += count;
        pipe.under_way.push_back((arrival, bytes[..count].to_vec()));
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl AsFd for MemoryStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // Nobody waits for it.
        rustix::stdio::stdin()
    }
}

impl Stream for MemoryStream {}
