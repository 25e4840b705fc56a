//! Packets: bytes in a buffer that the caller owns, parsed into offsets at most once.
//!
//! [`Layout::parse`] accepts any bytes; the [`Form`] of its result tells how far parsing came. By
//! construction, all offsets lie inside the packet.

mod batch;
pub mod checksum;
mod five_tuple;
mod flow;
pub mod header;
mod layout;
mod link;
mod meta;
mod parse;
mod pool;
mod prefetch;
mod pseudo;
mod rss;
mod shape;

pub use batch::{BATCH, Batch};
pub use five_tuple::FiveTuple;
pub use flow::FlowHasher;
pub(crate) use flow::Glance;
pub(crate) use flow::same_ends;
pub use layout::{
    Form, Layer, LayerKind, Layout, MAX_EXTENSIONS, MAX_HEADER_LEN, MAX_LABELS, MAX_LAYERS,
    MAX_TUNNELS,
};
pub use link::{LinkType, MAX_TAGS};
pub use meta::{ChecksumState, Gso, Meta};
pub(crate) use parse::is_tunnel;
pub use pool::{Pool, PoolBuffer};
use prefetch::prefetch_behind;
pub use prefetch::{Cache, prefetch, prefetch_line, prefetch_to_write};
pub(crate) use prefetch::{is_apart, is_scattered, prefetch_at, prefetch_header, prefetch_value};
pub use pseudo::pseudo_sum;
pub use rss::{RSS_KEY_LEN, Toeplitz};
pub(crate) use shape::{PATTERN, Shape};

use crate::time::Instant;
use alloc::vec::Vec;
use core::cell::OnceCell;
use core::ops::Range;

/// A packet: bytes in a buffer `B` that the caller owns, offsets and metadata.
///
/// Offsets are parsed at their first use; a packet that simply continues its flow is merged without
/// parsing. So a packet can be sent to another thread, but not shared between threads.
///
/// A packet merged from several is its first packet, header patched in place, plus the payload of
/// the others as a list of [`Piece`]s: no payload byte is moved.
///
/// ```
/// use linecard::packet::{Form, LinkType, Meta, Packet};
/// let frame = [0x45, 0, 0, 20, 0, 0, 0, 0, 64, 1, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
/// let packet = Packet::new(frame, LinkType::Raw, Meta::default());
/// assert_eq!(packet.layout().form(), Form::OtherTransport);
/// ```
#[derive(Debug, Clone)]
#[repr(C)]
pub struct Packet<B> {
    buffer: B,
    chain: Vec<Piece<B>>,
    layout: OnceCell<Layout>,
    /// Time, path, checksum state and segment size.
    pub meta: Meta,
    /// Start of the packet in its buffer: not 0 if a header was removed.
    start: u32,
    link: LinkType,
}

/// The payload of a further packet in a merged one: a range of the buffer it arrived in.
#[derive(Debug, Clone)]
pub struct Piece<B> {
    buffer: B,
    start: u32,
    end: u32,
    timestamp: Instant,
}

impl<B: AsRef<[u8]>> Packet<B> {
    /// The bytes of `buffer` as a frame of `link`.
    #[inline]
    pub fn new(buffer: B, link: LinkType, meta: Meta) -> Self {
        Self { buffer, start: 0, link, layout: OnceCell::new(), meta, chain: Vec::new() }
    }

    /// A packet whose bytes have been parsed already. A layout of other bytes gives wrong results,
    /// or a panic if it exceeds the buffer.
    pub fn with_layout(buffer: B, link: LinkType, layout: Layout, meta: Meta) -> Self {
        Self { layout: OnceCell::from(layout), ..Self::new(buffer, link, meta) }
    }

    /// A packet whose payload continues in pieces after `head`, which holds all headers and
    /// possibly some payload. Lengths in the headers are those of the whole.
    ///
    /// ```
    /// use linecard::packet::{LinkType, Meta, Packet, Piece};
    /// use linecard::time::Instant;
    /// let mut head = vec![0x45, 0, 0, 36, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    /// head.extend([0, 7, 0, 9, 0, 16, 0, 0]);
    /// let piece = |text: &'static [u8]| Piece::new(text, 0..4, Instant::ZERO).expect("inside");
    /// let packet = Packet::gather(
    ///     &head[..],
    ///     vec![piece(b"line"), piece(b"card")],
    ///     LinkType::Raw,
    ///     Meta::default(),
    /// );
    /// assert_eq!(packet.expect("a datagram").payload_len(), 8);
    /// ```
    ///
    /// # Errors
    ///
    /// The form of the packet, if it is not a [`Form::Datagram`] that ends where the last piece
    /// does ([`Form::Padded`] if it ends before).
    pub fn gather(
        head: B,
        pieces: Vec<Piece<B>>,
        link: LinkType,
        meta: Meta,
    ) -> Result<Self, Form> {
        let head_len = head.as_ref().len();
        let len = head_len + pieces.iter().map(Piece::len).sum::<usize>();
        let layout = Layout::parse_head(link, head.as_ref(), len);
        match layout.form() {
            Form::Datagram if layout.end() == len => {}
            Form::Datagram => return Err(Form::Padded),
            other => return Err(other),
        }
        let head = Self::with_layout(head, link, layout.ending_at(head_len), meta);
        Ok(Self { chain: pieces, ..head })
    }

    /// The parsed offsets.
    #[inline(always)]
    pub fn layout(&self) -> &Layout {
        self.layout.get_or_init(|| Layout::parse(self.link, self.bytes()))
    }

    /// The link header that the frame starts with.
    pub fn link(&self) -> LinkType {
        self.link
    }

    /// The buffer of the packet; of the first packet if merged. [`Packet::bytes`] is the part that
    /// belongs to the packet: all of it, unless a header was removed.
    pub fn buffer(&self) -> &B {
        &self.buffer
    }

    /// All bytes in the first buffer: the whole frame, unless merged.
    #[inline(always)]
    pub fn bytes(&self) -> &[u8] {
        &self.buffer.as_ref()[self.start as usize..]
    }

    /// The bytes before the payload.
    pub fn header(&self) -> &[u8] {
        &self.bytes()[..self.layout().header_len()]
    }

    /// The payload as slices in order: one, or one per merged packet.
    pub fn payload(&self) -> impl Iterator<Item = &[u8]> + Clone {
        let first = &self.bytes()[self.layout().payload()];
        core::iter::once(first).chain(self.chain.iter().map(Piece::bytes))
    }

    /// Total bytes of payload.
    pub fn payload_len(&self) -> usize {
        self.layout().payload().len() + self.chain.iter().map(Piece::len).sum::<usize>()
    }

    /// Bytes of the frame up to the end of the IP datagram.
    pub fn datagram_len(&self) -> usize {
        self.layout().header_len() + self.payload_len()
    }

    /// The payload of the packets merged into this one.
    pub fn chain(&self) -> &[Piece<B>] {
        &self.chain
    }

    /// Whether several packets have been merged into this one.
    pub fn is_merged(&self) -> bool {
        !self.chain.is_empty()
    }

    /// Returns the buffers: the first packet's and those of its pieces.
    pub fn into_parts(self) -> (B, Vec<Piece<B>>) {
        (self.buffer, self.chain)
    }

    /// Becomes the payload of a packet merged into another.
    #[inline]
    pub(crate) fn into_piece(self) -> Piece<B> {
        let payload = self.layout().payload();
        self.into_piece_of(payload)
    }

    /// Becomes a piece of another packet: the given range of its bytes.
    pub(crate) fn into_piece_of(self, bytes: Range<usize>) -> Piece<B> {
        // Layouts hold offsets of 32 bits at most.
        let (start, end) = (self.start + bytes.start as u32, self.start + bytes.end as u32);
        Piece { buffer: self.buffer, start, end, timestamp: self.meta.timestamp }
    }

    /// Sets the layout after the bytes were changed.
    pub(crate) fn set_layout(&mut self, layout: Layout) {
        self.layout = OnceCell::from(layout);
    }

    /// Prefetches what merging another packet into this one touches.
    #[inline]
    pub(crate) fn prefetch_to_grow(&self) {
        prefetch_header(self.bytes());
        prefetch_behind(&self.chain);
    }

    /// The pieces, to append further ones.
    #[inline]
    pub(crate) fn chain_mut(&mut self) -> &mut Vec<Piece<B>> {
        &mut self.chain
    }

    /// Removes the pieces, to be returned by [`Packet::set_chain`].
    #[inline]
    pub(crate) fn take_chain(&mut self) -> Vec<Piece<B>> {
        core::mem::take(&mut self.chain)
    }

    /// Makes this the first packet of a merged one.
    #[inline]
    pub(crate) fn set_chain(&mut self, chain: Vec<Piece<B>>) {
        self.chain = chain;
    }

    /// Appends the payload of another packet.
    #[inline]
    pub(crate) fn append(&mut self, piece: Piece<B>) {
        self.chain.push(piece);
    }
}

impl<B: AsRef<[u8]> + AsMut<[u8]>> Packet<B> {
    /// The bytes of the first buffer, to be patched. The parsed offsets stay unchanged.
    #[inline]
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        self.layout();
        &mut self.buffer.as_mut()[self.start as usize..]
    }

    /// Removes a header: the bytes before it move up to those after it, so no payload moves, and
    /// the packet starts later in its buffer. The layout has to be set afterwards.
    pub(crate) fn cut_out(&mut self, header: Range<usize>) {
        let len = header.len();
        self.bytes_mut().copy_within(..header.start, len);
        // A header's length is far below 2³².
        self.start += len as u32;
    }
}

impl<B: AsRef<[u8]>> Piece<B> {
    /// The given bytes of `buffer`; none if they do not lie inside, or lie beyond 4 GiB.
    pub fn new(buffer: B, bytes: Range<usize>, timestamp: Instant) -> Option<Self> {
        buffer.as_ref().get(bytes.clone())?;
        let (start, end) = (u32::try_from(bytes.start).ok()?, u32::try_from(bytes.end).ok()?);
        Some(Self { buffer, start, end, timestamp })
    }

    /// The payload bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.buffer.as_ref()[self.start as usize..self.end as usize]
    }
}

impl<B: AsRef<[u8]>> AsRef<[u8]> for Piece<B> {
    #[inline(always)]
    fn as_ref(&self) -> &[u8] {
        self.bytes()
    }
}

impl<B> Piece<B> {
    /// The given bytes of `buffer`, which have to lie inside.
    #[inline(always)]
    pub(crate) fn of(buffer: B, bytes: Range<usize>, timestamp: Instant) -> Self {
        // Frames are far below 4 GiB.
        Self { buffer, start: bytes.start as u32, end: bytes.end as u32, timestamp }
    }

    /// Bytes of payload.
    pub fn len(&self) -> usize {
        (self.end - self.start) as usize
    }

    /// Whether there is no payload; the coalescer never makes such a piece.
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// When the packet arrived.
    pub fn timestamp(&self) -> Instant {
        self.timestamp
    }

    /// The buffer the packet arrived in.
    pub fn buffer(&self) -> &B {
        &self.buffer
    }

    /// Returns the buffer.
    pub fn into_buffer(self) -> B {
        self.buffer
    }
}
