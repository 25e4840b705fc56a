//! The burst API beside the coalescer and the segmenter that work on packets.

use super::between;
use super::runner::{Real, check_order, numbers, packet, whole};
use super::traffic::Arrival;
use linecard::offload::burst::{Merger, Room, cut, cut_pieces};
use linecard::offload::coalesce::{ChecksumPolicy, Config};
use linecard::offload::defer_checksum;
use linecard::offload::virtio::{Header, Identifications};
use linecard::packet::{Batch, Gso};
use linecard::rng::Rng;
use linecard::time::Instant;
use std::ops::Range;

/// A packet that left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Left {
    pub packets: Vec<usize>,
    pub header: Header,
    pub frame: Vec<u8>,
    gso: Option<Gso>,
}

/// Gives a burst of at most 64 packets of one link type to `merger` and to a coalescer with the same
/// configuration, which has to name a device: both merge the same, in order, and segmenting restores
/// what came. Returns what left.
pub fn compare(
    rng: &mut Rng,
    (merger, config): (&mut Merger, &Config),
    burst: &[Arrival],
) -> Vec<Left> {
    let left = merge(rng, merger, burst);
    check_order(left.iter().flat_map(|left| left.packets.clone()), burst, config.restore_order);
    let expected = by_packets(config, burst);
    assert_eq!(sorted(left.clone()), sorted(expected.clone()), "{config:?}");
    expected.iter().for_each(|left| cut_again(rng, (left, config), burst));
    left
}

fn sorted(mut left: Vec<Left>) -> Vec<Left> {
    left.sort_by_key(|left| left.packets[0]);
    // The burst says by its header what the coalescer says by its metadata.
    left.iter_mut().for_each(|left| left.gso = None);
    left
}

/// Packets that a coalescer merges in one batch, described by a header: it holds packets and works
/// on a flow table, not on notes, unless the order is restored.
fn by_packets(config: &Config, burst: &[Arrival]) -> Vec<Left> {
    let mut real = Real::new(Config { flush_at_batch_end: config.restore_order, ..config.clone() });
    let mut batch = Batch::new();
    for (number, arrival) in burst.iter().enumerate() {
        batch.push(packet(number, arrival)).expect("at most 64");
    }
    let out = &mut real.out;
    real.coalescer.push_batch(&mut batch, Instant::ZERO, &mut |packet, exit| {
        out.push((packet, exit));
    });
    real.stop();
    let identifications = config.device.expect("set").identifications;
    let described = real.out.iter_mut().map(|(packet, _)| {
        let header = if packet.is_merged() {
            assert!(defer_checksum(packet));
            Header::of_with(packet, identifications).expect("only such packets are merged")
        } else {
            Header::default()
        };
        let gso = packet.meta.gso;
        Left { packets: numbers(packet), header, frame: whole(packet), gso }
    });
    described.collect()
}

/// Result of a burst, with gaps between its frames.
fn merge(rng: &mut Rng, merger: &mut Merger, burst: &[Arrival]) -> Vec<Left> {
    let (mut buffer, mut ranges): (Vec<u8>, Vec<Range<usize>>) = (Vec::new(), Vec::new());
    for arrival in burst {
        // No two frames begin at one place, so that a slice tells which one it is of.
        let gap = rng.below(3).max(u64::from(ranges.last().is_some_and(Range::is_empty)));
        buffer.resize(buffer.len() + gap as usize, 0xEE);
        ranges.push(buffer.len()..buffer.len() + arrival.bytes.len());
        buffer.extend(&arrival.bytes);
    }
    let mut left = Vec::new();
    let before = buffer.as_ptr_range();
    merger
        .merge_burst(&mut buffer, ranges.iter().cloned(), &mut |merged| {
            // Each slice is in the frame that it came in.
            let of = |slice: &&[u8]| {
                let at = slice.as_ptr().addr() - before.start.addr();
                ranges.iter().position(|range| range.contains(&at) || range.start == at)
            };
            let packets: Vec<usize> =
                merged.slices.iter().map(|slice| of(slice).expect("in a frame")).collect();
            assert_eq!((merged.first, merged.packets), (packets[0], packets.len()));
            let frame = merged.slices.concat();
            assert_eq!(frame.len(), merged.frame_len());
            left.push(Left { packets, header: merged.header, frame, gso: None });
        })
        .expect("inside");
    left
}

/// Cutting what left gives the frames that came.
fn cut_again(rng: &mut Rng, (left, config): (&Left, &Config), burst: &[Arrival]) {
    if left.frame.is_empty() {
        // Without room around it, nothing is written of an empty frame.
        return;
    }
    let link = burst[0].link;
    let room = Room { front: rng.below(20) as usize, back: rng.below(20) as usize };
    let whole = cut(link, &left.header, &left.frame).expect("described");
    let longest = whole.max_len() + room.front + room.back;
    let out = &mut vec![0xEE; longest * between(rng, 1, 70) as usize];
    assert_eq!(whole.count(), left.packets.len());
    let mut whole = whole;
    let mut segments = Vec::new();
    while let Some(mut run) = whole.write(room, out).expect("room for one") {
        let size = run.size();
        let mut end = None;
        for segment in run.segments() {
            assert!(end.is_none() && segment.len() <= size, "only the last is shorter");
            end = (segment.len() < size).then_some(());
            let (front, rest) = segment.split_at(room.front);
            let (bytes, back) = rest.split_at(rest.len() - room.back);
            segments.push(bytes.to_vec());
            assert!(front.iter().chain(back).all(|byte| *byte == 0xEE), "room is left alone");
            segment.fill(0xEE);
        }
    }
    let pieces = in_pieces(rng, left);
    let scattered = cut_pieces(link, &left.header, &pieces[0], &pieces[1..]);
    let mut scattered = scattered.expect("described");
    let mut others = Vec::new();
    while let Some(mut run) = scattered.write(Room::default(), out).expect("room for one") {
        others.extend(run.segments().map(|segment| segment.to_vec()));
    }
    assert!(others == segments, "the same in pieces");
    // A device counts up identifications that stood still, and gives trusted packets checksums that
    // are right.
    let counted = left.gso.is_some_and(|gso| gso.fixed_ids != 0);
    let identifications = config.device.map(|device| device.identifications);
    assert!(!counted || identifications == Some(Identifications::Rfc6864));
    let alike = counted || config.checksum == ChecksumPolicy::Trust;
    for (number, segment) in left.packets.iter().zip(&segments) {
        let original = &burst[*number].bytes;
        assert!(alike && original.len() == segment.len() || original == segment, "{number}");
    }
    assert_eq!(segments.len(), left.packets.len());
}

/// The frame in pieces, the first with all headers and what might be one more.
fn in_pieces(rng: &mut Rng, left: &Left) -> Vec<Vec<u8>> {
    let headers = (usize::from(left.header.hdr_len) + 8).max(64).min(left.frame.len());
    let mut at = headers + rng.below((left.frame.len() - headers) as u64 + 1) as usize;
    let mut pieces = vec![left.frame[..at].to_vec()];
    while at < left.frame.len() {
        let end = (at + rng.below(3_000) as usize).min(left.frame.len());
        pieces.push(left.frame[at..end].to_vec());
        at = end;
    }
    pieces
}
