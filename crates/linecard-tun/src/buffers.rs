//! The source of a port's buffers.

use linecard::packet::{Pool, PoolBuffer};

/// A bounded source of buffers of equal size, which are returned on drop.
///
/// A [`Pool`] gives buffers that stay on their thread.
///
/// ```
/// use linecard::packet::Pool;
/// use linecard_tun::Buffers;
///
/// fn filled<S: Buffers>(buffers: &S, bytes: &[u8]) -> Option<S::Buffer> {
///     let mut buffer = buffers.take()?;
///     buffer.as_mut().get_mut(..bytes.len())?.copy_from_slice(bytes);
///     S::truncate(&mut buffer, bytes.len());
///     Some(buffer)
/// }
/// let buffer = filled(&Pool::new(1, 64), b"linecard").expect("one is free");
/// assert_eq!(buffer.as_ref(), b"linecard");
/// ```
pub trait Buffers {
    /// A buffer whose bytes do not move when it is moved.
    type Buffer: AsRef<[u8]> + AsMut<[u8]>;

    /// A buffer of [`buffer_len`](Self::buffer_len) bytes with arbitrary contents, or none if all
    /// are in use.
    fn take(&self) -> Option<Self::Buffer>;

    /// Shortens a buffer to the bytes in use; has no effect if `len` is larger.
    fn truncate(buffer: &mut Self::Buffer, len: usize);

    /// Bytes of a buffer.
    fn buffer_len(&self) -> usize;
}

impl Buffers for Pool {
    type Buffer = PoolBuffer;

    fn take(&self) -> Option<PoolBuffer> {
        Self::take(self)
    }

    fn truncate(buffer: &mut PoolBuffer, len: usize) {
        buffer.truncate(len);
    }

    fn buffer_len(&self) -> usize {
        Self::buffer_len(self)
    }
}
