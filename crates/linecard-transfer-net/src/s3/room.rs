//! Memory of uploads: bytes that are on their way, and those that wait for the rest of their object. It is used beside
//! that of the transfer.

use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Most bytes on their way, or one part, if it is longer.
const MAX_SENDING_BYTES: usize = 64 << 20;
/// Most bytes that wait for the rest of their objects.
const MAX_HELD_BYTES: usize = 1 << 30;

/// How often is looked whether all is over.
pub(super) const LOOK: Duration = Duration::from_millis(100);

/// Not [`ErrorKind::Interrupted`], after which `write_all` would go on.
pub(super) fn over_error() -> io::Error {
    io::Error::other("the transfer has ended")
}

/// The memory of all uploads to a place.
#[derive(Debug, Default)]
pub(super) struct Room {
    used: Mutex<usize>,
    freed: Condvar,
    held: AtomicUsize,
}

/// Bytes of one object that wait for its rest.
#[derive(Debug)]
pub(super) struct Held(Arc<Room>, usize);

impl Held {
    /// Holds more.
    pub(super) fn add(&mut self, bytes: usize) -> io::Result<()> {
        self.1 += bytes;
        if self.0.held.fetch_add(bytes, Ordering::Relaxed) + bytes > MAX_HELD_BYTES {
            let text = "more than 1 GiB of objects of which the rest has not come: let the sender send fewer at once";
            return Err(io::Error::new(ErrorKind::OutOfMemory, text));
        }
        Ok(())
    }

    /// Holds nothing from now on.
    pub(super) fn clear(&mut self) {
        self.0.held.fetch_sub(std::mem::take(&mut self.1), Ordering::Relaxed);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Bytes of one part that is on its way.
#[derive(Debug)]
pub(super) struct Taken(Arc<Room>, usize);

impl Room {
    /// Nothing yet.
    pub(super) fn held(self: &Arc<Self>) -> Held {
        Held(Arc::clone(self), 0)
    }

    /// Waits until there is room, or all is over.
    pub(super) fn take(self: &Arc<Self>, bytes: usize, over: &AtomicBool) -> io::Result<Taken> {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        while *used > 0 && *used + bytes > MAX_SENDING_BYTES {
            if over.load(Ordering::Relaxed) {
                return Err(over_error());
            }
            let waited = self.freed.wait_timeout(used, LOOK);
            (used, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
        *used += bytes;
        Ok(Taken(Arc::clone(self), bytes))
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        *self.0.used.lock().unwrap_or_else(PoisonError::into_inner) -= self.1;
        self.0.freed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::thread;

    #[test]
    fn a_part_waits_for_room_and_a_long_one_goes_alone() {
        let room = Arc::new(Room::default());
        let long = room.take(MAX_SENDING_BYTES + 1, &AtomicBool::new(false)).unwrap();
        assert!(room.take(1, &AtomicBool::new(true)).is_err());
        let (sender, receiver) = mpsc::channel();
        let waiting = thread::spawn({
            let room = Arc::clone(&room);
            move || {
                let taken = room.take(1, &AtomicBool::new(false)).unwrap();
                sender.send(()).unwrap();
                taken
            }
        });
        // Another thread cannot be seen to wait; that it does not, could be seen here.
        thread::yield_now();
        assert!(receiver.try_recv().is_err());
        drop(long);
        receiver.recv().unwrap();
        drop(waiting.join().unwrap());
        assert_eq!(*room.used.lock().unwrap(), 0);
    }

    #[test]
    fn unfinished_objects_have_a_bound() {
        let room = Arc::new(Room::default());
        let (mut one, mut other) = (room.held(), room.held());
        one.add(MAX_HELD_BYTES - 1).unwrap();
        other.add(1).unwrap();
        assert!(other.add(1).unwrap_err().to_string().contains("1 GiB"));
        drop(one);
        other.add(1).unwrap();
        other.clear();
        assert_eq!(room.held.load(Ordering::Relaxed), 0);
    }
}
