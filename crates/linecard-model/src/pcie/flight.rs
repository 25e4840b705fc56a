//! Reads in flight: a round trip has to be filled, or the link waits for the host.

use super::link::{Link, MAX_SIZE, Traffic};
use crate::{Events, Ps};
use garde::Validate;
use linecard_config::Duration;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;

/// Tags that a device has at most: 10 bits.
const MAX_TAGS: u32 = 1_024;

/// A device that reads without a pause.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(default, deny_unknown_fields)]
pub struct Reads {
    /// requests that may be open
    ///
    /// Each has a tag.
    #[default(64)]
    #[garde(range(min = 1, max = MAX_TAGS))]
    pub tags: u32,
    /// bytes of a request: MRRS at most
    #[default(512)]
    #[garde(range(min = 1, max = MAX_SIZE))]
    pub bytes: u32,
    /// from a request at the host to its first completion
    #[default(Duration::from_ns(500))]
    #[garde(range(min = Duration::from_ns(1), max = Duration::from_ms(1)))]
    pub latency: Duration,
    /// bytes that the device writes with each request
    #[garde(range(min = 0, max = 65_536))]
    pub written: u32,
}

impl Reads {
    fn parts(&self, link: &Link) -> (Traffic, Traffic) {
        let bytes = u64::from(self.bytes).clamp(1, link.max_read());
        (link.read(bytes), link.write(self.written.into()))
    }

    /// Data read in bits per second, in closed form: what the busier direction carries, or what the
    /// tags fetch in their round trips.
    #[must_use]
    pub fn bps(&self, link: &Link) -> f64 {
        let bytes = u64::from(self.bytes).clamp(1, link.max_read());
        let (read, written) = self.parts(link);
        let limit = link.data_bits_per_second(bytes, read.and(written));
        let on_link =
            (read.up + written.up + read.down) as f64 * 8.0 / link.tlp_bits_per_second() as f64;
        let round_trip = Ps::from(self.latency).as_secs_f64() + on_link;
        limit.min(f64::from(self.tags.clamp(1, MAX_TAGS)) * bytes as f64 * 8.0 / round_trip)
    }
}

/// Requests of `bytes` that have to be open to read `bps` over a round trip (bandwidth × delay).
///
/// ```
/// use linecard_model::{Ps, pcie::reads_in_flight};
/// assert_eq!(reads_in_flight(100_000_000_000, Ps::from_ns(600), 512), 15);
/// ```
#[must_use]
pub fn reads_in_flight(bps: u64, round_trip: Ps, bytes: u32) -> u64 {
    let bits = u128::from(bps) * u128::from(round_trip.0);
    let request = u128::from(bytes.max(1)) * 8 * u128::from(Ps::SECOND.0);
    u64::try_from(bits.div_ceil(request)).unwrap_or(u64::MAX)
}

enum Event {
    /// A tag is free.
    Free,
    /// A request is with the host and the data are found.
    DataRead,
}

/// Simulates `count` reads, packet after packet on both directions of the link: data read in bits per
/// second, without the first round trips.
#[must_use]
pub fn simulate_reads(link: &Link, reads: &Reads, count: u32) -> f64 {
    let (read, written) = reads.parts(link);
    let time = |bytes: u64| Ps::of_bits(bytes * 8, link.tlp_bits_per_second());
    let (up, down) = (time(read.up + written.up), time(read.down));
    let (mut up_free, mut down_free) = (Ps::ZERO, Ps::ZERO);
    let mut events = Events::default();
    for _ in 0..reads.tags.clamp(1, MAX_TAGS) {
        events.add(Ps::ZERO, Event::Free);
    }
    let (mut done, mut measured_from) = (0_u32, (0, Ps::ZERO));
    while let Some((now, event)) = events.next() {
        match event {
            Event::Free => {
                up_free = up_free.max(now) + up;
                events.add(up_free + reads.latency.into(), Event::DataRead);
            }
            Event::DataRead => {
                down_free = down_free.max(now) + down;
                events.add(down_free, Event::Free);
                done += 1;
            }
        }
        if done == count / 4 && measured_from.0 == 0 {
            measured_from = (done, down_free);
        }
        if done >= count {
            break;
        }
    }
    let bytes = u64::from(reads.bytes).clamp(1, link.max_read());
    let span = down_free.since(measured_from.1).as_secs_f64();
    f64::from(done - measured_from.0) * bytes as f64 * 8.0 / span.max(1e-12)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pcie::Generation;
    use linecard::rng::Rng;

    /// Promise (Hardware model): Closed form and simulation of PCI Express agree within 1 % on 300
    /// links.
    #[test]
    fn the_closed_form_is_what_the_simulation_does() {
        let mut rng = Rng::new(11);
        for _ in 0..300 {
            let generation = Generation::ALL[rng.below(7) as usize];
            let link = Link::new(generation, 1 << rng.below(6)).unwrap();
            let reads = Reads {
                tags: 1 + rng.below(256) as u32,
                bytes: 64 << rng.below(4),
                latency: Duration::from_ns(100 + rng.below(2_000)),
                written: [0, 64, 256][rng.below(3) as usize],
            };
            let (formula, simulated) = (reads.bps(&link), simulate_reads(&link, &reads, 20_000));
            let off = (simulated / formula - 1.0).abs();
            assert!(off < 0.01, "{link:?} {reads:?}: {formula} and {simulated}");
        }
    }

    #[test]
    fn enough_reads_in_flight_fill_the_link() {
        let link = Link::new(Generation::Gen4, 16).unwrap();
        let at = |tags| Reads { tags, ..Reads::default() }.bps(&link);
        let wanted = at(1_024);
        let needed = reads_in_flight(wanted as u64, Ps::from_ns(525), 512) as u32;
        assert!(at(needed) > wanted * 0.99 && at(needed - 2) < wanted, "{needed}");
    }
}
