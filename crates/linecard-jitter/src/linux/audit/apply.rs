//! A plan made so, through a journal, and looked at again.

use super::{Check, Plan, Planned};
use crate::linux::journal::{Change, Journal, JournalError};
use crate::linux::setting::SettingError;

/// What has become of one change.
#[derive(Debug)]
pub struct Applied {
    /// The check that asked for it.
    pub check: &'static Check,
    /// What was to be.
    pub planned: Planned,
    /// What happened.
    pub outcome: Result<Change, JournalError>,
}

/// Makes all changes of a plan. One that the host refuses stops none of the others: some interrupts,
/// for example, cannot be moved.
pub fn apply(plan: Plan, journal: &mut Journal) -> Vec<Applied> {
    let one = |(check, planned): (&'static Check, Planned)| {
        let outcome = journal.change(&planned.setting, &planned.value);
        Applied { check, planned, outcome }
    };
    plan.into_iter().map(one).collect()
}

/// Looks again whether everything that was made so is so; gives what is not.
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
