//! Merges the packets of a burst, of which nothing is held: in memory that the caller lends for one call, or as packets
//! and frames that the coalescer owns.
//!
//! A packet that stays alone costs little: it is parsed and hashed, and leaves. It is noted only if the next packet
//! of its flow may join it, and examined, its checksum verified, only when that one is found to fit.

mod chains;
mod flows;
mod join;
mod lent;
mod notes;
mod owned;
mod runs;
mod store;

use super::arrivals::Trust;
use super::config::{ChecksumPolicy, Config};
use super::reason::{Flushes, Refusals};
use crate::offload::virtio::{Device, Header};
use crate::packet::LinkType;
use alloc::vec::Vec;
use core::error::Error;
use core::fmt;
use core::ops::Range;
pub(super) use join::Burst;
use lent::{Left, Lent, Place};
pub(super) use owned::{OwnedFrames, OwnedPackets, Way};
pub(super) use store::AllAlone;
use store::Further;

/// A range that does not lie inside of the buffer, ends before it starts, or starts beyond 4 GiB. Nothing
/// was merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutsideBuffer {
    /// The frame, counted from 0.
    pub index: usize,
    /// The start of its range.
    pub start: usize,
    /// The end of its range.
    pub end: usize,
    /// Bytes of the buffer.
    pub len: usize,
}

impl fmt::Display for OutsideBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { index, start, end, len } = self;
        write!(
            f,
            "frame {index} is at bytes {start}..{end} of a buffer of {len} bytes: it has to lie inside, and \
             to start below 4 GiB"
        )
    }
}

impl Error for OutsideBuffer {}

/// A packet of a burst: several merged, or one unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Merged<'a> {
    /// Describes it to a device. All zeros for a packet that stayed alone.
    pub header: Header,
    /// Its bytes in order: first its headers, with the payload of the first packet, then the
    /// payload of each further packet.
    pub slices: &'a [&'a [u8]],
    /// Its first packet, counted from 0 in the burst.
    pub first: usize,
    /// The number of packets in it.
    pub packets: usize,
    further: Further<'a>,
}

impl Merged<'_> {
    /// Which packets of the burst are in it, in the order of their bytes: `first`, and those merged into it.
    pub fn numbers(&self) -> impl Iterator<Item = usize> {
        core::iter::once(self.first).chain(self.further)
    }

    /// Bytes of the frame.
    #[must_use]
    pub fn frame_len(&self) -> usize {
        self.slices.iter().map(|slice| slice.len()).sum()
    }
}

/// Counters of a [`Merger`]: `packets_in == packets_out + merged`, of all packets that were given to the
/// caller's function. If that panics, the rest of the burst is lost and not counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BurstCounters {
    /// Packets received.
    pub packets_in: u64,
    /// Packets that left, merged ones counted once.
    pub packets_out: u64,
    /// Of those that left, packets that stayed alone, and left unchanged.
    pub alone: u64,
    /// Packets merged into another.
    pub merged: u64,
    /// Why packets did not join earlier ones of their flow; later ones may still have joined them. A
    /// packet that met no other one of its flow is not examined: its checksum may be wrong.
    pub refused: Refusals,
    /// Why packets left.
    pub flushed: Flushes,
}

/// Merges the packets of bursts; nothing of a burst outlives the call.
///
/// Frames stay where they were received: a merged packet is a virtio header and a list of slices of
/// the buffer, of which only the headers of the first packet are changed. So one buffer can be used
/// for all bursts. The rules are those of [`Coalescer`](super::Coalescer); packets that no virtio
/// header could describe to the [`Config::device`] do not merge. Packets of a flow leave in the
/// order in which they arrived, unless [`Config::restore_order`] puts a late one in its place; the IPv6
/// flow label, VLAN tags and all outer headers are part of what makes a flow.
///
/// A merged packet leaves its checksum to the device: with
/// [`ChecksumPolicy::Trust`](super::ChecksumPolicy::Trust), corrupt data gets a valid one. Towards a
/// guest of a virtual machine, set [`Header::num_buffers`] to the number of buffers used. Where
/// peers are not trusted, set [`Config::secret`] to a random number.
///
/// Memory grows with the bursts, and is kept until the merger is dropped. A burst needs at most 200
/// bytes for each frame, 130 for each packet that results, 300 more if another packet of its flow
/// was compared with it, and 32 for each slice of the longest one. So the caller limits it by the
/// number of frames in a call.
///
/// ```
/// use linecard::offload::burst::{Merger, Room, cut, stride};
/// use linecard::offload::coalesce::Config;
/// use linecard::offload::virtio::{Endian, Format, Header, gso_type};
/// use linecard::packet::LinkType;
/// use std::io::{IoSlice, Read, Write};
/// # fn datagram(id: u8) -> Vec<u8> {
/// #     let mut bytes = vec![0x45, 0, 0, 32, 0, id, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
/// #     let sum = linecard::packet::checksum::Sum::of(&bytes).checksum();
/// #     bytes[10..12].copy_from_slice(&sum.to_be_bytes());
/// #     bytes.extend([0, 7, 0, 9, 0, 12, 0xEB, 0xC3]);
/// #     bytes.extend([0; 4]);
/// #     bytes
/// # }
/// // Two UDP datagrams of one flow, as a socket with UDP_GRO gives them: one behind the other.
/// let mut buffer = [datagram(1), datagram(2)].concat();
/// let received = buffer.clone();
/// // The queue that the packets are written to. Another process reads it, or a kernel.
/// let (mut reader, mut writer) = std::io::pipe()?;
///
/// let mut merger = Merger::new(LinkType::Raw, Config::burst());
/// merger.merge_burst(&mut buffer, stride(64, 32), &mut |packet| {
///     assert_eq!((packet.header.gso_type, packet.header.gso_size), (gso_type::UDP_L4, 4));
///     assert!(packet.numbers().eq([0, 1]));
///     let mut head = [0; Format::MAX_LEN];
///     let len = packet.header.write(&mut head, Format::V1, Endian::Little).expect("V1 has no tunnels");
///     let all = std::iter::once(&head[..len]).chain(packet.slices.iter().copied());
///     let list: Vec<IoSlice<'_>> = all.map(IoSlice::new).collect();
///     let written = writer.write_vectored(&list).expect("the pipe has room");
///     assert_eq!(written, 12 + 28 + 2 * 4);
/// })?;
///
/// // The other end segments it, which gives back what was received.
/// let mut frame = [0; 12 + 36];
/// reader.read_exact(&mut frame)?;
/// let (head, frame) = frame.split_at(12);
/// let header = Header::read(head, Format::V1, Endian::Little).expect("12 bytes");
/// let mut segments = cut(LinkType::Raw, &header, frame)?;
/// let mut out = [0; 64];
/// let run = segments.write(Room::default(), &mut out)?.expect("two segments");
/// assert_eq!((run.bytes(), run.size()), (&received[..], 32));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Merger {
    link: LinkType,
    config: Config,
    device: Device,
    burst: Burst,
    places: Vec<Place>,
    counters: BurstCounters,
    /// Empty; kept for its memory.
    slices: Vec<&'static [u8]>,
}

/// Frames of `size` bytes one behind the other in the first `total` bytes; the last may be shorter.
/// None if `size` is 0.
///
/// ```
/// use linecard::offload::burst::stride;
/// assert!(stride(7, 3).eq([0..3, 3..6, 6..7]));
/// ```
pub fn stride(total: usize, size: usize) -> impl Iterator<Item = Range<usize>> {
    let count = total.checked_div(size).map_or(0, |_| total.div_ceil(size));
    (0..count).map(move |index| {
        let start = index * size;
        start..start.saturating_add(size).min(total)
    })
}

impl Merger {
    /// For frames with this link header: [`LinkType::Raw`] for a TUN device.
    ///
    /// Of the configuration, these fields are used: `checksum`, `device` (none counts as the
    /// default one), `max_bytes` (at most 65,535), `max_segments`, `max_datagrams`, `max_tunnels`,
    /// `restore_order` and `secret`. The others are ignored, because nothing is held and there is no table of flows:
    /// `creation`, `hold_budget`, `idle_floor`, `flush_at_batch_end`, `flush_quiet_at_batch_end`,
    /// `max_flows`, `max_held_packets` and `max_held_bytes`.
    #[must_use]
    pub fn new(link: LinkType, mut config: Config) -> Self {
        let device = *config.device.get_or_insert_default();
        config.max_held_bytes = usize::MAX;
        Self {
            link,
            burst: Burst::new(config.secret),
            config,
            device,
            places: Vec::new(),
            counters: BurstCounters::default(),
            slices: Vec::new(),
        }
    }

    /// The counters so far.
    #[must_use]
    pub fn counters(&self) -> &BurstCounters {
        &self.counters
    }

    /// Merges the frames at these ranges of `buffer`, in the order of their arrival, and calls
    /// `out` for each packet that results: merged ones, and all others as they are. See [`stride`]
    /// for frames one behind the other.
    ///
    /// Ranges should not overlap: the headers of merged packets are changed in place.
    ///
    /// # Errors
    ///
    /// A range that is not inside of the buffer, or starts beyond 4 GiB; nothing was merged then, and `out`
    /// was not called.
    pub fn merge_burst<F: FnMut(Merged<'_>) + ?Sized>(
        &mut self,
        buffer: &mut [u8],
        frames: impl IntoIterator<Item = Range<usize>>,
        out: &mut F,
    ) -> Result<(), OutsideBuffer> {
        self.place(buffer.len(), frames)?;
        let trusts = self.config.checksum == ChecksumPolicy::Trust;
        let mut lent = Lent {
            buffer,
            places: &self.places,
            link: self.link,
            trust: if trusts { Trust::Vouched } else { Trust::Verify },
            identifications: self.device.identifications,
            counters: &mut self.counters,
            slices: &mut self.slices,
            out,
            alone: AllAlone::default(),
            left: Left::default(),
        };
        self.burst.merge(&self.config, &mut lent);
        Ok(())
    }

    /// Where the frames are.
    fn place(
        &mut self,
        len: usize,
        frames: impl IntoIterator<Item = Range<usize>>,
    ) -> Result<(), OutsideBuffer> {
        self.places.clear();
        for (index, Range { start, end }) in frames.into_iter().enumerate() {
            let size = end.checked_sub(start).and_then(|size| u32::try_from(size).ok());
            let (Ok(first), Some(size), true) = (u32::try_from(start), size, end <= len) else {
                return Err(OutsideBuffer { index, start, end, len });
            };
            self.places.push(Place { start: first, len: size });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mergers_move_between_threads() {
        fn is_send_and_sync<T: Send + Sync>() {}
        is_send_and_sync::<Merger>();
        is_send_and_sync::<Merged<'_>>();
    }

    #[test]
    fn a_range_outside_of_the_buffer_is_refused_before_anything_is_done() {
        let mut merger = Merger::new(LinkType::Raw, Config::burst());
        let mut buffer = [0; 10];
        let refused = merger.merge_burst(&mut buffer, [0..10, 4..11], &mut |_| panic!("called"));
        let outside = OutsideBuffer { index: 1, start: 4, end: 11, len: 10 };
        assert_eq!(refused, Err(outside));
        let begins = "frame 1 is at bytes 4..11 of a buffer of 10 bytes: ";
        assert!(alloc::format!("{outside}").starts_with(begins));
        #[expect(clippy::reversed_empty_ranges, reason = "it is what is refused")]
        for reversed in [50..3, 5..3] {
            let refused = merger.merge_burst(&mut buffer, [reversed], &mut |_| panic!("called"));
            assert!(refused.is_err());
        }
        assert!(stride(usize::MAX, usize::MAX - 1).all(|range| range.start <= range.end));
        assert_eq!(*merger.counters(), BurstCounters::default());
    }
}
