//! Restoring settings, at the end of a journal and after the death of its process.

use super::folder::{self, JournalFile};
use super::record::{self, Entry, Records};
use super::{JournalError, Store, process};
use crate::linux::setting::SettingError;
use std::fmt;
use std::path::Path;

/// The result for one setting.
#[derive(Debug)]
pub struct Restoration {
    /// The setting, or another entry of the journal.
    pub what: String,
    /// Its value before the first change.
    pub was: String,
    /// The result.
    pub fate: RestoreResult,
}

/// Result of restoring a setting.
#[derive(Debug)]
pub enum RestoreResult {
    /// It reads as before, byte for byte.
    Restored,
    /// The interrupt's CPU set reads as before, but it fires on another CPU of the set: the kernel
    /// has not moved it back.
    Elsewhere {
        /// Its present value.
        now: String,
    },
    /// It had its original value already.
    Unchanged,
    /// The device or file no longer exists.
    Gone,
    /// Another process has changed it meanwhile: left alone.
    Conflict {
        /// Its present value.
        now: String,
    },
    /// It cannot be restored.
    Failed {
        /// Why.
        error: SettingError,
    },
    /// The journal itself is damaged; all other entries were processed.
    Damaged {
        /// The line, from 1.
        line: usize,
    },
    /// The machine was rebooted since: the settings were reset by that.
    Rebooted,
}

impl RestoreResult {
    /// Whether everything is as before.
    #[must_use]
    pub fn is_good(&self) -> bool {
        !matches!(self, Self::Conflict { .. } | Self::Failed { .. } | Self::Damaged { .. })
    }

    /// Whether there is something to report.
    #[must_use]
    pub fn is_news(&self) -> bool {
        !matches!(self, Self::Unchanged | Self::Gone)
    }
}

impl Restoration {
    /// Whether another attempt would be pointless.
    pub(super) fn is_final(&self) -> bool {
        !matches!(self.fate, RestoreResult::Failed { .. })
    }
}

impl Restoration {
    fn is_conflict(&self) -> bool {
        matches!(self.fate, RestoreResult::Conflict { .. })
    }
}

impl fmt::Display for Restoration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, was, fate } = self;
        match fate {
            RestoreResult::Restored => write!(f, "{what}: restored to \"{was}\""),
            RestoreResult::Elsewhere { now } => write!(
                f,
                "{what}: restored, but it was \"{was}\" and is \"{now}\": the kernel has not \
                 moved the \
                 interrupt to its CPU again, which it may do when it fires"
            ),
            RestoreResult::Unchanged => write!(f, "{what}: is \"{was}\" as before"),
            RestoreResult::Gone => write!(f, "{what}: no longer exists"),
            RestoreResult::Conflict { now } => write!(
                f,
                "{what}: not restored to \"{was}\": it reads \"{now}\", which another process has \
                 set since"
            ),
            RestoreResult::Failed { error } => {
                write!(f, "{what}: not restored to \"{was}\": {error}")
            }
            RestoreResult::Damaged { line } => write!(
                f,
                "{what}: line {line} is damaged, so one setting may not be restored; all others \
                 were read"
            ),
            RestoreResult::Rebooted => {
                write!(f, "{what}: of an earlier boot, whose settings are gone with it; removed")
            }
        }
    }
}

impl Store {
    /// Restores the settings that dead processes have changed. Leaves journals of running processes
    /// and kept settings alone. Call this at the start of a command.
    ///
    /// # Errors
    ///
    /// The folder is there and cannot be read, or is not safe.
    pub fn recover(&self) -> Result<Vec<Restoration>, JournalError> {
        let boot = process::boot();
        self.take_up(|found, records| {
            let is_earlier = records.boot.as_ref().is_some_and(|other| *other != boot);
            is_earlier || !found.is_kept && !found.owner.is_alive()
        })
    }

    /// Restores the settings kept by [`Journal::keep`](super::Journal::keep).
    ///
    /// # Errors
    ///
    /// As [`recover`](Self::recover).
    pub fn undo_kept(&self) -> Result<Vec<Restoration>, JournalError> {
        self.take_up(|found, _| found.is_kept)
    }

    fn take_up(
        &self,
        is_wanted: impl Fn(&JournalFile, &Records) -> bool,
    ) -> Result<Vec<Restoration>, JournalError> {
        let Some(locked) = self.lock(false)? else { return Ok(Vec::new()) };
        let mut restorations = Vec::new();
        let journals = locked.journals()?;
        let is_held = journals.iter().any(|found| !found.is_kept && found.owner.is_alive());
        for found in journals {
            let records = record::read(&folder::bytes(&found.path, record::MAX_BYTES)?);
            if is_wanted(&found, &records) {
                let undone = undo(&found.path, &records);
                // A setting that another process holds reads otherwise until that process ends: the
                // original value is still needed then.
                let is_over =
                    undone.iter().all(|one| one.is_final() && (!is_held || !one.is_conflict()));
                if is_over {
                    locked.remove(&found.path)?;
                }
                restorations.extend(undone);
            }
        }
        // A process that died between making the folder and its journal leaves it empty.
        locked.remove_if_empty();
        Ok(restorations)
    }
}

/// Undoes one journal.
fn undo(path: &Path, records: &Records) -> Vec<Restoration> {
    let about_itself = |fate| Restoration {
        what: format!("journal {}", path.display()),
        was: String::new(),
        fate,
    };
    let mut restorations = Vec::new();
    if records.boot.as_ref().is_some_and(|boot| *boot != process::boot()) {
        restorations.push(about_itself(RestoreResult::Rebooted));
    } else {
        restorations.extend(all(&records.entries));
        let damage = records.damaged.map(|line| about_itself(RestoreResult::Damaged { line }));
        restorations.extend(damage);
    }
    restorations
}

/// Undoes all entries, last one first.
pub(super) fn all(entries: &[Entry]) -> Vec<Restoration> {
    let one = |entry: &Entry| Restoration {
        what: entry.setting.to_string(),
        was: entry.old.to_string(),
        fate: restore(entry),
    };
    entries.iter().rev().map(one).collect()
}

/// Restores one setting, unless another process has changed it.
pub(super) fn restore(entry: &Entry) -> RestoreResult {
    match try_restore(entry) {
        Ok(fate) => fate,
        Err(error) if error.is_gone() => RestoreResult::Gone,
        Err(error) => RestoreResult::Failed { error },
    }
}

fn try_restore(entry: &Entry) -> Result<RestoreResult, SettingError> {
    let Entry { setting, old, .. } = entry;
    let now = setting.read()?;
    if now == *old {
        return Ok(RestoreResult::Unchanged);
    }
    if !entry.is_ours(&now) {
        return Ok(RestoreResult::Conflict { now: now.to_string() });
    }
    setting.put(old)?;
    let now = setting.read()?;
    if now == *old {
        return Ok(RestoreResult::Restored);
    }
    if setting.is_affinity() && setting.is_same(&now, old) {
        return Ok(RestoreResult::Elsewhere { now: now.to_string() });
    }
    let (what, value) = (setting.to_string(), old.to_string());
    Err(SettingError::NotFollowed { what, value, now: now.to_string() })
}
