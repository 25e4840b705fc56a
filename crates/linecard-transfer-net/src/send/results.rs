//! Results of the thread that reads, on their way to the lanes' thread.

use super::reading::Read;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// How many results may wait. One may always wait, however large it is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bound {
    pub(super) results: usize,
    /// Bytes of chunks' buffers.
    pub(super) bytes: u64,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<Read>,
    bytes: u64,
    /// The other thread waits until half of the bound is free: for each single result, both would switch.
    is_full: bool,
    is_closed: bool,
}

#[derive(Debug)]
struct Shared {
    bound: Bound,
    queue: Mutex<Queue>,
    has_room: Condvar,
}

/// The end of the thread that reads.
#[derive(Debug)]
pub(super) struct Giver(Arc<Shared>);

/// The end of the lanes' thread. When it is dropped, the other end does not wait any more.
#[derive(Debug)]
pub(super) struct Results(Arc<Shared>);

pub(super) fn results(bound: Bound) -> (Giver, Results) {
    let shared = Shared { bound, queue: Mutex::default(), has_room: Condvar::new() };
    let shared = Arc::new(shared);
    (Giver(Arc::clone(&shared)), Results(shared))
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Giver {
    /// Waits for room. False if the other end is gone.
    pub(super) fn give(&self, read: Read) -> bool {
        let Shared { bound, has_room, .. } = &*self.0;
        let mut queue = self.0.lock();
        let bytes = queue.bytes + bytes_of(&read);
        if !queue.waiting.is_empty()
            && (queue.waiting.len() >= bound.results || bytes > bound.bytes)
        {
            queue.is_full = true;
            while queue.is_full && !queue.is_closed {
                queue = has_room.wait(queue).unwrap_or_else(PoisonError::into_inner);
            }
        }
        if queue.is_closed {
            return false;
        }
        queue.bytes += bytes_of(&read);
        queue.waiting.push_back(read);
        true
    }
}

impl Results {
    /// The next result, if there is one.
    pub(super) fn take(&self) -> Option<Read> {
        let Shared { bound, has_room, .. } = &*self.0;
        let mut queue = self.0.lock();
        let read = queue.waiting.pop_front()?;
        queue.bytes -= bytes_of(&read);
        let has_some = queue.waiting.len() <= bound.results / 2 && queue.bytes <= bound.bytes / 2;
        if queue.is_full && has_some {
            queue.is_full = false;
            has_room.notify_one();
        }
        Some(read)
    }
}

impl Drop for Results {
    fn drop(&mut self) {
        self.0.lock().is_closed = true;
        self.0.has_room.notify_one();
    }
}

/// A short chunk of a pipe may be in the buffer of a full one.
fn bytes_of(read: &Read) -> u64 {
    match read {
        Read::Chunk { buffer, .. } => buffer.len() as u64,
        Read::End { .. } | Read::Unreadable { .. } | Read::Failed(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    fn chunk(chunk: u32, bytes: u32) -> Read {
        Read::Chunk { chunk, buffer: vec![0; 2 * bytes as usize], bytes, of_stream: false }
    }

    fn number(read: &Read) -> u32 {
        match read {
            Read::Chunk { chunk, .. } => *chunk,
            read => panic!("{read:?}"),
        }
    }

    /// As many wait as there may; the rest is given when half of them are taken, and not before.
    #[test]
    fn results_wait_within_their_bound() {
        for (bound, bytes, waiting, left) in [
            (Bound { results: 4, bytes: 1_000 }, 1, 4, 2),
            (Bound { results: 100, bytes: 2_000 }, 300, 3, 1),
            (Bound { results: 100, bytes: 1_000 }, 5_000, 1, 0),
        ] {
            let (giver, results) = results(bound);
            let giving = thread::spawn(move || (0..100).all(|at| giver.give(chunk(at, bytes))));
            let queue = || results.0.lock();
            while !queue().is_full {
                thread::yield_now();
            }
            assert_eq!(queue().waiting.len(), waiting, "{bound:?}");
            for at in 0..waiting - left {
                assert!(queue().is_full, "{bound:?}: {at} were taken");
                assert_eq!(number(&results.take().unwrap()), at as u32);
            }
            assert!(!queue().is_full || queue().waiting.len() > left, "{bound:?}");
            for at in waiting - left..100 {
                let read = loop {
                    let Some(read) = results.take() else { continue };
                    break read;
                };
                assert_eq!(number(&read), at as u32);
                assert!(queue().waiting.len() <= waiting, "{bound:?}");
            }
            assert!(giving.join().unwrap());
        }
    }

    #[test]
    fn nobody_waits_for_an_end_that_is_gone() {
        let (giver, results) = results(Bound { results: 1, bytes: 1 });
        let giving = thread::spawn(move || {
            assert!(giver.give(chunk(0, 1)));
            giver.give(chunk(1, 1))
        });
        while !results.0.lock().is_full {
            thread::yield_now();
        }
        drop(results);
        assert!(!giving.join().unwrap());
    }
}
