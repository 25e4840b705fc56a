//! Applies a plan through a journal and verifies it.

use super::{Check, Plan, Planned};
use crate::linux::journal::{Change, Journal, JournalError};
use crate::linux::setting::SettingError;

/// The result of one change.
#[derive(Debug)]
pub struct Applied {
    /// The check that requires the change.
    pub check: &'static Check,
    /// The planned change.
    pub planned: Planned,
    /// The result.
    pub outcome: Result<Change, JournalError>,
}

/// Makes all changes of a plan. A refused change does not stop the others: some interrupts, for
/// example, cannot be moved.
pub fn apply(plan: Plan, journal: &mut Journal) -> Vec<Applied> {
    let one = |(check, planned): (&'static Check, Planned)| {
        let outcome = journal.change(&planned.setting, &planned.value);
        Applied { check, planned, outcome }
    };
    plan.into_iter().map(one).collect()
}

/// Reads all changed settings again and returns those that do not have the planned value.
#[must_use]
pub fn verify(applied: &[Applied]) -> Vec<(&Planned, Result<String, SettingError>)> {
    let made = applied.iter().filter(|one| one.outcome.is_ok()).map(|one| &one.planned);
    let differs = |planned: &Planned| match planned.setting.reads(&planned.value) {
        Ok(true) => None,
        Ok(false) => Some(planned.setting.read().map(|now| now.to_string())),
        Err(error) => Some(Err(error)),
    };
    made.filter_map(|planned| differs(planned).map(|now| (planned, now))).collect()
}
