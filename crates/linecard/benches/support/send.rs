//! The send side: large packets cut into slots that are used again and again.

use super::measure::{Clock, evict};
use super::traffic::{self, Kind};
use super::{BURST, Slot, stride};
use core::hint::black_box;
use linecard::offload::segment::segment;
use linecard::packet::{ChecksumState, Gso, LinkType, Meta, Packet};

/// Large packets timed at once, so that reading the clock does not show.
const TOGETHER: usize = 4;

/// The messages, and the segments that they become.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// Payload bytes of a segment.
    pub(crate) size: usize,
    /// Segments of a large packet, all full.
    pub(crate) segments: usize,
}

/// The loads of the figures: large packets of 44 segments, or 7 jumbo ones, below 64 KiB.
pub(crate) const LOADS: [Load; 5] = [
    Load { name: "TCP 1448 B", kind: Kind::Tcp4, size: 1448, segments: 44 },
    Load { name: "IPv6 1428 B", kind: Kind::Tcp6, size: 1428, segments: 44 },
    Load { name: "jumbo 8948 B", kind: Kind::Tcp4, size: 8948, segments: 7 },
    Load { name: "small 64 B", kind: Kind::Tcp4, size: 64, segments: 44 },
    Load { name: "UDP 1472 B", kind: Kind::Udp4, size: 1472, segments: 44 },
];

impl Load {
    /// The most bytes a segment's frame takes.
    pub(crate) fn frame_len(&self) -> usize {
        self.size + 86
    }

    /// `count` large packets.
    pub(crate) fn sources(&self, count: usize) -> Vec<Vec<u8>> {
        let len = self.size * self.segments;
        (0..count).map(|number| traffic::large(self.kind, number as u32, len)).collect()
    }
}

/// Something that cuts: one large packet into the slots, which are enough.
pub(crate) trait Send {
    /// Timed: gives the number of segments.
    fn cut(&mut self, source: &mut [u8], size: usize, slots: &mut [Slot<'_>]) -> usize;
}

/// One round over all sources, cold when there is something to sweep: nanoseconds per group of
/// them, and segments in all.
pub(crate) fn round(
    clock: Clock,
    sender: &mut dyn Send,
    load: &Load,
    (sources, slots): (&mut [Vec<u8>], &mut [Slot<'_>]),
    sweep: Option<&mut Vec<u8>>,
) -> (Vec<u64>, usize) {
    let cold = sweep.is_some();
    sweep.into_iter().for_each(evict);
    let (mut bursts, mut segments) = (Vec::with_capacity(sources.len() / TOGETHER), 0);
    for group in sources.chunks_exact_mut(TOGETHER) {
        if !cold {
            group.iter().for_each(|source| touch(source));
        }
        let begun = clock();
        for source in group {
            segments += sender.cut(black_box(source), load.size, slots);
        }
        bursts.push(clock().duration_since(begun).as_nanos() as u64);
    }
    (bursts, segments)
}

/// Reads every cache line, as the application that has just written it would have left it.
fn touch(bytes: &[u8]) {
    black_box(bytes.chunks(64).map(|line| u64::from(line[0])).sum::<u64>());
}

/// How our segmenter is asked to deliver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Headers and slices, the checksum left to the card.
    Headers,
    /// Headers and slices, payload read for the checksum.
    HeadersSummed,
    /// One run of bytes, copied and summed.
    Contiguous,
}

/// Our send side.
#[derive(Debug)]
pub(crate) struct Segmenter {
    pub(crate) form: Form,
}

impl Send for Segmenter {
    fn cut(&mut self, source: &mut [u8], size: usize, slots: &mut [Slot<'_>]) -> usize {
        let checksum = match self.form {
            Form::Headers => ChecksumState::Partial,
            _ => ChecksumState::Unknown,
        };
        let meta = Meta { checksum, ..Meta::default() };
        let packet = Packet::new(&*source, LinkType::Ethernet, meta);
        let gso = Gso { size: size as u16, ..Gso::default() };
        let mut segments = segment(&packet, gso).expect("a whole datagram");
        let mut count = 0;
        if self.form == Form::Contiguous {
            for slot in slots {
                let Some(written) = segments.write_next(slot.room()).expect("room") else { break };
                slot.set_len(written.len);
                count += 1;
            }
            return count;
        }
        while let Some(part) = segments.next_segment() {
            black_box(part.header);
            part.payload.for_each(|slice| {
                black_box(slice);
            });
            count += 1;
        }
        count
    }
}

/// Slots for the segments of one large packet.
pub(crate) fn arena(load: &Load) -> Vec<u8> {
    vec![0; BURST * stride(load.frame_len())]
}
