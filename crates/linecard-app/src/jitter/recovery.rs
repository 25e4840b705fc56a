//! Settings that an earlier process left changed, and the state of settings at the end of one.

use super::error::JitterError;
use crate::Error;
use linecard_jitter::linux::journal::{Restoration, RestoreResult, Store};

/// Puts back what dead processes have changed, to be called before anything else: a line for each.
/// Settings that cannot be restored are reported, and are not an error: the next command may be the
/// one that shows why.
#[must_use]
pub fn recover() -> Vec<String> {
    match Store::of_user().recover() {
        Ok(restorations) => restorations
            .iter()
            .filter(|one| one.fate.is_news())
            .map(|one| format!("left by a process that is dead: {one}"))
            .collect(),
        Err(error) => vec![error.to_string()],
    }
}

/// Further remarks on restored settings.
///
/// # Errors
///
/// [`Failure::NotRestored`](crate::Failure::NotRestored) with all settings that are not as before.
pub(super) fn end(restorations: Vec<Restoration>) -> Result<Vec<String>, Error> {
    let (good, bad): (Vec<_>, Vec<_>) =
        restorations.into_iter().partition(|one| one.fate.is_good());
    if !bad.is_empty() {
        return Err(JitterError::NotRestored { settings: bad }.into());
    }
    let elsewhere = good.iter().filter(|one| matches!(one.fate, RestoreResult::Elsewhere { .. }));
    Ok(elsewhere.map(ToString::to_string).collect())
}
