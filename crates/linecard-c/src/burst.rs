//! Bursts merged where they lie, and frames segmented into a buffer of the caller's. What leaves
//! is handed over at once, so no pointer outlives a call.

use crate::coalesce::reason_count;
use crate::error::Error;
use crate::types::{self, BurstPacket, Config, Counters, Range, Run, Slice};
use linecard::offload::burst::{self, Room, cut_pieces};
use linecard::offload::coalesce;
use linecard::offload::virtio::{Device, Endian, Format, Header};

/// Slices that one `writev` takes: `IOV_MAX` of Linux.
const MAX_SLICES: u16 = 1_024;
/// Frames of a burst, which bound the memory of a merger.
const MAX_FRAMES: usize = 1 << 20;

/// A merger, and what describes a packet that leaves to C.
#[derive(Debug)]
pub(crate) struct Merger {
    inner: burst::Merger,
    format: Format,
    header: [u8; Format::MAX_LEN],
    slices: Vec<Slice>,
    numbers: Vec<usize>,
}

impl Merger {
    pub(crate) fn new(link: u8, config: &Config) -> Result<Self, Error> {
        let format = config.virtio()?.ok_or(Error::Invalid)?;
        let device = Some(Device { format, identifications: config.identifications() });
        // The virtio header takes a slice, too.
        let max_segments = config.max_segments.min(MAX_SLICES - 1);
        let config = coalesce::Config { device, max_segments, ..config.checked()? };
        Ok(Self {
            inner: burst::Merger::new(types::link(link)?, config),
            format,
            header: [0; Format::MAX_LEN],
            slices: Vec::new(),
            numbers: Vec::new(),
        })
    }

    /// Merges the frames, and calls `out` for each packet that results.
    pub(crate) fn merge(
        &mut self,
        buffer: &mut [u8],
        frames: &[Range],
        out: &mut dyn FnMut(&BurstPacket),
    ) -> Result<(), Error> {
        if frames.len() > MAX_FRAMES {
            return Err(Error::Invalid);
        }
        // An end beyond all numbers is outside of any buffer, too.
        let places = frames.iter().map(|at| at.offset..at.offset.saturating_add(at.len));
        let Self { inner, format, header, slices, numbers } = self;
        inner.merge_burst(buffer, places, &mut |merged| {
            // A packet that the format cannot describe has not been merged.
            let written = merged.header.write(header, *format, Endian::Little);
            slices.clear();
            slices.push(Slice { data: header.as_mut_ptr(), len: written.unwrap_or_default() });
            // A slice is laid out as C's iovec, which has no const; the frames are not written.
            let parts = merged.slices.iter();
            let parts = parts.map(|it| Slice { data: it.as_ptr().cast_mut(), len: it.len() });
            slices.extend(parts);
            numbers.clear();
            numbers.extend(merged.numbers());
            out(&BurstPacket {
                slices: slices.as_ptr(),
                count: slices.len(),
                len: slices.iter().map(|slice| slice.len).sum(),
                first: merged.first,
                packets: merged.packets,
                numbers: numbers.as_ptr(),
            });
        })?;
        Ok(())
    }

    /// The counters that a merger has.
    pub(crate) fn counters(&self) -> Counters {
        let counters = self.inner.counters();
        Counters {
            packets_in: counters.packets_in,
            packets_out: counters.packets_out,
            merged: counters.merged,
            ..Counters::default()
        }
    }

    /// How often a reason occurred.
    pub(crate) fn count(&self, exit: u8, reason: u8) -> Option<u64> {
        let counters = self.inner.counters();
        reason_count((exit, reason), &counters.refused, &counters.flushed)
    }
}

/// A frame that a virtio header describes, in pieces: all its headers are in the first one.
#[derive(Debug)]
pub(crate) struct Described<'f, P> {
    pub(crate) link: u8,
    pub(crate) virtio: &'f [u8],
    pub(crate) head: &'f [u8],
    pub(crate) rest: &'f [P],
}

/// Writes the frame's segments to `buffer`, each with `room` around it, and calls `out` whenever no
/// more fit, and after the last one. An error comes before the first call, and nothing has been
/// changed then.
pub(crate) fn cut<P: AsRef<[u8]>>(
    frame: &Described<'_, P>,
    room: Room,
    buffer: &mut [u8],
    out: &mut dyn FnMut(&Run),
) -> Result<(), Error> {
    let Described { link, virtio, head, rest } = *frame;
    let link = types::link(link)?;
    let format = Format::of_len(virtio.len()).ok_or(Error::Invalid)?;
    let header = Header::read(virtio, format, Endian::Little).ok_or(Error::Invalid)?;
    let behind = rest.iter().map(|piece| piece.as_ref().len());
    let len = behind.fold(head.len(), usize::saturating_add);
    // Layouts use 32-bit lengths.
    if len == 0 || u32::try_from(len).is_err() {
        return Err(Error::Invalid);
    }
    let mut segments = cut_pieces(link, &header, head, rest)?;
    // Too little room is found at the first segment, which is one of the longest.
    while let Some(run) = segments.write(room, buffer)? {
        let (len, size) = (run.bytes().len(), run.size());
        out(&Run { data: buffer.as_mut_ptr(), len, size, count: len.div_ceil(size) });
    }
    Ok(())
}
