//! The writer: records as they were, or new packets in the likeness of read ones.

use std::io::Write;

use super::flatten::{Flatten, Lost};
use super::input::MAX_ENTRY;
use super::options;
use super::record::{PcapHead, Record, Shape};
use super::source::{PcapHeader, Source, widened};
use super::{CaptureError, Endianness, Format};

/// An enhanced packet block's fields before the packet.
const ENHANCED_HEAD: usize = 28;
/// Padding, and the end-of-options.
const ZEROS: [u8; 4] = [0; 4];

/// Which options to leave out: those with `code` whose value starts with `prefix`. A custom
/// option's prefix is its enterprise number, an empty prefix fits all.
#[derive(Debug, Clone, Copy)]
pub struct OptionMatch<'a> {
    /// The option's code.
    pub code: u16,
    /// How its value starts.
    pub prefix: &'a [u8],
}

/// In what a new packet differs from the one it is like.
#[derive(Debug, Clone, Copy, Default)]
pub struct PacketChange<'a> {
    /// Another timestamp, in the units of the interface.
    pub ticks: Option<u64>,
    /// Options to leave out.
    pub strip: &'a [OptionMatch<'a>],
    /// A comment to add behind the other options.
    pub comment: Option<&'a str>,
    /// An option to add behind that, by code and value.
    pub append: Option<(u16, &'a [u8])>,
}

/// Writes a capture whose records come from one [`Reader`](super::Reader).
///
/// With the format of the input, what goes through [`write`](Self::write) is byte for byte what
/// was read. It does not buffer: give it an [`OutputFile`](super::OutputFile) or a `BufWriter`.
#[derive(Debug)]
pub struct Writer<W> {
    out: W,
    format: Format,
    source: Source,
    flatten: Flatten,
    lost: Lost,
    scratch: Vec<u8>,
}

impl<W: Write> Writer<W> {
    /// Starts a file of `format` for records from `source`.
    pub fn new(out: W, format: Format, source: Source) -> Result<Self, CaptureError> {
        let (flatten, lost) = (Flatten::default(), Lost::default());
        let mut writer = Self { out, format, source, flatten, lost, scratch: Vec::new() };
        match (source.format, format) {
            (Format::Pcap, Format::Pcap) => writer.start_pcap()?,
            (Format::Pcap, Format::PcapNg) => writer.start_pcapng()?,
            // Sections come as records, and so does what a pcap header must say.
            (Format::PcapNg, _) => {}
        }
        Ok(writer)
    }

    /// Writes a record as it is, as far as the format can hold it.
    pub fn write(&mut self, record: &Record) -> Result<(), CaptureError> {
        self.check(record)?;
        match (self.source.format, self.format) {
            (Format::Pcap, Format::Pcap) => self.pcap_packet(record.pcap_head(), &[record.data()]),
            (Format::PcapNg, Format::PcapNg) => self.block(record),
            (Format::PcapNg, Format::Pcap) if !record.is_packet() => {
                self.flatten.note(record, &mut self.lost)
            }
            _ => {
                self.lost_options(record.options(), record.endianness());
                let original_len = record.original_len();
                self.packet(record, &[record.data()], record.ticks(), original_len, &[])
            }
        }
    }

    /// Writes a new packet: `data` in a row, with the interface, timestamp and options of `like`
    /// except for `change`. Nothing of it is cut off: captured and original length are equal.
    ///
    /// In pcapng it becomes an Enhanced Packet Block, whatever `like` is.
    pub fn write_packet(
        &mut self,
        like: &Record,
        data: &[&[u8]],
        change: PacketChange<'_>,
    ) -> Result<(), CaptureError> {
        self.check(like)?;
        let length = data.iter().fold(0_usize, |sum, part| sum.saturating_add(part.len()));
        if !like.is_packet() {
            return Err(CaptureError::ForeignRecord);
        }
        if length > MAX_ENTRY {
            return Err(CaptureError::TooLong { length });
        }
        let mut options = std::mem::take(&mut self.scratch);
        options.clear();
        let ticks = change.ticks.unwrap_or_else(|| like.ticks());
        let result = self.changed_options(like, change, &mut options).and_then(|()| {
            self.lost_options(&options, like.endianness());
            let original_len = length as u32;
            if self.source.format == Format::Pcap && self.format == Format::Pcap {
                let head = self.pcap_head(like, change.ticks, original_len);
                return self.pcap_packet(head, data);
            }
            self.packet(like, data, ticks, original_len, &options)
        });
        self.scratch = options;
        result
    }

    /// Passes on data that the writer below buffers.
    pub fn flush(&mut self) -> Result<(), CaptureError> {
        Ok(self.out.flush()?)
    }

    /// Losses to the output format so far.
    pub fn lost(&self) -> Lost {
        self.lost
    }

    /// Completes the file, flushes, and gives back what it was written to.
    pub fn finish(mut self) -> Result<W, CaptureError> {
        if self.source.format == Format::PcapNg && self.format == Format::Pcap {
            self.start_flattened()?;
        }
        self.out.flush()?;
        Ok(self.out)
    }

    /// A record of the other format cannot come from this source.
    fn check(&self, record: &Record) -> Result<(), CaptureError> {
        if record.shape().format() == self.source.format {
            return Ok(());
        }
        Err(CaptureError::ForeignRecord)
    }

    /// A packet that is written otherwise than it was read.
    fn packet(
        &mut self,
        like: &Record,
        data: &[&[u8]],
        ticks: u64,
        original_len: u32,
        options: &[u8],
    ) -> Result<(), CaptureError> {
        if self.format == Format::Pcap {
            self.start_flattened()?;
            let lost = &mut self.lost;
            let head = self.flatten.head(like.interface(), ticks, original_len, lost)?;
            return self.pcap_packet(head, data);
        }
        self.enhanced(like, data, ticks, original_len, options)
    }

    /// Counts options that the output cannot hold.
    fn lost_options(&mut self, blob: &[u8], endianness: Endianness) {
        if self.format == Format::Pcap && !blob.is_empty() {
            self.lost.options += options::count(blob, endianness);
        }
    }

    fn changed_options(
        &mut self,
        like: &Record,
        change: PacketChange<'_>,
        kept: &mut Vec<u8>,
    ) -> Result<(), CaptureError> {
        let endianness = like.endianness();
        let mut asked = 0;
        let dropped = options::strip(like.options(), endianness, kept, |code, value| {
            let fits = |m: &OptionMatch<'_>| m.code == code && value.starts_with(m.prefix);
            let drop = change.strip.iter().any(fits);
            asked += u64::from(drop);
            drop
        });
        // A malformed rest has no place before an option that is to be found again.
        self.lost.options += dropped - asked;
        if let Some(comment) = change.comment {
            options::append(kept, options::COMMENT, comment.as_bytes(), endianness)?;
        }
        match change.append {
            Some((code, value)) => options::append(kept, code, value, endianness),
            None => Ok(()),
        }
    }
}

/// pcap.
impl<W: Write> Writer<W> {
    fn start_pcap(&mut self) -> Result<(), CaptureError> {
        let PcapHeader(bytes) = self.source_header();
        Ok(self.out.write_all(&bytes)?)
    }

    /// Writes the pcap header for a pcapng input, once.
    fn start_flattened(&mut self) -> Result<(), CaptureError> {
        let endianness = self.source.endianness;
        let Some(header) = self.flatten.header(endianness) else { return Ok(()) };
        let PcapHeader(bytes) = self.widen(header);
        Ok(self.out.write_all(&bytes)?)
    }

    fn source_header(&self) -> PcapHeader {
        self.widen(self.source.header)
    }

    fn widen(&self, mut header: PcapHeader) -> PcapHeader {
        let endianness = self.source.endianness;
        if self.source.sizes_change {
            header.set_snaplen(endianness, widened(header.snaplen(endianness)));
        }
        header
    }

    fn pcap_head(&mut self, like: &Record, ticks: Option<u64>, original_len: u32) -> PcapHead {
        let Some(ticks) = ticks else {
            return PcapHead { original_len, ..like.pcap_head() };
        };
        let units = if self.source.header.nanoseconds() { 1_000_000_000 } else { 1_000_000 };
        let seconds = ticks / units;
        self.lost.timestamps += u64::from(seconds > u64::from(u32::MAX));
        PcapHead {
            seconds: seconds.min(u32::MAX.into()) as u32,
            fraction: (ticks % units) as u32,
            original_len,
            swapped: false,
        }
    }

    fn pcap_packet(&mut self, head: PcapHead, data: &[&[u8]]) -> Result<(), CaptureError> {
        let endianness = self.source.endianness;
        let captured = data.iter().map(|part| part.len()).sum::<usize>() as u32;
        let lengths = match head.swapped {
            false => [captured, head.original_len],
            true => [head.original_len, captured],
        };
        let mut bytes = [0; 16];
        put_words(&mut bytes, endianness, &[head.seconds, head.fraction, lengths[0], lengths[1]]);
        self.out.write_all(&bytes)?;
        for part in data {
            self.out.write_all(part)?;
        }
        Ok(())
    }
}

/// pcapng.
impl<W: Write> Writer<W> {
    /// The section and the one interface of what was pcap.
    fn start_pcapng(&mut self) -> Result<(), CaptureError> {
        let endianness = self.source.endianness;
        let header = self.source_header();
        let mut body = Vec::new();
        body.extend_from_slice(&endianness.bytes32(0x1a2b_3c4d));
        body.extend_from_slice(&endianness.bytes16(1));
        body.extend_from_slice(&endianness.bytes16(0));
        body.extend_from_slice(&[0xff; 8]);
        self.framed(0x0a0d_0d0a, &body, endianness)?;
        body.clear();
        body.extend_from_slice(&endianness.bytes16(header.link_type(endianness)));
        body.extend_from_slice(&endianness.bytes16(0));
        body.extend_from_slice(&endianness.bytes32(header.snaplen(endianness)));
        if header.nanoseconds() {
            options::append(&mut body, options::IF_TSRESOL, &[9], endianness)?;
            body.extend_from_slice(&ZEROS);
        }
        self.framed(1, &body, endianness)
    }

    /// A block as it was, save for what changed sizes make wrong.
    fn block(&mut self, record: &Record) -> Result<(), CaptureError> {
        let Some(code) = record.shape().block() else { return Err(CaptureError::ForeignRecord) };
        let endianness = record.endianness();
        if !self.source.sizes_change {
            return self.framed(code, record.bytes(), endianness);
        }
        match record.shape() {
            Shape::Section => self.patched(code, record, 8, &[0xff; 8]),
            Shape::Interface => {
                let snaplen = endianness.u32_at(record.bytes(), 4).unwrap_or(0);
                self.patched(code, record, 4, &endianness.bytes32(widened(snaplen)))
            }
            // Its captured length was the snapshot length, which is another one now.
            Shape::Simple if record.is_truncated() => {
                self.enhanced(record, &[record.data()], 0, record.original_len(), &[])
            }
            _ => self.framed(code, record.bytes(), endianness),
        }
    }

    fn patched(
        &mut self,
        code: u32,
        record: &Record,
        at: usize,
        field: &[u8],
    ) -> Result<(), CaptureError> {
        let mut body = record.bytes().to_vec();
        body[at..at + field.len()].copy_from_slice(field);
        self.framed(code, &body, record.endianness())
    }

    fn framed(
        &mut self,
        code: u32,
        body: &[u8],
        endianness: Endianness,
    ) -> Result<(), CaptureError> {
        let length = (body.len() + 12) as u32;
        let mut head = [0; 8];
        put_words(&mut head, endianness, &[code, length]);
        self.out.write_all(&head)?;
        self.out.write_all(body)?;
        Ok(self.out.write_all(&endianness.bytes32(length))?)
    }

    fn enhanced(
        &mut self,
        like: &Record,
        data: &[&[u8]],
        ticks: u64,
        original_len: u32,
        options: &[u8],
    ) -> Result<(), CaptureError> {
        let endianness = like.endianness();
        let captured = data.iter().map(|part| part.len()).sum::<usize>();
        let padding = captured.next_multiple_of(4) - captured;
        let end = if options.is_empty() { 0 } else { 4 };
        let length = ENHANCED_HEAD + captured + padding + options.len() + end + 4;
        if length > MAX_ENTRY {
            return Err(CaptureError::TooLong { length });
        }
        let (high, low) = ((ticks >> 32) as u32, ticks as u32);
        let interface = like.interface();
        let words = [6, length as u32, interface, high, low, captured as u32, original_len];
        let mut head = [0; ENHANCED_HEAD];
        put_words(&mut head, endianness, &words);
        self.out.write_all(&head)?;
        for part in data {
            self.out.write_all(part)?;
        }
        self.out.write_all(&ZEROS[..padding])?;
        self.out.write_all(options)?;
        self.out.write_all(&ZEROS[..end])?;
        Ok(self.out.write_all(&endianness.bytes32(length as u32))?)
    }
}

/// Fills `bytes` with 32-bit fields.
fn put_words(bytes: &mut [u8], endianness: Endianness, words: &[u32]) {
    for (place, &word) in bytes.chunks_exact_mut(4).zip(words) {
        place.copy_from_slice(&endianness.bytes32(word));
    }
}
