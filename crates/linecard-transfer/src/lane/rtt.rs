//! Round-trip times (RFC 9002, section 5).

/// Assumed before the first sample, in ns. The handshake of the control channel gives a better
/// estimate if there was one ([`Rtt::guess`]).
pub const INITIAL_NS: u64 = 100_000_000;
/// Timers are no finer than this, in ns (kGranularity, RFC 9002, section 6.1.2).
pub const GRANULARITY_NS: u64 = 1_000_000;

/// The smoothed round-trip time of a lane.
///
/// ```
/// use linecard_transfer::lane::Rtt;
/// let mut rtt = Rtt::default();
/// rtt.sample(10_000_000, 0);
/// rtt.sample(18_000_000, 0);
/// assert_eq!((rtt.smoothed_ns(), rtt.least_ns()), (11_000_000, 10_000_000));
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Rtt {
    latest_ns: u64,
    smoothed_ns: u64,
    variation_ns: u64,
    least_ns: u64,
    samples: u64,
    /// The latest samples, of which the median counts for the minimum.
    last_ns: [u64; MEDIAN],
    /// The minimum of the current period of samples, and of the one before.
    recent_ns: [u64; 2],
    /// The same of the longest time of a packet that counted as lost too early; 0 of none.
    late_ns: [u64; 2],
}

/// The minimum is that of medians of so many samples. A packet, or an acknowledgment, that overtakes those on the way has
/// a short time by itself: as a minimum it would make all others look queued, and the window too small for the path.
const MEDIAN: usize = 7;

/// A sample below this part of the minimum replaces all: those before were not of the path, but of an end that stood
/// still, or of the first packet, which waited for an address. Timers of theirs would last for seconds.
const RESTART: u64 = 8;

/// Samples per period: older minima are discarded, because the path may have become longer.
const RECENT: u64 = 512;

impl Default for Rtt {
    fn default() -> Self {
        Self::guess(INITIAL_NS)
    }
}

impl Rtt {
    /// Assumes `rtt_ns` until there is a sample.
    #[must_use]
    pub const fn guess(rtt_ns: u64) -> Self {
        Self {
            latest_ns: rtt_ns,
            smoothed_ns: rtt_ns,
            variation_ns: rtt_ns / 2,
            least_ns: rtt_ns,
            samples: 0,
            last_ns: [rtt_ns; MEDIAN],
            recent_ns: [rtt_ns; 2],
            late_ns: [0; 2],
        }
    }

    /// Adds a measured time from sending to acknowledgment; the other end reports that it delayed
    /// the acknowledgment by `ack_delay_ns`.
    pub fn sample(&mut self, latest_ns: u64, ack_delay_ns: u64) {
        self.latest_ns = latest_ns;
        self.last_ns[(self.samples % MEDIAN as u64) as usize] = latest_ns;
        self.samples += 1;
        let steady_ns = self.steady_ns();
        if self.samples == 1 || steady_ns < self.least_ns / RESTART {
            *self = Self { samples: 1, late_ns: self.late_ns, ..Self::guess(steady_ns) };
            return;
        }
        if self.samples == MEDIAN as u64 {
            // Of the first few, an early one may have been the median.
            (self.least_ns, self.recent_ns) = (steady_ns, [steady_ns; 2]);
        }
        self.least_ns = self.least_ns.min(steady_ns);
        if self.samples.is_multiple_of(RECENT) {
            self.recent_ns = [u64::MAX, self.recent_ns[0]];
            self.late_ns = [0, self.late_ns[0]];
        }
        self.recent_ns[0] = self.recent_ns[0].min(steady_ns);
        // Section 5.3: the delay is subtracted only if the result is not below the minimum.
        let adjusted = match latest_ns.checked_sub(ack_delay_ns) {
            Some(less) if less >= self.least_ns => less,
            _ => latest_ns,
        };
        let difference = self.smoothed_ns.abs_diff(adjusted);
        self.variation_ns = (3 * self.variation_ns + difference) / 4;
        self.smoothed_ns = (7 * self.smoothed_ns + adjusted) / 8;
    }

    /// The smoothed time, in ns.
    #[must_use]
    pub const fn smoothed_ns(&self) -> u64 {
        self.smoothed_ns
    }

    /// The median of the last seven samples, in ns; of fewer, the lower one if there are two.
    #[must_use]
    pub fn steady_ns(&self) -> u64 {
        let mut last_ns = self.last_ns;
        let last_ns = &mut last_ns[..self.samples.clamp(1, MEDIAN as u64) as usize];
        last_ns.sort_unstable();
        last_ns[(last_ns.len() - 1) / 2]
    }

    /// The minimum of medians of seven samples, in ns.
    #[must_use]
    pub const fn least_ns(&self) -> u64 {
        self.least_ns
    }

    /// Queueing delay: the smoothed time minus the minimum, of the last 512 to 1,024 samples, in ns;
    /// 0 below an eighth of the smoothed time, where it cannot be distinguished from delayed
    /// acknowledgments.
    ///
    /// ```
    /// let mut rtt = linecard_transfer::lane::Rtt::default();
    /// (0..7).for_each(|_| rtt.sample(1_000_000, 0));
    /// (0..100).for_each(|_| rtt.sample(5_000_000, 0));
    /// assert!(rtt.queued_ns() > 3_900_000);
    /// // It does not become shorter again: this is the way, and no queue.
    /// (0..1_024).for_each(|_| rtt.sample(5_000_000, 0));
    /// assert_eq!(rtt.queued_ns(), 0);
    /// ```
    #[must_use]
    pub fn queued_ns(&self) -> u64 {
        let least_ns = self.recent_ns[0].min(self.recent_ns[1]);
        let queued_ns = self.smoothed_ns.saturating_sub(least_ns);
        if queued_ns > self.smoothed_ns / 8 { queued_ns } else { 0 }
    }

    /// Samples taken.
    #[must_use]
    pub const fn samples(&self) -> u64 {
        self.samples
    }

    /// A packet that counted as lost arrived this long after it was sent, in ns: others are waited for as long.
    pub fn late(&mut self, ns: u64) {
        self.late_ns[0] = self.late_ns[0].max(ns);
    }

    /// A packet is lost if one sent this much later has been acknowledged: 9/8 of the round-trip
    /// time (section 6.1.2), or of what a packet took that had counted as lost by that (RFC 8985, section 6.2).
    #[must_use]
    pub fn loss_delay_ns(&self) -> u64 {
        let late_ns = self.late_ns[0].max(self.late_ns[1]);
        let longest = self.latest_ns.max(self.smoothed_ns).max(late_ns);
        (longest + longest / 8).max(GRANULARITY_NS)
    }

    /// The probe timeout: if no acknowledgment arrives for this long, a probe is sent (section
    /// 6.2.1).
    #[must_use]
    pub fn probe_timeout_ns(&self, max_ack_delay_ns: u64) -> u64 {
        self.smoothed_ns + (4 * self.variation_ns).max(GRANULARITY_NS) + max_ack_delay_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    /// A sender that stood still for two seconds behind its first probe waited for six before it sent anything again.
    #[test]
    fn a_first_sample_that_is_not_of_the_path_is_forgotten() {
        let mut rtt = Rtt::default();
        rtt.sample(1_900_000_000, 0);
        rtt.sample(3_000_000, 0);
        assert_eq!((rtt.smoothed_ns(), rtt.least_ns()), (3_000_000, 3_000_000));
        assert!(rtt.probe_timeout_ns(1_000_000) < 20_000_000);
        // A queue that drains leaves the minimum where it was.
        rtt.sample(100_000_000, 0);
        rtt.sample(2_000_000, 0);
        assert!(rtt.smoothed_ns() > 10_000_000);
    }

    /// They were the minimum, and a lane of 50 ms had a window for 1 ms.
    #[test]
    fn packets_that_overtake_leave_the_minimum_where_it_is() {
        let mut rtt = Rtt::default();
        for round in 0..2_000_u64 {
            // Three in twenty, two of them beside each other.
            let is_early = round % 20 < 2 || round % 20 == 10;
            rtt.sample(if is_early { 1_000_000 } else { 50_000_000 + round }, 0);
            if round >= 7 {
                assert!(rtt.least_ns() >= 50_000_000, "{round}: {}", rtt.least_ns());
            }
        }
        // A path that has become shorter is noticed after four.
        (0..4).for_each(|_| rtt.sample(20_000_000, 0));
        assert_eq!((rtt.steady_ns(), rtt.least_ns()), (20_000_000, 20_000_000));
        (0..4).for_each(|_| rtt.sample(1_000_000, 0));
        assert_eq!((rtt.smoothed_ns(), rtt.least_ns()), (1_000_000, 1_000_000), "it begins again");
    }

    /// The equations of section 5.3, in floating point.
    #[test]
    fn it_follows_the_equations() {
        let mut rng = linecard::rng::Rng::new(4);
        let mut rtt = Rtt::default();
        let (mut smoothed, mut variation, mut least) = (0.0, 0.0, f64::MAX);
        let mut all = Vec::new();
        for round in 0..1_000 {
            let latest = 1_000_000 + rng.below(3_000_000);
            let delay = rng.below(500_000);
            rtt.sample(latest, delay);
            let latest = latest as f64;
            all.push(latest);
            let mut last = all[all.len().saturating_sub(MEDIAN)..].to_vec();
            last.sort_by(f64::total_cmp);
            least =
                if round == MEDIAN - 1 { f64::MAX } else { least }.min(last[(last.len() - 1) / 2]);
            if round == 0 {
                (smoothed, variation) = (latest, latest / 2.0);
            } else {
                let delay = delay as f64;
                let adjusted = if latest >= least + delay { latest - delay } else { latest };
                variation = 0.75 * variation + 0.25 * f64::abs(smoothed - adjusted);
                smoothed = 0.875 * smoothed + 0.125 * adjusted;
            }
            assert!((rtt.smoothed_ns() as f64 - smoothed).abs() < 20.0);
            assert!((rtt.variation_ns as f64 - variation).abs() < 40.0);
        }
    }
}
