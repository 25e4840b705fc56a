//! Merges the packets of a capture.

use super::Checksums;
use super::metadata::{COMMENT, METADATA_OPTION, SegmentMetadata, Step};
use super::order::{Entry, Order};
use super::{Captured, Input, Numbered, Observer, Unknown, link_of};
use crate::capture::{CaptureError, Format, Lost, PacketChange, Record, Shape, Writer};
use linecard::offload::coalesce::{ChecksumPolicy, Coalescer, Config, Counters, Exit, Flush};
use linecard::packet::{ChecksumState, Form, Layout, LinkType, Meta, Packet, Piece};
use linecard::time::Instant;
use std::collections::HashMap;
use std::io::{Read, Write};

/// The most sets of packet options, without comments, that are distinguished in a section (files
/// have one or two); packets with further sets are not merged.
const MAX_MARKS: usize = 256;
/// The bit of sets of options of packets that are cut short.
const SNAPPED: u32 = 1 << 16;
/// The most bytes of options that mergeable packets may have: 256 kB for all sets.
const MAX_OPTIONS: usize = 1024;
/// Bytes of the longest packet that gets zeros for what was not captured: with BIG TCP and all headers.
const MAX_ORIGINAL: usize = Config::MAX_BYTES + 256;
/// Emptied records kept for reuse, and the memory of each: 16 MB in total.
const MAX_SPARES: usize = 1024;
const MAX_SPARE: usize = 16 << 10;

/// Statistics of merging a capture.
#[derive(Debug, Default)]
pub struct CoalesceStats {
    /// Counters of the coalescer.
    pub counters: Counters,
    /// Blocks other than packets, passed through.
    pub blocks: u64,
    /// Packets of unsupported link types.
    pub unknown: Unknown,
    /// Packets that the capture contains only in part.
    pub truncated: u64,
    /// Of these, packets that were examined by their headers, as if they were whole and right.
    pub by_headers: u64,
    /// Bytes of the longest of the packets that the capture contains only in part.
    pub snap_len: usize,
    /// Times at which the capture's clock went back by more than the hold budget.
    pub clock_resets: u64,
    /// Losses to the output format.
    pub lost: Lost,
    /// Merged packets whose segment metadata the output format (pcap) cannot represent.
    pub lost_metadata: u64,
    /// The error that ended reading early, and its offset; everything before it is in the output.
    pub damage: Option<CaptureError>,
}

/// Merges the packets of the capture `input` into `output`, in the given format. Returns the
/// completed `output` and the statistics. Damage of the input is not an error here; the statistics
/// contain it.
///
/// # Errors
///
/// If `input` is not a capture, reading or writing fails, or the output format cannot represent it.
pub fn coalesce<R: Read, W: Write>(
    mut input: R,
    mut output: W,
    format: Format,
    mut config: Config,
    observer: &mut dyn Observer,
) -> Result<(W, CoalesceStats), CaptureError> {
    // The statistics say of each packet why it does not merge.
    config.verify_alone = true;
    let account = convert(&mut input, &mut output, format, config, observer)?;
    Ok((output, account))
}

/// Not generic, so that the hot code is compiled once in this crate and not in each caller's.
fn convert(
    input: &mut dyn Read,
    output: &mut dyn Write,
    format: Format,
    config: Config,
    observer: &mut dyn Observer,
) -> Result<CoalesceStats, CaptureError> {
    let mut input = Input::new(input)?;
    let writer = Writer::new(output, format, input.reader.source().sizes_will_change())?;
    let mut job = Job {
        coalescer: Coalescer::new(config),
        order: Order::default(),
        writer,
        format,
        now: Instant::ZERO,
        marks: HashMap::new(),
        spares: Vec::new(),
        account: CoalesceStats::default(),
    };
    job.run(&mut input, observer)?;
    let mut account = job.account;
    account.damage = input.damage;
    account.counters = job.coalescer.counters().clone();
    account.lost = job.writer.lost();
    job.writer.finish()?;
    Ok(account)
}

struct Job<'o> {
    coalescer: Coalescer<Numbered>,
    order: Order,
    writer: Writer<&'o mut dyn Write>,
    format: Format,
    /// The capture's clock, which never goes back.
    now: Instant,
    /// Sets of packet options in this section, by number from 1.
    marks: HashMap<Vec<u8>, u32>,
    spares: Vec<Record>,
    account: CoalesceStats,
}

impl Job<'_> {
    fn run(
        &mut self,
        input: &mut Input<&mut dyn Read>,
        observer: &mut dyn Observer,
    ) -> Result<(), CaptureError> {
        loop {
            let mut record = self.spares.pop().unwrap_or_default();
            if !input.read(&mut record)? {
                break;
            }
            let reader = &input.reader;
            observer.progress(reader.offset());
            if record.is_packet() {
                let link = reader.link_type(record.interface());
                self.packet(record, link, observer);
            } else {
                let number = self.order.reserve(record.stored_len());
                self.block(number, record, observer);
            }
            if self.order.is_full() {
                self.flush(Flush::HeldLimit, observer);
            }
            self.write_ready()?;
            if !reader.holds_entry() {
                self.writer.flush()?;
            }
        }
        self.flush(Flush::Stop, observer);
        self.write_ready()
    }

    fn packet(&mut self, mut record: Record, link: Option<u32>, observer: &mut dyn Observer) {
        let link = link_of(link, &mut self.account.unknown);
        let captured = self.captured(&record);
        let is_filled = record.is_truncated() && self.complete(&mut record, link);
        let number = self.order.reserve(record.stored_len());
        self.follow_clock(Instant::from_ns(record.timestamp_ns()), observer);
        let meta = Meta {
            timestamp: Instant::from_ns(record.timestamp_ns()),
            lane: record.interface(),
            mark: self.mark(&record, captured.is_some()),
            // Bytes that were not captured cannot be wrong.
            checksum: if is_filled { ChecksumState::Valid } else { ChecksumState::Unknown },
            ..Meta::default()
        };
        let layout = Layout::parse(link, record.data());
        let checksums = checksum_fields(&record, &layout);
        let packet = Packet::with_layout(
            Numbered { record, number, checksums, captured },
            link,
            layout,
            meta,
        );
        observer.arrives(number, &packet);
        let Self { coalescer, order, now, .. } = self;
        let verdict = coalescer.push(packet, *now, &mut |packet, exit| {
            leave(order, observer, packet, exit);
        });
        observer.decided(number, verdict);
    }

    /// A copy of a packet in a capture that is cut short: of all packets from the first one on that is.
    fn captured(&mut self, record: &Record) -> Option<Box<Captured>> {
        if record.is_truncated() {
            self.account.truncated += 1;
            self.account.snap_len = self.account.snap_len.max(record.data().len());
        }
        (self.account.truncated > 0).then(|| Box::new(Captured(record.data().to_vec())))
    }

    /// Gives a packet that was captured in part zeros for the rest, if all its headers are present.
    fn complete(&mut self, record: &mut Record, link: LinkType) -> bool {
        let (data, original_len) = (record.data(), record.original_len() as usize);
        if !(data.len()..=MAX_ORIGINAL).contains(&original_len) {
            return false;
        }
        let layout = Layout::parse_head(link, data, original_len);
        let is_followed = matches!(layout.form(), Form::Datagram | Form::OtherTransport);
        let is_known = is_followed && layout.header_len() <= data.len();
        if is_known {
            self.account.by_headers += 1;
            record.fill_to_original();
        }
        is_known
    }

    /// Interfaces are numbered per section, so nothing is merged across its start.
    fn block(&mut self, number: u64, record: Record, observer: &mut dyn Observer) {
        self.account.blocks += 1;
        if record.shape() == Shape::Section {
            self.flush(Flush::Stop, observer);
            self.marks.clear();
        }
        self.order.settle_block(number, record);
    }

    fn flush(&mut self, reason: Flush, observer: &mut dyn Observer) {
        let Self { coalescer, order, .. } = self;
        coalescer.flush_all(reason, &mut |packet, exit| leave(order, observer, packet, exit));
    }

    /// Small steps back (due to queues of an adapter) do not move the clock, large ones (a clock
    /// that was set, concatenated captures) start a new timeline.
    fn follow_clock(&mut self, at: Instant, observer: &mut dyn Observer) {
        let Self { coalescer, order, now, account, .. } = self;
        if now.since(at) > coalescer.config().hold_budget {
            account.clock_resets += 1;
            let out = &mut |packet, exit| leave(order, observer, packet, exit);
            coalescer.restart_clock(at, out);
            *now = at;
        }
        *now = (*now).max(at);
    }

    /// Packets merge only if the capture's metadata of them is equal, because it could not be
    /// restored otherwise.
    fn mark(&mut self, record: &Record, is_snapped: bool) -> u32 {
        let plain = matches!(record.shape(), Shape::Pcap | Shape::Enhanced);
        if !plain || record.is_truncated() || record.option(METADATA_OPTION).is_some() {
            return Meta::NEVER;
        }
        // Packets before the first one that is cut short have no copy.
        let snapped = if is_snapped { SNAPPED } else { 0 };
        if record.options().is_empty() {
            return snapped;
        }
        if let Some(mark) = self.marks.get(record.options()) {
            return *mark | snapped;
        }
        if self.marks.len() >= MAX_MARKS || record.options().len() > MAX_OPTIONS {
            return Meta::NEVER;
        }
        let mark = self.marks.len() as u32 + 1;
        self.marks.insert(record.options().to_vec(), mark);
        mark | snapped
    }

    fn write_ready(&mut self) -> Result<(), CaptureError> {
        while let Some((entry, exit)) = self.order.pop() {
            match entry {
                Entry::Block(record) => {
                    self.writer.write(&record)?;
                    self.spare(record);
                }
                Entry::Packet(packet) => self.write_packet(packet, exit)?,
            }
        }
        Ok(())
    }

    fn write_packet(
        &mut self,
        packet: Packet<Numbered>,
        exit: Option<Exit>,
    ) -> Result<(), CaptureError> {
        let record = &packet.buffer().record;
        if packet.is_merged() {
            let trusted = self.coalescer.config().checksum == ChecksumPolicy::Trust;
            let metadata = metadata_of(&packet, trusted).encode();
            let comment = comment_of(&packet, exit);
            let mut parts = vec![packet.header()];
            parts.extend(packet.payload());
            let change = match self.format {
                Format::PcapNg => PacketChange {
                    comment: Some(&comment),
                    append: Some((METADATA_OPTION, &metadata)),
                    ..PacketChange::default()
                },
                Format::Pcap => PacketChange::default(),
            };
            self.account.lost_metadata += u64::from(change.append.is_none());
            self.writer.write_packet(record, &parts, change)?;
        } else {
            self.writer.write(record)?;
        }
        let (first, mut chain) = packet.into_parts();
        self.spare(first.record);
        chain.drain(..).for_each(|piece| self.spare(piece.into_buffer().record));
        self.coalescer.recycle(chain);
        Ok(())
    }

    fn spare(&mut self, record: Record) {
        if self.spares.len() < MAX_SPARES && record.capacity() <= MAX_SPARE {
            self.spares.push(record);
        }
    }
}

fn leave(order: &mut Order, observer: &mut dyn Observer, packet: Packet<Numbered>, exit: Exit) {
    observer.leaves(&packet, exit);
    order.settle_packet(packet, exit);
}

/// The comment of a merged packet, which programs that show captures print.
fn comment_of(packet: &Packet<Numbered>, exit: Option<Exit>) -> String {
    let (first, chain) = (packet.buffer().number, packet.chain());
    let last = chain.last().map_or(first, |piece| piece.buffer().number);
    let size = packet.meta.gso.unwrap_or_default().size;
    let count = chain.len() + 1;
    let why = match exit {
        Some(Exit::Flushed(why)) => why.name(),
        Some(Exit::Passed(why)) => why.name(),
        None => "unknown",
    };
    format!(
        "{COMMENT}{count} packets, #{first} to #{last} of the input, {size} B each; flushed: {why}"
    )
}

fn checksum_fields(record: &Record, layout: &Layout) -> Checksums {
    let mut fields = Checksums::default();
    for (at, field) in layout.checksum_fields().zip(&mut fields) {
        let bytes = record.data().get(at..at + 2).and_then(<[u8]>::first_chunk);
        *field = bytes.map_or(0, |bytes| u16::from_be_bytes(*bytes));
    }
    fields
}

/// With `trusted` checksums, which were not verified, the checksum fields themselves are
/// recorded.
fn metadata_of(packet: &Packet<Numbered>, trusted: bool) -> SegmentMetadata {
    let first = packet.buffer();
    let partial_checksum = packet.meta.checksum == ChecksumState::Partial;
    let mut checksums = Vec::new();
    if trusted && !partial_checksum {
        let count = packet.layout().checksum_fields().count();
        let all = core::iter::once(first).chain(packet.chain().iter().map(Piece::buffer));
        all.for_each(|segment| checksums.extend(&segment.checksums[..count]));
    }
    let (mut number, mut ticks) = (first.number, first.record.ticks());
    let step = |piece: &Numbered| {
        let step = Step {
            entries: piece.number - number,
            ticks: piece.record.ticks().wrapping_sub(ticks) as i64,
        };
        (number, ticks) = (piece.number, piece.record.ticks());
        step
    };
    SegmentMetadata {
        gso: packet.meta.gso.unwrap_or_default(),
        partial_checksum,
        steps: packet.chain().iter().map(|piece| piece.buffer()).map(step).collect(),
        checksums,
    }
}
