//! Packets that arrive together: a batch of packets, or frames that have not been wrapped in
//! packets yet.

use super::bypass::has_ip_options;
use crate::packet::{
    BATCH, ChecksumState, FlowHasher, Form, Glance, Layout, LinkType, Meta, Packet, Piece,
};
use alloc::vec::{Drain, Vec};
use core::ops::Range;

/// The origin that packets must have to be predicted.
pub(super) struct Source {
    pub(super) link: LinkType,
    pub(super) lane: u32,
    pub(super) mark: u32,
    /// Whether unverified checksums are computed; otherwise packets with unverified checksums are
    /// not predicted.
    pub(super) verifies: bool,
    /// Whether padded frames are predicted.
    pub(super) pads: bool,
}

/// Findings about the checksum of a packet from a [`Source`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trust {
    /// It has been verified.
    Vouched,
    /// It has to be verified.
    Verify,
}

/// Packets in the order of their arrival, of which the first may continue a merged packet.
pub(super) trait Upcoming {
    /// Where the pieces of a merged packet are listed.
    type Chain;

    /// The number of packets left.
    fn len(&self) -> usize;

    /// The bytes of a packet.
    fn bytes(&self, index: usize) -> Option<&[u8]>;

    /// Findings about a packet's checksum; none if the packet is not a plain one of this source.
    fn trust(&self, index: usize, source: &Source) -> Option<Trust>;

    /// Removes the first `count` packets, and appends the given range of their bytes to `chain` as
    /// pieces.
    fn take_pieces(&mut self, count: usize, bytes: Range<usize>, chain: &mut Self::Chain);
}

/// Packets that the coalescer takes over.
pub(super) trait Arrivals<B>: Upcoming<Chain = Vec<Piece<B>>> {
    /// The hash of its flow, if it is visible, and whether it passes whatever its flow holds, because it carries no data.
    fn flow(&mut self, index: usize, hasher: &mut FlowHasher) -> (Option<u64>, bool);

    /// A packet to be looked at; none if it is a merged one.
    fn view(&self, index: usize) -> Option<Packet<&[u8]>>;

    /// Removes the first.
    fn take(&mut self) -> Option<Packet<B>>;
}

/// Packets out of a batch.
pub(super) struct Packets<'a, B>(pub(super) Drain<'a, Packet<B>>);

impl<B: AsRef<[u8]>> Upcoming for Packets<'_, B> {
    type Chain = Vec<Piece<B>>;

    #[inline(always)]
    fn len(&self) -> usize {
        self.0.len()
    }

    #[inline(always)]
    fn bytes(&self, index: usize) -> Option<&[u8]> {
        self.0.as_slice().get(index).map(Packet::bytes)
    }

    #[inline(always)]
    fn trust(&self, index: usize, source: &Source) -> Option<Trust> {
        let packet = self.0.as_slice().get(index)?;
        let plain = packet.meta.gso.is_none() && !packet.is_merged();
        source.trust(packet.link(), &packet.meta).filter(|_| plain)
    }

    #[inline(always)]
    fn take_pieces(&mut self, count: usize, bytes: Range<usize>, chain: &mut Vec<Piece<B>>) {
        let piece = |packet: Packet<B>| packet.into_piece_of(bytes.clone());
        if count == 1 {
            self.0.next().into_iter().for_each(|packet| chain.push(piece(packet)));
            return;
        }
        chain.extend(self.0.by_ref().take(count).map(piece));
    }
}

impl<B: AsRef<[u8]>> Arrivals<B> for Packets<'_, B> {
    #[inline(always)]
    fn flow(&mut self, index: usize, hasher: &mut FlowHasher) -> (Option<u64>, bool) {
        let Some(packet) = self.0.as_slice().get(index) else { return (None, false) };
        let (layout, meta) = (packet.layout(), &packet.meta);
        let hash = visible_flow_of(hasher, packet.bytes(), layout, meta.lane);
        let is_whole = hash.is_some() & !packet.is_merged();
        (hash, is_whole & layout.has_no_payload() & is_plain(meta))
    }

    fn view(&self, index: usize) -> Option<Packet<&[u8]>> {
        let packet = self.0.as_slice().get(index).filter(|packet| !packet.is_merged())?;
        Some(Packet::with_layout(packet.bytes(), packet.link(), *packet.layout(), packet.meta))
    }

    #[inline(always)]
    fn take(&mut self) -> Option<Packet<B>> {
        self.0.next()
    }
}

/// Frames, and the metadata that they share.
pub(super) struct Frames<'a, B> {
    frames: Drain<'a, B>,
    link: LinkType,
    meta: Meta,
    /// The layouts of frames parsed, with the number of frames left then, which identifies them.
    parsed: [(usize, Layout); BATCH],
}

impl<'a, B> Frames<'a, B> {
    pub(super) fn new(frames: Drain<'a, B>, link: LinkType, meta: Meta) -> Self {
        Self { frames, link, meta, parsed: [(0, Layout::default()); BATCH] }
    }
}

impl<B: AsRef<[u8]>> Upcoming for Frames<'_, B> {
    type Chain = Vec<Piece<B>>;

    #[inline(always)]
    fn len(&self) -> usize {
        self.frames.len()
    }

    #[inline(always)]
    fn bytes(&self, index: usize) -> Option<&[u8]> {
        self.frames.as_slice().get(index).map(AsRef::as_ref)
    }

    #[inline(always)]
    fn trust(&self, _: usize, source: &Source) -> Option<Trust> {
        source.trust(self.link, &self.meta).filter(|_| self.meta.gso.is_none())
    }

    #[inline(always)]
    fn take_pieces(&mut self, count: usize, bytes: Range<usize>, chain: &mut Vec<Piece<B>>) {
        let timestamp = self.meta.timestamp;
        let piece = |frame: B| Piece::of(frame, bytes.clone(), timestamp);
        if count == 1 {
            self.frames.next().into_iter().for_each(|frame| chain.push(piece(frame)));
            return;
        }
        chain.extend(self.frames.by_ref().take(count).map(piece));
    }
}

impl<B: AsRef<[u8]>> Arrivals<B> for Frames<'_, B> {
    #[inline(always)]
    fn flow(&mut self, index: usize, hasher: &mut FlowHasher) -> (Option<u64>, bool) {
        let Some(frame) = self.frames.as_slice().get(index) else { return (None, false) };
        let (link, bytes, lane) = (self.link, frame.as_ref(), self.meta.lane);
        let (layout, hash, is_empty) = match hasher.glance(link, bytes, lane) {
            Some(Glance { layout, hash, is_empty, .. }) => (layout, Some(hash), is_empty),
            None => {
                let (layout, hash) = parse_unusual(hasher, link, bytes, lane);
                (layout, hash, hash.is_some() & layout.has_no_payload())
            }
        };
        let left = self.len() - index;
        self.parsed[left % BATCH] = (left, layout);
        (hash, is_empty & is_plain(&self.meta))
    }

    #[inline(always)]
    fn view(&self, index: usize) -> Option<Packet<&[u8]>> {
        let bytes = self.frames.as_slice().get(index)?.as_ref();
        let left = self.len() - index;
        let (parsed, layout) = self.parsed[left % BATCH];
        let layout = if parsed == left { layout } else { Layout::parse(self.link, bytes) };
        Some(Packet::with_layout(bytes, self.link, layout, self.meta))
    }

    #[inline(always)]
    fn take(&mut self) -> Option<Packet<B>> {
        let left = self.len();
        let (parsed, layout) = &self.parsed[left % BATCH];
        let frame = self.frames.next()?;
        Some(if *parsed == left {
            Packet::with_layout(frame, self.link, *layout, self.meta)
        } else {
            Packet::new(frame, self.link, self.meta)
        })
    }
}

/// Whether nothing that is known of a packet beside its bytes keeps it from merging.
#[inline(always)]
fn is_plain(meta: &Meta) -> bool {
    meta.mark != Meta::NEVER && meta.gso.is_none()
}

/// The layout of a frame and the hash of its flow, if it is visible.
#[inline(always)]
pub(super) fn parse_frame(
    hasher: &mut FlowHasher,
    link: LinkType,
    bytes: &[u8],
    lane: u32,
) -> (Layout, Option<u64>) {
    match hasher.glance(link, bytes, lane) {
        Some(Glance { layout, hash, .. }) => (layout, Some(hash)),
        None => parse_unusual(hasher, link, bytes, lane),
    }
}

#[inline(never)]
pub(super) fn parse_unusual(
    hasher: &mut FlowHasher,
    link: LinkType,
    bytes: &[u8],
    lane: u32,
) -> (Layout, Option<u64>) {
    let layout = Layout::parse(link, bytes);
    (layout, visible_flow_of(hasher, bytes, &layout, lane))
}

/// The hash of a packet's flow, if it is visible: the packet shows its ports, and may not be of another flow between
/// its addresses.
pub(super) fn visible_flow_of(
    hasher: &mut FlowHasher,
    bytes: &[u8],
    layout: &Layout,
    lane: u32,
) -> Option<u64> {
    let is_visible = matches!(layout.form(), Form::Datagram | Form::Padded);
    let is_visible = is_visible && !has_ip_options(bytes, layout);
    if is_visible { hasher.usual_flow_of(bytes, layout, lane) } else { None }
}

impl Source {
    /// Findings about a packet's checksum, if it comes from this source.
    #[inline(always)]
    pub(super) fn trust(&self, link: LinkType, meta: &Meta) -> Option<Trust> {
        let here = (link, meta.lane, meta.mark) == (self.link, self.lane, self.mark);
        match meta.checksum {
            ChecksumState::Valid => here.then_some(Trust::Vouched),
            ChecksumState::Unknown if self.verifies => here.then_some(Trust::Verify),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::steady::tests::{Traffic, each_traffic};
    use super::*;
    use crate::packet::Gso;
    use crate::time::Instant;
    use alloc::vec;

    fn each_meta() -> [Meta; 5] {
        let meta = Meta::default();
        [
            meta,
            Meta { lane: 3, ..meta },
            Meta { mark: 4, checksum: ChecksumState::Valid, ..meta },
            Meta { mark: Meta::NEVER, ..meta },
            Meta { gso: Some(Gso { size: 9, segments: 2, ..Gso::default() }), ..meta },
        ]
    }

    /// Also before they have been parsed.
    #[test]
    fn frames_are_seen_as_packets_are() {
        for (traffic, meta) in each_traffic().flat_map(|t| each_meta().map(|meta| (t, meta))) {
            let lens = [traffic.len, 0, 1];
            let of = |(index, len)| Traffic { len, ..traffic }.packet(index, 1).into_parts().0;
            let bytes: Vec<Vec<u8>> = lens.into_iter().enumerate().map(of).collect();
            let link = LinkType::Ethernet;
            let mut hasher = FlowHasher::new(1);
            for is_asked in [false, true] {
                let mut frames = bytes.clone();
                let packets = frames.iter().map(|bytes| Packet::new(bytes.clone(), link, meta));
                let mut packets: Vec<_> = packets.collect();
                let first = packets[0].clone();
                let mut packets = Packets(packets.drain(..));
                let mut frames = Frames::new(frames.drain(..), link, meta);
                for (index, len) in lens.into_iter().enumerate().filter(|_| is_asked) {
                    let flow = packets.flow(index, &mut hasher);
                    assert_eq!(flow, (hasher.flow(&first), len == 0 && is_plain(&meta)));
                    assert_eq!(frames.flow(index, &mut hasher), flow);
                    // It is not parsed again.
                    let left = frames.len() - index;
                    let (of, parsed) = &mut frames.parsed[left % BATCH];
                    assert_eq!((*of, *parsed), (left, Layout::parse(link, &bytes[index])));
                    let parsed = core::mem::take(parsed);
                    let seen = frames.view(index).map(|view| *view.layout());
                    assert_eq!(seen, Some(Layout::default()));
                    frames.parsed[left % BATCH] = (left, parsed);
                }
                let source = Source { link, lane: 0, mark: 4, verifies: true, pads: true };
                for (index, bytes) in bytes.iter().enumerate() {
                    let views = [packets.view(index), frames.view(index)];
                    for view in views.map(|view| view.expect("it is not merged")) {
                        assert_eq!(*view.layout(), Layout::parse(link, bytes));
                        assert_eq!((view.bytes(), view.meta), (&bytes[..], meta));
                    }
                    let trusts = [packets.trust(index, &source), frames.trust(index, &source)];
                    let is_here = meta.mark == 4;
                    assert_eq!(trusts, [is_here.then_some(Trust::Vouched); 2]);
                }
                for bytes in &bytes {
                    for packet in [packets.take(), frames.take()] {
                        let packet = packet.expect("one is left");
                        assert_eq!(*packet.layout(), Layout::parse(link, bytes));
                        assert_eq!((packet.bytes(), packet.meta), (&bytes[..], meta));
                    }
                }
            }
        }
    }

    /// All of its data may lie in further pieces.
    #[test]
    fn a_merged_packet_is_not_looked_at_nor_empty() {
        let traffic = each_traffic().next().expect("one");
        let whole = traffic.packet(0, 0);
        let head = whole.header().to_vec();
        let piece =
            Piece::new(whole.bytes().to_vec(), head.len()..whole.bytes().len(), Instant::ZERO);
        let chain = vec![piece.expect("inside")];
        let meta = Meta::default();
        let merged = Packet::gather(head, chain, LinkType::Ethernet, meta).expect("a datagram");
        assert!(merged.is_merged() && merged.layout().has_no_payload());
        let mut list = vec![merged, traffic.packet(0, 0)];
        let mut packets = Packets(list.drain(..));
        let (hash, is_empty) = packets.flow(0, &mut FlowHasher::new(1));
        assert!(hash.is_some() && !is_empty);
        assert!(packets.view(0).is_none() && packets.view(1).is_some());
    }

    #[test]
    fn only_packets_of_one_source_are_trusted_and_only_if_somebody_verifies() {
        use ChecksumState::{Partial, Unknown, Valid};
        let of = |verifies, checksum| {
            let (link, meta) = (LinkType::Raw, Meta { lane: 1, mark: 2, ..Meta::default() });
            let source = Source { link, lane: 1, mark: 2, verifies, pads: true };
            let meta = Meta { checksum, ..meta };
            for (link, meta) in [
                (LinkType::Ethernet, meta),
                (link, Meta { lane: 0, ..meta }),
                (link, Meta { mark: 0, ..meta }),
            ] {
                assert_eq!(source.trust(link, &meta), None);
            }
            source.trust(link, &meta)
        };
        let trusts =
            [true, false].map(|verifies| [Valid, Unknown, Partial].map(|c| of(verifies, c)));
        let vouched = Some(Trust::Vouched);
        assert_eq!(trusts, [[vouched, Some(Trust::Verify), None], [vouched, None, None]]);
    }
}
