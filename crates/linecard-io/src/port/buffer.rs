//! A buffer type for ports of different kinds on one thread: a packet received by one can be sent
//! by another.

use super::xdp::XdpBuffer;
use linecard::packet::{Pool, PoolBuffer};
use linecard_tun::Buffers;

/// A buffer of any port on this thread.
///
/// An AF_XDP port receives into its frames, the other ports into a pool's buffers; each port sends
/// both.
///
/// ```
/// use linecard::packet::Pool;
/// use linecard_io::port::{Buffer, xdp::XdpBuffer};
/// let pooled = Buffer::from(Pool::new(1, 64).take().expect("one is free"));
/// let other = Buffer::from(XdpBuffer::from(vec![0; 60]));
/// assert_eq!((pooled.as_ref().len(), other.as_ref().len()), (64, 60));
/// ```
#[derive(Debug)]
pub enum Buffer {
    /// Of a pool.
    Pool(PoolBuffer),
    /// Of an AF_XDP port.
    Frame(XdpBuffer),
}

impl AsRef<[u8]> for Buffer {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        match self {
            Self::Pool(buffer) => buffer.as_ref(),
            Self::Frame(buffer) => buffer.as_ref(),
        }
    }
}

impl AsMut<[u8]> for Buffer {
    #[inline]
    fn as_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Pool(buffer) => buffer.as_mut(),
            Self::Frame(buffer) => buffer.as_mut(),
        }
    }
}

impl From<PoolBuffer> for Buffer {
    fn from(buffer: PoolBuffer) -> Self {
        Self::Pool(buffer)
    }
}

impl From<XdpBuffer> for Buffer {
    fn from(buffer: XdpBuffer) -> Self {
        Self::Frame(buffer)
    }
}

/// A buffer with these bytes, which fit; none if no buffer is free.
pub(crate) fn filled<S: Buffers>(pool: &S, bytes: &[u8]) -> Option<S::Buffer> {
    let mut buffer = pool.take()?;
    buffer.as_mut()[..bytes.len()].copy_from_slice(bytes);
    S::truncate(&mut buffer, bytes.len());
    Some(buffer)
}

/// A [`Pool`] whose buffers come as [`Buffer`]s.
///
/// ```no_run
/// use linecard::packet::Pool;
/// use linecard_io::port::{Buffer, LivePort, LocalPool, PacketConfig, PacketSocket};
/// use linecard_tun::{BUFFER_LEN, Tap, DeviceConfig};
///
/// let pool = LocalPool(Pool::new(256, BUFFER_LEN));
/// let tap = Tap::open(&DeviceConfig::tap("tap0"), pool.clone())?;
/// let socket = PacketSocket::open(&PacketConfig::new("eth0"), pool)?;
/// let ports: [Box<dyn LivePort<Buffer>>; 2] = [Box::new(tap), Box::new(socket)];
/// # Ok::<(), linecard_tun::PortError>(())
/// ```
#[derive(Debug, Clone)]
pub struct LocalPool(pub Pool);

impl Buffers for LocalPool {
    type Buffer = Buffer;

    fn take(&self) -> Option<Buffer> {
        self.0.take().map(Buffer::Pool)
    }

    fn truncate(buffer: &mut Buffer, len: usize) {
        match buffer {
            Buffer::Pool(buffer) => buffer.truncate(len),
            Buffer::Frame(buffer) => buffer.truncate(len),
        }
    }

    fn buffer_len(&self) -> usize {
        self.0.buffer_len()
    }
}
