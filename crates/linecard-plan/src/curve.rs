//! Network calculus: upper bounds for a queue.
//!
//! Source: J.-Y. Le Boudec and P. Thiran, "Network Calculus", 2001, section 1.4: for arrivals within
//! `σ + ρ·t` at a server that gives `R·(t − T)`, the backlog is at most `σ + ρ·T` and the delay at most
//! `T + σ/R`.

/// The most slots of a ring: 64 MiB of descriptors of 64 bytes.
pub const MAX_RING: u64 = 1 << 20;

/// An arrival curve: at most `burst + rate · t` tokens in any time `t`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Arrival {
    /// `σ`, tokens arriving at once.
    pub burst: f64,
    /// `ρ`, tokens per second.
    pub rate: f64,
}

/// A service curve: at least `rate · (t − latency)` tokens in any busy time `t`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Service {
    /// `R`, tokens per second.
    pub rate: f64,
    /// `T`, nanoseconds.
    pub latency_ns: f64,
}

impl Arrival {
    /// The most tokens that wait; none if the arrival rate exceeds the service rate.
    ///
    /// ```
    /// use linecard_plan::{Arrival, Service};
    /// let packets = Arrival { burst: 64.0, rate: 1e6 };
    /// let core = Service { rate: 2e6, latency_ns: 50_000.0 };
    /// assert_eq!(packets.backlog(core), Some(114.0));
    /// assert_eq!(packets.delay_ns(core), Some(82_000.0));
    /// assert_eq!(packets.ring(core), Some(128));
    /// ```
    #[must_use]
    pub fn backlog(self, service: Service) -> Option<f64> {
        (self.rate <= service.rate).then(|| self.burst + self.rate * service.latency_ns / 1e9)
    }

    /// The longest time that a token waits, in nanoseconds; none if the arrival rate exceeds the
    /// service rate.
    #[must_use]
    pub fn delay_ns(self, service: Service) -> Option<f64> {
        (self.rate <= service.rate && service.rate > 0.0)
            .then(|| service.latency_ns + self.burst * 1e9 / service.rate)
    }

    /// Slots of a ring that never overflows: a power of two; none if the arrival rate exceeds the
    /// service rate, or if more than [`MAX_RING`] slots are needed.
    #[must_use]
    pub fn ring(self, service: Service) -> Option<u64> {
        let slots = super::ceil(self.backlog(service)?).max(2);
        (slots <= MAX_RING).then(|| slots.next_power_of_two())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linecard::rng::Rng;

    #[test]
    fn who_is_slower_has_no_bound() {
        let arrival = Arrival { burst: 1.0, rate: 2.0 };
        let slow = Service { rate: 1.0, latency_ns: 0.0 };
        assert_eq!(
            (arrival.backlog(slow), arrival.delay_ns(slow), arrival.ring(slow)),
            (None, None, None)
        );
        let late = Service { rate: 2e6, latency_ns: 1e18 };
        assert_eq!(Arrival { burst: 1.0, rate: 1e6 }.ring(late), None);
        let nothing = Arrival { burst: 0.0, rate: 0.0 };
        assert_eq!(nothing.delay_ns(Service { rate: 0.0, latency_ns: 0.0 }), None);
    }

    /// Promise (Plans): No simulated queue is longer than its computed bound.
    ///
    /// Random arrivals within the curve, at a server that is away for up to `T` and then takes batches:
    /// the queue never holds more than the bound.
    #[test]
    fn no_queue_is_longer_than_its_bound() {
        let mut rng = Rng::new(9);
        for _ in 0..300 {
            let (burst, rate) = (1.0 + rng.below(60) as f64, 0.5 + rng.below(100) as f64 / 100.0);
            let latency = rng.below(40);
            let arrival = Arrival { burst, rate: rate * 1e9 };
            let service = Service { rate: 2e9, latency_ns: latency as f64 };
            let bound = arrival.backlog(service).expect("rates fit");
            let (mut credit, mut queue, mut away) = (burst, 0.0_f64, latency);
            for _ in 0..2_000 {
                // A token bucket is what the arrival curve says.
                let comes = if rng.chance(0.3) { credit } else { credit * 0.5 };
                credit = (credit - comes + rate).min(burst);
                queue += comes;
                assert!(queue <= bound + rate + 1e-6, "{queue} {bound}");
                if away > 0 {
                    away -= 1;
                } else {
                    queue = (queue - 2.0).max(0.0);
                    if queue == 0.0 {
                        away = latency;
                    }
                }
            }
        }
    }
}
