//! Datagrams to send, gathered across frames.

use super::{BatchSocket, Destination, fits, most_of};
use crate::BUFFER_LEN;
use linecard::offload::burst::{FrameSegments, Room};
use linecard::offload::segment::SegmentError;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::ops::Range;

/// Addresses for which a [`Batcher`] gathers datagrams at once. With more, a burst has too few
/// datagrams for each address to be worth the memory.
const MAX_GROUPS: usize = 16;
/// Bytes of a [`Group`]: two of the longest packets that a device gives, with room around their
/// segments, and what one call left behind.
const GROUP_LEN: usize = 3 << 16;
/// Bytes that [`Batcher::push_with`] segments at a time: they are still in the first cache when they are
/// encrypted.
const CUT_LEN: usize = 16 << 10;
/// Bytes that are moved to the start of the buffer when a call has left them behind.
const MAX_MOVED: usize = 16 << 10;

/// Datagrams gathered across frames, so that one call sends many to an address: up to 64 of one
/// size, of which the last may be shorter.
///
/// Use one for each socket. On a connected socket, name the socket as the destination:
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
/// for frame in [*b"line", *b"card"] {
///     let mut segments = cut(LinkType::Raw, &Header::default(), &frame)?;
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
///
/// A server with many peers names the socket and an address ([`BatchSocket::to`]). Datagrams to one
/// address keep their order; those to different addresses may overtake each other. Datagrams are
/// gathered for up to 16 addresses at once; a further address replaces the least recently used one,
/// whose datagrams are sent then.
///
/// Datagrams that are longer than the MTU of the path (with their IP and UDP headers) are sent one by
/// one, by two calls each: leave room for the headers around a packet in the device's MTU.
///
/// ```
/// # use linecard::offload::burst::{Room, cut};
/// # use linecard::offload::virtio::Header;
/// # use linecard::packet::LinkType;
/// # use linecard_tun::udp::{BatchSocket, Batcher};
/// # use std::net::UdpSocket;
/// let peers = [UdpSocket::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?];
/// let server = BatchSocket::new(UdpSocket::bind("127.0.0.1:0")?)?;
///
/// let mut batcher = Batcher::new();
/// for (frame, peer) in [(*b"1st", 0), (*b"2nd", 1), (*b"3rd", 0)] {
///     let mut segments = cut(LinkType::Raw, &Header::default(), &frame)?;
///     let address = peers[peer].local_addr()?;
///     batcher.push(server.to(address), &mut segments, Room::default(), |_datagram| {})?;
/// }
/// batcher.flush(&server)?;
///
/// for (datagram, peer) in [(b"1st", 0), (b"3rd", 0), (b"2nd", 1)] {
///     let mut room = [0; 3];
///     assert_eq!(peers[peer].recv_from(&mut room)?, (3, server.socket().local_addr()?));
///     assert_eq!(&room, datagram);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Batcher {
    /// At least one, and as many as there were addresses at once so far; most recently used first.
    groups: Vec<Group>,
    /// Segments that are encrypted from here into a group.
    scratch: Vec<u8>,
}

impl Default for Batcher {
    fn default() -> Self {
        Self::new()
    }
}

impl Batcher {
    /// Allocates 256 KiB, and later 192 KiB for each further address for which datagrams are gathered
    /// at once: 3.1 MiB at most.
    #[must_use]
    pub fn new() -> Self {
        Self { groups: vec![Group::new()], scratch: vec![0; BUFFER_LEN] }
    }

    /// Datagrams that the kernel has taken.
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.groups.iter().map(|group| group.sent).sum()
    }

    /// Datagrams that it has not taken, because its queue was full or for another error.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.groups.iter().map(|group| group.dropped).sum()
    }

    /// Adds the segments of a frame, with `room` around each, which `seal` fills in: to the peer of a
    /// connected socket (`&socket`), or to an address (`socket.to(address)`). Datagrams are sent when
    /// no other may follow them in their call; the rest is sent by a later call of this function, or
    /// by [`flush`](Self::flush).
    ///
    /// # Errors
    ///
    /// As [`BatchSocket::send`] about datagrams of this or an earlier frame, also to another address:
    /// those that were not taken are dropped, and all others are kept or sent. [`Ok`] means that the
    /// kernel took all that this call sent. [`ErrorKind::ConnectionRefused`], which is about an
    /// earlier datagram, drops nothing: what follows is tried again, and the error is returned only if
    /// it comes twice for one datagram.
    /// [`ErrorKind::InvalidInput`] if a segment with its room would be longer than a datagram may be;
    /// nothing of the frame was taken then.
    pub fn push<'s, P: AsRef<[u8]>>(
        &mut self,
        to: impl Into<Destination<'s>>,
        segments: &mut FrameSegments<'_, P>,
        room: Room,
        mut seal: impl FnMut(&mut [u8]),
    ) -> io::Result<()> {
        fits(segments.max_len().saturating_add(room.front).saturating_add(room.back))?;
        let Destination { socket, address } = to.into();
        let (group, mut result) = self.group(socket, address);
        loop {
            let at = group.gathered.end;
            let mut run = match segments.write(room, &mut group.bytes[at..]) {
                Ok(Some(run)) => run,
                Ok(None) => return result,
                Err(SegmentError::OutputTooSmall { .. }) if at > 0 => {
                    result = group.flush(socket).and(result);
                    continue;
                }
                Err(error) => return Err(io::Error::new(ErrorKind::InvalidInput, error)),
            };
            run.segments().for_each(&mut seal);
            let (len, size) = (run.bytes().len(), run.size());
            result = group.gather(socket, at..at + len, size).and(result);
        }
    }

    /// [`push`](Self::push) for a library that encrypts from one slice into another: `seal` is given
    /// each segment, and memory that is `overhead` bytes longer; it returns the length of the
    /// datagram that it has written to the front of the memory, or 0 if there is none.
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
    /// # let (mut batcher, frame) = (Batcher::new(), *b"card");
    /// let mut segments = cut(LinkType::Raw, &Header::default(), &frame)?;
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
    pub fn push_with<'s, P: AsRef<[u8]>>(
        &mut self,
        to: impl Into<Destination<'s>>,
        segments: &mut FrameSegments<'_, P>,
        overhead: usize,
        mut seal: impl FnMut(&[u8], &mut [u8]) -> usize,
    ) -> io::Result<()> {
        fits(segments.max_len().saturating_add(overhead))?;
        let Destination { socket, address } = to.into();
        let mut scratch = std::mem::take(&mut self.scratch);
        // It was taken by a call in which `seal` panicked.
        scratch.resize(BUFFER_LEN, 0);
        let area = CUT_LEN.max(segments.max_len()).min(scratch.len());
        let (group, mut result) = self.group(socket, address);
        let all = loop {
            match segments.write(Room::default(), &mut scratch[..area]) {
                Ok(Some(mut run)) => {
                    for segment in run.segments() {
                        result = group.add(socket, (segment, overhead), &mut seal).and(result);
                    }
                }
                Ok(None) => break Ok(()),
                Err(error) => break Err(io::Error::new(ErrorKind::InvalidInput, error)),
            }
        };
        self.scratch = scratch;
        all.and(result)
    }

    /// Sends what has been gathered, for all addresses: to be called when no further frame is at
    /// hand.
    ///
    /// # Errors
    ///
    /// As [`push`](Self::push); what was not taken is dropped. Datagrams to all addresses are tried,
    /// whatever happens to those to one of them. [`Ok`] means that the kernel took all that this call
    /// sent: not that they arrive, and nothing of what earlier calls sent.
    /// [`dropped`](Self::dropped) counts all that was not taken: compare it before and after.
    pub fn flush(&mut self, socket: &BatchSocket) -> io::Result<()> {
        let mut result = Ok(());
        // Least recently used first.
        for group in self.groups.iter_mut().rev() {
            result = group.flush(socket).and(result);
        }
        result
    }

    /// The group of an address, and the result of sending what was in its place.
    fn group(
        &mut self,
        socket: &BatchSocket,
        address: Option<SocketAddr>,
    ) -> (&mut Group, io::Result<()>) {
        let groups = &mut self.groups;
        let of_address = groups.iter().position(|group| group.address == address);
        let place = of_address.or_else(|| groups.iter().position(Group::is_empty));
        let place = place.unwrap_or_else(|| {
            if groups.len() < MAX_GROUPS {
                groups.push(Group::new());
            }
            groups.len() - 1
        });
        groups[..=place].rotate_right(1);
        let group = &mut groups[0];
        let mut result = Ok(());
        if group.address != address {
            result = group.flush(socket);
            group.address = address;
        }
        (group, result)
    }
}

/// Datagrams to one address.
#[derive(Debug)]
struct Group {
    /// None: the peer that the socket is connected to.
    address: Option<SocketAddr>,
    bytes: Vec<u8>,
    /// The datagrams gathered: all of them have `size` bytes.
    gathered: Range<usize>,
    size: usize,
    sent: u64,
    dropped: u64,
}

impl Group {
    fn new() -> Self {
        let bytes = vec![0; GROUP_LEN];
        Self { address: None, bytes, gathered: 0..0, size: 0, sent: 0, dropped: 0 }
    }

    fn is_empty(&self) -> bool {
        self.gathered.is_empty()
    }

    /// Adds one segment, encrypted by `seal`.
    fn add(
        &mut self,
        socket: &BatchSocket,
        (segment, overhead): (&[u8], usize),
        seal: &mut impl FnMut(&[u8], &mut [u8]) -> usize,
    ) -> io::Result<()> {
        let most = segment.len() + overhead;
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

    /// Sends what has been gathered; what was not taken is dropped.
    fn flush(&mut self, socket: &BatchSocket) -> io::Result<()> {
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
        let (taken, result) = socket.send_until_error(datagrams, self.size, self.address, true);
        self.sent += taken.div_ceil(self.size) as u64;
        self.dropped += (datagrams.len() - taken).div_ceil(self.size) as u64;
        result
    }
}
