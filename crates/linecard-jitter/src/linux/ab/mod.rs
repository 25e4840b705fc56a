//! A/B measurements: the effect of a toggle on packets, in randomised blocks.
//!
//! The order of each block, ABBA or BAAB, is drawn at random: drift that is linear in time cancels
//! out, and randomisation covers the rest (`crate::stats::effect`). In arm A the host is as found;
//! in arm B the toggle is set through a journal, so that the host is restored after any end,
//! crashes included. A toggle that had no effect on its witness gets no verdict, and neither does
//! one whose settings another process changed meanwhile.
//!
//! The caller's closure makes the measurement: it receives a [`Run`] and returns an
//! [`Observation`].

mod arms;
mod verdict;

pub use verdict::verdict;

use super::journal::{Journal, JournalError, Restoration, Store};
use super::toggle::{SinkChange, Target, Toggle, ToggleError, Witness};
use crate::stats::arms::{Arm, MAX_BLOCKS, MIN_BLOCKS, blocks};
use crate::stats::effect::{Block, Effect, EffectError, smallest_p};
use crate::stats::holm;
use arms::Switched;
use linecard::rng::Rng;
use verdict::LEVEL;

/// Maximum number of toggles per experiment: with more, Holm's correction leaves no power.
pub const MAX_TOGGLES: usize = 16;
/// Maximum number of figures per run.
pub const MAX_FIGURES: usize = 16;

/// The toggles' comparison: how often, and which figures.
#[derive(Debug, Clone)]
pub struct Design {
    /// Blocks of four runs per toggle; significance at 5 % needs at least 6, and of several toggles more. Default: 8.
    pub blocks: usize,
    /// Runs before the first block of each toggle, alternating arms, whose figures are discarded.
    /// Default: 2.
    pub warm_up: usize,
    /// Seed for the order of arms. Default: 1.
    pub seed: u64,
    /// Confidence level of intervals. Default: 0.95.
    pub confidence: f64,
    /// Names of the figures with units, such as `p99 lateness, µs`. The first one decides.
    pub figures: Vec<String>,
}

impl Design {
    /// The defaults with these figures.
    #[must_use]
    pub fn of(figures: Vec<String>) -> Self {
        Self { blocks: 8, warm_up: 2, seed: 1, confidence: 0.95, figures }
    }

    /// Total number of runs for `toggles` toggles, for a progress bar.
    #[must_use]
    pub fn runs(&self, toggles: usize) -> usize {
        toggles * (self.warm_up + 4 * self.blocks)
    }
}

/// One run, as passed to the measuring closure.
#[derive(Debug)]
pub struct Run<'r> {
    /// The toggle.
    pub toggle: &'static str,
    /// The arm.
    pub arm: Arm,
    /// How the sink has to run; empty in arm A.
    pub sink: &'r [SinkChange],
    /// Whether its figures are discarded.
    pub is_warm_up: bool,
}

/// The result of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Observation {
    /// One number per figure of the design.
    pub figures: Vec<f64>,
    /// Counts for checks of toggles: `batch` (packets of one poll), `voluntary_switches` of the sink,
    /// `realtime` (1 when it ran under `SCHED_FIFO`).
    pub counts: Vec<(&'static str, f64)>,
}

/// Why there are no outcomes.
#[derive(Debug, thiserror::Error)]
pub enum AbError<E: std::error::Error + 'static> {
    /// The design is invalid.
    #[error("{count} {parts}: take {least} to {most}")]
    Design {
        /// The parts of the design: its figures, toggles or blocks.
        parts: &'static str,
        /// Their number.
        count: usize,
        /// The least number.
        least: usize,
        /// The largest number.
        most: usize,
    },
    /// Even if every block said the same, chance would explain it.
    #[error(
        "{blocks} blocks of four runs can show no effect of {toggles} toggles at 5 %: take {least} blocks or \
         more, or fewer toggles"
    )]
    TooFewBlocks {
        /// Blocks of each toggle.
        blocks: usize,
        /// Toggles, for which p-values are corrected.
        toggles: usize,
        /// The least number of blocks.
        least: usize,
    },
    /// A toggle cannot be switched here.
    #[error("{toggle}: {source}")]
    Toggle {
        /// Name of the toggle.
        toggle: &'static str,
        /// Reason.
        source: ToggleError,
    },
    /// A setting cannot be changed.
    #[error("{toggle}: {source}")]
    Journal {
        /// Name of the toggle.
        toggle: &'static str,
        /// Reason.
        source: JournalError,
    },
    /// A run failed.
    #[error(transparent)]
    Run(E),
}

/// The effect of a toggle.
#[derive(Debug)]
pub struct ToggleOutcome {
    /// The toggle.
    pub toggle: &'static Toggle,
    /// Effect of arm B on each figure.
    pub effects: Vec<Result<Effect, EffectError>>,
    /// p-value of the first figure after Holm's correction over all toggles; `None` without an
    /// effect.
    pub p: Option<f64>,
    /// Whether the toggle took effect on its witness.
    pub manipulation: Manipulation,
}

/// Whether a toggle took effect.
#[derive(Debug, Clone, PartialEq)]
pub struct Manipulation {
    /// The witness's counts per run in both arms, if the toggle has a witness.
    pub counts: Option<(f64, f64)>,
    /// Runs in which a setting did not read as set, or the witness could not be read.
    pub disturbed: usize,
    /// The toggle took effect and no run was disturbed.
    pub holds: bool,
}

/// A finished experiment, and the state of the host after it.
#[derive(Debug)]
pub struct Finished<E: std::error::Error + 'static> {
    /// Effect of each toggle.
    pub outcomes: Result<Vec<ToggleOutcome>, AbError<E>>,
    /// Restored settings; if one is not good, the exit code is 12.
    pub restorations: Vec<Restoration>,
}

/// Compares the arms of each toggle. Restores all settings in every case.
///
/// # Errors
///
/// The journal cannot be started or ended. Other errors are in [`Finished`].
pub fn measure<E: std::error::Error + 'static>(
    (toggles, target): (&[&'static Toggle], &Target),
    design: &Design,
    store: &Store,
    mut run: impl FnMut(&Run<'_>) -> Result<Observation, E>,
) -> Result<Finished<E>, JournalError> {
    if let Err(error) = check(design, toggles) {
        return Ok(Finished { outcomes: Err(error), restorations: Vec::new() });
    }
    let mut journal = Journal::begin(store)?;
    let mut rng = Rng::new(design.seed);
    let each = |toggle: &&'static Toggle| {
        let switched = Switched::new(toggle, target, &mut journal)
            .map_err(|source| AbError::Toggle { toggle: toggle.name, source })?;
        compare(switched, (design, &mut rng), &mut run)
    };
    let outcomes: Result<Vec<ToggleOutcome>, AbError<E>> = toggles.iter().map(each).collect();
    let restorations = journal.roll_back()?;
    Ok(Finished { outcomes: outcomes.map(correct), restorations })
}

fn check<E: std::error::Error + 'static>(
    design: &Design,
    toggles: &[&'static Toggle],
) -> Result<(), AbError<E>> {
    let (figures, toggles) = (design.figures.len(), toggles.len());
    let limits = [
        ("figures", figures, 1, MAX_FIGURES),
        ("toggles", toggles, 1, MAX_TOGGLES),
        ("blocks", design.blocks, MIN_BLOCKS, MAX_BLOCKS),
    ];
    let wrong = limits.into_iter().find(|&(_, count, least, most)| count < least || count > most);
    if let Some((parts, count, least, most)) = wrong {
        return Err(AbError::Design { parts, count, least, most });
    }
    // Holm's correction multiplies the smallest p-value by the number of toggles.
    let shows = |blocks: &usize| smallest_p(*blocks) * toggles as f64 <= LEVEL;
    match (MIN_BLOCKS..=MAX_BLOCKS).find(shows) {
        Some(least) if design.blocks < least => {
            Err(AbError::TooFewBlocks { blocks: design.blocks, toggles, least })
        }
        _ => Ok(()),
    }
}

/// Makes all runs of one toggle.
fn compare<E: std::error::Error + 'static>(
    mut switched: Switched<'_>,
    (design, rng): (&Design, &mut Rng),
    mut run: impl FnMut(&Run<'_>) -> Result<Observation, E>,
) -> Result<ToggleOutcome, AbError<E>> {
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
            // A missing figure becomes NaN, which the effect reports.
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
    Ok(ToggleOutcome { toggle, effects, p: None, manipulation })
}

/// Applies Holm's correction to the first figures of all toggles.
fn correct(mut outcomes: Vec<ToggleOutcome>) -> Vec<ToggleOutcome> {
    let first = |outcome: &ToggleOutcome| Some(outcome.effects.first()?.as_ref().ok()?.p);
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
