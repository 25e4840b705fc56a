//! Whether a stream was good enough to judge its receiver.

use super::Departures;

/// Limits of a good stream.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct QualityLimits {
    /// Maximum lateness of 99.9 % of the packets, in nanoseconds. Default: the period.
    pub lateness_ns: u64,
    /// Maximum level of the bucket, in packets. Default: that of a wide sender of ST 2110-21.
    pub burst: f64,
}

/// The quality of a stream.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Quality {
    /// Median lateness in nanoseconds.
    pub lateness_p50_ns: u64,
    /// 99th percentile.
    pub lateness_p99_ns: u64,
    /// 99.9th percentile.
    pub lateness_p999_ns: u64,
    /// Maximum lateness.
    pub lateness_max_ns: u64,
    /// Maximum level of a bucket that is drained 1.1 times as fast as the stream fills it, in
    /// packets (`C_inst` of ST 2110-21, 7.1, drained evenly).
    pub burst: f64,
    /// The limits that applied.
    pub limits: QualityLimits,
    /// Packets that were sent.
    pub packets: u64,
    /// Whether the stream kept its limits, all packets were sent and there was more than one.
    pub passes: bool,
}

impl QualityLimits {
    /// Default limits for a stream of this period. ST 2110-21, 7.1: `C_max` of a wide sender is
    /// max(16, ⌊N / (21600 · T)⌋), where N / T is the packet rate.
    #[must_use]
    pub fn of_period(period_ps: u64) -> Self {
        let rate = 1e12 / period_ps.max(1) as f64;
        let lateness_ns = (period_ps / 1_000).max(1);
        Self { lateness_ns, burst: (rate / 21_600.0).floor().max(16.0) }
    }
}

impl Departures {
    /// Quality of the stream by these limits, or by those of its period.
    #[must_use]
    pub fn quality(&self, limits: Option<QualityLimits>) -> Quality {
        let period_ps = self.schedule.period_ps;
        let limits = limits.unwrap_or_else(|| QualityLimits::of_period(period_ps));
        let mut lateness: Vec<u64> = self.lateness_ns().collect();
        lateness.sort_unstable();
        let burst = self.burst();
        let p999 = quantile(&lateness, 999, 1_000);
        let kept = p999 <= limits.lateness_ns && burst <= limits.burst;
        Quality {
            lateness_p50_ns: quantile(&lateness, 1, 2),
            lateness_p99_ns: quantile(&lateness, 99, 100),
            lateness_p999_ns: p999,
            lateness_max_ns: lateness.last().copied().unwrap_or(0),
            burst,
            limits,
            packets: lateness.len() as u64,
            passes: kept && self.refused == 0 && lateness.len() > 1,
        }
    }

    fn burst(&self) -> f64 {
        let drained_ns = self.schedule.period_ps as f64 / 1_100.0;
        let (mut level, mut fullest, mut last_ns) = (0.0_f64, 0.0_f64, 0);
        for &sent_ns in self.sent_ns.iter().filter(|sent_ns| **sent_ns > 0) {
            let passed_ns = sent_ns.saturating_sub(last_ns) as f64;
            level = (level - passed_ns / drained_ns).max(0.0) + 1.0;
            fullest = fullest.max(level);
            last_ns = sent_ns;
        }
        fullest
    }
}

/// Smallest value that at least `part` of `whole` values do not exceed; 0 without values.
fn quantile(sorted: &[u64], part: usize, whole: usize) -> u64 {
    let rank = (sorted.len() * part).div_ceil(whole).max(1);
    sorted.get(rank - 1).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::super::Gap;
    use super::*;
    use crate::stream::Schedule;

    fn sent(late_ns: impl Fn(u64) -> u64) -> Departures {
        let schedule = Schedule { start_ns: 1_000, period_ps: 10_000_000 };
        Departures {
            schedule,
            gap: Gap::NONE,
            sent_ns: (0..2_000).map(|n| schedule.due_ns(n) + late_ns(n)).collect(),
            refused: 0,
            last_error: None,
            ended_ns: 0,
            switches: None,
        }
    }

    #[test]
    fn a_good_stream_passes() {
        let quality = sent(|n| n % 100).quality(None);
        assert!(quality.passes, "{quality:?}");
        assert_eq!((quality.lateness_p50_ns, quality.lateness_max_ns), (49, 99));
        assert!(quality.burst < 1.1);
    }

    /// A pause of 40 periods, after which what was due is sent at once.
    #[test]
    fn a_pause_is_seen_in_both_figures() {
        let paused = sent(|n| if (100..140).contains(&n) { (140 - n) * 10_000 } else { 0 });
        let quality = paused.quality(None);
        assert!(!quality.passes);
        assert_eq!(quality.lateness_max_ns, 400_000);
        assert!(quality.burst > 38.0);
        let limits = QualityLimits { lateness_ns: 400_000, burst: 50.0 };
        assert!(paused.quality(Some(limits)).passes);
    }

    #[test]
    fn a_stream_with_holes_fails() {
        let mut holed = sent(|_| 0);
        holed.sent_ns[5] = 0;
        holed.refused = 1;
        assert!(!holed.quality(None).passes);
        holed.sent_ns.clear();
        assert_eq!(holed.quality(None).lateness_max_ns, 0);
    }
}
