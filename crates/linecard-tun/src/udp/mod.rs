//! UDP datagrams in batches: a call sends up to 64 of one size, which stay together until they leave
//! the host (UDP GSO, Linux 4.18), and a call receives as many that arrived together (UDP GRO,
//! Linux 5.0). Older kernels take and give them one by one.

mod batcher;
mod receiver;

pub use batcher::Batcher;
pub use receiver::{Batch, Burst, Receiver};

use crate::sys::{datagrams, is};
use linecard::offload::burst::stride;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, UdpSocket};
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};

/// Bytes that [`BatchSocket::receive`] needs room for: the longest batch.
pub const MAX_RECEIVED: usize = 65_535;
/// Bytes of UDP payload that one call sends: the longest IPv4 packet without its headers.
const MAX_SENT: usize = 65_507;
/// Datagrams that one call sends: `UDP_MAX_SEGMENTS` of Linux before 6.9.
const MAX_DATAGRAMS: usize = 64;

/// A UDP socket that sends and receives datagrams in batches, and never blocks. It may be used by
/// several threads.
///
/// ```
/// use linecard_tun::udp::{BatchSocket, MAX_RECEIVED};
/// use std::net::UdpSocket;
/// use std::os::fd::AsFd;
/// use std::time::Duration;
///
/// let server = BatchSocket::new(UdpSocket::bind("127.0.0.1:0")?)?;
/// let client = BatchSocket::new(UdpSocket::bind("127.0.0.1:0")?)?;
/// let address = server.socket().local_addr()?;
/// // Two datagrams of 4 bytes, and a last one of 2.
/// assert_eq!(client.send_to(b"onlytwotwo", 4, address)?, 10);
///
/// let (mut room, mut came) = (vec![0; MAX_RECEIVED], Vec::new());
/// while came.len() < 3 {
///     assert!(linecard_tun::wait(&[server.as_fd()], Duration::from_secs(5))?);
///     let received = server.receive(&mut room)?;
///     assert_eq!(received.from, client.socket().local_addr()?);
///     came.extend(received.iter().map(<[u8]>::to_vec));
/// }
/// assert_eq!(came, [&b"only"[..], b"twot", b"wo"]);
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// Not supported: ECN, the local address of datagrams, times.
#[derive(Debug)]
pub struct BatchSocket {
    socket: UdpSocket,
    /// Whether the kernel segments; no longer once a route's device has refused.
    gso: AtomicBool,
    gro: bool,
}

/// Where datagrams go: by a socket to the peer that it is connected to, which is what `&socket`
/// becomes, or to an address ([`BatchSocket::to`]).
#[derive(Debug, Clone, Copy)]
pub struct Destination<'s> {
    socket: &'s BatchSocket,
    address: Option<SocketAddr>,
}

impl<'s> From<&'s BatchSocket> for Destination<'s> {
    fn from(socket: &'s BatchSocket) -> Self {
        Self { socket, address: None }
    }
}

/// Datagrams that arrived together, from one sender.
#[derive(Debug, PartialEq, Eq)]
pub struct Received<'r> {
    /// One behind the other, to be decrypted in place if need be.
    pub bytes: &'r mut [u8],
    /// Bytes of each, except that the last may be shorter; at least 1.
    pub size: usize,
    /// The sender.
    pub from: SocketAddr,
}

impl<'r> Received<'r> {
    /// One after the other; an empty datagram is none.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.bytes.chunks(self.size)
    }

    /// Their places in [`bytes`](Self::bytes).
    pub fn ranges(&self) -> impl Iterator<Item = Range<usize>> + use<> {
        stride(self.bytes.len(), self.size)
    }
}

impl BatchSocket {
    /// Makes a socket non-blocking, and asks the kernel for UDP GRO on it.
    ///
    /// # Errors
    ///
    /// As the system says. A kernel without UDP GSO or GRO is not an error.
    pub fn new(socket: UdpSocket) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        let gso = AtomicBool::new(datagrams::has_gso(socket.as_fd()));
        let gro = datagrams::set_gro(socket.as_fd()).is_ok();
        Ok(Self { socket, gso, gro })
    }

    /// The socket, for its addresses and options.
    #[must_use]
    pub fn socket(&self) -> &UdpSocket {
        &self.socket
    }

    /// Whether one call sends several datagrams: false before Linux 4.18, and once the device of a
    /// route was found not to compute checksums.
    #[must_use]
    pub fn sends_batches(&self) -> bool {
        self.gso.load(Ordering::Relaxed)
    }

    /// Whether one call may receive several datagrams: false before Linux 5.0.
    #[must_use]
    pub fn receives_batches(&self) -> bool {
        self.gro
    }

    /// Lets this many bytes wait in the kernel in each direction, or as many as the system allows
    /// (`net.core.wmem_max` and `rmem_max`; more only with `CAP_NET_ADMIN`). The kernel counts its
    /// own overhead too, so that half of it may be payload.
    ///
    /// # Errors
    ///
    /// As the system says.
    pub fn set_buffers(&self, bytes: usize) -> io::Result<()> {
        let bytes = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
        datagrams::set_buffers(self.socket.as_fd(), bytes)
    }

    /// Sends `datagrams`, which lie one behind the other with `size` bytes each (the last may be
    /// shorter), to the peer that the socket is connected to. Returns how many bytes the kernel has
    /// taken: all, or those of the first datagrams if its queue is full or another error stopped it.
    ///
    /// # Errors
    ///
    /// As the system says of the first datagram: [`ErrorKind::WouldBlock`] if the queue is full;
    /// [`ErrorKind::ConnectionRefused`] if no socket received one of an earlier call: these have not been
    /// tried then. [`ErrorKind::InvalidInput`] if `size` is 0, or the first datagram is longer
    /// than one can be: 65,507 bytes over IPv4.
    pub fn send(&self, datagrams: &[u8], size: usize) -> io::Result<usize> {
        self.send_all(datagrams, size, None)
    }

    /// As [`send`](Self::send), to an address, on a socket that is not connected.
    ///
    /// # Errors
    ///
    /// As for [`send`](Self::send).
    pub fn send_to(&self, datagrams: &[u8], size: usize, to: SocketAddr) -> io::Result<usize> {
        self.send_all(datagrams, size, Some(to))
    }

    /// This socket with an address, for [`Batcher::push`].
    #[must_use]
    pub fn to(&self, address: SocketAddr) -> Destination<'_> {
        Destination { socket: self, address: Some(address) }
    }

    fn send_all(&self, bytes: &[u8], size: usize, to: Option<SocketAddr>) -> io::Result<usize> {
        if size == 0 {
            let text = "datagrams of 0 bytes: 1 or more can be sent";
            return Err(io::Error::new(ErrorKind::InvalidInput, text));
        }
        match self.send_until_error(bytes, size, to, false) {
            // Over IPv6 somewhat longer ones can be sent.
            (0, Err(error)) if is(&error, libc::EMSGSIZE) => {
                fits(size.min(bytes.len())).and(Err(error))
            }
            (0, Err(error)) => Err(error),
            (sent, _) => Ok(sent),
        }
    }

    /// Sends datagrams up to the first that is not taken; the bytes of those before, and its error. The error that no
    /// socket received a datagram is about an earlier one: the following ones are tried again then, once before each,
    /// and the first only if it `follows` others.
    fn send_until_error(
        &self,
        bytes: &[u8],
        size: usize,
        to: Option<SocketAddr>,
        mut follows: bool,
    ) -> (usize, io::Result<()>) {
        let mut sent = 0;
        while sent < bytes.len() {
            match self.send_some(&bytes[sent..], size, to) {
                Ok(count) => (sent, follows) = (sent + count, true),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if follows && error.kind() == ErrorKind::ConnectionRefused => {
                    follows = false;
                }
                Err(error) => return (sent, Err(error)),
            }
        }
        (sent, Ok(()))
    }

    /// Sends the first datagrams by one call; how many bytes they are.
    fn send_some(&self, bytes: &[u8], size: usize, to: Option<SocketAddr>) -> io::Result<usize> {
        let first = &bytes[..size.min(bytes.len())];
        let most = most_of(size);
        if self.sends_batches() && most > size && bytes.len() > size {
            let many = &bytes[..most.min(bytes.len())];
            match datagrams::send(self.socket.as_fd(), many, size as u16, to) {
                // The device of this route computes no checksums.
                Err(error) if is(&error, libc::EIO) => self.gso.store(false, Ordering::Relaxed),
                // Longer than the MTU: such datagrams are fragmented one by one.
                Err(error) if is(&error, libc::EINVAL) || is(&error, libc::EMSGSIZE) => {}
                result => return result,
            }
        }
        datagrams::send(self.socket.as_fd(), first, 0, to)
    }

    /// Receives datagrams that arrived together into `room`, of at least [`MAX_RECEIVED`] bytes.
    ///
    /// # Errors
    ///
    /// As the system says: [`ErrorKind::WouldBlock`] if there is none;
    /// [`ErrorKind::ConnectionRefused`] if no socket received an earlier datagram.
    /// [`ErrorKind::InvalidInput`] if `room` is too short.
    pub fn receive<'r>(&self, room: &'r mut [u8]) -> io::Result<Received<'r>> {
        if room.len() < MAX_RECEIVED {
            let text = format!("room for {} bytes: a batch needs {MAX_RECEIVED}", room.len());
            return Err(io::Error::new(ErrorKind::InvalidInput, text));
        }
        let arrival = datagrams::receive(self.socket.as_fd(), room)?;
        let bytes = &mut room[..arrival.len];
        let size = arrival.size.unwrap_or(arrival.len).max(1);
        Ok(Received { bytes, size, from: arrival.from })
    }
}

/// Whether a datagram is not longer than one may be.
fn fits(len: usize) -> io::Result<()> {
    if len <= MAX_SENT {
        return Ok(());
    }
    let text = format!("a datagram of {len} bytes: at most {MAX_SENT} can be sent");
    Err(io::Error::new(ErrorKind::InvalidInput, text))
}

/// Bytes of as many datagrams of `size` bytes as one call sends.
fn most_of(size: usize) -> usize {
    MAX_DATAGRAMS.min(MAX_SENT / size).max(1) * size
}

impl AsFd for BatchSocket {
    /// Readable when a datagram or an error waits.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl AsRawFd for BatchSocket {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}
