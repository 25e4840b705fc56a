//! UDP datagrams in batches: a call sends up to 64 of one size, which stay together until they leave
//! the host (UDP GSO, Linux 4.18), and a call receives as many that arrived together (UDP GRO,
//! Linux 5.0). Older kernels take and give them one by one.

use crate::BUFFER_LEN;
use crate::sys::datagrams;
use crate::sys::is;
use linecard::offload::burst::{FrameSegments, Room, stride};
use linecard::offload::segment::SegmentError;
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
    /// taken: all, or those of the first datagrams if its queue is full.
    ///
    /// # Errors
    ///
    /// As the system says of the first datagram: [`ErrorKind::WouldBlock`] if the queue is full;
    /// [`ErrorKind::ConnectionRefused`] if nobody received an earlier one. [`ErrorKind::InvalidInput`]
    /// if `size` is 0.
    pub fn send(&self, datagrams: &[u8], size: usize) -> io::Result<usize> {
        self.send_all(datagrams, size, None)
    }

    /// As [`send`](Self::send), to `address`, on a socket that is not connected.
    ///
    /// # Errors
    ///
    /// As for [`send`](Self::send).
    pub fn send_to(&self, datagrams: &[u8], size: usize, to: SocketAddr) -> io::Result<usize> {
        self.send_all(datagrams, size, Some(to))
    }

    fn send_all(&self, bytes: &[u8], size: usize, to: Option<SocketAddr>) -> io::Result<usize> {
        if size == 0 {
            return Err(io::Error::new(ErrorKind::InvalidInput, "datagrams of 0 bytes"));
        }
        let mut sent = 0;
        while sent < bytes.len() {
            match self.send_some(&bytes[sent..], size, to) {
                Ok(count) => sent += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if sent == 0 => return Err(error),
                // It comes again with the next call.
                Err(_) => break,
            }
        }
        Ok(sent)
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
    /// [`ErrorKind::ConnectionRefused`] if nobody received an earlier datagram.
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

/// Whether a segment and its room are not longer than a datagram may be.
fn fits(segment: usize, room: usize) -> io::Result<()> {
    let len = segment.saturating_add(room);
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

/// Bytes of a [`Batcher`]: two of the longest packets that a device gives, with room around their
/// segments, and what one call left behind.
const BATCHER_LEN: usize = 3 << 16;
/// Bytes that [`Batcher::push_with`] cuts at a time: they are still in the first cache when they are
/// encrypted.
const CUT_LEN: usize = 16 << 10;
/// Bytes that are moved to the start of the buffer when a call has left them behind.
const MAX_MOVED: usize = 16 << 10;

/// Datagrams for the connected peer of a socket, gathered so that one call sends many: up to 64 of
/// one size, of which the last may be shorter.
///
/// ```
/// use linecard::offload::burst::{Room, cut};
/// use linecard::offload::virtio::Header;
/// use linecard::packet::LinkType;
/// use linecard_tun::udp::{BatchSocket, Batcher};
/// use std::net::UdpSocket;
///
/// let server = UdpSocket::bind("127.0.0.1:0")?;
/// let client = BatchSocket::new(UdpSocket::bind("127.0.0.1:0")?)?;
/// client.socket().connect(server.local_addr()?)?;
///
/// let mut batcher = Batcher::new();
/// for mut frame in [*b"line", *b"card"] {
///     let mut segments = cut(LinkType::Raw, &Header::default(), &mut frame)?;
///     // A byte in front of each, which is filled in here; encryption would be done here, too.
///     let room = Room { front: 1, back: 0 };
///     batcher.push(&client, &mut segments, room, |datagram| datagram[0] = b'>')?;
/// }
/// batcher.flush(&client)?;
///
/// let mut datagram = [0; 9];
/// assert_eq!(server.recv(&mut datagram)?, 5);
/// assert_eq!(&datagram[..5], b">line");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Batcher {
    bytes: Vec<u8>,
    /// Segments that are encrypted from here into `bytes`.
    scratch: Vec<u8>,
    /// The datagrams gathered: all of them have `size` bytes.
    gathered: Range<usize>,
    size: usize,
    sent: u64,
    dropped: u64,
}

impl Default for Batcher {
    fn default() -> Self {
        Self::new()
    }
}

impl Batcher {
    /// Allocates 256 KiB.
    #[must_use]
    pub fn new() -> Self {
        let (bytes, scratch) = (vec![0; BATCHER_LEN], vec![0; BUFFER_LEN]);
        Self { bytes, scratch, gathered: 0..0, size: 0, sent: 0, dropped: 0 }
    }

    /// Datagrams that the kernel has taken.
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Datagrams that it has not taken, because its queue was full or for another error.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Adds the segments of a frame, with `room` around each, which `seal` fills in. Datagrams are
    /// sent when no other may follow them in their call; the rest is sent by a later call of this
    /// function, or by [`flush`](Self::flush).
    ///
    /// # Errors
    ///
    /// As [`BatchSocket::send`] about datagrams of this or an earlier frame: those that were not
    /// taken are dropped, and all others are kept or sent.
    /// [`ErrorKind::InvalidInput`] if a segment with its room would be longer than a datagram may be;
    /// nothing of the frame was taken then.
    pub fn push<P: AsRef<[u8]>>(
        &mut self,
        socket: &BatchSocket,
        cut: &mut FrameSegments<'_, P>,
        room: Room,
        mut seal: impl FnMut(&mut [u8]),
    ) -> io::Result<()> {
        fits(cut.max_len(), room.front.saturating_add(room.back))?;
        let mut result = Ok(());
        loop {
            let at = self.gathered.end;
            let mut run = match cut.write(room, &mut self.bytes[at..]) {
                Ok(Some(run)) => run,
                Ok(None) => return result,
                Err(SegmentError::OutputTooSmall { .. }) if at > 0 => {
                    result = self.flush(socket).and(result);
                    continue;
                }
                Err(error) => return Err(io::Error::new(ErrorKind::InvalidInput, error)),
            };
            run.segments().for_each(&mut seal);
            let (len, size) = (run.bytes().len(), run.size());
            result = self.gather(socket, at..at + len, size).and(result);
        }
    }

    /// [`push`](Self::push) for a library that encrypts from one slice into another: `seal` is given
    /// each segment, and memory that is `room` bytes longer; it returns the length of the datagram
    /// that it has written to the front of the memory, or 0 if there is none.
    ///
    /// ```
    /// # use linecard::offload::burst::cut;
    /// # use linecard::offload::virtio::Header;
    /// # use linecard::packet::LinkType;
    /// # use linecard_tun::udp::{BatchSocket, Batcher};
    /// # use std::net::UdpSocket;
    /// # let server = UdpSocket::bind("127.0.0.1:0")?;
    /// # let client = BatchSocket::new(UdpSocket::bind("127.0.0.1:0")?)?;
    /// # client.socket().connect(server.local_addr()?)?;
    /// # let (mut batcher, mut frame) = (Batcher::new(), *b"card");
    /// let mut segments = cut(LinkType::Raw, &Header::default(), &mut frame)?;
    /// batcher.push_with(&client, &mut segments, 4, |packet, datagram| {
    ///     let len = 4 + packet.len();
    ///     datagram[..len].copy_from_slice(&[b"line", packet].concat());
    ///     len
    /// })?;
    /// batcher.flush(&client)?;
    /// # let mut datagram = [0; 9];
    /// # assert_eq!(server.recv(&mut datagram)?, 8);
    /// # assert_eq!(&datagram[..8], b"linecard");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`push`](Self::push).
    pub fn push_with<P: AsRef<[u8]>>(
        &mut self,
        socket: &BatchSocket,
        cut: &mut FrameSegments<'_, P>,
        room: usize,
        mut seal: impl FnMut(&[u8], &mut [u8]) -> usize,
    ) -> io::Result<()> {
        fits(cut.max_len(), room)?;
        let mut scratch = std::mem::take(&mut self.scratch);
        // It was taken by a call in which `seal` panicked.
        scratch.resize(BUFFER_LEN, 0);
        let area = CUT_LEN.max(cut.max_len()).min(scratch.len());
        let mut result = Ok(());
        let all = loop {
            match cut.write(Room::default(), &mut scratch[..area]) {
                Ok(Some(mut run)) => {
                    for segment in run.segments() {
                        result = self.push_one(socket, (segment, room), &mut seal).and(result);
                    }
                }
                Ok(None) => break Ok(()),
                Err(error) => break Err(io::Error::new(ErrorKind::InvalidInput, error)),
            }
        };
        self.scratch = scratch;
        all.and(result)
    }

    fn push_one(
        &mut self,
        socket: &BatchSocket,
        (segment, room): (&[u8], usize),
        seal: &mut impl FnMut(&[u8], &mut [u8]) -> usize,
    ) -> io::Result<()> {
        let most = segment.len() + room;
        let mut result = Ok(());
        if self.bytes.len() - self.gathered.end < most {
            result = self.flush(socket);
        }
        let at = self.gathered.end;
        match seal(segment, &mut self.bytes[at..at + most]).min(most) {
            0 => result,
            len => self.gather(socket, at..at + len, len).and(result),
        }
    }

    /// Sends what has been gathered: to be called when no further frame is at hand.
    ///
    /// # Errors
    ///
    /// As [`BatchSocket::send`]; what was not taken is dropped.
    pub fn flush(&mut self, socket: &BatchSocket) -> io::Result<()> {
        let result = self.send(socket, usize::MAX);
        self.gathered = 0..0;
        result
    }

    /// Sends what has been gathered, at most `limit` bytes.
    fn send(&mut self, socket: &BatchSocket, limit: usize) -> io::Result<()> {
        let Range { start, end } = self.gathered;
        self.gathered.start += limit.min(end - start);
        let datagrams = &self.bytes[start..self.gathered.start];
        if datagrams.is_empty() {
            return Ok(());
        }
        let refused = |error: &io::Error| error.kind() == ErrorKind::ConnectionRefused;
        // That is about an earlier datagram: these have not been tried.
        let result = match socket.send(datagrams, self.size) {
            Err(error) if refused(&error) => socket.send(datagrams, self.size),
            result => result,
        };
        let taken = *result.as_ref().unwrap_or(&0);
        self.sent += taken.div_ceil(self.size) as u64;
        self.dropped += (datagrams.len() - taken).div_ceil(self.size) as u64;
        result.map(drop)
    }

    /// Adds a run of datagrams of `size` bytes, of which the last may be shorter.
    fn gather(&mut self, socket: &BatchSocket, run: Range<usize>, size: usize) -> io::Result<()> {
        let mut result = Ok(());
        // One datagram that is shorter may be the last of a call.
        let joins = size == self.size || size < self.size && run.len() == size;
        if !self.gathered.is_empty() && !joins {
            result = self.send(socket, usize::MAX);
        }
        if self.gathered.is_empty() {
            (self.gathered.start, self.size) = (run.start, size);
        }
        self.gathered.end = run.end;
        let call = most_of(self.size);
        while result.is_ok() && self.gathered.len() >= call {
            result = self.send(socket, call);
        }
        if result.is_err() || !self.gathered.len().is_multiple_of(self.size) {
            return self.flush(socket).and(result);
        }
        if self.gathered.start > 0 && self.gathered.len() <= MAX_MOVED {
            // To the start, where memory is in the cache and there is most room.
            self.bytes.copy_within(self.gathered.clone(), 0);
            self.gathered = 0..self.gathered.len();
        }
        result
    }
}

/// Calls of one [`Receiver::receive`].
const MAX_CALLS: usize = 64;

/// Receives what is waiting at a socket into one buffer, by several calls: packets that were sent by
/// several calls can be merged again then.
///
/// ```
/// use linecard_tun::udp::{BatchSocket, Receiver};
/// use std::net::UdpSocket;
/// use std::os::fd::AsFd;
/// use std::time::Duration;
///
/// let socket = BatchSocket::new(UdpSocket::bind("127.0.0.1:0")?)?;
/// let (client, mut receiver) = (UdpSocket::bind("127.0.0.1:0")?, Receiver::new(4));
/// client.send_to(b"line", socket.socket().local_addr()?)?;
///
/// linecard_tun::wait(&[socket.as_fd()], Duration::from_secs(5))?;
/// let burst = receiver.receive(&socket)?;
/// assert_eq!(burst.ranges().next(), Some(0..4));
/// assert_eq!(burst.batches[0].from, client.local_addr()?);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Receiver {
    bytes: Vec<u8>,
    batches: Vec<Batch>,
}

/// Datagrams that one call received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// Where they are, one behind the other.
    pub place: Range<usize>,
    /// Bytes of each, except that the last may be shorter; at least 1.
    pub size: usize,
    /// The sender.
    pub from: SocketAddr,
}

/// Datagrams that were waiting at a socket.
#[derive(Debug)]
pub struct Burst<'r> {
    /// All of them, to be decrypted in place if need be.
    pub bytes: &'r mut [u8],
    /// What each call received: at least one.
    pub batches: &'r [Batch],
    /// Whether nothing more was waiting.
    pub is_last: bool,
}

impl<'r> Burst<'r> {
    /// The places of all datagrams in [`bytes`](Self::bytes); an empty one is left out.
    pub fn ranges(&self) -> impl Iterator<Item = Range<usize>> + use<'r> {
        self.batches.iter().flat_map(|Batch { place, size, .. }| {
            let start = place.start;
            stride(place.len(), *size).map(move |range| start + range.start..start + range.end)
        })
    }
}

impl Receiver {
    /// Allocates memory for `batches` of the longest batches, 64 KiB each; 1 at least. 4 keep what
    /// large packets were divided into together, and stay in most processors' caches.
    #[must_use]
    pub fn new(batches: usize) -> Self {
        Self { bytes: vec![0; batches.max(1) * MAX_RECEIVED], batches: Vec::new() }
    }

    /// Receives what waits, as far as there is room for the longest batch.
    ///
    /// # Errors
    ///
    /// As [`BatchSocket::receive`] of the first call. An error after some have been received is
    /// not reported.
    pub fn receive(&mut self, socket: &BatchSocket) -> io::Result<Burst<'_>> {
        self.batches.clear();
        let (mut end, mut is_last) = (0, false);
        while self.batches.len() < MAX_CALLS
            && let Some(room) = self.bytes.get_mut(end..).filter(|room| room.len() >= MAX_RECEIVED)
        {
            match socket.receive(room) {
                Ok(Received { bytes, size, from }) => {
                    let place = end..end + bytes.len();
                    end = place.end;
                    self.batches.push(Batch { place, size, from });
                }
                Err(error) if self.batches.is_empty() => return Err(error),
                Err(error) => {
                    is_last = error.kind() == ErrorKind::WouldBlock;
                    break;
                }
            }
        }
        Ok(Burst { bytes: &mut self.bytes[..end], batches: &self.batches, is_last })
    }
}
