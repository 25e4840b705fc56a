//! The virtual receive buffer: what a receiver that reads on schedule has to hold.
//!
//! ST 2110-21, section 7.1. Packet i of the stream (frame i / N, packet i mod N of it) is read at `T_VD` of
//! frame 0 plus frame · T plus its place in the frame. The occupancy after packet i has come is i + 1
//! less the packets read by then; a packet that was lost, or is overtaken, counts as come when a later one
//! does, as its reader does not wait for it either. Before it has come it is i less those: below 0, it
//! was not there when it was to be read.

use super::super::NS;
use super::{ReadSchedule, Stream};

/// When each packet of a stream is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reads {
    /// What is read.
    pub stream: Stream,
    /// `T_VD` of frame 0: when the first packet is read.
    pub start_ns: u64,
}

/// How full the buffer was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Occupancy {
    /// The least, just before a packet came; below 0 that packet was to be read before it came.
    pub min: i64,
    /// The most, just after.
    pub max: i64,
}

/// Times of a schedule as whole numbers: nanoseconds · frames per second · lines of a frame.
struct Units {
    /// Packets of the first field, and of the second.
    fields: [u128; 2],
    frame: u128,
    /// One nanosecond.
    ns: u128,
    /// From packet to packet, times the packets of a frame.
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
            // Factors of 32 bits, but for NS with 30: all below 2^94.
            frame: frame * total,
            ns: frames * total,
            active: frame * active,
            second_field: second.map_or(0, |line| frame * u128::from(line)),
            packets,
        }
    }

    /// Packets of one field whose time, counted from the field's start, is before `since`.
    fn of_field(&self, since: u128, packets: u128) -> u128 {
        since.saturating_mul(self.packets).div_ceil(self.active).min(packets)
    }
}

impl Reads {
    /// Packets whose time has come before `at_ns`.
    #[must_use]
    pub fn before(&self, at_ns: u64) -> u64 {
        let units = Units::of(self.stream);
        // Exact for all streams there are; what 128 bits cannot hold saturates.
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

    /// When packet `index` is read, from the start and rounded down to nanoseconds; saturates.
    #[must_use]
    pub fn offset_ns(&self, index: u64) -> u64 {
        let units = Units::of(self.stream);
        let (frame, place) = (u128::from(index) / units.packets, u128::from(index) % units.packets);
        let [first, _] = units.fields;
        let (field, place) =
            if place < first { (0, place) } else { (units.second_field, place - first) };
        // All over `packets`, which the place in the field needs.
        let start = frame.saturating_mul(units.frame).saturating_add(field);
        let at =
            start.saturating_mul(units.packets).saturating_add(place.saturating_mul(units.active));
        u64::try_from(at / (units.ns * units.packets)).unwrap_or(u64::MAX)
    }

    /// How full a buffer is that is read like this. `arrivals` are packets as they came, by their
    /// number in the stream (0 is the first of frame 0); none when there are none.
    pub fn occupancy(&self, arrivals: impl IntoIterator<Item = (u64, u64)>) -> Option<Occupancy> {
        let (mut come, mut found) = (0_u64, None::<Occupancy>);
        for (index, at_ns) in arrivals {
            let read = i128::from(self.before(at_ns));
            let less =
                |packets: u64| (i128::from(packets) - read).clamp(i64::MIN.into(), i64::MAX.into());
            come = come.max(index.saturating_add(1));
            // Both are held within what an i64 can say.
            let (before, after) = (less(index) as i64, less(come) as i64);
            let so_far = found.unwrap_or(Occupancy { min: before, max: after });
            found = Some(Occupancy { min: so_far.min.min(before), max: so_far.max.max(after) });
        }
        found
    }
}

/// The earliest `T_VD` of frame 0 at which no packet is read before it has come. With it, the largest
/// occupancy is the least buffer that would do for this stream. None when there are no packets.
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
    use alloc::vec::Vec;
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
            let (mut come, mut levels) = (0, Vec::new());
            for &(index, at_ns) in &arrivals {
                let read = read_before(at_ns) as i64;
                levels.push(index as i64 - read);
                come = come.max(index as i64 + 1);
                levels.push(come - read);
            }
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
