//! Prepares packets for the kernel: whole behind a virtio header ([`describe`]), or as segments
//! ([`Segmenter`]). [`Tap`](crate::Tap) does both itself.

pub use crate::progress::{Progress, Step};

use linecard::offload::segment::SegmentError;
use linecard::offload::virtio::{Endian, Format, Header};
use linecard::offload::{complete_checksum, defer_checksum};
use linecard::packet::{ChecksumState, Packet, Piece};

/// Segments that are made at a time.
const AT_ONCE: usize = 64;
/// The most pieces of a packet that is sent whole: the list of a call also needs room for header
/// and first buffer.
const MAX_PIECES: usize = crate::sys::send::MAX_SLICES - 2;

/// The virtio header format that the kernel accepts.
pub type Virtio = (Format, Endian);

/// The bytes of a virtio header; none if the kernel accepts none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeaderBytes {
    bytes: [u8; Format::MAX_LEN],
    len: usize,
}

impl HeaderBytes {
    const NONE: Self = Self { bytes: [0; Format::MAX_LEN], len: 0 };

    /// An empty header, for frames that need no description, such as segments.
    #[must_use]
    #[inline]
    pub fn plain(virtio: Option<Virtio>) -> Self {
        Self { len: virtio.map_or(0, |(format, _)| format.header_len()), ..Self::NONE }
    }

    /// The bytes that precede the frame.
    #[must_use]
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// Whether a packet is sent whole without any description, so that it need not be parsed.
#[inline]
#[must_use]
pub fn is_plain<B: AsRef<[u8]>>(packet: &Packet<B>) -> bool {
    let meta = &packet.meta;
    let is_whole = packet.chain().len() <= MAX_PIECES;
    is_whole && meta.gso.is_none() && meta.checksum == ChecksumState::Unknown
}

/// Prepares a packet to be sent whole, and returns the header that describes it; none if it has to
/// be segmented. Idempotent.
pub fn describe<B: AsRef<[u8]> + AsMut<[u8]>>(
    packet: &mut Packet<B>,
    virtio: Option<Virtio>,
) -> Option<HeaderBytes> {
    if is_plain(packet) {
        return Some(HeaderBytes::plain(virtio));
    }
    let divided = packet.meta.gso.is_some_and(|gso| packet.payload_len() > usize::from(gso.size));
    let partial = packet.meta.checksum == ChecksumState::Partial;
    if packet.chain().len() > MAX_PIECES {
        return None;
    }
    let Some((format, endian)) = virtio else {
        let complete = !partial || !divided && complete_checksum(packet);
        return (!divided && complete).then_some(HeaderBytes::NONE);
    };
    if divided && !partial {
        // The checksums of all merged packets were verified or trusted; devices require deferred
        // ones.
        defer_checksum(packet);
    }
    let mut header = HeaderBytes::NONE;
    header.len = Header::of(packet).ok()?.write(&mut header.bytes, format, endian)?;
    Some(header)
}

/// The frame as slices. A short frame's padding follows the datagram of its first packet, and is
/// not part of a merged packet.
pub fn slices<B: AsRef<[u8]>>(packet: &Packet<B>) -> impl Iterator<Item = &[u8]> {
    let bytes = packet.bytes();
    let end = if packet.is_merged() { packet.layout().end() } else { bytes.len() };
    std::iter::once(&bytes[..end]).chain(packet.chain().iter().map(Piece::bytes))
}

/// Bytes of the frame; of a merged packet, those of its datagram.
pub fn frame_len<B: AsRef<[u8]>>(packet: &Packet<B>) -> usize {
    if packet.is_merged() { packet.datagram_len() } else { packet.bytes().len() }
}

/// Segments in a row: one to 64, one behind the other. All have one length, except that the last
/// segment of a packet may be shorter.
#[derive(Debug, Clone, Copy)]
pub struct Frames<'f> {
    bytes: &'f [u8],
    ends: &'f [usize],
}

impl<'f> Frames<'f> {
    /// All of them, as [`BatchSocket::send`](crate::udp::BatchSocket::send) takes them.
    #[must_use]
    pub fn bytes(self) -> &'f [u8] {
        &self.bytes[..self.ends.last().copied().unwrap_or(0)]
    }

    /// Bytes of each, except that the last may be shorter.
    #[must_use]
    pub fn size(self) -> usize {
        self.ends.first().copied().unwrap_or(0)
    }

    /// How many they are, at least one.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "they are never none")]
    pub fn len(self) -> usize {
        self.ends.len()
    }

    /// One after the other.
    pub fn iter(self) -> impl Iterator<Item = &'f [u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(self.ends).map(move |(start, end)| &self.bytes[start..*end])
    }
}

/// Segments packets into its own memory, and remembers its position in a packet of which not all
/// segments were accepted.
///
/// ```
/// use linecard::packet::{Gso, LinkType, Meta, Packet};
/// use linecard_tun::egress::Segmenter;
///
/// // UDP with 200 bytes of payload, to be segmented by 64 bytes.
/// let mut frame = vec![0x45, 0, 0, 228, 0, 1, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
/// frame.extend([0, 7, 0, 9, 0, 208, 1, 2]);
/// frame.extend([1; 200]);
/// let gso = Some(Gso { size: 64, segments: 4, ..Gso::default() });
/// let mut packet = Packet::new(frame, LinkType::Raw, Meta { gso, ..Meta::default() });
/// let all = Segmenter::default().send(&mut packet, |segments| {
///     assert_eq!((segments.len(), segments.size()), (4, 28 + 64));
///     assert_eq!(segments.iter().last().map(<[u8]>::len), Some(28 + 8));
///     segments.len()
/// });
/// assert_eq!(all, Ok(true));
/// ```
#[derive(Debug, Default)]
pub struct Segmenter {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    progress: Progress,
}

impl Segmenter {
    /// Segments a packet and passes its segments to `send`, at most 64 at a time, with complete
    /// checksums. `send` returns how many it has handled, fewer if the rest has to wait. Returns
    /// false then: the same packet has to be passed next, and continues where it stopped. (A packet
    /// is recognised by the address of its bytes: to drop it instead, start a new segmenter.)
    ///
    /// A packet without [`Gso`](linecard::packet::Gso) is one segment.
    ///
    /// # Errors
    ///
    /// Why it cannot be segmented.
    pub fn send<B: AsRef<[u8]>>(
        &mut self,
        packet: &mut Packet<B>,
        mut send: impl FnMut(Frames<'_>) -> usize,
    ) -> Result<bool, SegmentError> {
        let Self { bytes, ends, progress } = self;
        progress.cut(packet, |segments| {
            let room = AT_ONCE.min(segments.count()) * segments.max_len();
            bytes.resize(bytes.len().max(room), 0);
            ends.clear();
            let mut end = 0;
            while ends.len() < AT_ONCE
                && let Some(written) = segments.write_next(&mut bytes[end..])?
            {
                end += written.len;
                ends.push(end);
            }
            if ends.is_empty() {
                return Ok(Step::Ended);
            }
            let dealt = send(Frames { bytes, ends });
            Ok(if dealt < ends.len() { Step::Later(dealt) } else { Step::On(dealt) })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linecard::packet::{Gso, LinkType, Meta, Pool, PoolBuffer};

    const LITTLE: Option<Virtio> = Some((Format::V1, Endian::Little));

    /// A UDP datagram of 200 bytes of payload, to be segmented by `size`, if any.
    fn datagram(size: Option<u16>) -> Packet<PoolBuffer> {
        let mut frame = vec![0x45, 0, 0, 228, 0, 1, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        frame.extend([0, 7, 0, 9, 0, 208, 1, 2]);
        frame.extend(0..200);
        let mut buffer = Pool::new(1, 512).take().expect("one");
        buffer.as_mut()[..frame.len()].copy_from_slice(&frame);
        buffer.truncate(frame.len());
        let gso = size.map(|size| Gso { size, segments: 200_u16.div_ceil(size), ..Gso::default() });
        Packet::new(buffer, LinkType::Raw, Meta { gso, ..Meta::default() })
    }

    #[test]
    fn a_plain_packet_has_a_header_that_says_nothing() {
        let header = describe(&mut datagram(None), LITTLE).expect("plain");
        assert_eq!(header, HeaderBytes::plain(LITTLE));
        assert_eq!(header.as_slice(), [0; 12]);
        assert_eq!(describe(&mut datagram(None), None), Some(HeaderBytes::NONE));
    }

    #[test]
    fn a_large_packet_is_described_with_its_checksum_deferred() {
        let mut packet = datagram(Some(64));
        let header = describe(&mut packet, LITTLE).expect("UDP");
        assert_eq!(packet.meta.checksum, ChecksumState::Partial);
        assert_eq!(header.as_slice(), [1, 5, 28, 0, 64, 0, 20, 0, 6, 0, 0, 0]);
        assert_eq!(describe(&mut packet, LITTLE), Some(header));
        assert_eq!(describe(&mut packet, None), None);
    }

    #[test]
    fn an_open_checksum_is_completed_where_nobody_else_will() {
        let mut packet = datagram(None);
        defer_checksum(&mut packet);
        assert!(describe(&mut packet, None).is_some());
        assert_eq!(packet.meta.checksum, ChecksumState::Valid);
    }

    #[test]
    fn segments_not_taken_come_again_and_no_other() {
        let mut whole = Vec::new();
        let mut packet = datagram(Some(3));
        let all = Segmenter::default().send(&mut packet, |frames| {
            whole.extend(frames.iter().map(<[u8]>::to_vec));
            frames.ends.len()
        });
        assert_eq!((all, whole.len()), (Ok(true), 67));
        let (mut segmenter, mut parts) = (Segmenter::default(), Vec::new());
        for call in 1.. {
            let all = segmenter.send(&mut packet, |frames| {
                let before = parts.len();
                parts.extend(frames.iter().take(10).map(<[u8]>::to_vec));
                parts.len() - before
            });
            if all == Ok(true) {
                assert_eq!(call, 7);
                break;
            }
        }
        assert_eq!(parts, whole);
    }

    #[test]
    fn what_cannot_be_cut_says_so() {
        let mut buffer = Pool::new(1, 64).take().expect("one");
        buffer.as_mut().fill(0);
        let meta = Meta { checksum: ChecksumState::Partial, ..Meta::default() };
        let mut packet = Packet::new(buffer, LinkType::Raw, meta);
        assert_eq!(describe(&mut packet, LITTLE), None);
        assert!(Segmenter::default().send(&mut packet, |_| 0).is_err());
    }
}
