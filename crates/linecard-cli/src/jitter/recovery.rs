//! What an earlier process has left behind, and what settings have become when one ends.

use crate::failure::Failure;
use crate::say;
use linecard_jitter::linux::journal::{Fate, Restoration, Store};

/// Puts back what dead processes have changed, a line for each; to be called before anything else. What
/// cannot be is said, and stops nothing: the command may be the one that shows why.
pub(super) fn begin(store: &Store) {
    match store.recover() {
        Ok(restorations) => {
            for restoration in restorations.iter().filter(|one| one.fate.is_news()) {
                say(&format!("left by a process that is dead: {restoration}"));
            }
        }
        Err(error) => say(&error.to_string()),
    }
}

/// Says what is not as it was, which is exit code 12.
pub(crate) fn end(restorations: &[Restoration]) -> Result<(), Failure> {
    let mut bad: Vec<String> =
        restorations.iter().filter(|one| !one.fate.is_good()).map(ToString::to_string).collect();
    let elsewhere = restorations.iter().filter(|one| matches!(one.fate, Fate::Elsewhere { .. }));
    elsewhere.for_each(|one| say(&one.to_string()));
    let last = bad.pop();
    bad.iter().for_each(|line| say(line));
    last.map_or(Ok(()), |line| Err(Failure::NotRestored(line)))
}
