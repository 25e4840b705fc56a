//! A pool whose buffers can be sent to other threads and returned from there.

use super::xdp::XdpBuffer;
use crossbeam_queue::ArrayQueue;
use linecard_tun::Buffers;
use std::fmt;
use std::sync::Arc;

/// The free buffers of a pool; it has room for all of them.
type Free = Arc<ArrayQueue<Vec<u8>>>;

/// A bounded pool of buffers of equal size, like [`Pool`](linecard::packet::Pool), for deployments
/// in which threads other than the port's process packets: a buffer is returned on drop, from any
/// thread, without locking.
///
/// On a single thread, a `Pool` takes fewer instructions.
///
/// ```
/// use linecard_io::port::SharedPool;
/// use linecard_tun::Buffers;
/// let pool = SharedPool::new(1, 2048);
/// let buffer = pool.take().expect("one is free");
/// assert!(pool.take().is_none());
/// std::thread::spawn(move || drop(buffer)).join().expect("it only drops");
/// assert!(pool.take().is_some());
/// ```
#[derive(Clone)]
pub struct SharedPool {
    free: Free,
    buffer_len: usize,
}

/// A buffer of a [`SharedPool`], returned on drop; or bytes of an [`XdpBuffer`], copied.
///
/// Frames of an AF_XDP port stay on its thread. Packets that such a port receives into batches of
/// these buffers are therefore copied out of their frame, which is returned at once: one copy and
/// one allocation per packet. Other ports receive into buffers of the pool as usual.
///
/// ```
/// use linecard_io::port::{SharedBuffer, xdp::XdpBuffer};
/// let buffer = SharedBuffer::from(XdpBuffer::from(b"linecard".to_vec()));
/// let sent = std::thread::spawn(move || buffer.as_ref().len());
/// assert_eq!(sent.join().expect("it only looks"), 8);
/// ```
pub struct SharedBuffer {
    bytes: Vec<u8>,
    len: usize,
    /// None for bytes that do not belong to a pool.
    home: Option<Free>,
}

impl SharedPool {
    /// Allocates `buffers` buffers, at least one, of `buffer_len` bytes.
    #[must_use]
    pub fn new(buffers: usize, buffer_len: usize) -> Self {
        let free = ArrayQueue::new(buffers.max(1));
        while free.push(vec![0; buffer_len]).is_ok() {}
        Self { free: Arc::new(free), buffer_len }
    }

    /// Buffers currently not in use.
    #[must_use]
    pub fn free(&self) -> usize {
        self.free.len()
    }
}

impl Buffers for SharedPool {
    type Buffer = SharedBuffer;

    fn take(&self) -> Option<SharedBuffer> {
        let bytes = self.free.pop()?;
        Some(SharedBuffer { len: bytes.len(), bytes, home: Some(Arc::clone(&self.free)) })
    }

    fn truncate(buffer: &mut SharedBuffer, len: usize) {
        buffer.len = buffer.len.min(len);
    }

    fn buffer_len(&self) -> usize {
        self.buffer_len
    }
}

impl From<XdpBuffer> for SharedBuffer {
    /// Copies out of a frame, into memory that no pool bounds.
    fn from(buffer: XdpBuffer) -> Self {
        let bytes = Vec::from(buffer);
        Self { len: bytes.len(), bytes, home: None }
    }
}

impl AsRef<[u8]> for SharedBuffer {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl AsMut<[u8]> for SharedBuffer {
    #[inline]
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[..self.len]
    }
}

impl Drop for SharedBuffer {
    fn drop(&mut self) {
        if let Some(home) = &self.home {
            // There is room: no more buffers are returned than were taken.
            let _fits = home.push(std::mem::take(&mut self.bytes));
        }
    }
}

impl fmt::Debug for SharedPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (free, all) = (self.free(), self.free.capacity());
        write!(f, "SharedPool({free} of {all} buffers of {} bytes free)", self.buffer_len)
    }
}

impl fmt::Debug for SharedBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedBuffer({} of {} bytes)", self.len, self.bytes.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::thread;

    #[test]
    fn no_more_than_the_bound_and_all_of_them_again() {
        let pool = SharedPool::new(4, 64);
        for _ in 0..3 {
            let mut all: Vec<_> = std::iter::from_fn(|| pool.take()).collect();
            assert_eq!((all.len(), pool.free()), (4, 0));
            for buffer in &mut all {
                assert_eq!(buffer.as_mut().len(), 64, "as long as before");
                SharedPool::truncate(buffer, 20);
                SharedPool::truncate(buffer, 30);
                assert_eq!(buffer.as_ref().len(), 20);
            }
            assert!(pool.take().is_none());
            drop(all);
            assert_eq!(pool.free(), 4);
        }
        assert_eq!((SharedPool::new(0, 64).free(), pool.buffer_len()), (1, 64));
    }

    #[test]
    fn buffers_of_no_pool_go_to_none() {
        let pool = SharedPool::new(2, 64);
        let taken = pool.take().expect("free");
        drop(SharedBuffer::from(XdpBuffer::from(vec![7; 60])));
        assert_eq!(pool.free(), 1);
        drop((taken, pool));
    }

    #[test]
    fn buffers_come_back_from_other_threads() {
        const BUFFERS: usize = 16;
        const TURNS: u32 = 20_000;
        let pool = SharedPool::new(BUFFERS, 64);
        thread::scope(|scope| {
            let workers = [0, 1, 2].map(|_| {
                let (give, take) = mpsc::channel::<SharedBuffer>();
                scope.spawn(move || {
                    for (turn, buffer) in (0_u32..).zip(take) {
                        assert_eq!(buffer.as_ref(), turn.to_be_bytes(), "nobody else has it");
                    }
                });
                give
            });
            for (turn, worker) in (0..TURNS).flat_map(|turn| workers.iter().map(move |w| (turn, w)))
            {
                let mut buffer = loop {
                    assert!(pool.free() <= BUFFERS);
                    match pool.take() {
                        Some(buffer) => break buffer,
                        None => thread::yield_now(),
                    }
                };
                SharedPool::truncate(&mut buffer, 4);
                buffer.as_mut().copy_from_slice(&turn.to_be_bytes());
                worker.send(buffer).expect("it takes all");
            }
        });
        assert_eq!(pool.free(), BUFFERS);
        assert_eq!(std::iter::from_fn(|| pool.take()).collect::<Vec<_>>().len(), BUFFERS);
    }
}
