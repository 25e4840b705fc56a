//! The virtual receive buffer: the occupancy at a receiver that reads on schedule.
//!
//! ST 2110-21, section 7.1. Packet i of the stream (packet i mod N of frame i / N) is read at
//! `T_VD` of frame 0 plus frame · T plus its offset in the frame. The occupancy after the arrival
//! of packet i is i + 1 less the packets read by then; a lost or overtaken packet counts as arrived
//! when a later one arrives, because the reader does not wait for it either. Before the arrival it
//! is i less those; below 0, the packet was late for its read time.

use super::super::NS;
use super::{ReadSchedule, Stream};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// Read times of a stream's packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reads {
    /// The stream.
    pub stream: Stream,
    /// `T_VD` of frame 0: read time of the first packet.
    pub start_ns: u64,
}

/// Range of the buffer's occupancy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Occupancy {
    /// Minimum, just before an arrival; below 0 that packet arrived after its read time.
    pub min: i64,
    /// Maximum, just after an arrival.
    pub max: i64,
}

/// Times of a schedule as integers: nanoseconds · frames per second · lines of a frame.
struct Units {
    /// Packets of the first field, and of the second.
    fields: [u128; 2],
    frame: u128,
    /// One nanosecond.
    ns: u128,
    /// Time between packets, times the packets per frame.
    active: u128,
    second_field: u128,
    packets: u128,
}

impl Units {
    fn of(stream: Stream) -> Self {
        let packets = u128::from(stream.packets_per_frame.max(1));
        let frame = u128::from(stream.rate.seconds.max(1)) * NS;
        let frames = u128::from(stream.rate.frames.max(1));
        let (active, total, second) = match stream.schedule {
            ReadSchedule::Linear => (1, 1, None),
            ReadSchedule::Gapped { active, total, second_field } => {
                (active.max(1).into(), u128::from(total.max(1)), second_field)
            }
        };
        let first = if second.is_some() { packets.div_ceil(2) } else { packets };
        Self {
            fields: [first, packets - first],
            // Factors of 32 bits, except NS with 30: all below 2^94.
            frame: frame * total,
            ns: frames * total,
            active: frame * active,
            second_field: second.map_or(0, |line| frame * u128::from(line)),
            packets,
        }
    }

    /// Packets of one field with a read time, relative to the field's start, before `since`.
    fn of_field(&self, since: u128, packets: u128) -> u128 {
        since.saturating_mul(self.packets).div_ceil(self.active).min(packets)
    }
}

impl Reads {
    /// Packets with a read time before `at_ns`.
    #[must_use]
    pub fn before(&self, at_ns: u64) -> u64 {
        let units = Units::of(self.stream);
        // Exact for all real streams; what exceeds 128 bits saturates.
        let since = u128::from(at_ns.saturating_sub(self.start_ns)).saturating_mul(units.ns);
        let (frames, rest) = (since / units.frame, since % units.frame);
        let [first, second] = units.fields;
        let in_second = rest.checked_sub(units.second_field).filter(|_| second > 0);
        let read = frames
            .saturating_mul(units.packets)
            .saturating_add(units.of_field(rest, first))
            .saturating_add(in_second.map_or(0, |since| units.of_field(since, second)));
        u64::try_from(read).unwrap_or(u64::MAX)
    }

    /// Read time of packet `index`, relative to the start and rounded down to nanoseconds;
    /// saturates.
    #[must_use]
    pub fn offset_ns(&self, index: u64) -> u64 {
        let units = Units::of(self.stream);
        let (frame, place) = (u128::from(index) / units.packets, u128::from(index) % units.packets);
        let [first, _] = units.fields;
        let (field, place) =
            if place < first { (0, place) } else { (units.second_field, place - first) };
        // All times `packets`, because of the offset in the field.
        let start = frame.saturating_mul(units.frame).saturating_add(field);
        let at =
            start.saturating_mul(units.packets).saturating_add(place.saturating_mul(units.active));
        u64::try_from(at / (units.ns * units.packets)).unwrap_or(u64::MAX)
    }

    /// How many packets found each occupancy, themselves included, when they arrived. `arrivals` as for
    /// [`Self::occupancy`].
    pub fn levels(&self, arrivals: impl IntoIterator<Item = (u64, u64)>) -> Vec<(i64, u64)> {
        let (mut come, mut levels) = (0_u64, BTreeMap::<i64, u64>::new());
        for (index, at_ns) in arrivals {
            come = come.max(index.saturating_add(1));
            let level = i128::from(come) - i128::from(self.before(at_ns));
            let level = level.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
            *levels.entry(level).or_default() += 1;
        }
        levels.into_iter().collect()
    }

    /// Occupancy of a buffer with these read times. `arrivals` are packets in order of arrival, by
    /// their number in the stream (0 is the first of frame 0); `None` without packets.
    pub fn occupancy(&self, arrivals: impl IntoIterator<Item = (u64, u64)>) -> Option<Occupancy> {
        let (mut come, mut found) = (0_u64, None::<Occupancy>);
        for (index, at_ns) in arrivals {
            let read = i128::from(self.before(at_ns));
            let less =
                |packets: u64| (i128::from(packets) - read).clamp(i64::MIN.into(), i64::MAX.into());
            come = come.max(index.saturating_add(1));
            // Both are clamped to the range of an i64.
            let (before, after) = (less(index) as i64, less(come) as i64);
            let so_far = found.unwrap_or(Occupancy { min: before, max: after });
            found = Some(Occupancy { min: so_far.min.min(before), max: so_far.max.max(after) });
        }
        found
    }
}

/// The earliest `T_VD` of frame 0 at which no packet is late. With it, the maximum occupancy is the
/// minimum buffer for this stream. `None` without packets.
pub fn earliest_start(
    stream: Stream,
    arrivals: impl IntoIterator<Item = (u64, u64)>,
) -> Option<u64> {
    let reads = Reads { stream, start_ns: 0 };
    let start = |(index, at_ns): (u64, u64)| at_ns.saturating_sub(reads.offset_ns(index));
    arrivals.into_iter().map(start).max()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::media::FrameRate;
    use crate::media::st2022_6::Scan;
    use linecard::rng::Rng;

    /// The time of each read as the standard states it, as a fraction of integers.
    fn read_time(stream: Stream, index: u64) -> (u128, u128) {
        let n = u128::from(stream.packets_per_frame);
        let (frames, seconds) = (u128::from(stream.rate.frames), u128::from(stream.rate.seconds));
        let (frame, j) = (u128::from(index) / n, u128::from(index) % n);
        // T = seconds / frames; everything times frames · total · n.
        let frame_ns = seconds * 1_000_000_000;
        match stream.schedule {
            ReadSchedule::Linear => (frame * frame_ns * n + j * frame_ns, frames * n),
            ReadSchedule::Gapped { active, total, second_field } => {
                let (active, total) = (u128::from(active), u128::from(total));
                let first = if second_field.is_some() { n.div_ceil(2) } else { n };
                let (start, j) = if j < first {
                    (0, j)
                } else {
                    (u128::from(second_field.unwrap_or(0)), j - first)
                };
                let at =
                    frame * frame_ns * total * n + start * frame_ns * n + j * frame_ns * active;
                (at, frames * total * n)
            }
        }
    }

    fn random_stream(rng: &mut Rng) -> Stream {
        let schedules = [
            ReadSchedule::Linear,
            ReadSchedule::gapped(Scan::Progressive, 1_080),
            ReadSchedule::gapped(Scan::Interlaced, 1_080),
            ReadSchedule::gapped(Scan::Interlaced, 487),
        ];
        let rates = [FrameRate::slow(30), FrameRate::whole(25), FrameRate::slow(60)];
        Stream {
            packets_per_frame: 1 + rng.below(40) as u32,
            rate: rates[rng.below(3) as usize],
            schedule: schedules[rng.below(4) as usize],
        }
    }

    /// Against counting all reads one by one.
    #[test]
    fn reads_and_occupancy_equal_single_reads() {
        for seed in 0..300 {
            let mut rng = Rng::new(seed);
            let stream = random_stream(&mut rng);
            let packets = 4 * u64::from(stream.packets_per_frame);
            let start_ns = rng.below(1 << 60);
            let reads = Reads { stream, start_ns };
            let times: Vec<(u128, u128)> =
                (0..2 * packets).map(|index| read_time(stream, index)).collect();
            let read_before = |at_ns: u64| {
                let since = u128::from(at_ns.saturating_sub(start_ns));
                times.iter().filter(|(at, over)| *at < since * over).count() as u64
            };
            let mut arrivals = Vec::new();
            for index in 0..packets {
                let (at, over) = times[index as usize];
                assert_eq!(u128::from(reads.offset_ns(index)), at / over, "seed {seed}");
                let at_ns = start_ns + (at / over) as u64 + rng.below(2_000_000);
                assert_eq!(reads.before(at_ns), read_before(at_ns), "seed {seed}, {index}");
                if !rng.chance(0.1) {
                    arrivals.push((index, at_ns.saturating_sub(1_000_000)));
                }
            }
            arrivals.sort_by_key(|(_, at_ns)| *at_ns);
            let (mut come, mut levels, mut met) = (0, Vec::new(), BTreeMap::new());
            for &(index, at_ns) in &arrivals {
                let read = read_before(at_ns) as i64;
                levels.push(index as i64 - read);
                come = come.max(index as i64 + 1);
                levels.push(come - read);
                *met.entry(come - read).or_insert(0) += 1;
            }
            let met: Vec<(i64, u64)> = met.into_iter().collect();
            assert_eq!(reads.levels(arrivals.iter().copied()), met, "seed {seed}");
            let found = reads.occupancy(arrivals.iter().copied());
            let twin = levels.iter().min().zip(levels.iter().max());
            assert_eq!(found.map(|found| (found.min, found.max)), twin.map(|(a, b)| (*a, *b)));
        }
    }

    /// The earliest start never runs empty; a few nanoseconds less does.
    #[test]
    fn the_earliest_start_is_the_earliest() {
        for seed in 0..200 {
            let mut rng = Rng::new(seed);
            let stream = random_stream(&mut rng);
            let even = Reads { stream, start_ns: 1 << 40 };
            let arrivals: Vec<(u64, u64)> = (0..200)
                .map(|index| (index, even.start_ns + even.offset_ns(index) + rng.below(900_000)))
                .collect();
            let mut in_order = arrivals.clone();
            in_order.sort_by_key(|(_, at_ns)| *at_ns);
            let start_ns = earliest_start(stream, arrivals).unwrap();
            let at = |start_ns| Reads { stream, start_ns }.occupancy(in_order.iter().copied());
            assert!(at(start_ns).unwrap().min >= 0, "seed {seed}");
            assert!(at(start_ns - 2).unwrap().min < 0, "seed {seed}");
        }
    }

    #[test]
    fn the_second_field_starts_at_its_line() {
        let stream = Stream {
            packets_per_frame: 4_320,
            rate: FrameRate::slow(30),
            schedule: ReadSchedule::gapped(Scan::Interlaced, 1_080),
        };
        let reads = Reads { stream, start_ns: 0 };
        // 563/1125 of 33,366,666.67 ns; the capture of pi-list has its second field at 16.698 ms.
        assert_eq!(reads.offset_ns(2_160), 16_698_162);
        assert_eq!((reads.before(16_698_162), reads.before(16_698_163)), (2_160, 2_161));
        assert_eq!(reads.offset_ns(4_320), 33_366_666);
    }

    #[test]
    fn extremes_do_not_overflow() {
        let rate = FrameRate { frames: u32::MAX, seconds: u32::MAX };
        let schedule = ReadSchedule::Gapped {
            active: u32::MAX,
            total: u32::MAX,
            second_field: Some(u32::MAX),
        };
        let stream = Stream { packets_per_frame: u32::MAX, rate, schedule };
        let reads = Reads { stream, start_ns: 0 };
        let _ = (reads.before(u64::MAX), reads.offset_ns(u64::MAX));
        let occupancy = reads.occupancy([(0, 0), (u64::MAX, u64::MAX)]);
        assert!(occupancy.is_some());
    }
}
