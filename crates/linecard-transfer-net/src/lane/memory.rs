//! A lane inside a process: two ends, and a queue each way that holds so many bytes.

use super::buffer::{MAX_FRAMES, ReceiveBuffer};
use super::{Datagrams, Lane, LaneError, MAX_DATAGRAM_BYTES};
use rustix::event::{EventfdFlags, eventfd};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// One end. Nothing is lost between them, but it is not a stream: it has no congestion control of its own.
///
/// Its descriptor is readable when something has come, and always writable: who finds no room asks
/// again later.
#[derive(Debug)]
pub struct Memory {
    incoming: Arc<Way>,
    outgoing: Arc<Way>,
}

/// What lies between two ends, one way.
#[derive(Debug)]
struct Way {
    queue: Mutex<Queue>,
    limit_bytes: usize,
    /// Readable when the queue is not empty, or has ended.
    bell: OwnedFd,
}

#[derive(Debug, Default)]
struct Queue {
    datagrams: VecDeque<Box<[u8]>>,
    bytes: usize,
    has_ended: bool,
}

impl Memory {
    /// Two ends with at most `limit_bytes` between them each way, and at least one datagram.
    ///
    /// # Errors
    ///
    /// When the process may have no more descriptors.
    pub fn pair(limit_bytes: usize) -> io::Result<(Self, Self)> {
        let (there, back) = (Way::new(limit_bytes)?, Way::new(limit_bytes)?);
        let near = Self { incoming: Arc::clone(&back), outgoing: Arc::clone(&there) };
        Ok((near, Self { incoming: there, outgoing: back }))
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        for way in [&self.incoming, &self.outgoing] {
            way.lock().has_ended = true;
            way.ring();
        }
    }
}

impl Lane for Memory {
    fn send(&mut self, datagrams: &Datagrams<'_>) -> Result<usize, LaneError> {
        let all = datagrams.bounded(MAX_DATAGRAM_BYTES)?;
        let mut queue = self.outgoing.lock();
        if queue.has_ended {
            return Err(LaneError::Dead(io::ErrorKind::BrokenPipe.into()));
        }
        let mut taken = 0;
        for datagram in all.iter() {
            let fits = queue.bytes + datagram.len() <= self.outgoing.limit_bytes;
            if !fits && !queue.datagrams.is_empty() {
                break;
            }
            queue.bytes += datagram.len();
            queue.datagrams.push_back(datagram.into());
            taken += 1;
        }
        drop(queue);
        if taken > 0 {
            self.outgoing.ring();
        }
        Ok(taken)
    }

    fn receive(&mut self, received: &mut ReceiveBuffer) -> Result<usize, LaneError> {
        received.begin();
        // Silenced first: what comes from now on rings again.
        self.incoming.silence();
        let mut queue = self.incoming.lock();
        let (mut at, mut count) = (0, 0);
        while count < MAX_FRAMES
            && let Some(datagram) = queue.datagrams.front()
            && let Some(room) = received.begun_area().get_mut(at..at + datagram.len())
        {
            room.copy_from_slice(datagram);
            let bytes = datagram.len();
            received.add(at, (bytes, bytes), None);
            at += bytes;
            count += 1;
            queue.bytes -= bytes;
            queue.datagrams.pop_front();
        }
        let (is_empty, has_ended) = (queue.datagrams.is_empty(), queue.has_ended);
        drop(queue);
        if !is_empty || has_ended {
            self.incoming.ring();
        }
        if count == 0 && has_ended { Err(LaneError::Closed) } else { Ok(count) }
    }

    fn as_fd(&self) -> BorrowedFd<'_> {
        self.incoming.bell.as_fd()
    }

    fn describe(&self) -> String {
        "memory".into()
    }

    fn is_stream(&self) -> bool {
        false
    }

    fn max_datagram(&self) -> usize {
        MAX_DATAGRAM_BYTES
    }
}

impl Way {
    fn new(limit_bytes: usize) -> io::Result<Arc<Self>> {
        let bell = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        Ok(Arc::new(Self { queue: Mutex::default(), limit_bytes, bell }))
    }

    /// A thread that ended in the middle has left a queue that is still one.
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ring(&self) {
        // It fails only when it has been rung 2^64 times.
        let _full = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
    }

    fn silence(&self) {
        // It fails when it is silent already.
        let _silent = rustix::io::read(&self.bell, &mut [0; 8]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(lane: &mut Memory, received: &mut ReceiveBuffer) -> Vec<Vec<u8>> {
        lane.receive(received).unwrap();
        received.datagrams().map(|datagram| datagram.bytes.to_vec()).collect()
    }

    #[test]
    fn a_full_way_takes_no_more_until_it_is_read() {
        let (mut near, mut far) = Memory::pair(8).unwrap();
        let mut received = ReceiveBuffer::new();
        let three = Datagrams { bytes: b"aaaabbbbcc", stride: 4 };
        assert_eq!(near.send(&three).unwrap(), 2);
        assert_eq!(near.send(&three.after(2)).unwrap(), 0);
        assert_eq!(all(&mut far, &mut received), [b"aaaa", b"bbbb"]);
        assert_eq!(near.send(&three.after(2)).unwrap(), 1);
        assert_eq!(all(&mut far, &mut received), [b"cc"]);
        assert_eq!(far.receive(&mut received).unwrap(), 0);
    }

    #[test]
    fn what_is_longer_than_the_way_passes_alone() {
        let (mut near, mut far) = Memory::pair(1).unwrap();
        assert_eq!(near.send(&Datagrams::one(&[7; 60_000])).unwrap(), 1);
        assert_eq!(near.send(&Datagrams::one(&[7; 1])).unwrap(), 0);
        assert_eq!(all(&mut far, &mut ReceiveBuffer::new()), [vec![7; 60_000]]);
    }

    #[test]
    fn an_end_that_is_gone_is_noticed_after_its_last_datagram() {
        let (mut near, far) = Memory::pair(100).unwrap();
        let (mut received, mut far) = (ReceiveBuffer::new(), far);
        far.send(&Datagrams::one(b"bye")).unwrap();
        drop(far);
        assert_eq!(all(&mut near, &mut received), [b"bye"]);
        assert!(matches!(near.receive(&mut received), Err(LaneError::Closed)));
        assert!(matches!(near.send(&Datagrams::one(b"x")), Err(LaneError::Dead(_))));
    }
}
