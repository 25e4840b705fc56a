//! What papers/end2end100.txt prints, and what follows from it. Rates in Gbit/s, times in ms.

/// Of a lane.
pub(super) const LINE: f64 = 10.0;

/// The most of them.
pub(super) const LANES: u64 = 8;

/// A mode's figures on 1 lane and on 8.
#[derive(Debug, Clone, Copy)]
pub(super) struct Published {
    /// On 8 lanes.
    pub(super) throughput: (f64, usize),
    /// Overhead on 1 lane and on 8, as a rate and in per cent.
    pub(super) one: (f64, f64),
    pub(super) eight: (f64, f64),
    /// The least and the most over 1 to 8 lanes, in per cent.
    pub(super) least: (f64, usize),
    pub(super) most: (f64, usize),
}

pub(super) const STABLE: Published = Published {
    throughput: (78.315, 3),
    one: (0.050, 0.50),
    eight: (0.444, 0.55),
    least: (0.495, 3),
    most: (0.927, 3),
};

pub(super) const LOW_LATENCY: Published = Published {
    throughput: (76.73, 2),
    one: (0.056, 0.56),
    eight: (2.054, 2.57),
    least: (0.56, 2),
    most: (4.02, 2),
};

/// A chunk on 1 lane and on 8, in low latency.
pub(super) const LATENCY_ONE: f64 = 13.714;
pub(super) const LATENCY_EIGHT: f64 = 1.748;
/// "Off the optimal scaling", in µs: the optimum is an eighth of the latency on 1 lane.
pub(super) const OFF_OPTIMAL: f64 = 34.0;

/// Per cent of throughput that offloaded FEC costs, and per cent of latency.
pub(super) const FEC_THROUGHPUT: (f64, usize) = (2.45, 2);
pub(super) const FEC_LATENCY: (f64, usize) = (2.52, 2);

impl Published {
    /// What a lane could carry of data, as throughput and overhead on 8 lanes add up.
    pub(super) fn bound(&self) -> f64 {
        (self.throughput.0 + self.eight.0) / 8.0
    }
}

/// The line a/L + b through the two latencies: a in ms, b in µs.
pub(super) fn fit() -> (f64, f64) {
    let a = (LATENCY_ONE - LATENCY_EIGHT) * 8.0 / 7.0;
    (a, (LATENCY_ONE - a) * 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Only one reading of "overhead" gives the per cents that are printed: of what the lines carry,
    /// framing included.
    #[test]
    fn overhead_is_counted_against_the_lines() {
        let rounded = |x: f64| (x * 1e4).round() / 1e2;
        for (published, lanes, (rate, percent)) in [
            (STABLE, 1.0, STABLE.one),
            (LOW_LATENCY, 1.0, LOW_LATENCY.one),
            (LOW_LATENCY, 8.0, LOW_LATENCY.eight),
        ] {
            assert_eq!(rounded(rate / (LINE * lanes)), percent);
            assert_ne!(rounded(rate / (published.bound() * lanes)), percent);
        }
        // 0.555 is printed as 0.55: of the bound it would be 0.564.
        assert!((STABLE.eight.0 / 80.0 * 100.0 - 0.555).abs() < 1e-9);
    }

    #[test]
    fn the_line_through_two_latencies() {
        let (a, b) = fit();
        assert!((a - 13.675).abs() < 5e-4 && (b - 38.6).abs() < 0.05, "{a} {b}");
        assert!((LATENCY_EIGHT - LATENCY_ONE / 8.0 - 0.034).abs() < 5e-4);
    }
}
