//! From pcapng to pcap: one link type, one clock, packets only; lost options and blocks are counted.

use super::interface::{Interface, Interfaces};
use super::options::{self, IF_TSOFFSET, IF_TSRESOL};
use super::record::{PcapHead, Record, Shape};
use super::source::{LARGE_SNAPLEN, PcapHeader};
use super::{CaptureError, Endianness};

const LINKTYPE_ETHERNET: u16 = 1;

/// Losses to the output format.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lost {
    /// Blocks that are not packets, beyond the first section and interface.
    pub blocks: u64,
    /// Options of packets, sections and interfaces, comments among them.
    pub options: u64,
    /// Timestamps rounded or out of range.
    pub timestamps: u64,
}

/// State of a pcapng input that is written as pcap.
#[derive(Debug, Default)]
pub(super) struct Flatten {
    interfaces: Interfaces,
    sections: u64,
    /// Of the first interface; all others must have it.
    link_type: Option<u16>,
    /// Whether timestamps are nanoseconds; decided when the header is written.
    nanoseconds: Option<bool>,
}

impl Flatten {
    /// The header, if it has not been made yet. It says nanoseconds if an interface known by now
    /// has timestamps that microseconds cannot hold.
    pub(super) fn header(&mut self, endianness: Endianness) -> Option<PcapHeader> {
        if self.nanoseconds.is_some() {
            return None;
        }
        let all = self.interfaces.all();
        let nanoseconds = all.iter().any(|known| !known.clock.fits_microseconds());
        self.nanoseconds = Some(nanoseconds);
        let snaplen = all.iter().map(|known| known.snaplen).max().unwrap_or(0);
        let snaplen = if all.iter().any(|known| known.snaplen == 0) { 0 } else { snaplen };
        let snaplen = if snaplen == 0 { LARGE_SNAPLEN } else { snaplen };
        let link_type = self.link_type.unwrap_or(LINKTYPE_ETHERNET);
        Some(PcapHeader::new(endianness, link_type, nanoseconds, snaplen))
    }

    /// Takes note of a block that is not a packet. The first section and interface live on in the
    /// header; everything else is lost.
    pub(super) fn note(&mut self, block: &Record, lost: &mut Lost) -> Result<(), CaptureError> {
        let endianness = block.endianness();
        match block.shape() {
            Shape::Section => {
                self.interfaces.clear();
                lost.blocks += u64::from(self.sections > 0);
                self.sections += 1;
                lost.options += options::count(block.options(), endianness);
            }
            Shape::Interface => {
                lost.blocks += u64::from(self.link_type.is_some());
                let kept = |code, _: &[u8]| code != IF_TSRESOL && code != IF_TSOFFSET;
                lost.options += options::strip(block.options(), endianness, &mut Vec::new(), kept);
                self.add(Interface::parse(block.bytes(), endianness))?;
            }
            _ => lost.blocks += 1,
        }
        Ok(())
    }

    fn add(&mut self, interface: Option<Interface>) -> Result<(), CaptureError> {
        let Some(interface) = interface else { return Err(CaptureError::ForeignRecord) };
        let first = *self.link_type.get_or_insert(interface.link_type);
        if first != interface.link_type {
            return Err(CaptureError::LinkTypes { first, other: interface.link_type });
        }
        self.interfaces.add(interface).map_err(|_| CaptureError::ForeignRecord)
    }

    /// The pcap header of a packet of `interface` at `ticks`.
    pub(super) fn head(
        &self,
        interface: u32,
        ticks: u64,
        original_len: u32,
        lost: &mut Lost,
    ) -> Result<PcapHead, CaptureError> {
        let interface = self.interfaces.get(interface).map_err(|_| CaptureError::ForeignRecord)?;
        let (ns, exact) = interface.clock.nanoseconds(ticks);
        let unit = if self.nanoseconds == Some(true) { 1 } else { 1_000 };
        let held = ns.clamp(0, i128::from(u32::MAX) * 1_000_000_000 + 999_999_999) as u64;
        let fraction = (held % 1_000_000_000) as u32;
        lost.timestamps +=
            u64::from(!exact || i128::from(held) != ns || !fraction.is_multiple_of(unit));
        Ok(PcapHead {
            seconds: (held / 1_000_000_000) as u32,
            fraction: fraction / unit,
            original_len,
            swapped: false,
        })
    }
}
