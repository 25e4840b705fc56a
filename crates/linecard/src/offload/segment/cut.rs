//! Divides a frame that a virtio header describes, with room around each segment.

use super::{SegmentError, Segments, segment_bytes};
use crate::offload::virtio::{FieldError, Header};
use crate::packet::{ChecksumState, Form, Layout, LinkType};
use core::error::Error;
use core::fmt;

/// Bytes left free around each segment, for the caller's own header and, for example, the tag of an
/// AEAD.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Room {
    /// Before each segment.
    pub front: usize,
    /// After each segment.
    pub back: usize,
}

/// Why a frame cannot be cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CutError {
    /// The header contradicts the frame.
    Header(FieldError),
    /// The frame cannot be segmented.
    Segment(SegmentError),
}

impl fmt::Display for CutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header(error) => error.fmt(f),
            Self::Segment(error) => error.fmt(f),
        }
    }
}

impl Error for CutError {}

impl From<FieldError> for CutError {
    fn from(error: FieldError) -> Self {
        Self::Header(error)
    }
}

impl From<SegmentError> for CutError {
    fn from(error: SegmentError) -> Self {
        Self::Segment(error)
    }
}

/// The segments of a frame, or the frame itself if it is not to be segmented; see [`cut`].
#[derive(Debug)]
pub struct FrameSegments<'f, P = &'f [u8]> {
    kind: Kind<'f, P>,
}

#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "a box would be an allocation for each frame")]
enum Kind<'f, P> {
    /// As it is; none once it has been written.
    Whole(Option<Whole<'f, P>>),
    Segments(Segments<'f, P>),
}

#[derive(Debug)]
struct Whole<'f, P> {
    head: &'f [u8],
    rest: &'f [P],
    /// The place and value of a checksum that is left to us.
    checksum: Option<(usize, [u8; 2])>,
}

/// Segments in a row, each with its room: all have one length, except that the last segment of a
/// frame may be shorter. So the whole run can be sent by one call with `UDP_SEGMENT`.
#[derive(Debug)]
pub struct Run<'o> {
    bytes: &'o mut [u8],
    size: usize,
}

impl Run<'_> {
    /// All of them, one behind the other, with their room.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.bytes
    }

    /// Bytes of each with its room, except that the last may be shorter.
    #[must_use]
    pub fn size(&self) -> usize {
        self.size
    }

    /// One after the other, with their room.
    pub fn segments(&mut self) -> impl ExactSizeIterator<Item = &mut [u8]> {
        self.bytes.chunks_mut(self.size)
    }
}

/// Divides `frame` as `header` asks for, in the order of the segments: by `gso_size`, with complete
/// headers and checksums. A frame that is not to be segmented is one segment; if its checksum is
/// left to the device, it is completed. The frame itself is only read.
///
/// ```
/// use linecard::offload::burst::{Room, cut};
/// use linecard::offload::virtio::{Header, flag, gso_type};
/// use linecard::packet::LinkType;
/// // As a TUN device gives it: 4 bytes of payload over UDP, by 3; the checksum is left to us.
/// let mut frame = vec![0x45, 0, 0, 32, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
/// frame.extend([0, 7, 0, 9, 0, 12, 1, 2, 1, 2, 3, 4]);
/// let (flags, gso_type) = (flag::NEEDS_CSUM, gso_type::UDP_L4);
/// let (gso_size, csum_start, csum_offset) = (3, 20, 6);
/// let header = Header { flags, gso_type, gso_size, csum_start, csum_offset, ..Header::default() };
///
/// let mut segments = cut(LinkType::Raw, &header, &frame)?;
/// let mut out = [0; 256];
/// // 8 bytes for a header of our own, and 16 for a tag.
/// while let Some(mut run) = segments.write(Room { front: 8, back: 16 }, &mut out)? {
///     let lens: Vec<usize> = run.segments().map(|segment| segment.len()).collect();
///     assert_eq!((run.size(), lens), (8 + 31 + 16, vec![8 + 31 + 16, 8 + 29 + 16]));
/// }
/// # Ok::<(), linecard::offload::burst::CutError>(())
/// ```
///
/// # Errors
///
/// - [`CutError::Header`]: a field of the header contradicts the frame. A header of all zeros never
///   does.
/// - [`CutError::Segment`]: the frame is to be segmented, and has bytes behind its datagram
///   ([`SegmentError::NotADatagram`]), headers of more than
///   [`MAX_HEADER_LEN`](crate::packet::MAX_HEADER_LEN) bytes, or segments that are too long for one
///   of their length fields.
///
pub fn cut<'f>(
    link: LinkType,
    header: &Header,
    frame: &'f [u8],
) -> Result<FrameSegments<'f>, CutError> {
    cut_pieces(link, header, frame, &[])
}

/// [`cut`] for a frame whose bytes continue in further pieces, as in the descriptors of a virtual
/// machine's queue. All headers have to be in `head`;
/// [`MAX_HEADER_LEN`](crate::packet::MAX_HEADER_LEN) bytes suffice for every frame that can be
/// segmented.
///
/// # Errors
///
/// As [`cut`], and [`CutError::Header`] also if `head` is too short:
///
/// - Of a frame that is to be segmented, a header extends beyond `head`: it counts as malformed
///   ([`FieldError::CsumStart`] or [`FieldError::GsoType`]).
/// - Of another frame, whose checksum is to be completed, the sum starts beyond `head`
///   ([`FieldError::CsumStart`]), or the checksum field does not lie in `head`
///   ([`FieldError::CsumOffset`]).
pub fn cut_pieces<'f, P: AsRef<[u8]>>(
    link: LinkType,
    header: &Header,
    head: &'f [u8],
    rest: &'f [P],
) -> Result<FrameSegments<'f, P>, CutError> {
    let behind: usize = rest.iter().map(|piece| piece.as_ref().len()).sum();
    let len = head.len() + behind;
    if *header == Header::default() {
        return Ok(FrameSegments { kind: Kind::Whole(Some(Whole { head, rest, checksum: None })) });
    }
    let layout = Layout::parse_head(link, head, len);
    let gso = match header.check(head, &layout) {
        Ok(offload) => offload.gso,
        // Of a header that we do not know, in an unknown tunnel.
        Err(FieldError::CsumStart(_)) if header.gso_type == 0 => None,
        Err(error) => return Err(error.into()),
    };
    let Some(gso) = gso else {
        let checksum = header.whole_checksum(head, rest.iter().map(AsRef::as_ref))?;
        return Ok(FrameSegments { kind: Kind::Whole(Some(Whole { head, rest, checksum })) });
    };
    if layout.end() != len {
        return Err(SegmentError::NotADatagram(Form::Padded).into());
    }
    let layout = layout.ending_at(head.len());
    // The sum of the pseudo header is replaced by a whole checksum in each segment.
    let segments = segment_bytes((head, rest), &layout, ChecksumState::Unknown, gso)?;
    Ok(FrameSegments { kind: Kind::Segments(segments) })
}

impl<P: AsRef<[u8]>> FrameSegments<'_, P> {
    /// How many segments there are in all: at least one. (An empty frame is one, of which nothing is
    /// written if the room around it is too small.)
    #[must_use]
    pub fn count(&self) -> usize {
        match &self.kind {
            Kind::Whole(_) => 1,
            Kind::Segments(segments) => segments.count(),
        }
    }

    /// Bytes of the longest segment, without room.
    #[must_use]
    pub fn max_len(&self) -> usize {
        match &self.kind {
            Kind::Whole(Some(whole)) => whole.len(),
            Kind::Whole(None) => 0,
            Kind::Segments(segments) => segments.max_len(),
        }
    }

    /// Writes as many of the remaining segments as fit to the front of `out`, each with `room`
    /// around it; none if none is left. The bytes of the room are not changed.
    ///
    /// # Errors
    ///
    /// Not even one fits. It is not lost, and can be written again.
    pub fn write<'o>(
        &mut self,
        room: Room,
        out: &'o mut [u8],
    ) -> Result<Option<Run<'o>>, SegmentError> {
        let around = room.front.saturating_add(room.back);
        let (mut end, mut size) = (0, 0);
        while let Some(area) = out.get_mut(room.front.saturating_add(end)..)
            && let Some(fit) = area.len().checked_sub(room.back)
        {
            match self.write_next(&mut area[..fit]) {
                Ok(None) => break,
                Ok(Some(len)) => {
                    end += around + len;
                    size = size.max(around + len);
                }
                Err(SegmentError::OutputTooSmall { .. }) if end > 0 => break,
                Err(SegmentError::OutputTooSmall { needed, .. }) => {
                    let needed = around.saturating_add(needed);
                    return Err(SegmentError::OutputTooSmall { room: out.len(), needed });
                }
                Err(error) => return Err(error),
            }
        }
        if end == 0 && !self.is_done() {
            let needed = around.saturating_add(self.max_len());
            return Err(SegmentError::OutputTooSmall { room: out.len(), needed });
        }
        Ok((end > 0).then(|| Run { bytes: &mut out[..end], size }))
    }

    fn is_done(&mut self) -> bool {
        match &mut self.kind {
            Kind::Whole(frame) => frame.is_none(),
            Kind::Segments(segments) => segments.peek().is_none(),
        }
    }

    fn write_next(&mut self, out: &mut [u8]) -> Result<Option<usize>, SegmentError> {
        match &mut self.kind {
            Kind::Segments(segments) => Ok(segments.write_next(out)?.map(|written| written.len)),
            Kind::Whole(frame) => {
                let Some(whole) = &*frame else { return Ok(None) };
                let written = whole.write(out)?;
                *frame = None;
                Ok(Some(written))
            }
        }
    }
}

impl<P: AsRef<[u8]>> Whole<'_, P> {
    fn len(&self) -> usize {
        self.head.len() + self.rest.iter().map(|piece| piece.as_ref().len()).sum::<usize>()
    }

    fn write(&self, out: &mut [u8]) -> Result<usize, SegmentError> {
        let needed = self.len();
        if out.len() < needed {
            return Err(SegmentError::OutputTooSmall { room: out.len(), needed });
        }
        let mut at = 0;
        for slice in core::iter::once(self.head).chain(self.rest.iter().map(AsRef::as_ref)) {
            out[at..at + slice.len()].copy_from_slice(slice);
            at += slice.len();
        }
        if let Some((at, checksum)) = self.checksum {
            out[at..at + 2].copy_from_slice(&checksum);
        }
        Ok(needed)
    }
}
