//! How well the cause of late packets is found: recall and precision, medians of several runs.

use linecard_jitter::ledger::{Cause, Spike};
use linecard_jitter::trace::{Names, Stage};

/// Share that has to be right.
const ENOUGH: f64 = 0.95;
/// The median of this many runs counts …
const RUNS: usize = 5;
/// … without those that tell nothing, in which another program had the cores: at most as many runs in all.
pub(crate) const MAX_RUNS: usize = 4 * RUNS;

/// How well a cause was found.
#[derive(Debug)]
pub(crate) struct Score {
    /// Of the spikes that are in times of injections for the most part, those whose main cause is it.
    pub(crate) recall: f64,
    /// Of the spikes whose main cause it is, those that are in times of injections for a part.
    pub(crate) precision: f64,
}

/// Times during which something was done on purpose.
pub(crate) type Windows = Vec<(u64, u64)>;

pub(crate) fn score_of<'a>(
    spikes: impl Iterator<Item = (&'a Spike, &'a Names)>,
    windows: &Windows,
    is_it: impl Fn(Cause, &Names) -> bool,
) -> Option<Score> {
    let (mut inside, mut found, mut named, mut right) = (0_usize, 0_usize, 0_usize, 0_usize);
    // Packets that were late at the sender are not attributed to the sink's core; those that were not traced may be.
    // Where the kernel hides a thread, an injection is hidden as well.
    let of_receiver = |(spike, _): &(&Spike, &Names)| match spike.cause() {
        Cause::Untraced => true,
        Cause::Missing => false,
        _ => spike.charges[0].stage > Stage::Send,
    };
    for (spike, names) in spikes.filter(of_receiver) {
        let (from_ns, to_ns) = (spike.expected_ns(), spike.arrived_ns);
        let common_ns =
            |window: &(u64, u64)| to_ns.min(window.1).saturating_sub(from_ns.max(window.0));
        let most_ns = windows.iter().map(common_ns).max().unwrap_or(0);
        // Other programs delay packets, too, also in times of injections, and more than those then.
        let is_inside = 2 * most_ns > to_ns - from_ns;
        let is_named = is_it(spike.cause(), names);
        inside += usize::from(is_inside);
        named += usize::from(is_named);
        right += usize::from(is_named && most_ns > 0);
        found += usize::from(is_inside && is_named);
        if is_inside != is_named {
            let causes: Vec<_> = spike
                .charges
                .iter()
                .take(4)
                .map(|charge| {
                    format!(
                        "{} {} {}",
                        charge.ns,
                        charge.stage.name(),
                        charge.cause.describe(names)
                    )
                })
                .collect();
            eprintln!(
                "   inside {is_inside}, named {is_named}: {} ns: {causes:?}",
                spike.excess_ns
            );
        }
    }
    if inside < windows.len() / 3 {
        eprintln!("only {inside} spikes in {} injections", windows.len());
        return None;
    }
    let share = |of: usize, all: usize| of as f64 / all.max(1) as f64;
    Some(Score { recall: share(found, inside), precision: share(right, named) })
}

/// The runs of a test that count.
#[derive(Debug, Default)]
pub(crate) struct Scores(Vec<Score>);

impl Scores {
    /// Adds a run; true once further ones cannot change on which side of the limit the medians are.
    pub(crate) fn add(&mut self, test: &str, score: Option<Score>) -> bool {
        eprintln!("{test}: {score:?}");
        self.0.extend(score);
        let is_decided = |of| {
            let good = self.good(of);
            good.max(self.0.len() - good) > RUNS / 2
        };
        is_decided(recall) && is_decided(precision)
    }

    fn good(&self, of: fn(&Score) -> f64) -> usize {
        self.0.iter().filter(|score| of(score) >= ENOUGH).count()
    }

    /// Asserts that the medians are good enough.
    pub(crate) fn assert_good(self, test: &str) {
        for (name, of) in [("recall", recall as fn(&Score) -> f64), ("precision", precision)] {
            assert!(self.good(of) > RUNS / 2, "{test}: {name} of {:?}", self.0);
            let mut all: Vec<f64> = self.0.iter().map(of).collect();
            all.sort_by(f64::total_cmp);
            eprintln!("{test}: {name} {all:.3?}, median {:.3}", all[all.len() / 2]);
        }
    }
}

fn recall(score: &Score) -> f64 {
    score.recall
}

fn precision(score: &Score) -> f64 {
    score.precision
}
