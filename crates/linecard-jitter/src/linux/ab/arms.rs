//! Switching a toggle between its two arms.

use super::{AbError, Manipulation, Observation, Run};
use crate::linux::journal::{Journal, JournalError};
use crate::linux::setting::{Setting, State};
use crate::linux::toggle::{NoSleep, SinkChange, Step, Target, Toggle, ToggleError, Witness};
use crate::stats::arms::Arm;

/// A toggle set to one of its arms.
#[derive(Debug)]
pub(super) struct Switched<'j> {
    pub(super) toggle: &'static Toggle,
    target: &'j Target,
    journal: &'j mut Journal,
    changes: Vec<Change>,
    sink: Vec<SinkChange>,
    sleepless: bool,
    held: Option<NoSleep>,
    counted: [Counted; 2],
    disturbed: usize,
}

#[derive(Debug)]
struct Change {
    setting: Setting,
    value: String,
    found: State,
}

/// Counts of the witness in one arm.
#[derive(Debug, Default)]
struct Counted {
    sum: f64,
    runs: u32,
}

impl<'j> Switched<'j> {
    /// Starts in arm A, with no changes made.
    pub(super) fn new(
        toggle: &'static Toggle,
        target: &'j Target,
        journal: &'j mut Journal,
    ) -> Result<Self, ToggleError> {
        let (mut changes, mut sink, mut sleepless) = (Vec::new(), Vec::new(), false);
        for step in (toggle.steps)(target)? {
            match step {
                Step::Change { setting, value } => {
                    let found = setting.read()?;
                    changes.push(Change { setting, value, found });
                }
                Step::Sink(change) => sink.push(change),
                Step::NoSleep => sleepless = true,
            }
        }
        let mut already = true;
        for change in &changes {
            already &= change.setting.reads(&change.value)?;
        }
        match changes.first() {
            Some(first) if already => Err(ToggleError::Already { what: first.setting.to_string() }),
            _ => Ok(Self {
                toggle,
                target,
                journal,
                changes,
                sink,
                sleepless,
                held: None,
                counted: Default::default(),
                disturbed: 0,
            }),
        }
    }

    /// Switches to an arm and runs a measurement in it.
    pub(super) fn run<E: std::error::Error + 'static>(
        &mut self,
        (arm, is_warm_up): (Arm, bool),
        run: &mut impl FnMut(&Run<'_>) -> Result<Observation, E>,
    ) -> Result<Observation, AbError<E>> {
        let name = self.toggle.name;
        let switched = self.switch(arm);
        switched.map_err(|source| AbError::Journal { toggle: name, source })?;
        self.hold(arm).map_err(|source| AbError::Toggle { toggle: name, source })?;
        let before = self.count();
        let sink: &[SinkChange] = if arm == Arm::B { &self.sink } else { &[] };
        let seen = run(&Run { toggle: name, arm, sink, is_warm_up }).map_err(AbError::Run)?;
        if !is_warm_up {
            self.note(arm, before, &seen);
        }
        Ok(seen)
    }

    fn switch(&mut self, arm: Arm) -> Result<(), JournalError> {
        for change in &self.changes {
            if arm == Arm::B {
                self.journal.change(&change.setting, &change.value)?;
            }
        }
        for change in self.changes.iter().rev() {
            if arm == Arm::A {
                self.journal.put_back(&change.setting)?;
            }
        }
        Ok(())
    }

    fn hold(&mut self, arm: Arm) -> Result<(), ToggleError> {
        let wanted = self.sleepless && arm == Arm::B;
        if wanted && self.held.is_none() {
            self.held = Some(NoSleep::hold()?);
        } else if !wanted {
            self.held = None;
        }
        Ok(())
    }

    fn count(&self) -> Option<f64> {
        match self.toggle.witness {
            Witness::Counted { count, .. } => count(self.target),
            _ => None,
        }
    }

    /// Records what the witness counted in a run, and whether the settings stayed unchanged during
    /// it.
    fn note(&mut self, arm: Arm, before: Option<f64>, seen: &Observation) {
        let moved = match self.toggle.witness {
            Witness::Nothing | Witness::Reread => Some(0.0),
            Witness::Counted { .. } => {
                self.count().zip(before).map(|(after, before)| after - before)
            }
            Witness::Observed { key, .. } => {
                seen.counts.iter().find(|(other, _)| *other == key).map(|(_, count)| *count)
            }
        };
        let counted = &mut self.counted[usize::from(arm == Arm::B)];
        counted.runs += 1;
        counted.sum += moved.unwrap_or(0.0);
        let is_whole = self.changes.iter().all(|change| change.stands(arm));
        if moved.is_none() || !is_whole {
            self.disturbed += 1;
        }
    }

    pub(super) fn manipulation(&self) -> Manipulation {
        let mean = |counted: &Counted| counted.sum / f64::from(counted.runs.max(1));
        let has_counts =
            matches!(self.toggle.witness, Witness::Counted { .. } | Witness::Observed { .. });
        let counts = has_counts.then(|| (mean(&self.counted[0]), mean(&self.counted[1])));
        Manipulation::of(&self.toggle.witness, counts, self.disturbed)
    }

    /// Returns to arm A.
    pub(super) fn end(mut self) -> Result<(), JournalError> {
        self.held = None;
        self.switch(Arm::A)
    }
}

impl Change {
    /// Whether the settings still read as set for the arm.
    fn stands(&self, arm: Arm) -> bool {
        match arm {
            Arm::A => self.setting.read().is_ok_and(|now| now == self.found),
            Arm::B => self.setting.reads(&self.value).unwrap_or(false),
        }
    }
}
