//! Simulates packets along the path, in order.

use super::cpu::Core;
use super::{NAPI_BUDGET, Spread, Stream};
use crate::Ps;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// Times of events.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Times {
    /// Starts of interrupt handlers.
    pub interrupts: Vec<Ps>,
    /// Deliveries to the application, one for each packet sent.
    pub packets: Vec<Ps>,
}

impl Times {
    /// The intervals between consecutive times.
    pub fn gaps(times: &[Ps]) -> impl Iterator<Item = Ps> {
        times.windows(2).map(|pair| pair[1].since(pair[0]))
    }
}

/// Sends `packets` packets.
///
/// ```
/// use linecard_model::path::{Stream, Times, simulate};
/// let times = simulate(&Stream::default(), 1_000);
/// assert_eq!(times.packets.len(), 1_000);
/// assert!(Times::gaps(&times.packets).all(|gap| gap.as_ns() < 12_000));
/// ```
#[must_use]
pub fn simulate(stream: &Stream, packets: usize) -> Times {
    let mut walk = Walk {
        stream,
        core: Core::new(stream),
        in_memory: VecDeque::new(),
        sent: 0,
        socket: 0,
        reading_from: Ps::ZERO,
        is_blocked: stream.wake.is_some(),
        times: Times::default(),
    };
    let mut enabled = Ps::ZERO;
    while walk.fill(packets, Ps::ZERO) {
        enabled = walk.interrupt(packets, enabled);
    }
    walk.read(Ps::NEVER);
    walk.times
}

/// A program that busy-waits for each period without network access (figure 5); returns when each
/// round ended.
#[must_use]
pub fn busy_loop(stream: &Stream, rounds: usize) -> Vec<Ps> {
    let mut core = Core::new(stream);
    let round = Spread { least: stream.period, ..Spread::default() };
    let step = |now: &mut Ps, _| {
        *now = core.work(*now, round);
        Some(*now)
    };
    (0..rounds).scan(Ps::ZERO, step).collect()
}

struct Walk<'c> {
    stream: &'c Stream,
    core: Core,
    /// When packets waiting for the kernel were in memory.
    in_memory: VecDeque<Ps>,
    sent: usize,
    /// Packets that wait for the application.
    socket: usize,
    /// When the application can continue.
    reading_from: Ps,
    is_blocked: bool,
    times: Times,
}

impl Walk<'_> {
    /// Adds all packets that are in memory by `until`, and one more; returns whether any waits.
    fn fill(&mut self, packets: usize, until: Ps) -> bool {
        while self.sent < packets && self.in_memory.back().is_none_or(|&last| last <= until) {
            let at = Ps(self.stream.period.0.saturating_mul(self.sent as u64));
            let rng = &mut self.core.rng;
            let arrived = at + self.stream.wire.draw(rng) + self.stream.dma.draw(rng);
            let before = self.in_memory.back().copied().unwrap_or_default();
            self.in_memory.push_back(arrived.max(before));
            self.sent += 1;
        }
        !self.in_memory.is_empty()
    }

    /// Handles the interrupt for the first waiting packet, and the poll after it; returns when
    /// interrupts are enabled again.
    fn interrupt(&mut self, packets: usize, enabled: Ps) -> Ps {
        let stream = self.stream;
        let Some(&first) = self.in_memory.front() else { return enabled };
        let mut raised = first.max(enabled);
        if let Some(&last) = self.times.interrupts.last().filter(|_| stream.throttle > Ps::ZERO) {
            raised = raised.max(last + stream.throttle);
        }
        self.read(raised);
        let mut now = self.core.work(raised, stream.interrupt);
        if let Some(sleep) = stream.sleep {
            now = self.core.work(now, sleep);
        }
        self.times.interrupts.push(now);
        now = self.core.work(now, stream.handler);
        for _ in 0..NAPI_BUDGET {
            self.fill(packets, now);
            let Some(_) = self.in_memory.pop_front_if(|at| *at <= now) else { break };
            now = self.core.work(now, stream.softirq);
            self.socket += 1;
        }
        self.reading_from = self.reading_from.max(now);
        now
    }

    /// The application reads until the next interrupt, which it does not delay.
    fn read(&mut self, until: Ps) {
        while self.socket > 0 && self.reading_from < until {
            if self.is_blocked
                && let Some(wake) = self.stream.wake
            {
                self.reading_from = self.core.work(self.reading_from, wake);
                self.is_blocked = false;
                continue;
            }
            self.reading_from = self.core.work(self.reading_from, self.stream.read);
            self.times.packets.push(self.reading_from);
            self.socket -= 1;
        }
        self.is_blocked |= self.socket == 0 && self.stream.wake.is_some();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKETS: usize = 200_000;

    /// Median and longest gap in ns, and how many are above 13 µs.
    fn shape(times: &[Ps]) -> (u64, u64, usize) {
        let mut gaps: Vec<u64> = Times::gaps(times).map(Ps::as_ns).collect();
        gaps.sort_unstable();
        let spikes = gaps.iter().filter(|&&gap| gap > 13_000).count();
        (gaps[gaps.len() / 2], gaps[gaps.len() - 1], spikes)
    }

    fn run(stream: &Stream) -> Times {
        let times = simulate(stream, PACKETS);
        assert_eq!(times.packets.len(), PACKETS);
        assert!(times.packets.is_sorted() && times.interrupts.is_sorted());
        times
    }

    /// Figure 5: four spikes of about 15 µs in a million rounds.
    #[test]
    fn a_busy_loop_sees_what_steals_the_core() {
        let (median, longest, spikes) = shape(&busy_loop(&Stream::default(), 1_000_000));
        assert_eq!(median, 7_410);
        assert!((14_000..16_000).contains(&longest) && (2..=8).contains(&spikes), "{spikes}");
    }

    /// Figures 6, 8 and 10: a microsecond of noise; spikes of 15 µs when cores sleep or the socket
    /// blocks; of 60 µs with both.
    #[test]
    fn each_source_adds_its_spikes() {
        let base = Stream::default();
        let baseline = run(&base);
        let (median, longest, _) = shape(&baseline.packets);
        assert!((7_300..7_500).contains(&median) && longest < 9_000, "{median}, {longest}");
        let (_, asleep, spikes) = shape(&run(&base.with_sleep()).interrupts);
        assert!((13_000..18_000).contains(&asleep) && spikes > 10, "{asleep}, {spikes}");
        let (_, blocking, _) = shape(&run(&base.with_blocking()).packets);
        assert!((13_000..18_000).contains(&blocking), "{blocking}");
        let (_, both, _) = shape(&run(&base.with_blocking().with_sleep()).packets);
        assert!((45_000..70_000).contains(&both), "{both}");
    }

    /// Figure 11: packets come every 100 µs together, whether or not the socket blocks.
    #[test]
    fn throttling_hides_all_else() {
        let base = Stream { throttle: Ps::from_ns(100_000), ..Stream::default() };
        for stream in [base, base.with_blocking()] {
            let times = run(&stream);
            let (median, _, _) = shape(&times.interrupts);
            assert!((100_000..102_000).contains(&median), "{median}");
            let per_interrupt = PACKETS / times.interrupts.len();
            assert_eq!(per_interrupt, 13);
            assert!(shape(&times.packets).0 < 1_000);
        }
    }

    /// A stage by measured quantiles has those quantiles again.
    #[test]
    fn measured_quantiles_come_out() {
        let quantiles = [100, 200, 300, 400, 5_000, 6_000].map(Ps::from_ns);
        let spread = Spread::of_quantiles(quantiles);
        let mut rng = linecard::rng::Rng::new(1);
        let mut drawn: Vec<Ps> = (0..PACKETS).map(|_| spread.draw(&mut rng)).collect();
        drawn.sort_unstable();
        for (level, quantile) in super::super::LEVELS.into_iter().zip(quantiles) {
            let found = drawn[((PACKETS - 1) as f64 * level) as usize];
            assert!(found.0.abs_diff(quantile.0) < quantile.0 / 20, "{level}: {found:?}");
        }
    }

    #[test]
    fn same_seed_same_times() {
        let stream = Stream::default().with_sleep();
        assert_eq!(simulate(&stream, 1_000), simulate(&stream, 1_000));
        assert_ne!(simulate(&stream, 1_000), simulate(&Stream { seed: 2, ..stream }, 1_000));
    }
}
