//! One entry of a capture, owned and reusable.

use super::interface::Clock;
use super::options;
use super::{Endianness, Format};

/// A buffer that grew beyond this for one long entry shrinks again at the next short one, so that
/// a pool of records cannot be blown up by a few hostile entries.
const KEEP: usize = 128 << 10;

/// Kinds of entries of a [`Record`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Shape {
    /// A pcap packet.
    #[default]
    Pcap,
    /// A pcapng Enhanced Packet Block.
    Enhanced,
    /// A pcapng Simple Packet Block: no interface number, no timestamp, no options.
    Simple,
    /// A pcapng Packet Block, the one that Enhanced replaced.
    Obsolete,
    /// A pcapng Section Header Block.
    Section,
    /// A pcapng Interface Description Block.
    Interface,
    /// Any other pcapng block, by its type.
    Other(u32),
}

impl Shape {
    /// The shape of a pcapng block type.
    pub(super) const fn of_block(code: u32) -> Self {
        match code {
            0x0a0d_0d0a => Self::Section,
            1 => Self::Interface,
            2 => Self::Obsolete,
            3 => Self::Simple,
            6 => Self::Enhanced,
            other => Self::Other(other),
        }
    }

    /// The pcapng block type, none for pcap.
    pub(super) const fn block(self) -> Option<u32> {
        match self {
            Self::Pcap => None,
            Self::Section => Some(0x0a0d_0d0a),
            Self::Interface => Some(1),
            Self::Obsolete => Some(2),
            Self::Simple => Some(3),
            Self::Enhanced => Some(6),
            Self::Other(code) => Some(code),
        }
    }

    /// The format that has such entries.
    pub const fn format(self) -> Format {
        match self {
            Self::Pcap => Format::Pcap,
            _ => Format::PcapNg,
        }
    }
}

/// Where the parts of an entry are in its bytes, and what its fixed fields say.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Layout {
    pub(super) ticks: u64,
    pub(super) timestamp_ns: u64,
    // 32 bits are enough below `MAX_ENTRY` and keep the record small.
    pub(super) data_start: u32,
    pub(super) data_len: u32,
    pub(super) options_start: u32,
    pub(super) options_len: u32,
    pub(super) original_len: u32,
    pub(super) interface: u32,
    pub(super) shape: Shape,
}

/// The fields before a pcap packet, as in the file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct PcapHead {
    pub(super) seconds: u32,
    /// Micro- or nanoseconds; some files have a million or more here, which is kept.
    pub(super) fraction: u32,
    pub(super) original_len: u32,
    /// The two length fields are in the order of pcap before version 2.3.
    pub(super) swapped: bool,
}

/// One entry of a capture: a packet, or a pcapng block of another kind.
///
/// [`Reader::read`](super::Reader::read) fills it and reuses its memory. For pcapng it holds the
/// whole block body, so that [`Writer::write`](super::Writer::write) gives back the block as it
/// was, padding and all; for pcap the packet's bytes.
///
/// The default value is an empty pcap packet at time 0.
#[derive(Debug, Clone, Default)]
pub struct Record {
    bytes: Vec<u8>,
    layout: Layout,
    seconds: u32,
    fraction: u32,
    swapped: bool,
    endianness: Endianness,
}

// The offload holds records by value: two cache lines would be one too many.
const _: () = assert!(size_of::<Record>() <= 96);

impl Record {
    /// The captured bytes of the packet; empty if this is not a packet.
    #[inline]
    pub fn data(&self) -> &[u8] {
        let start = self.layout.data_start as usize;
        &self.bytes[start..start + self.layout.data_len as usize]
    }

    /// The pcapng options as they are in the file, in [`endianness`](Self::endianness) order,
    /// without the end-of-options and what follows it. Empty for pcap, and for blocks whose
    /// options are not located here (neither packet nor section nor interface).
    pub fn options(&self) -> &[u8] {
        let start = self.layout.options_start as usize;
        &self.bytes[start..start + self.layout.options_len as usize]
    }

    /// The value of the first option with this code.
    pub fn option(&self, code: u16) -> Option<&[u8]> {
        options::find(self.options(), code, self.endianness)
    }

    /// The interface's number in its section; 0 for pcap and for simple packets.
    #[inline]
    pub fn interface(&self) -> u32 {
        self.layout.interface
    }

    /// The timestamp in the interface's own units, for pcap in the file's micro- or nanoseconds
    /// since 1970. 0 if there is none.
    #[inline]
    pub fn ticks(&self) -> u64 {
        self.layout.ticks
    }

    /// The timestamp in nanoseconds since 1970, rounded down, 0 or `u64::MAX` if out of range.
    #[inline]
    pub fn timestamp_ns(&self) -> u64 {
        self.layout.timestamp_ns
    }

    /// Length of the packet on the wire, of which [`data`](Self::data) may be a part.
    #[inline]
    pub fn original_len(&self) -> u32 {
        self.layout.original_len
    }

    /// The kind of entry.
    #[inline]
    pub fn shape(&self) -> Shape {
        self.layout.shape
    }

    /// The byte order of the section (or pcap file) that the entry is from.
    pub fn endianness(&self) -> Endianness {
        self.endianness
    }

    /// Whether there is a packet in it.
    #[inline]
    pub fn is_packet(&self) -> bool {
        matches!(self.layout.shape, Shape::Pcap | Shape::Enhanced | Shape::Simple | Shape::Obsolete)
    }

    /// Whether the captured length differs from the length on the wire.
    #[inline]
    pub fn is_truncated(&self) -> bool {
        self.is_packet() && self.layout.data_len != self.layout.original_len
    }

    /// Bytes stored: the whole block body, or the packet.
    pub fn stored_len(&self) -> usize {
        self.bytes.len()
    }

    /// Bytes of memory taken for them.
    pub fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// A record like this one without its packet bytes, for
    /// [`Writer::write_packet`](super::Writer::write_packet).
    #[must_use]
    pub fn without_data(&self) -> Self {
        let options_len = self.layout.options_len;
        let layout =
            Layout { data_start: 0, data_len: 0, options_start: 0, options_len, ..self.layout };
        Self { bytes: self.options().to_vec(), layout, ..*self }
    }

    /// Becomes as long as the packet was on the wire, with zeros for what was not captured.
    pub(crate) fn fill_to_original(&mut self) {
        let missing = self.layout.original_len.saturating_sub(self.layout.data_len);
        let end = self.layout.data_start + self.layout.data_len;
        self.bytes.splice(end as usize..end as usize, std::iter::repeat_n(0, missing as usize));
        self.layout.data_len += missing;
        if self.layout.options_start >= end {
            self.layout.options_start += missing;
        }
    }

    /// Has only these bytes again, of a packet that was [filled](Self::fill_to_original) or changed.
    pub(crate) fn restore(&mut self, captured: &[u8]) {
        let start = self.layout.data_start;
        let (kept, end) = (start + captured.len() as u32, start + self.layout.data_len);
        self.bytes[start as usize..kept as usize].copy_from_slice(captured);
        self.bytes.drain(kept as usize..end as usize);
        self.layout.data_len = captured.len() as u32;
        if self.layout.options_start >= end {
            self.layout.options_start -= end - kept;
        }
    }

    /// All that is stored: block body, or packet.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(super) fn pcap_head(&self) -> PcapHead {
        PcapHead {
            seconds: self.seconds,
            fraction: self.fraction,
            original_len: self.layout.original_len,
            swapped: self.swapped,
        }
    }

    /// Becomes a pcapng block.
    #[inline]
    pub(super) fn fill_block(&mut self, body: &[u8], layout: Layout, endianness: Endianness) {
        self.store(body);
        self.layout = layout;
        self.endianness = endianness;
    }

    /// Becomes a pcap packet.
    #[inline]
    pub(super) fn fill_pcap(
        &mut self,
        head: PcapHead,
        data: &[u8],
        clock: Clock,
        endianness: Endianness,
    ) {
        let units = if clock == Clock::NANOSECONDS { 1_000_000_000 } else { 1_000_000 };
        let ticks = u64::from(head.seconds) * units + u64::from(head.fraction);
        self.store(data);
        self.layout = Layout {
            ticks,
            timestamp_ns: clock.timestamp_ns(ticks),
            data_len: data.len() as u32,
            original_len: head.original_len,
            ..Layout::default()
        };
        (self.seconds, self.fraction, self.swapped) = (head.seconds, head.fraction, head.swapped);
        self.endianness = endianness;
    }

    #[inline]
    fn store(&mut self, bytes: &[u8]) {
        self.bytes.clear();
        if self.bytes.capacity() > KEEP && bytes.len() <= KEEP {
            self.bytes.shrink_to(KEEP);
        }
        self.bytes.extend_from_slice(bytes);
    }
}

impl AsRef<[u8]> for Record {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        self.data()
    }
}

impl AsMut<[u8]> for Record {
    #[inline]
    fn as_mut(&mut self) -> &mut [u8] {
        let start = self.layout.data_start as usize;
        &mut self.bytes[start..start + self.layout.data_len as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_captured_is_filled_and_cut_off_again() {
        // Four bytes before the data, three of padding and options behind.
        let body: Vec<u8> = (0..20).collect();
        let layout = Layout {
            data_start: 4,
            data_len: 5,
            options_start: 12,
            options_len: 8,
            original_len: 9,
            shape: Shape::Enhanced,
            ..Layout::default()
        };
        let mut record = Record::default();
        record.fill_block(&body, layout, Endianness::Little);
        let (data, options) = (record.data().to_vec(), record.options().to_vec());
        record.fill_to_original();
        assert_eq!((record.data().len(), &record.data()[5..]), (9, &[0; 4][..]));
        assert!(!record.is_truncated() && record.options() == options);
        record.as_mut()[0] = 99;
        record.restore(&data);
        assert!(record.bytes() == body && record.data() == data && record.options() == options);
    }

    #[test]
    fn a_long_entry_does_not_stay_in_memory() {
        let mut record = Record::default();
        record.store(&vec![1; 1 << 20]);
        assert!(record.bytes.capacity() >= 1 << 20);
        record.store(b"x");
        assert!(record.bytes == b"x" && record.bytes.capacity() <= KEEP);
    }
}
