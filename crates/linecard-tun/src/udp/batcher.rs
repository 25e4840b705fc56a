//! Datagrams to send, gathered across frames.

use super::{BatchSocket, MAX_SENT, most_of};
use crate::BUFFER_LEN;
use linecard::offload::burst::{FrameSegments, Room};
use linecard::offload::segment::SegmentError;
use std::io::{self, ErrorKind};
use std::ops::Range;

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

/// Whether a segment and its room are not longer than a datagram may be.
fn fits(segment: usize, room: usize) -> io::Result<()> {
    let len = segment.saturating_add(room);
    if len <= MAX_SENT {
        return Ok(());
    }
    let text = format!("a datagram of {len} bytes: at most {MAX_SENT} can be sent");
    Err(io::Error::new(ErrorKind::InvalidInput, text))
}
