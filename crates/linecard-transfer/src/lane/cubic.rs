//! CUBIC (RFC 9438), in bytes: for lanes of unknown rate.

use super::FlightUpdate;
use linecard::time::Instant;

/// Multiplicative decrease (section 4.6).
const BETA: f64 = 0.7;
/// How fast the window grows, in segments per second³ (section 5.1).
const C: f64 = 0.4;
/// Segments to begin with (RFC 6928).
const INITIAL_SEGMENTS: f64 = 10.0;
/// The smallest window in segments.
const LEAST_SEGMENTS: f64 = 2.0;

/// A congestion window.
///
/// `share` is how many lanes are declared to share a bottleneck (RFC 6356 has the goals). With C, a window
/// is as C^(1/4) for the same losses (RFC 9438, section 5.1), and as the square root of alpha where it is
/// Reno's: with C / n^4 and alpha / n^2 for each, n lanes together take what one connection would.
#[derive(Debug, Clone)]
pub struct Cubic {
    /// Bytes of a segment.
    segment: f64,
    /// In segments, as all below.
    window: f64,
    threshold: f64,
    before_loss: f64,
    reno: f64,
    epoch: Option<Epoch>,
    recovery: Option<Instant>,
    share: f64,
}

#[derive(Debug, Clone, Copy)]
struct Epoch {
    start: Instant,
    /// Seconds until the window reaches its size before the loss.
    k: f64,
}

impl Cubic {
    /// A window of ten segments of `segment_bytes`.
    #[must_use]
    pub fn new(segment_bytes: u32) -> Self {
        Self {
            segment: f64::from(segment_bytes.max(1)),
            window: INITIAL_SEGMENTS,
            threshold: f64::INFINITY,
            before_loss: 0.0,
            reno: 0.0,
            epoch: None,
            recovery: None,
            share: 1.0,
        }
    }

    /// The window, in bytes.
    #[must_use]
    pub fn window(&self) -> u64 {
        (self.window * self.segment) as u64
    }

    /// Whether it is in slow start.
    #[must_use]
    pub fn in_slow_start(&self) -> bool {
        self.window < self.threshold
    }

    /// Sets the number of lanes that share a bottleneck.
    pub fn set_share(&mut self, lanes: usize) {
        self.share = lanes.max(1) as f64;
    }

    /// Updates the window with the effect of an acknowledgment or a timer; `limited` if the window
    /// limited the sender: a window that is not used does not grow (section 5.8).
    pub fn update(&mut self, outcome: &FlightUpdate, rtt_ns: u64, limited: bool, now: Instant) {
        if let Some(sent) = outcome.lost_sent {
            self.lost(sent, now);
        }
        if outcome.arrived_bytes > 0 && limited {
            self.arrived(outcome.arrived_bytes as f64 / self.segment, rtt_ns, now);
        }
    }

    fn lost(&mut self, sent: Instant, now: Instant) {
        // One reduction for all packets that were sent before the last one (RFC 9002, 7.3.2).
        if self.recovery.is_some_and(|start| sent <= start) {
            return;
        }
        self.recovery = Some(now);
        self.epoch = None;
        // Fast convergence (section 4.7): a window that had not come back makes room for others.
        let converging = self.window < self.before_loss;
        self.before_loss = self.window * if converging { (1.0 + BETA) / 2.0 } else { 1.0 };
        self.window = (self.window * BETA).max(LEAST_SEGMENTS);
        self.threshold = self.window;
    }

    fn arrived(&mut self, segments: f64, rtt_ns: u64, now: Instant) {
        if self.in_slow_start() {
            self.window = (self.window + segments / self.share).min(self.threshold);
            return;
        }
        let square = self.share * self.share;
        let c = C / (square * square);
        let epoch = *self.epoch.get_or_insert_with(|| {
            self.reno = self.window;
            let distance = (self.before_loss - self.window).max(0.0);
            Epoch { start: now, k: libm::cbrt(distance / c) }
        });
        let t = (now.ns_since(epoch.start) + rtt_ns) as f64 / 1e9;
        let peak = self.before_loss.max(self.window.min(self.reno));
        let offset = t - epoch.k;
        let target = (c * offset * offset * offset + peak).clamp(self.window, self.window * 1.5);
        let alpha = 3.0 * (1.0 - BETA) / (1.0 + BETA);
        self.reno += alpha / square * segments / self.window;
        let grown = self.window + (target - self.window) / self.window * segments;
        self.window = grown.max(self.reno);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    const RTT_NS: u64 = 100_000_000;

    fn arrived(segments: f64) -> FlightUpdate {
        FlightUpdate { arrived_bytes: (segments * 1_000.0) as u64, ..FlightUpdate::default() }
    }

    /// One round of a window that is all used.
    fn round(cubic: &mut Cubic, now: &mut Instant) {
        *now = now.plus_ns(RTT_NS);
        let all = arrived(cubic.window);
        cubic.update(&all, RTT_NS, true, *now);
    }

    fn lose(cubic: &mut Cubic, now: Instant) {
        cubic.update(
            &FlightUpdate { lost_sent: Some(now), ..FlightUpdate::default() },
            RTT_NS,
            true,
            now,
        );
    }

    #[test]
    fn slow_start_doubles_and_a_loss_takes_three_tenths_once() {
        let (mut cubic, mut now) = (Cubic::new(1_000), Instant::ZERO);
        for _ in 0..4 {
            round(&mut cubic, &mut now);
        }
        assert_eq!(cubic.window(), 160_000);
        lose(&mut cubic, now);
        assert_eq!(cubic.window(), 112_000);
        cubic.update(
            &FlightUpdate { lost_sent: Some(now), ..FlightUpdate::default() },
            1,
            true,
            now,
        );
        assert_eq!(cubic.window(), 112_000);
    }

    /// Section 4.2: the window is back at `W_max` after K = `cbrt(W_max` (1 - beta) / C) seconds.
    #[test]
    fn it_is_back_after_k() {
        let (mut cubic, mut now) = (Cubic::new(1_000), Instant::ZERO);
        cubic.window = 1_000.0;
        lose(&mut cubic, now);
        let k = libm::cbrt(1_000.0 * 0.3 / 0.4);
        let mut windows = [0.0; 3];
        for (part, at) in [0.5, 1.0, 1.5].into_iter().enumerate() {
            while (now.as_ns() as f64) < k * at * 1e9 {
                round(&mut cubic, &mut now);
            }
            windows[part] = cubic.window;
        }
        assert!((960.0..1_000.0).contains(&windows[0]), "{windows:?}");
        assert!((995.0..1_010.0).contains(&windows[1]), "{windows:?}");
        assert!((1_020.0..1_120.0).contains(&windows[2]), "{windows:?}");
    }

    #[test]
    fn an_unused_window_does_not_grow() {
        let mut cubic = Cubic::new(1_000);
        cubic.update(&arrived(10.0), RTT_NS, false, Instant::ZERO);
        assert_eq!(cubic.window(), 10_000);
    }

    /// Windows of `lanes` beside that of one other, on a link that drops a packet of somebody whenever it
    /// is full; what they had for what the other had.
    fn beside_another(lanes: usize, share: usize) -> f64 {
        let mut rng = linecard::rng::Rng::new(8);
        let mut all: Vec<Cubic> = (0..=lanes).map(|_| Cubic::new(1_000)).collect();
        all[1..].iter_mut().for_each(|cubic| cubic.set_share(share));
        let (mut now, mut ours, mut theirs) = (Instant::ZERO, 0.0, 0.0);
        for _ in 0..20_000 {
            now = now.plus_ns(RTT_NS);
            for cubic in &mut all {
                let segments = arrived(cubic.window);
                cubic.update(&segments, RTT_NS, true, now);
            }
            let mut losses = 0;
            while all.iter().map(|cubic| cubic.window).sum::<f64>() > 400.0 && losses < 20 {
                let sum: f64 = all.iter().map(|cubic| cubic.window).sum();
                let mut drop = rng.below(sum as u64) as f64;
                let hit = all.iter_mut().find(|cubic| {
                    drop -= cubic.window;
                    drop < 0.0
                });
                hit.into_iter().for_each(|cubic| lose(cubic, now));
                losses += 1;
            }
            theirs += all[0].window;
            ours += all[1..].iter().map(|cubic| cubic.window).sum::<f64>();
        }
        ours / theirs
    }

    #[test]
    fn lanes_that_share_take_about_what_one_would() {
        let (alone, coupled) = (beside_another(4, 1), beside_another(4, 4));
        assert!((2.5..5.5).contains(&alone), "{alone}");
        assert!((0.5..1.5).contains(&coupled), "{coupled}");
    }
}
