//! The two offloads on captures: [`coalesce()`] merges what a capture holds, [`segment()`] cuts it or
//! gives back what was merged.
//!
//! Merged packets carry a [`Trail`] in a pcapng option: segment size, count, and where and when
//! each segment was. `segment` after `coalesce` therefore gives back every packet, byte for byte,
//! with its timestamp, and in the order of the whole file. Memory does not grow with the file.

mod coalesce;
mod order;
mod segment;
mod trail;

pub use coalesce::{CoalesceAccount, coalesce};
pub use order::MAX_WAITING;
pub use segment::{Cut, SegmentAccount, segment};
pub use trail::{Step, TRAIL_OPTION, Trail};

use crate::capture::{CaptureError, Format, Reader, Record};
use linecard::offload::coalesce::{Exit, Verdict};
use linecard::packet::{LinkType, Packet};
use std::collections::BTreeMap;
use std::io::Read;

/// Watches a conversion: for progress bars, and to explain one flow.
pub trait Observer {
    /// So many bytes of the input have been read.
    fn progress(&mut self, offset: u64) {
        let _ = offset;
    }

    /// Packet `number` (from 1) is about to be decided on.
    fn arrives(&mut self, number: u64, packet: &Packet<Numbered>) {
        let _ = (number, packet);
    }

    /// What became of packet `number`. What it displaced has [left](Observer::leaves) before.
    fn decided(&mut self, number: u64, verdict: Verdict) {
        let _ = (number, verdict);
    }

    /// A packet, merged or not, leaves the coalescer.
    fn leaves(&mut self, packet: &Packet<Numbered>, exit: Exit) {
        let _ = (packet, exit);
    }
}

/// Watches nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoObserver;

impl Observer for NoObserver {}

/// Checksum fields of one packet, innermost first: one inside and one for each tunnel.
type Checksums = [u16; linecard::packet::MAX_TUNNELS + 1];

/// A record and its number in the capture, from 1; blocks that are no packets count too.
#[derive(Debug, Default)]
pub struct Numbered {
    record: Record,
    number: u64,
    /// Its checksum fields as they came: merging changes those of a first packet.
    checksums: Checksums,
}

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

/// A capture that is read as far as it can be.
struct Input<R> {
    reader: Reader<R>,
    any: bool,
    damage: Option<CaptureError>,
}

impl<R: Read> Input<R> {
    fn new(read: R) -> Result<Self, CaptureError> {
        Ok(Self { reader: Reader::new(read)?, any: false, damage: None })
    }

    /// The next entry; false at the end, or at damage, which is kept. Damage before anything
    /// could be read is an error: the output would be no capture.
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

/// Packets of link types that are not followed: type → packets.
pub type Unknown = BTreeMap<u32, u64>;

/// The link type to parse with; types that are not known are counted.
fn link_of(number: Option<u32>, unknown: &mut Unknown) -> LinkType {
    // Without a number no type fits either; 65,535 is not assigned.
    let number = number.unwrap_or(0xFFFF);
    let link = LinkType::from_capture(number);
    if link == LinkType::Other {
        *unknown.entry(number).or_default() += 1;
    }
    link
}
