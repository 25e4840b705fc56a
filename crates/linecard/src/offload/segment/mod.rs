//! LSO: divides a large packet into segments (TCP, UDP) or IP fragments.
//!
//! [`segment`] and [`fragment`] return an iterator of [`Segments`]: a header built in a small
//! header area, and payload fetched in place, as slices ([`Segments::next_segment`]) or copied and
//! summed in one pass ([`Segments::write_next`]). Whether a packet can be segmented is decided
//! before the first segment is produced. Sources: Elbeshti et al.; RFC 791 for fragments, RFC
//! 8200 for those of IPv6.

mod counters;
mod cursor;
pub(super) mod cut;
mod fragment;
mod reason;
mod template;

pub use counters::Counters;
pub use cursor::Slices;
pub use reason::{Refusal, Refusals};

use super::coalesce::MIN_FRAME;
use super::exceeded_length;
use crate::packet::checksum::Sum;
use crate::packet::{ChecksumState, Form, Gso, LayerKind, Layout, MAX_HEADER_LEN, Packet, Piece};
use core::error::Error;
use core::fmt;
use cursor::Cursor;
use fragment::Fragmenting;
use template::{Field, Portion, Template};

/// Room for the header of a segment: an IPv6 fragment header may be added.
const HEADER_AREA: usize = MAX_HEADER_LEN + 8;

/// The position of a segment in its message (Elbeshti et al., section 3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Single segment message: the packet fits as it is.
    Ssm,
    /// Beginning of message.
    Bom,
    /// Continuation of message.
    Com,
    /// End of message.
    Eom,
}

/// Why a packet cannot be segmented. No segment has been produced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SegmentError {
    /// The size of segments is zero.
    ZeroSize,
    /// The packet's headers do not end in a whole TCP or UDP datagram.
    NotADatagram(Form),
    /// The packet's headers do not end in a whole IP datagram.
    NotIp(Form),
    /// The header does not fit into the header area.
    HeaderTooLong {
        /// Bytes before the payload.
        len: usize,
    },
    /// The MTU has no room for headers and 8 bytes of data.
    MtuTooSmall {
        /// The MTU asked for.
        mtu: usize,
        /// Bytes of IP headers in each fragment.
        headers: usize,
    },
    /// "Don't fragment" is set.
    DontFragment {
        /// Bytes of the datagram.
        len: usize,
        /// The MTU asked for.
        mtu: usize,
    },
    /// A fragment that extends beyond the end of any datagram.
    OffsetTooLarge {
        /// Its end.
        end: usize,
    },
    /// A length field of a segment or fragment would exceed its 16 bits. IPv6 jumbograms (RFC 2675)
    /// are not supported.
    LengthField {
        /// The field, as the RFC of its header calls it.
        field: &'static str,
        /// The value that it would have to hold.
        len: usize,
    },
    /// The transport checksum is partial, which fragments cannot express.
    UnfinishedChecksum,
    /// The output buffer is too small for a segment.
    OutputTooSmall {
        /// Bytes given.
        room: usize,
        /// Bytes needed.
        needed: usize,
    },
}

impl fmt::Display for SegmentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ZeroSize => {
                f.write_str("segment size is 0: it must be at least 1 byte of payload")
            }
            Self::NotADatagram(form) => write!(f, "not a whole TCP or UDP datagram: {form:?}"),
            Self::NotIp(form) => write!(f, "not a whole IP datagram: {form:?}"),
            Self::HeaderTooLong { len } => {
                write!(f, "header of {len} bytes is longer than {MAX_HEADER_LEN}")
            }
            Self::MtuTooSmall { mtu, headers } => write!(
                f,
                "MTU {mtu} leaves no room: headers take {headers} bytes and a fragment \
                 carries at least 8"
            ),
            Self::DontFragment { len, mtu } => {
                write!(f, "datagram of {len} bytes exceeds MTU {mtu} and says \"don't fragment\"")
            }
            Self::OffsetTooLarge { end } => write!(
                f,
                "the fragment ends at byte {end} of its datagram, which has at most 65535"
            ),
            Self::LengthField { field, len } => write!(
                f,
                "{field} {len} exceeds 65535, the limit of its 16-bit field: choose \
                 smaller segments"
            ),
            Self::UnfinishedChecksum => f.write_str(
                "the transport checksum is not complete: complete it before fragmenting",
            ),
            Self::OutputTooSmall { room, needed } => {
                write!(f, "output of {room} bytes is too small for a segment of {needed}")
            }
        }
    }
}

impl Error for SegmentError {}

/// One segment: header and slices of payload.
#[derive(Debug)]
pub struct Segment<'s, 'p, P> {
    /// Link, network and transport header, complete.
    pub header: &'s [u8],
    /// The payload in place.
    pub payload: Slices<'p, P>,
    /// Zeros to append to the payload.
    pub padding: usize,
    /// Its position in its message.
    pub class: Class,
}

/// A segment written to contiguous memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Written {
    /// Bytes of the frame.
    pub len: usize,
    /// Its position in its message.
    pub class: Class,
}

/// Divides a TCP or UDP packet into segments of `gso.size` payload bytes, the last one shorter
/// (TSO, USO). A packet with no more payload than that gives a single segment (SSM). `gso.segments`
/// is ignored; `gso.padded` pads short frames to 60 bytes.
///
/// Sequence numbers, IPv4 identifications, lengths and checksums are set in each segment; FIN and
/// PSH only in the last, and CWR only in the first unless it belongs to Accurate ECN.
///
/// ```
/// use linecard::offload::segment::segment;
/// use linecard::packet::{Gso, LinkType, Meta, Packet};
/// let mut bytes = vec![0x45, 0, 0, 36, 0, 1, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
/// bytes.extend([0, 7, 0, 9, 0, 16, 0, 0]);
/// bytes.extend(b"linecard");
/// let packet = Packet::new(bytes, LinkType::Raw, Meta::default());
/// let mut segments = segment(&packet, Gso { size: 5, ..Gso::default() })?;
/// let mut sizes = Vec::new();
/// while let Some(segment) = segments.next_segment() {
///     sizes.push(segment.payload.map(<[u8]>::len).sum::<usize>());
/// }
/// assert_eq!(sizes, [5, 3]);
/// # Ok::<(), linecard::offload::segment::SegmentError>(())
/// ```
///
/// # Errors
///
/// If the packet is not a complete TCP or UDP datagram, its header is too long, the size is 0, or a
/// segment would exceed one of its length fields ([`SegmentError::LengthField`]).
#[inline]
pub fn segment<B: AsRef<[u8]>>(
    packet: &Packet<B>,
    gso: Gso,
) -> Result<Segments<'_, Piece<B>>, SegmentError> {
    let bytes = (packet.bytes(), packet.chain());
    segment_bytes(bytes, packet.layout(), packet.meta.checksum, gso)
}

/// [`segment`] for bytes with this layout that continue in pieces.
#[inline(always)]
fn segment_bytes<'p, P: AsRef<[u8]>>(
    (bytes, rest): (&'p [u8], &'p [P]),
    layout: &Layout,
    checksum: ChecksumState,
    gso: Gso,
) -> Result<Segments<'p, P>, SegmentError> {
    let size = usize::from(gso.size);
    if size == 0 {
        return Err(SegmentError::ZeroSize);
    }
    let header_len = layout.header_len();
    if header_len > MAX_HEADER_LEN {
        return Err(SegmentError::HeaderTooLong { len: header_len });
    }
    let behind = rest.iter().map(|piece| piece.as_ref().len()).sum::<usize>();
    let payload_len = layout.payload().len() + behind;
    check_lengths(layout, header_len + size.min(payload_len))?;
    let mut area = [0; HEADER_AREA];
    area[..header_len].copy_from_slice(&bytes[..header_len]);
    let field = checksum_field(bytes, layout, checksum);
    let field = field.ok_or(SegmentError::NotADatagram(layout.form()))?;
    let known = (gso.fixed_ids, gso.accecn);
    let template = Template::take(&mut area, layout, field, known);
    let cursor = Cursor::new(&bytes[layout.payload()], rest);
    let mut segments =
        Segments::new(Plan::Transport(template), (area, cursor), (size, payload_len));
    segments.min_len = if gso.padded { MIN_FRAME } else { 0 };
    Ok(segments)
}

/// Divides an IP datagram into fragments of at most `mtu` bytes from the IP header on
/// (Elbeshti et al., section 3.1; RFC 791; RFC 8200, section 4.5). `identification` is used
/// only for IPv6, whose unfragmented packets carry none. A datagram that fits is returned
/// unchanged, without the bytes after it in its frame.
///
/// # Errors
///
/// If the packet is not a complete IP datagram, has "don't fragment" set, exceeds its length field,
/// or if the MTU is too small.
pub fn fragment<B: AsRef<[u8]>>(
    packet: &Packet<B>,
    mtu: usize,
    identification: u32,
) -> Result<Segments<'_, Piece<B>>, SegmentError> {
    let mut area = [0; HEADER_AREA];
    let plan = Fragmenting::new(packet, mtu, identification, &mut area)?;
    let current = &packet.bytes()[plan.split()..packet.layout().end()];
    let cursor = Cursor::new(current, packet.chain());
    let (size, total) = (plan.size(), packet.datagram_len() - plan.split());
    Ok(Segments::new(Plan::Fragment(plan), (area, cursor), (size, total)))
}

/// Checks that every length field of a frame can hold its value; `end` is the end of the outermost
/// datagram, counted from the start of the frame.
#[inline]
fn check_lengths(layout: &Layout, end: usize) -> Result<(), SegmentError> {
    let too_long = exceeded_length(layout, end);
    too_long.map_or(Ok(()), |(field, len)| Err(SegmentError::LengthField { field, len }))
}

/// The contents of the innermost checksum field of a complete datagram. Segments get the same:
/// none, a partial checksum for hardware, or a full one.
fn checksum_field(bytes: &[u8], layout: &Layout, checksum: ChecksumState) -> Option<Field> {
    let field = layout.checksum_offset().filter(|_| layout.form() == Form::Datagram)?;
    let tcp = layout.transport().is_some_and(|layer| layer.kind == LayerKind::Tcp);
    Some(match checksum {
        _ if !tcp && bytes[field..field + 2] == [0, 0] => Field::None,
        ChecksumState::Partial => Field::Partial,
        _ => Field::Full,
    })
}

/// The segments of one packet; see [`segment`] and [`fragment`].
#[derive(Debug)]
pub struct Segments<'p, P> {
    cursor: Cursor<'p, P>,
    area: [u8; HEADER_AREA],
    plan: Plan,
    /// Payload bytes of every segment but the last.
    size: usize,
    /// Payload bytes of all segments.
    total: usize,
    /// Whether headers need the sum of their payload.
    summed: bool,
    /// Bytes that a frame is padded to.
    min_len: usize,
    run: Run,
    done: usize,
    /// Segments produced.
    index: usize,
}

/// Segments of one class, and so of equal length: their headers differ in only a few fields.
#[derive(Debug)]
struct Run {
    class: Class,
    /// Payload bytes of each.
    len: usize,
    /// The number still to be produced.
    left: usize,
}

#[derive(Debug)]
enum Plan {
    Transport(Template),
    Fragment(Fragmenting),
}

/// The part of the payload that a segment carries.
#[derive(Debug, Clone, Copy)]
struct Part {
    start: usize,
    len: usize,
    index: usize,
    class: Class,
}

impl Part {
    #[inline(always)]
    fn portion(self) -> Portion {
        let (is_first, is_last) = (self.is_first(), self.is_last());
        Portion { start: self.start, len: self.len, index: self.index, is_first, is_last }
    }

    fn is_first(self) -> bool {
        matches!(self.class, Class::Ssm | Class::Bom)
    }

    fn is_last(self) -> bool {
        matches!(self.class, Class::Ssm | Class::Eom)
    }
}

impl<'p, P: AsRef<[u8]>> Segments<'p, P> {
    #[inline(always)]
    fn new(
        plan: Plan,
        (area, cursor): ([u8; HEADER_AREA], Cursor<'p, P>),
        (size, total): (usize, usize),
    ) -> Self {
        let summed = matches!(&plan, Plan::Transport(template) if template.needs_sum());
        let run = Run { class: Class::Ssm, len: 0, left: 0 };
        Self { cursor, area, plan, size, total, summed, min_len: 0, run, done: 0, index: 0 }
    }

    /// The total number of segments: at least one.
    #[must_use]
    pub fn count(&self) -> usize {
        self.total.div_ceil(self.size).max(1)
    }

    /// Bytes of the longest segment.
    #[must_use]
    pub fn max_len(&self) -> usize {
        (self.header_len() + self.size.min(self.total)).max(MIN_FRAME)
    }

    /// The next segment, with its payload in place. Payload is read only if the checksum has to be
    /// computed.
    #[inline]
    pub fn next_segment(&mut self) -> Option<Segment<'_, 'p, P>> {
        let part = self.part()?;
        let payload = self.cursor.take(part.len);
        let sum = if self.summed { payload.clone().sum_bytes() } else { Sum::ZERO };
        let len = self.build(part, sum);
        let padding = self.padding(len + part.len);
        Some(Segment { header: &self.area[..len], payload, padding, class: part.class })
    }

    /// Writes the next segment to the front of `out`; payload is copied and summed in one pass.
    ///
    /// # Errors
    ///
    /// If `out` is too small; the segment is not lost, and can be written again.
    #[inline]
    pub fn write_next(&mut self, out: &mut [u8]) -> Result<Option<Written>, SegmentError> {
        let Some(part) = self.peek() else { return Ok(None) };
        let header_len = self.header_len_of(part);
        let end = header_len + part.len;
        let needed = end + self.padding(end);
        if out.len() < needed {
            return Err(SegmentError::OutputTooSmall { room: out.len(), needed });
        }
        self.commit(part);
        let sum = self.cursor.take(part.len).copy_to(&mut out[header_len..end]);
        self.write_header(part, sum, &mut out[..header_len]);
        if needed > end {
            out[end..needed].fill(0);
        }
        Ok(Some(Written { len: needed, class: part.class }))
    }

    #[inline(always)]
    fn peek(&mut self) -> Option<Part> {
        if self.run.left == 0 && !self.begin_run() {
            return None;
        }
        let Run { class, len, .. } = self.run;
        Some(Part { start: self.done, len, index: self.index, class })
    }

    /// Starts the next run, if any payload is left or there was none at all.
    #[cold]
    #[inline(never)]
    fn begin_run(&mut self) -> bool {
        let (left, size) = (self.total - self.done, self.size);
        self.run = match (self.index == 0, left <= size) {
            (true, true) => Run { class: Class::Ssm, len: left, left: 1 },
            (true, false) => Run { class: Class::Bom, len: size, left: 1 },
            (false, true) if left == 0 => return false,
            (false, true) => Run { class: Class::Eom, len: left, left: 1 },
            (false, false) => Run { class: Class::Com, len: size, left: (left - 1) / size },
        };
        if let Plan::Transport(template) = &mut self.plan {
            let Run { class, len, .. } = self.run;
            let first = Part { start: self.done, len, index: self.index, class };
            template.fix(&mut self.area, first.portion());
        }
        true
    }

    #[inline(always)]
    fn commit(&mut self, part: Part) {
        self.done += part.len;
        self.index += 1;
        self.run.left -= 1;
    }

    #[inline(always)]
    fn part(&mut self) -> Option<Part> {
        let part = self.peek()?;
        self.commit(part);
        Some(part)
    }

    /// Completes the header in the header area; returns its length.
    #[inline(always)]
    fn build(&mut self, part: Part, payload: Sum) -> usize {
        match &self.plan {
            Plan::Transport(template) => {
                template.complete(&mut self.area, part.portion(), payload);
                template.header_len()
            }
            Plan::Fragment(plan) => plan.build(&mut self.area, part),
        }
    }

    /// Writes the header of a segment to `out`, which has the same length.
    #[inline(always)]
    fn write_header(&mut self, part: Part, payload: Sum, out: &mut [u8]) {
        match &self.plan {
            Plan::Transport(template) => {
                // Completed in place: a copy right after the last change would stall until all
                // partial writes have completed.
                out.copy_from_slice(&self.area[..out.len()]);
                template.complete(out, part.portion(), payload);
            }
            Plan::Fragment(plan) => {
                plan.build(&mut self.area, part);
                out.copy_from_slice(&self.area[..out.len()]);
            }
        }
    }

    #[inline(always)]
    fn header_len(&self) -> usize {
        match &self.plan {
            Plan::Transport(template) => template.header_len(),
            Plan::Fragment(plan) => plan.max_header_len(),
        }
    }

    #[inline(always)]
    fn header_len_of(&self, part: Part) -> usize {
        match &self.plan {
            Plan::Transport(template) => template.header_len(),
            Plan::Fragment(plan) => plan.header_len(part),
        }
    }

    #[inline(always)]
    fn padding(&self, len: usize) -> usize {
        self.min_len.saturating_sub(len)
    }
}
