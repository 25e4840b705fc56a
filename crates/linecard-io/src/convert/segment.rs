//! Segments the packets of a capture, or restores merged ones.

use super::metadata::{COMMENT, METADATA_OPTION, SegmentMetadata};
use super::{Input, Observer, Unknown, link_of};
use crate::capture::{
    CaptureError, Format, Lost, OptionMatch, PacketChange, Record, Shape, Writer, options,
};
use linecard::offload::segment::{
    Counters, Refusals, SegmentError, Segments, fragment, segment as cut_segments,
};
use linecard::packet::{ChecksumState, Gso, LayerKind, LinkType, Meta, Packet, Piece};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::rc::Rc;

/// The most segments that may wait for entries before them; if a capture claims more, segments are
/// written early.
const MAX_PENDING: usize = 65_536;
/// The most bytes that may wait.
const MAX_PENDING_BYTES: usize = 32 << 20;

/// How packets are segmented.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SegmentMode {
    /// According to their segment metadata; packets without metadata stay whole.
    #[default]
    AsMerged,
    /// Into segments of this many payload bytes, TCP and UDP.
    Payload(u16),
    /// Such that no IP packet is longer: TCP is segmented, everything else fragmented.
    Mtu(u16),
}

/// Statistics of segmenting a capture.
#[derive(Debug, Default)]
pub struct SegmentStats {
    /// Counters of the segmenter.
    pub counters: Counters,
    /// Packets in.
    pub packets_in: u64,
    /// Packets out.
    pub packets_out: u64,
    /// Merged packets restored from their metadata.
    pub restored: u64,
    /// Packets passed unchanged.
    pub untouched: u64,
    /// Packets that the capture contains only in part.
    pub truncated: u64,
    /// Bytes of the longest of these.
    pub snap_len: usize,
    /// Packets longer than 1500 bytes without metadata, if only restoring was requested.
    pub large: u64,
    /// Why packets could not be segmented.
    pub refused: Refusals,
    /// The first of these errors, with its values.
    pub first_refusal: Option<SegmentError>,
    /// Blocks other than packets, passed through.
    pub blocks: u64,
    /// Packets of unsupported link types.
    pub unknown: Unknown,
    /// Losses to the output format.
    pub lost: Lost,
    /// The error that ended reading early, and its offset; everything before it is in the output.
    pub damage: Option<CaptureError>,
}

/// Segments the packets of the capture `input` into `output`, in the given format. Returns the
/// completed `output` and the statistics. Damage of the input is not an error here; the statistics
/// contain it.
///
/// # Errors
///
/// If `input` is not a capture, reading or writing fails, or the output format cannot represent it.
pub fn segment<R: Read, W: Write>(
    mut input: R,
    mut output: W,
    format: Format,
    cut: SegmentMode,
    observer: &mut dyn Observer,
) -> Result<(W, SegmentStats), CaptureError> {
    let account = convert(&mut input, &mut output, format, cut, observer)?;
    Ok((output, account))
}

/// Not generic, so that the hot code is compiled once in this crate and not in each caller's.
fn convert(
    input: &mut dyn Read,
    output: &mut dyn Write,
    format: Format,
    cut: SegmentMode,
    observer: &mut dyn Observer,
) -> Result<SegmentStats, CaptureError> {
    let mut input = Input::new(input)?;
    // Restored packets are only shorter, and the file becomes what it was before.
    let source = match cut {
        SegmentMode::AsMerged => input.reader.source(),
        _ => input.reader.source().sizes_will_change(),
    };
    let writer = Writer::new(output, format, source)?;
    let pending = Pending::default();
    let mut job = Job { writer, pending, cut, next: 1, account: SegmentStats::default() };
    loop {
        let mut record = Record::default();
        if !input.read(&mut record)? {
            break;
        }
        let reader = &input.reader;
        observer.progress(reader.offset());
        if record.is_packet() {
            let link = link_of(reader.link_type(record.interface()), &mut job.account.unknown);
            job.packet(record, link)?;
        } else {
            job.block(&record)?;
        }
        if !reader.holds_entry() {
            job.writer.flush()?;
        }
    }
    job.account.damage = input.damage;
    job.finish()
}

struct Job<'o> {
    writer: Writer<&'o mut dyn Write>,
    pending: Pending,
    cut: SegmentMode,
    /// The number that the next entry had before packets were merged.
    next: u64,
    account: SegmentStats,
}

impl Job<'_> {
    fn block(&mut self, record: &Record) -> Result<(), CaptureError> {
        self.account.blocks += 1;
        if record.shape() == Shape::Section {
            // Interface numbers change their meaning here.
            self.write_pending(u64::MAX)?;
        }
        self.write_pending(self.next)?;
        self.next = self.next.saturating_add(1);
        self.writer.write(record)
    }

    fn packet(&mut self, record: Record, link: LinkType) -> Result<(), CaptureError> {
        self.account.packets_in += 1;
        if record.is_truncated() {
            self.account.truncated += 1;
            self.account.snap_len = self.account.snap_len.max(record.data().len());
        }
        self.write_pending(self.next)?;
        let metadata = record.option(METADATA_OPTION).and_then(SegmentMetadata::decode);
        let partial = metadata.as_ref().is_some_and(|metadata| metadata.partial_checksum);
        let checksum = if partial { ChecksumState::Partial } else { ChecksumState::Unknown };
        let packet = Packet::new(record, link, Meta { checksum, ..Meta::default() });
        match self.segments(&packet, metadata.as_ref()) {
            Some(Ok(segments)) if segments.count() > 1 => {
                self.account.restored +=
                    u64::from(metadata.is_some() && self.cut == SegmentMode::AsMerged);
                self.cut_up(&packet, segments, metadata.as_ref())?;
            }
            Some(Err(error)) => {
                self.account.refused.count(error.into());
                self.account.first_refusal.get_or_insert(error);
                self.pass(packet.buffer())?;
            }
            _ => self.pass(packet.buffer())?,
        }
        Ok(())
    }

    fn pass(&mut self, record: &Record) -> Result<(), CaptureError> {
        self.account.untouched += 1;
        self.account.packets_out += 1;
        self.next = self.next.saturating_add(1);
        self.writer.write(record)
    }

    /// The segments of a packet; none if it stays whole.
    fn segments<'p>(
        &mut self,
        packet: &'p Packet<Record>,
        metadata: Option<&SegmentMetadata>,
    ) -> Option<Result<Segments<'p, Piece<Record>>, SegmentError>> {
        let layout = packet.layout();
        let network = usize::from(layout.outer_network()?.offset);
        let tcp = layout.transport().is_some_and(|layer| layer.kind == LayerKind::Tcp);
        let len = packet.datagram_len() - network;
        if packet.buffer().is_truncated() {
            return None;
        }
        match (self.cut, metadata) {
            (SegmentMode::AsMerged, Some(metadata)) => Some(cut_segments(packet, metadata.gso)),
            (SegmentMode::AsMerged, None) => {
                self.account.large += u64::from(len > 1500);
                None
            }
            (SegmentMode::Payload(size), _) => {
                let larger = layout.transport().is_some() && packet.payload_len() > size.into();
                larger.then(|| cut_segments(packet, like(metadata, size)))
            }
            (SegmentMode::Mtu(mtu), _) if len <= mtu.into() => None,
            (SegmentMode::Mtu(mtu), _) if tcp => {
                let headers = layout.header_len() - network;
                let size = usize::from(mtu).saturating_sub(headers);
                // Below the MTU, which has 16 bits.
                Some(match size {
                    0 => Err(SegmentError::MtuTooSmall { mtu: mtu.into(), headers }),
                    size => cut_segments(packet, like(metadata, size as u16)),
                })
            }
            // A number that differs from packet to packet suffices, because nothing is sent.
            (SegmentMode::Mtu(mtu), _) => Some(fragment(packet, mtu.into(), self.next as u32)),
        }
    }

    fn cut_up(
        &mut self,
        packet: &Packet<Record>,
        mut segments: Segments<'_, Piece<Record>>,
        metadata: Option<&SegmentMetadata>,
    ) -> Result<(), CaptureError> {
        self.account.counters.received(packet.datagram_len());
        let like = Rc::new(packet.buffer().without_data());
        let metadata = metadata.filter(|_| self.cut == SegmentMode::AsMerged);
        let mut steps = metadata.map_or(&[][..], |metadata| &metadata.steps).iter();
        let mut checksums = metadata.map_or(&[][..], |metadata| &metadata.checksums).iter();
        let (mut number, mut ticks) = (self.next, like.ticks());
        loop {
            let mut data = vec![0; segments.max_len()];
            // The buffer has room for the longest segment, so writing cannot fail.
            let Ok(Some(written)) = segments.write_next(&mut data) else { break };
            data.truncate(written.len);
            self.account.counters.count(written);
            for (at, field) in packet.layout().checksum_fields().zip(&mut checksums) {
                data[at..at + 2].copy_from_slice(&field.to_be_bytes());
            }
            self.pending.push(number, Segment { like: Rc::clone(&like), data, ticks });
            if let Some(step) = steps.next() {
                number = number.saturating_add(step.entries);
                ticks = ticks.wrapping_add_signed(step.ticks);
            }
        }
        self.write_pending(self.next)
    }

    /// Writes the segments that belong at entry `limit` or before, those that follow them, and
    /// those that exceed the bounds.
    fn write_pending(&mut self, limit: u64) -> Result<(), CaptureError> {
        while let Some((number, segment)) = self.pending.pop(limit.max(self.next)) {
            self.next = self.next.max(number.saturating_add(1));
            self.account.packets_out += 1;
            let comment = OptionMatch { code: options::COMMENT, prefix: COMMENT.as_bytes() };
            let strip = [OptionMatch { code: METADATA_OPTION, prefix: b"" }, comment];
            let ticks = Some(segment.ticks);
            let change = PacketChange { ticks, strip: &strip, ..PacketChange::default() };
            self.writer.write_packet(&segment.like, &[&segment.data], change)?;
        }
        Ok(())
    }

    fn finish(mut self) -> Result<SegmentStats, CaptureError> {
        self.write_pending(u64::MAX)?;
        self.account.lost = self.writer.lost();
        self.writer.finish()?;
        Ok(self.account)
    }
}

/// Another size, with everything else that is known of the packet.
fn like(metadata: Option<&SegmentMetadata>, size: u16) -> Gso {
    Gso { size, ..metadata.map(|metadata| metadata.gso).unwrap_or_default() }
}

/// A segment that waits to be written.
#[derive(Debug)]
struct Segment {
    like: Rc<Record>,
    data: Vec<u8>,
    ticks: u64,
}

impl Segment {
    /// Bytes that it keeps in memory; memory that several share counts for each.
    fn len(&self) -> usize {
        self.data.len() + self.like.stored_len()
    }
}

/// Segments that wait for the entries before them.
#[derive(Debug, Default)]
struct Pending {
    /// By number of the entry, then in order of arrival.
    segments: BTreeMap<(u64, u64), Segment>,
    arrivals: u64,
    bytes: usize,
}

impl Pending {
    fn push(&mut self, number: u64, segment: Segment) {
        self.bytes += segment.len();
        self.segments.insert((number, self.arrivals), segment);
        self.arrivals += 1;
    }

    /// The first segment, if it belongs at `limit` or before, or if a bound is exceeded.
    fn pop(&mut self, limit: u64) -> Option<(u64, Segment)> {
        let full = self.segments.len() > MAX_PENDING || self.bytes > MAX_PENDING_BYTES;
        let first = self.segments.first_entry()?;
        if first.key().0 > limit && !full {
            return None;
        }
        let ((number, _), segment) = first.remove_entry();
        self.bytes -= segment.len();
        Some((number, segment))
    }
}
