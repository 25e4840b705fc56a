//! A control connection in memory, which may be cut or lose its path.

use super::Time;
use crate::control::Stream;
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

/// Bytes under way in one direction, and when they come.
#[derive(Debug, Default)]
struct Pipe {
    under_way: VecDeque<(Instant, Vec<u8>)>,
    bytes: usize,
    /// When its end comes, if its writer is gone, and whether that has said so (an alert of TLS).
    closed: Option<(Instant, bool)>,
}

/// Both directions: from the sender, and from the receiver.
#[derive(Debug, Clone)]
pub(super) struct Connection {
    time: Time,
    delay_ns: u64,
    fate: ConnectionFault,
    pipes: [Arc<Mutex<Pipe>>; 2],
}

impl Connection {
    pub(super) fn new(time: &Time, delay_ns: u64, fate: ConnectionFault) -> Self {
        Self { time: time.clone(), delay_ns, fate, pipes: [(); 2].map(|()| Arc::default()) }
    }

    /// An end: 0 is that of the sender, 1 that of the receiver.
    pub(super) fn end(&self, end: usize) -> MemoryStream {
        MemoryStream { connection: self.clone(), end }
    }

    /// An end is gone, which its kernel tells the other; if `is_said`, it has done so itself before.
    pub(super) fn close(&self, end: usize, is_said: bool) {
        self.pipe(end).closed.get_or_insert((self.arrival(), is_said));
    }

    /// When an end has something to read, or an error.
    pub(super) fn next_event(&self, end: usize) -> Instant {
        let pipe = self.pipe(1 - end);
        let first = pipe.under_way.front().map(|(at, _)| *at);
        let closed = pipe.closed.map(|(at, _)| at);
        first.or(closed).unwrap_or(Instant::NEVER).min(self.failure(end).0)
    }

    fn pipe(&self, from: usize) -> MutexGuard<'_, Pipe> {
        self.pipes[from].lock().expect("one thread has them all")
    }

    /// When the kernel of an end gives the connection up, and for which reason.
    fn failure(&self, end: usize) -> (Instant, ErrorKind) {
        match self.fate {
            ConnectionFault::Lives => (Instant::NEVER, ErrorKind::Other),
            ConnectionFault::Cut(at) => (at, ErrorKind::ConnectionReset),
            ConnectionFault::Lost { noticed, until, .. } if until <= noticed[0].min(noticed[1]) => {
                (Instant::NEVER, ErrorKind::Other)
            }
            // The other has given it up, and answers with a reset when it is reached again.
            ConnectionFault::Lost { noticed, until, .. } if until <= noticed[end] => {
                (until.plus_ns(self.delay_ns), ErrorKind::ConnectionReset)
            }
            ConnectionFault::Lost { noticed, .. } => (noticed[end], ErrorKind::TimedOut),
        }
    }

    fn check(&self, end: usize) -> io::Result<()> {
        match self.failure(end) {
            (at, kind) if at <= self.time.now() => Err(kind.into()),
            _ => Ok(()),
        }
    }

    /// When what is sent now arrives.
    fn arrival(&self) -> Instant {
        let now = self.time.now();
        match self.fate {
            // It is sent again and again.
            ConnectionFault::Lost { from, until, .. } if (from..until).contains(&now) => until,
            _ => now,
        }
        .plus_ns(self.delay_ns)
    }
}

/// An end of the connection.
#[derive(Debug)]
pub(super) struct MemoryStream {
    connection: Connection,
    end: usize,
}

impl Read for MemoryStream {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let now = self.connection.time.now();
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
        match pipe.closed.filter(|(at, _)| pipe.under_way.is_empty() && *at <= now) {
            Some((_, true)) => Ok(0),
            Some((_, false)) => Err(ErrorKind::UnexpectedEof.into()),
            None => Err(ErrorKind::WouldBlock.into()),
        }
    }
}

impl Write for MemoryStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.connection.check(self.end)?;
        let arrival = self.connection.arrival();
        let is_gone = self.connection.pipe(1 - self.end).closed.is_some();
        let mut pipe = self.connection.pipe(self.end);
        let count = bytes.len().min(BUFFER_BYTES - pipe.bytes);
        if count == 0 && !bytes.is_empty() {
            return Err(ErrorKind::WouldBlock.into());
        }
        if is_gone {
            return Ok(count);
        }
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
