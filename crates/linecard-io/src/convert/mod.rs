//! The two offloads on captures: [`coalesce()`] merges the packets of a capture, [`segment()`]
//! segments them or restores merged ones.
//!
//! Merged packets carry a [`SegmentMetadata`] in a pcapng option: segment size, count, and position and time
//! of each segment. `segment` after `coalesce` therefore restores every packet byte for byte, with
//! its timestamp, and in the order of the original file. Memory use does not depend on the size of
//! the file.

mod coalesce;
mod metadata;
mod order;
mod segment;

pub use coalesce::{CoalesceStats, coalesce};
pub use metadata::{METADATA_OPTION, SegmentMetadata, Step};
pub use order::MAX_WAITING;
pub use segment::{SegmentMode, SegmentStats, segment};

use crate::capture::{CaptureError, Format, Reader, Record};
use linecard::offload::coalesce::{Exit, Verdict};
use linecard::packet::{LinkType, Packet};
use std::collections::BTreeMap;
use std::io::Read;

/// Observes a conversion: for progress bars, and to explain one flow.
pub trait Observer {
    /// Called with the number of input bytes read.
    fn progress(&mut self, offset: u64) {
        let _ = offset;
    }

    /// Called before packet `number` (from 1) is processed.
    fn arrives(&mut self, number: u64, packet: &Packet<Numbered>) {
        let _ = (number, packet);
    }

    /// Called with the verdict on packet `number`. Packets that it displaced have
    /// [left](Observer::leaves) before.
    fn decided(&mut self, number: u64, verdict: Verdict) {
        let _ = (number, verdict);
    }

    /// Called when a packet, merged or not, leaves the coalescer.
    fn leaves(&mut self, packet: &Packet<Numbered>, exit: Exit) {
        let _ = (packet, exit);
    }
}

/// Observes nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoObserver;

impl Observer for NoObserver {}

/// Checksum fields of one packet, innermost first: the packet's own and one per tunnel.
type Checksums = [u16; linecard::packet::MAX_TUNNELS + 1];

/// A record and its number in the capture, from 1, which includes blocks other than packets.
#[derive(Debug, Default)]
pub struct Numbered {
    record: Record,
    number: u64,
    /// Its original checksum fields: merging changes those of a first packet.
    checksums: Checksums,
    /// Its captured bytes, in a capture that is cut short: the rest is zeros.
    captured: Option<Box<Captured>>,
}

/// The captured bytes of a packet; boxed, since few captures have them and every packet has the place.
#[derive(Debug)]
struct Captured(Vec<u8>);

impl Numbered {
    /// The record.
    #[must_use]
    pub fn record(&self) -> &Record {
        &self.record
    }

    /// Its number in the capture.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number
    }
}

impl AsRef<[u8]> for Numbered {
    fn as_ref(&self) -> &[u8] {
        self.record.as_ref()
    }
}

impl AsMut<[u8]> for Numbered {
    fn as_mut(&mut self) -> &mut [u8] {
        self.record.as_mut()
    }
}

/// A capture that is read as far as it is intact.
struct Input<R> {
    reader: Reader<R>,
    any: bool,
    damage: Option<CaptureError>,
}

impl<R: Read> Input<R> {
    fn new(read: R) -> Result<Self, CaptureError> {
        Ok(Self { reader: Reader::new(read)?, any: false, damage: None })
    }

    /// The next entry; false at the end or at damage, which is stored. Damage before the first
    /// entry is an error, because the output would not be a capture.
    fn read(&mut self, record: &mut Record) -> Result<bool, CaptureError> {
        match self.reader.read(record) {
            Err(error)
                if error.is_damage() && (self.any || self.reader.format() == Format::Pcap) =>
            {
                self.damage = Some(error);
                Ok(false)
            }
            result => {
                self.any = true;
                result
            }
        }
    }
}

/// Packets of unsupported link types: type → packets.
pub type Unknown = BTreeMap<u32, u64>;

/// The link type to parse with; unsupported types are counted.
pub(crate) fn link_of(number: Option<u32>, unknown: &mut Unknown) -> LinkType {
    // A missing number matches no link type; 65,535 is not assigned.
    let number = number.unwrap_or(0xFFFF);
    let link = LinkType::from_capture(number);
    if link == LinkType::Other {
        *unknown.entry(number).or_default() += 1;
    }
    link
}
