//! A pool of buffers of equal size for one worker: allocated once, and bounded.

use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::RefCell;

/// A bounded pool of buffers. A pool and its buffers stay on one thread.
///
/// ```
/// use linecard::packet::Pool;
/// let pool = Pool::new(1, 2048);
/// let buffer = pool.take().expect("one is free");
/// assert!(pool.take().is_none());
/// drop(buffer);
/// assert!(pool.take().is_some());
/// ```
#[derive(Debug, Clone)]
pub struct Pool {
    free: Rc<RefCell<Vec<Vec<u8>>>>,
    buffer_len: usize,
}

/// A buffer of a [`Pool`], returned to it on drop.
#[derive(Debug)]
pub struct PoolBuffer {
    bytes: Vec<u8>,
    len: usize,
    home: Rc<RefCell<Vec<Vec<u8>>>>,
}

impl Pool {
    /// Allocates `buffers` buffers of `buffer_len` bytes.
    #[must_use]
    pub fn new(buffers: usize, buffer_len: usize) -> Self {
        let free = (0..buffers).map(|_| alloc::vec![0; buffer_len]).collect();
        Self { free: Rc::new(RefCell::new(free)), buffer_len }
    }

    /// A buffer of `buffer_len` bytes with arbitrary contents, or none if all are in use.
    #[must_use]
    #[inline]
    pub fn take(&self) -> Option<PoolBuffer> {
        let bytes = self.free.borrow_mut().pop()?;
        Some(PoolBuffer { len: bytes.len(), bytes, home: Rc::clone(&self.free) })
    }

    /// Buffers not in use.
    #[must_use]
    pub fn free(&self) -> usize {
        self.free.borrow().len()
    }

    /// Bytes of a buffer.
    #[must_use]
    pub fn buffer_len(&self) -> usize {
        self.buffer_len
    }
}

impl PoolBuffer {
    /// Shortens the buffer to the bytes in use; has no effect if `len` is larger.
    #[inline]
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }
}

impl AsRef<[u8]> for PoolBuffer {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl AsMut<[u8]> for PoolBuffer {
    #[inline]
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[..self.len]
    }
}

impl Drop for PoolBuffer {
    #[inline]
    fn drop(&mut self) {
        self.home.borrow_mut().push(core::mem::take(&mut self.bytes));
    }
}
