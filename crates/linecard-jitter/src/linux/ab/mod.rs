//! A/B: what a toggle does to packets, in randomised blocks.
//!
//! Each block is ABBA or BAAB, by a coin: drift that is linear in time falls out, and chance decides the
//! rest (`crate::stats::effect`). In arm A the host is as found, in arm B the toggle is set,
//! through a journal: after any end, crashes included, the host is as before. A toggle that took no
//! effect gets no verdict, nor does one whose settings somebody else changed meanwhile.
//!
//! What is measured is a closure's affair: it gets a [`Run`] and gives an [`Observation`].

mod arms;
mod verdict;

pub use verdict::verdict;

use super::journal::{Journal, JournalError, Restoration, Store};
use super::toggle::{SinkChange, Target, Toggle, ToggleError, Witness};
use crate::stats::arms::{Arm, blocks};
use crate::stats::effect::{Block, Effect, EffectError};
use crate::stats::holm;
use arms::Switched;
use linecard::rng::Rng;

/// Toggles of one experiment: beyond that Holm's correction leaves nothing to be seen.
pub const MAX_TOGGLES: usize = 16;
/// Figures of one run.
pub const MAX_FIGURES: usize = 16;

/// What is to be compared, and how often.
#[derive(Debug, Clone)]
pub struct Design {
    /// Blocks of four runs for each toggle: 6 or more can show an effect at 5 %. Default: 8.
    pub blocks: usize,
    /// Runs before the first block of each toggle whose figures are dropped, taking arms in turn.
    /// Default: 2.
    pub warm_up: usize,
    /// Decides the order of arms. Default: 1.
    pub seed: u64,
    /// Of intervals. Default: 0.95.
    pub confidence: f64,
    /// Names of the figures, with units, as `p99 lateness, µs`. The first one decides.
    pub figures: Vec<String>,
}

impl Design {
    /// The defaults, for these figures.
    #[must_use]
    pub fn of(figures: Vec<String>) -> Self {
        Self { blocks: 8, warm_up: 2, seed: 1, confidence: 0.95, figures }
    }

    /// Runs of an experiment with so many toggles: for a progress bar.
    #[must_use]
    pub fn runs(&self, toggles: usize) -> usize {
        toggles * (self.warm_up + 4 * self.blocks)
    }
}

/// What a run is.
#[derive(Debug)]
pub struct Run<'r> {
    /// The toggle.
    pub toggle: &'static str,
    /// Which arm.
    pub arm: Arm,
    /// How the sink is to run: nothing in arm A.
    pub sink: &'r [SinkChange],
    /// Its figures are dropped.
    pub is_warm_up: bool,
}

/// What a run has given.
#[derive(Debug, Clone, PartialEq)]
pub struct Observation {
    /// A number for each of the design's figures.
    pub figures: Vec<f64>,
    /// Counts for checks of toggles: `batch` (packets of one poll), `voluntary_switches` of the sink,
    /// `realtime` (1 when it ran under `SCHED_FIFO`).
    pub counts: Vec<(&'static str, f64)>,
}

/// Why there are no outcomes.
#[derive(Debug, thiserror::Error)]
pub enum AbError<E: std::error::Error + 'static> {
    /// The design is none.
    #[error("{0}")]
    Design(String),
    /// A toggle cannot be switched here.
    #[error("{toggle}: {source}")]
    Toggle {
        /// Which.
        toggle: &'static str,
        /// Why.
        source: ToggleError,
    },
    /// A setting cannot be changed.
    #[error("{toggle}: {source}")]
    Journal {
        /// Which toggle's.
        toggle: &'static str,
        /// Why.
        source: JournalError,
    },
    /// A run has failed.
    #[error(transparent)]
    Run(E),
}

/// What a toggle did.
#[derive(Debug)]
pub struct Outcome {
    /// The toggle.
    pub toggle: &'static Toggle,
    /// For each figure, what B does.
    pub effects: Vec<Result<Effect, EffectError>>,
    /// The first figure's p-value after Holm's correction over all toggles; none without an effect.
    pub p: Option<f64>,
    /// Whether the toggle took effect.
    pub manipulation: Manipulation,
}

/// Whether a toggle took effect.
#[derive(Debug, Clone, PartialEq)]
pub struct Manipulation {
    /// Counts per run of the witness in both arms, if it has any.
    pub counts: Option<(f64, f64)>,
    /// Runs in which a setting did not read as it was set, or the witness could not be read.
    pub disturbed: usize,
    /// It took effect, and nobody disturbed it.
    pub holds: bool,
}

/// An experiment that is over, and the host as it is then.
#[derive(Debug)]
pub struct Finished<E: std::error::Error + 'static> {
    /// For each toggle what it did.
    pub outcomes: Result<Vec<Outcome>, AbError<E>>,
    /// What was put back; a fate that is not good is for exit code 12.
    pub restorations: Vec<Restoration>,
}

/// Compares each toggle's arms. Whatever happens, settings are put back.
///
/// # Errors
///
/// The journal cannot be begun or ended. All else is in [`Finished`].
pub fn measure<E: std::error::Error + 'static>(
    (toggles, target): (&[&'static Toggle], &Target),
    design: &Design,
    store: &Store,
    mut run: impl FnMut(&Run<'_>) -> Result<Observation, E>,
) -> Result<Finished<E>, JournalError> {
    if let Err(why) = check(design, toggles) {
        return Ok(Finished { outcomes: Err(AbError::Design(why)), restorations: Vec::new() });
    }
    let mut journal = Journal::begin(store)?;
    let mut rng = Rng::new(design.seed);
    let each = |toggle: &&'static Toggle| {
        let switched = Switched::new(toggle, target, &mut journal)
            .map_err(|source| AbError::Toggle { toggle: toggle.name, source })?;
        compare(switched, (design, &mut rng), &mut run)
    };
    let outcomes: Result<Vec<Outcome>, AbError<E>> = toggles.iter().map(each).collect();
    let restorations = journal.roll_back()?;
    Ok(Finished { outcomes: outcomes.map(correct), restorations })
}

fn check(design: &Design, toggles: &[&'static Toggle]) -> Result<(), String> {
    let (figures, toggles) = (design.figures.len(), toggles.len());
    if !(1..=MAX_FIGURES).contains(&figures) {
        return Err(format!("{figures} figures: take 1 to {MAX_FIGURES}"));
    }
    if !(1..=MAX_TOGGLES).contains(&toggles) {
        return Err(format!("{toggles} toggles: take 1 to {MAX_TOGGLES}"));
    }
    let (least, most) = (crate::stats::arms::MIN_BLOCKS, crate::stats::arms::MAX_BLOCKS);
    if !(least..=most).contains(&design.blocks) {
        return Err(format!("{} blocks: take {least} to {most}", design.blocks));
    }
    Ok(())
}

/// All runs of one toggle.
fn compare<E: std::error::Error + 'static>(
    mut switched: Switched<'_>,
    (design, rng): (&Design, &mut Rng),
    mut run: impl FnMut(&Run<'_>) -> Result<Observation, E>,
) -> Result<Outcome, AbError<E>> {
    let toggle = switched.toggle;
    for index in 0..design.warm_up {
        let arm = if index % 2 == 0 { Arm::A } else { Arm::B };
        switched.run((arm, true), &mut run)?;
    }
    let mut measured = vec![Vec::<Block>::new(); design.figures.len()];
    for order in blocks(design.blocks, rng) {
        let mut block = Vec::with_capacity(order.len());
        for arm in order {
            let mut figures = switched.run((arm, false), &mut run)?.figures;
            // One that is missing is no number, which the effect says.
            figures.resize(design.figures.len(), f64::NAN);
            block.push((arm, figures));
        }
        for (index, blocks) in measured.iter_mut().enumerate() {
            blocks.push(std::array::from_fn(|at| (block[at].0, block[at].1[index])));
        }
    }
    let manipulation = switched.manipulation();
    switched.end().map_err(|source| AbError::Journal { toggle: toggle.name, source })?;
    let effects =
        measured.iter().map(|blocks| Effect::of(blocks, design.confidence, rng)).collect();
    Ok(Outcome { toggle, effects, p: None, manipulation })
}

/// Holm's correction over the first figures of all toggles.
fn correct(mut outcomes: Vec<Outcome>) -> Vec<Outcome> {
    let first = |outcome: &Outcome| Some(outcome.effects.first()?.as_ref().ok()?.p);
    let raw: Vec<f64> = outcomes.iter().filter_map(first).collect();
    let mut adjusted = holm::adjusted(&raw).into_iter();
    for outcome in &mut outcomes {
        outcome.p = first(outcome).and_then(|_| adjusted.next());
    }
    outcomes
}

impl Manipulation {
    fn of(witness: &Witness, counts: Option<(f64, f64)>, disturbed: usize) -> Self {
        let moved = match witness {
            Witness::Nothing | Witness::Reread => true,
            Witness::Counted { expect, .. } | Witness::Observed { expect, .. } => {
                counts.is_some_and(|(a, b)| expect.holds(a, b))
            }
        };
        Self { counts, disturbed, holds: moved && disturbed == 0 }
    }
}

#[cfg(test)]
mod tests;
