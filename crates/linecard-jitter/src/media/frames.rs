//! The frames of a stream: their ends, packets per frame, and the frame rate.

use super::FrameRate;
use super::flow::Packet;
use alloc::vec::Vec;

/// All standard frame rates.
pub const RATES: [FrameRate; 13] = [
    FrameRate::slow(24),
    FrameRate::whole(24),
    FrameRate::whole(25),
    FrameRate::slow(30),
    FrameRate::whole(30),
    FrameRate::slow(48),
    FrameRate::whole(48),
    FrameRate::whole(50),
    FrameRate::slow(60),
    FrameRate::whole(60),
    FrameRate::whole(100),
    FrameRate::slow(120),
    FrameRate::whole(120),
];
/// Relative tolerance of a measured rate: less than half of the difference between 60 and 59.94.
const TOLERANCE: f64 = 0.000_45;

/// The units that markers divide a stream into: frames or fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frames {
    /// Packets between markers; `None` if that varies.
    pub packets_per_unit: Option<u32>,
    /// The fewest packets between markers, and the most.
    pub sizes: (i64, i64),
    /// Number of complete units.
    pub units: u64,
    /// Whether a frame has two units.
    pub interlaced: bool,
    /// Number of the first packet of the first complete frame.
    pub first: i64,
    /// Time stamps of the units' last packets.
    timestamps: Vec<i64>,
    /// Arrival times of those packets.
    ends_ns: Vec<u64>,
}

impl Frames {
    /// The frames in these packets, which are sorted by number without duplicates; `None` without a
    /// complete frame.
    #[must_use]
    pub fn of(by_number: &[Packet]) -> Option<Self> {
        let interlaced = by_number.iter().any(|packet| packet.second_field);
        let ends: Vec<&Packet> = by_number.iter().filter(|packet| packet.marker).collect();
        // If the capture begins within a frame, the first complete one begins after a marker.
        let start = by_number.first().filter(|packet| packet.starts).map(|packet| packet.number);
        let mut numbers: Vec<i64> =
            ends.iter().map(|packet| packet.number.saturating_add(1)).collect();
        if let Some(start) = start {
            numbers.insert(0, start);
        }
        let sizes: Vec<i64> =
            numbers.windows(2).map(|pair| pair[1].saturating_sub(pair[0])).collect();
        let size = *sizes.first()?;
        let is_even = sizes.iter().all(|other| *other == size);
        let (least, most) = (sizes.iter().min()?, sizes.iter().max()?);
        let first = first_of_frame(by_number, &numbers, interlaced)?;
        Some(Self {
            packets_per_unit: u32::try_from(size).ok().filter(|size| is_even && *size > 0),
            sizes: (*least, *most),
            units: sizes.len() as u64,
            interlaced,
            first,
            timestamps: ends.iter().map(|packet| packet.timestamp).collect(),
            ends_ns: ends.iter().map(|packet| packet.at_ns).collect(),
        })
    }

    /// Packets per frame, both fields included: N.
    #[must_use]
    pub fn packets_per_frame(&self) -> Option<u32> {
        let fields = if self.interlaced { 2 } else { 1 };
        self.packets_per_unit?.checked_mul(fields)
    }

    /// Whether both fields of a frame have one time stamp: a progressive picture in two segments (`PsF`).
    #[must_use]
    pub fn is_segmented(&self) -> bool {
        let differ = self.timestamps.windows(2).filter(|pair| pair[0] != pair[1]).count();
        self.interlaced && self.timestamps.len() > 2 && 2 * differ <= self.timestamps.len()
    }

    /// Frame rate by the time stamps, which count a clock of `clock` Hz; by arrivals if the time
    /// stamps do not advance. `None` if it is not a standard rate.
    #[must_use]
    pub fn rate(&self, clock: f64) -> Option<FrameRate> {
        let steps = self.timestamps.len().checked_sub(1).filter(|steps| *steps > 0)? as f64;
        let ticks = self.timestamps.last()?.saturating_sub(*self.timestamps.first()?);
        let ns = self.ends_ns.last()?.saturating_sub(*self.ends_ns.first()?);
        let fields = if self.interlaced { 2.0 } else { 1.0 };
        let by_clock = steps * clock / ticks as f64 / fields;
        let by_arrival = steps * 1e9 / ns as f64 / fields;
        nearest(by_clock).or_else(|| nearest(by_arrival))
    }
}

/// The nearest standard rate.
pub(super) fn nearest(per_second: f64) -> Option<FrameRate> {
    let off = |rate: &FrameRate| (per_second * rate.frame_ns() / 1e9 - 1.0).abs();
    RATES.into_iter().filter(|rate| off(rate) <= TOLERANCE).min_by(|a, b| off(a).total_cmp(&off(b)))
}

/// The first number that starts a unit, or a frame if two units are one.
fn first_of_frame(by_number: &[Packet], starts: &[i64], interlaced: bool) -> Option<i64> {
    if !interlaced {
        return starts.first().copied();
    }
    let is_first_field = |number: &&i64| {
        let at = by_number.binary_search_by_key(*number, |packet| packet.number);
        at.is_ok_and(|at| !by_number[at].second_field)
    };
    starts.iter().find(is_first_field).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(number: i64) -> Packet {
        Packet {
            at_ns: number as u64 * 1_000_000,
            number,
            timestamp: number / 10 * 1_501 + number / 20,
            octets: 1_220,
            marker: number % 10 == 9,
            starts: false,
            second_field: number / 10 % 2 == 1,
        }
    }

    #[test]
    fn fields_make_frames() {
        // From the middle of a first field: the first whole frame is the one after its second.
        let packets: Vec<Packet> = (5..200).map(packet).collect();
        let frames = Frames::of(&packets).unwrap();
        assert_eq!((frames.packets_per_frame(), frames.units), (Some(20), 19));
        assert!(frames.interlaced && frames.first == 20, "{frames:?}");
        assert_eq!(frames.rate(90_000.0), Some(FrameRate::slow(30)));
    }

    #[test]
    fn uneven_frames_have_no_number_of_packets() {
        let mut packets: Vec<Packet> = (0..100).map(packet).collect();
        packets[49].marker = false;
        assert_eq!(Frames::of(&packets).unwrap().packets_per_unit, None);
        assert_eq!(Frames::of(&packets[..15]), None);
        assert_eq!(Frames::of(&[]), None);
    }

    #[test]
    fn rates_a_thousandth_apart_are_told_apart() {
        assert_eq!(nearest(59.95), Some(FrameRate::slow(60)));
        assert_eq!(nearest(59.98), Some(FrameRate::whole(60)));
        assert_eq!((nearest(55.0), nearest(f64::NAN), nearest(f64::INFINITY)), (None, None, None));
    }
}
