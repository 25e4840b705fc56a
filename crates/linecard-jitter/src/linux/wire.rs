//! Clocks of interfaces, related to the time of day: when a packet was on the wire, by the interface's own stamp.
//!
//! A device's clock is read between two readings of the time of day, so that it had its value within that time: in its
//! middle, or at most half of it off. Two such crossings give its rate. A stamp between them is as certain as they are;
//! beyond them, the uncertainty of the rate comes in addition. Where one of the clocks is slewed (NTP), the rate changes:
//! the error contains by how much each crossing was off what the two before it had predicted.

use super::sys::ptp::DeviceClock;
use crate::media::live::WireDelay;
use std::collections::BTreeMap;
use std::io;

/// A clock is read so often; between two readings its rate counts as constant.
const EVERY_NS: u64 = 1_000_000_000;
/// Clocks at once: as many as there are streams.
const MAX_CLOCKS: usize = 64;
/// A rate that is further from one than this, in ppm, is none: a clock was set.
const MAX_PPM: u64 = 1_000;
/// A packet takes less from the wire to the kernel; otherwise a clock was set.
const MAX_DELAY_NS: u64 = 1_000_000_000;

/// A reading of a device's clock between two of the time of day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reading {
    pub(super) before_ns: u64,
    pub(super) device_ns: u64,
    pub(super) after_ns: u64,
}

/// Both clocks at one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Crossing {
    device_ns: u64,
    day_ns: u64,
    /// The time of day is at most so far off.
    error_ns: u64,
}

impl Crossing {
    /// That of the reading which took the shortest time.
    fn of(readings: &[Reading]) -> Option<Self> {
        let width = |one: &Reading| one.after_ns.checked_sub(one.before_ns);
        let widths = readings.iter().filter_map(|one| Some((width(one)?, one)));
        let (width_ns, shortest) = widths.min_by_key(|(width_ns, _)| *width_ns)?;
        let half_ns = width_ns.div_ceil(2);
        let (device_ns, day_ns) = (shortest.device_ns, shortest.before_ns + half_ns);
        // Both clocks count whole nanoseconds.
        Some(Self { device_ns, day_ns, error_ns: half_ns.max(1) })
    }

    /// Time from here to a later crossing by both clocks, unless one of them was set in between.
    fn until(&self, later: &Self) -> Option<(u64, u64)> {
        let device_ns = later.device_ns.checked_sub(self.device_ns).filter(|ns| *ns > 0)?;
        let day_ns = later.day_ns.checked_sub(self.day_ns)?;
        let most_ns = device_ns / 1_000_000 * MAX_PPM + self.error_ns + later.error_ns;
        (device_ns.abs_diff(day_ns) <= most_ns).then_some((device_ns, day_ns))
    }
}

/// How a device's clock relates to the time of day, by its last two crossings.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Relation {
    before: Option<Crossing>,
    last: Option<Crossing>,
    /// By how much the last crossings were off their prediction, beyond its error.
    wander_ns: u64,
}

impl Relation {
    fn add(&mut self, readings: &[Reading]) {
        let Some(crossing) = Crossing::of(readings) else { return };
        let predicted = self.day_ns(crossing.device_ns);
        let off_ns = predicted.map_or(0, |(day_ns, error_ns)| {
            let known_ns = (error_ns - self.wander_ns).saturating_add(crossing.error_ns);
            day_ns.abs_diff(crossing.day_ns).saturating_sub(known_ns)
        });
        // A slew ends some time.
        self.wander_ns = off_ns.max(self.wander_ns / 2);
        self.before = self.last.filter(|last| last.until(&crossing).is_some());
        if self.before.is_none() {
            // A clock was set, or is new.
            self.wander_ns = 0;
        }
        self.last = Some(crossing);
    }

    /// The time of day of a stamp, and its error; `None` until the rate is known.
    fn day_ns(&self, device_ns: u64) -> Option<(u64, u64)> {
        let (before, last) = (self.before?, self.last?);
        let (device_span_ns, day_span_ns) = before.until(&last)?;
        let rate = day_span_ns as f64 / device_span_ns as f64;
        let since_ns = device_ns.wrapping_sub(last.device_ns).cast_signed() as f64;
        let day_ns = last.day_ns.checked_add_signed((since_ns * rate).round() as i64)?;
        let between_ns = before.error_ns.max(last.error_ns);
        let beyond_ns = since_ns.max(-since_ns - device_span_ns as f64).max(0.0);
        let growth = (before.error_ns + last.error_ns) as f64 / device_span_ns as f64;
        let grown_ns = (beyond_ns * growth).ceil() as u64;
        Some((day_ns, between_ns.saturating_add(grown_ns).saturating_add(self.wander_ns)))
    }

    /// The delay of a packet with these stamps.
    pub(super) fn delay(&self, wire_ns: u64, kernel_ns: u64) -> Option<WireDelay> {
        let (day_ns, error_ns) = self.day_ns(wire_ns)?;
        // The kernel is later, but for the error.
        let ns = kernel_ns.checked_add(error_ns)?.checked_sub(day_ns)?.saturating_sub(error_ns);
        (ns <= MAX_DELAY_NS).then_some(WireDelay { ns, error_ns })
    }
}

/// A clock that is read now and then.
#[derive(Debug)]
struct Device {
    clock: DeviceClock,
    relation: Relation,
    read_ns: u64,
}

/// The clocks of interfaces, by number.
#[derive(Debug, Default)]
pub(super) struct Devices(BTreeMap<u32, Device>);

impl Devices {
    /// Opens a clock, unless it is open, at a monotonic time.
    pub(super) fn open(&mut self, number: u32, now_ns: u64) -> io::Result<()> {
        if !self.0.contains_key(&number) {
            if self.0.len() >= MAX_CLOCKS {
                return Err(io::Error::other(format!("over {MAX_CLOCKS} clocks of interfaces")));
            }
            let clock = DeviceClock::open(number)?;
            let mut relation = Relation::default();
            relation.add(&clock.read()?);
            self.0.insert(number, Device { clock, relation, read_ns: now_ns });
        }
        Ok(())
    }

    /// The relation of a clock, for packets that came until now, a monotonic time.
    pub(super) fn relation(&mut self, number: u32, now_ns: u64) -> Option<Relation> {
        let device = self.0.get_mut(&number)?;
        if now_ns.saturating_sub(device.read_ns) >= EVERY_NS {
            device.read_ns = now_ns;
            // An interface that is gone has no clock.
            device.relation.add(&device.clock.read().ok()?);
        }
        Some(device.relation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linecard::rng::Rng;

    const DAY_NS: u64 = 1_700_000_000_000_000_000;

    /// Readings of a clock that is this many ppm too fast, at a time of day.
    fn readings(at_ns: u64, ppm: f64, rng: &mut Rng) -> Vec<Reading> {
        let one = |_| {
            let (before_ns, true_ns) = (at_ns, at_ns + rng.below(3_000));
            let after_ns = true_ns + rng.below(3_000);
            Reading { before_ns, device_ns: device(true_ns, ppm), after_ns }
        };
        (0..5).map(one).collect()
    }

    /// The value of that clock, which counts from zero, at a time of day.
    fn device(day_ns: u64, ppm: f64) -> u64 {
        let since = (day_ns - DAY_NS) as f64;
        (since * (1.0 + ppm / 1e6)).round() as u64 + 77
    }

    #[test]
    fn the_shortest_reading_counts_with_half_its_time() {
        let reading = |before_ns, device_ns, after_ns| Reading { before_ns, device_ns, after_ns };
        let crossing = Crossing::of(&[reading(100, 7, 900), reading(1_000, 9, 1_301)]);
        assert_eq!(crossing, Some(Crossing { device_ns: 9, day_ns: 1_151, error_ns: 151 }));
        // Both at once, by hardware; and a clock that was set back meanwhile.
        assert_eq!(Crossing::of(&[reading(50, 9, 50)]).map(|one| one.error_ns), Some(1));
        assert_eq!(Crossing::of(&[reading(100, 7, 90)]), None);
    }

    /// Promise (Jitter): The time of day of an interface's time stamp is within its stated error: 2,000 generated clocks,
    /// up to 500 ppm fast or slow, between their readings and up to ten seconds after them.
    #[test]
    fn stamps_are_within_the_stated_error() {
        for seed in 0..2_000 {
            let mut rng = Rng::new(seed);
            let ppm = rng.below(1_001) as f64 - 500.0;
            let mut relation = Relation::default();
            relation.add(&readings(DAY_NS + 1_000_000, ppm, &mut rng));
            assert_eq!(relation.day_ns(0), None, "seed {seed}");
            relation.add(&readings(DAY_NS + 1_001_000_000 + rng.below(1_000), ppm, &mut rng));
            for after_ns in [0, 1_000_000_000, 10_000_000_000] {
                let day_ns = DAY_NS + 1_000_000 + after_ns + rng.below(1_000_000_000);
                let (found_ns, error_ns) = relation.day_ns(device(day_ns, ppm)).expect("two");
                // The generated clock counts whole nanoseconds.
                assert!(found_ns.abs_diff(day_ns) <= error_ns + 2, "seed {seed}: {error_ns}");
                assert!(error_ns < 3_001 * (2 + 2 * after_ns / 1_000_000_000), "seed {seed}");
            }
        }
    }

    /// A clock whose rate changes by up to 500 ppm from one second to the next, as NTP slews the time of day: from the
    /// second after the next crossing on, the error contains the change.
    #[test]
    fn a_slewed_clock_has_a_larger_error() {
        for seed in 0..500 {
            let mut rng = Rng::new(seed);
            let (slow, change) = (rng.below(1_001) as f64 / 2.0 - 250.0, rng.below(501) as f64);
            let set_ns = DAY_NS + 5_000_000_000;
            // Counts on evenly until then, and faster afterwards.
            let device = |day_ns: u64| {
                let faster = day_ns.saturating_sub(set_ns) as f64 * change / 1e6;
                device(day_ns, slow) + faster.round() as u64
            };
            let mut relation = Relation::default();
            for second in 1..12_u64 {
                let at_ns = DAY_NS + second * 1_000_000_000 + rng.below(1_000);
                let mut read = readings(at_ns, slow, &mut rng);
                for reading in &mut read {
                    let true_ns =
                        reading.before_ns + rng.below(reading.after_ns - reading.before_ns + 1);
                    reading.device_ns = device(true_ns);
                }
                relation.add(&read);
                let day_ns = at_ns + rng.below(1_000_000_000);
                let Some((found_ns, error_ns)) = relation.day_ns(device(day_ns)) else { continue };
                let is_known = !(4..=5).contains(&second);
                let off_ns = found_ns.abs_diff(day_ns);
                assert!(
                    !is_known || off_ns <= error_ns + 3,
                    "seed {seed}: {second} {off_ns} {error_ns}"
                );
            }
            // It is forgotten again.
            assert!(relation.wander_ns < 50_000, "seed {seed}: {}", relation.wander_ns);
        }
    }

    #[test]
    fn a_clock_that_is_set_is_related_again() {
        let (mut rng, mut relation) = (Rng::new(1), Relation::default());
        for second in 1..3 {
            relation.add(&readings(DAY_NS + second * 1_000_000_000, 3.0, &mut rng));
        }
        let stamp = |day_ns| device(day_ns, 3.0);
        let day_ns = DAY_NS + 2_500_000_000;
        let delay = relation.delay(stamp(day_ns), day_ns + 40_000).expect("related");
        assert!(delay.ns.abs_diff(40_000) <= delay.error_ns, "{delay:?}");
        // Stamps that are far apart, or the wrong way round, are of a clock that was set since.
        assert_eq!(relation.delay(stamp(day_ns), day_ns + 1_100_000_000), None);
        assert_eq!(relation.delay(stamp(day_ns), day_ns - 100_000), None);
        // The time of day is set by two milliseconds, as a device's clock could be.
        let set_ns = 2_000_000;
        let mut shifted = readings(DAY_NS + 3_000_000_000, 3.0, &mut rng);
        for reading in &mut shifted {
            (reading.before_ns, reading.after_ns) =
                (reading.before_ns + set_ns, reading.after_ns + set_ns);
        }
        relation.add(&shifted);
        assert_eq!(relation.day_ns(stamp(day_ns)), None);
    }
}
