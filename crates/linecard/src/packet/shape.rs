//! Masks over headers: which bytes identify a flow, and which must be equal to merge. They are
//! computed once per arrangement of layers.
//!
//! This way rules multiply by layer instead of by combination: each kind of layer names its fields
//! here, and headers are compared, or hashed, under a mask, a word at a time.

use super::header::{PPPOE_LENGTH, tcp_flags};
use super::layout::{Layer, LayerKind, Layout, MAX_HEADER_LEN};
use alloc::boxed::Box;
use alloc::vec;
use core::ops::Range;

/// Arrangements cached. Traffic has a handful; with more, masks are recomputed.
const SHAPES: usize = 16;

/// Shortest header with a transport: IPv4 and UDP.
const MIN_HEADER: usize = 28;
/// Bytes of the ports.
const PORTS: usize = 4;
/// Bytes compared at once.
const CHUNK: usize = 32;
type Chunk = [u8; CHUNK];
const NOTHING: Chunk = [0; CHUNK];
/// Bytes of a [`Pattern`]: Ethernet with a tag, IPv6 and TCP with the usual options.
pub(crate) const PATTERN: usize = 96;
const _: () = assert!(MAX_HEADER_LEN.is_multiple_of(CHUNK));

/// Masks for one arrangement of layers.
#[derive(Debug, Clone)]
pub(crate) struct Shape {
    layout: Layout,
    transport: Layer,
    /// The two layers of packets that have exactly two.
    plain: Option<(Layer, Layer)>,
    /// Bytes that may be hashed: up to the ports.
    identity_len: usize,
    /// Bytes that are compared if present: the header, in whole chunks.
    compared: usize,
    /// Bits that are equal in all packets of a flow.
    identity: [u8; MAX_HEADER_LEN],
    /// Bits that are equal in packets that merge.
    merge: Mask,
}

/// Aligned, so that it can be a memory operand.
#[derive(Debug, Clone)]
#[repr(align(32))]
struct Mask([u8; MAX_HEADER_LEN]);

/// The header of packets that merge, if it lies within the first [`PATTERN`] bytes, for comparing
/// many packets.
pub(crate) struct Pattern<'a> {
    first: &'a [u8; PATTERN],
    mask: &'a Mask,
}

impl Pattern<'_> {
    /// The first bytes of a frame that begins with such a header; none for shorter frames.
    #[inline(always)]
    pub(crate) fn find<'b>(&self, bytes: &'b [u8]) -> Option<&'b [u8; PATTERN]> {
        let next = bytes.first_chunk::<PATTERN>()?;
        let mut differing = [0; 16];
        let (first, mask) = (self.first.as_chunks::<16>().0, self.mask.0.as_chunks::<16>().0);
        for ((a, b), mask) in first.iter().zip(next.as_chunks::<16>().0).zip(mask) {
            for (index, bits) in differing.iter_mut().enumerate() {
                *bits |= (a[index] ^ b[index]) & mask[index];
            }
        }
        (differing == [0; 16]).then_some(next)
    }
}

impl Shape {
    /// The masks for packets with this layout; none if their ports are not visible or their header
    /// exceeds [`MAX_HEADER_LEN`] bytes.
    fn of(layout: &Layout) -> Option<Self> {
        let (transport, len) = (layout.transport()?, layout.header_len());
        if !(MIN_HEADER..=MAX_HEADER_LEN).contains(&len) {
            return None;
        }
        let mut merge = [0; MAX_HEADER_LEN];
        merge[..len].fill(0xFF);
        layout.layers().for_each(|layer| clear_derived(&mut merge, layer));
        let mut identity = merge;
        layout.layers().for_each(|layer| clear_passing(&mut identity, layer));
        let plain = layout.network().filter(|_| layout.layer_count() == 2);
        let plain = plain.map(|network| (network, transport));
        Some(Self {
            layout: *layout,
            transport,
            plain,
            identity_len: transport.at() + PORTS,
            compared: len.next_multiple_of(CHUNK),
            identity,
            merge: Mask(merge),
        })
    }

    /// The bytes that identify the flow of a packet with this shape (its header up to the ports),
    /// and the mask over them.
    #[inline]
    pub(super) fn identity<'a>(&'a self, bytes: &'a [u8]) -> (&'a [u8], &'a [u8]) {
        (&bytes[..self.identity_len], &self.identity[..self.identity_len])
    }

    /// The innermost layer.
    #[inline(always)]
    pub(crate) fn transport(&self) -> Layer {
        self.transport
    }

    /// IP and transport layer, where there is no tunnel.
    #[inline(always)]
    pub(crate) fn plain(&self) -> Option<(Layer, Layer)> {
        self.plain
    }

    /// The pattern of packets that merge with `first`, which has this shape.
    #[inline(always)]
    pub(crate) fn pattern<'a>(&'a self, first: &'a [u8]) -> Option<Pattern<'a>> {
        let first = first.first_chunk().filter(|_| self.layout.header_len() <= PATTERN)?;
        Some(Pattern { first, mask: &self.merge })
    }

    /// Whether the header of `next`, which may be any bytes, equals that of `first`, which has this
    /// shape, except for fields that segmenting derives.
    #[inline(always)]
    pub(crate) fn mergeable(&self, first: &[u8], next: &[u8]) -> bool {
        let len = self.layout.header_len();
        if (CHUNK..=PATTERN).contains(&len) {
            // Most headers, of whatever length, since that may change from packet to packet: three chunks, which may
            // overlap.
            let (Some(first), Some(next)) = (first.get(..len), next.get(..len)) else {
                return false;
            };
            let middle = CHUNK.min(len - CHUNK);
            let chunk = |bytes: &[u8], at: usize| bytes[at..].first_chunk().copied();
            let chunks = |bytes: &[u8]| {
                Some([chunk(bytes, 0)?, chunk(bytes, middle)?, chunk(bytes, len - CHUNK)?])
            };
            let (Some(a), Some(b), Some(mask)) =
                (chunks(first), chunks(next), chunks(&self.merge.0[..len]))
            else {
                return false;
            };
            let chunks = core::array::from_fn(|index| (&a[index], &b[index], &mask[index]));
            return differing::<3>(chunks) == NOTHING;
        }
        match (first.get(..self.compared), next.get(..self.compared)) {
            (Some(first), Some(next)) => equal_in_chunks(first, next, &self.merge.0),
            _ => self.mergeable_short(first, next),
        }
    }

    /// For frames that end before the last chunk of their header would.
    #[inline(never)]
    fn mergeable_short(&self, first: &[u8], next: &[u8]) -> bool {
        let len = self.layout.header_len();
        let (Some(first), Some(next)) = (first.get(..len), next.get(..len)) else { return false };
        let mask = &self.merge.0[..len];
        let word = |bytes: &[u8; 8]| u64::from_ne_bytes(*bytes);
        let differing = |a: &[u8; 8], b: &[u8; 8], mask: &[u8; 8]| (word(a) ^ word(b)) & word(mask);
        let words = first.as_chunks().0.iter().zip(next.as_chunks().0).zip(mask.as_chunks().0);
        let all = words.fold(0, |all, ((a, b), mask)| all | differing(a, b, mask));
        // The last word overlaps the one before it.
        let last = first.last_chunk().zip(next.last_chunk()).zip(mask.last_chunk());
        all | last.map_or(0, |((a, b), mask)| differing(a, b, mask)) == 0
    }
}

/// Whether whole chunks are equal under a mask.
#[inline(always)]
fn equal_in_chunks(first: &[u8], next: &[u8], mask: &[u8; MAX_HEADER_LEN]) -> bool {
    let (first, next, mask) = (first.as_chunks().0, next.as_chunks().0, mask.as_chunks().0);
    match (first, next, mask) {
        // IPv6 and TCP, and TCP with options over IPv4.
        ([a, b, c], [x, y, z], [m, n, o, ..]) => {
            differing([(a, x, m), (b, y, n), (c, z, o)]) == NOTHING
        }
        _ => {
            let mut chunks = first.iter().zip(next).zip(mask);
            chunks.all(|((a, b), mask)| differing([(a, b, mask)]) == NOTHING)
        }
    }
}

/// The bits in which any chunk differs under its mask, without a branch per chunk.
#[inline(always)]
fn differing<const N: usize>(chunks: [(&Chunk, &Chunk, &Chunk); N]) -> Chunk {
    let mut differing = NOTHING;
    for (a, b, mask) in chunks {
        for (index, bits) in differing.iter_mut().enumerate() {
            *bits |= (a[index] ^ b[index]) & mask[index];
        }
    }
    differing
}

/// Fields that merging derives and segmenting restores.
fn clear_derived(mask: &mut [u8], layer: Layer) {
    let mut clear = |range: Range<usize>| mask[layer.at()..][range].fill(0);
    match layer.kind {
        LayerKind::Ipv4 => {
            // Total length and identification; checksum.
            clear(2..6);
            clear(10..12);
        }
        LayerKind::Ipv6 => clear(4..6),
        LayerKind::Tcp => {
            clear(4..8);
            clear(16..18);
            mask[layer.at() + 13] &= !((tcp_flags::PSH | tcp_flags::FIN) as u8);
        }
        // Length and checksum.
        LayerKind::Udp => clear(4..8),
        LayerKind::Gre => clear(4..6),
        LayerKind::Pppoe => clear(PPPOE_LENGTH..PPPOE_LENGTH + 2),
    }
}

/// Fields that may change from packet to packet of a flow, but must be equal to merge.
fn clear_passing(mask: &mut [u8], layer: Layer) {
    let at = layer.at();
    match layer.kind {
        LayerKind::Ipv4 => {
            // TOS; flags and fragment offset, TTL.
            mask[at + 1] = 0;
            mask[at + 6..at + 9].fill(0);
        }
        LayerKind::Ipv6 => {
            // The traffic class spans two bytes; hop limit.
            mask[at] &= 0xF0;
            mask[at + 1] &= 0x0F;
            mask[at + 7] = 0;
        }
        // TCP is cut off after the ports.
        LayerKind::Tcp | LayerKind::Udp | LayerKind::Gre | LayerKind::Pppoe => {}
    }
}

/// The most recent shapes.
#[derive(Debug, Clone)]
pub(crate) struct Shapes {
    shapes: Box<[Option<Shape>]>,
}

impl Shapes {
    pub(super) fn new() -> Self {
        Self { shapes: vec![None; SHAPES].into_boxed_slice() }
    }

    /// The shape of a packet with this layout; none as for [`Shape::of`].
    #[inline(always)]
    pub(crate) fn of(&mut self, layout: &Layout) -> Option<&Shape> {
        let place = &mut self.shapes[layout.arrangement() as usize % SHAPES];
        if !place.as_ref().is_some_and(|shape| shape.layout.same_headers(layout)) {
            Self::make(place, layout)?;
        }
        place.as_ref()
    }

    #[inline(never)]
    fn make(place: &mut Option<Shape>, layout: &Layout) -> Option<()> {
        *place = Some(Shape::of(layout)?);
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::LinkType;
    use alloc::vec::Vec;

    fn tcp() -> Vec<u8> {
        let mut bytes =
            [0x45, 0, 0, 41, 0, 1, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2].to_vec();
        bytes.extend([4, 0, 8, 0, 0, 0, 0, 1, 0, 0, 0, 9, 0x50, 0x10, 1, 0, 0, 0, 0, 0, 7]);
        bytes
    }

    /// Bit by bit: what may change without another flow, and without keeping packets apart.
    #[test]
    fn masks_name_the_fields_of_tcp_over_ipv4() {
        let first = tcp();
        let layout = Layout::parse(LinkType::Raw, &first);
        let shape = Shape::of(&layout).expect("TCP has a shape");
        for bit in 0..40 * 8 {
            let mut next = tcp();
            next[bit / 8] ^= 1 << (bit % 8);
            let derived = matches!(bit / 8, 2..6 | 10..12 | 24..28 | 36..38)
                || bit / 8 == 33 && matches!(bit % 8, 0 | 3);
            assert_eq!(shape.mergeable(&first, &next), derived, "bit {bit}");
            let (header, mask) = shape.identity(&next);
            let equal = header.iter().zip(&first).zip(mask).all(|((a, b), m)| (a ^ b) & m == 0);
            let passing = matches!(bit / 8, 1 | 6..9) || bit / 8 >= 24;
            assert_eq!(equal, derived || passing, "bit {bit}");
        }
    }

    #[test]
    fn forgets_shapes_without_confusing_them() {
        let mut shapes = Shapes::new();
        for len in (40..=60).chain((40..=60).rev()) {
            let mut bytes = tcp();
            bytes.resize(61, 0);
            bytes[3] = 61;
            bytes[32] = (((len - 20) / 4) << 4) as u8;
            let layout = Layout::parse(LinkType::Raw, &bytes);
            let shape = shapes.of(&layout).expect("TCP has a shape");
            assert!(shape.layout.same_headers(&layout));
        }
    }
}
