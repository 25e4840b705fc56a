//! The write-ahead journal of settings: records each value before changing it.
//!
//! Each change is recorded and synced to disk before it is made, and read back after. When the
//! journal ends, whether by a call, an early return or a panic, everything is restored in reverse
//! order; after a crash or `kill -9`, the next [`Store::recover`] does so. A setting that another
//! process has changed meanwhile is not overwritten: that is a [`RestoreResult::Conflict`]. A reboot resets
//! the settings and removes the journal, which is in `/run`.

mod folder;
pub(super) mod process;
// Public for the fuzz target of this format only.
#[doc(hidden)]
pub mod record;
mod restore;

pub use folder::Store;
pub use restore::{Restoration, RestoreResult};

use super::setting::{Setting, SettingError, State};
use folder::Locked;
use process::Owner;
use record::{Entry, MAX_RECORDS, Record};
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Why a journal cannot be written, or a change cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// Its folder is not safe.
    #[error(
        "{} is not a folder that only this user can write to: others could change settings through it; look at what is in \
         it, then `chown` it to this user and `chmod 700` it", folder.display()
    )]
    Folder {
        /// The folder.
        folder: PathBuf,
    },
    /// A system call failed.
    #[error("cannot {doing} the journal {}: {source}; without it nothing is changed", path.display())]
    System {
        /// The operation.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A setting cannot be read or changed.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// Another journal has changed it.
    #[error(
        "{what} is held by process {process}, which has changed it and will restore it; end that \
         process first"
    )]
    Held {
        /// The setting.
        what: String,
        /// The process.
        process: u32,
    },
    /// Another process has changed it since.
    #[error("{what} reads \"{now}\": another process has changed it since; it is left unchanged")]
    Foreign {
        /// The setting.
        what: String,
        /// Its present value.
        now: String,
    },
    /// More changes than a journal holds.
    #[error("over {MAX_RECORDS} changes in one journal: end it and begin another")]
    Full,
}

fn about<'p>(doing: &'static str, path: &'p Path) -> impl Fn(io::Error) -> JournalError + 'p {
    move |source| JournalError::System { doing, path: path.to_owned(), source }
}

/// Whether a change was necessary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// It now reads as requested.
    Made,
    /// It read as requested before.
    Needless,
}

/// The settings that this process has changed.
///
/// ```
/// use linecard_jitter::linux::journal::{Journal, Store};
/// use linecard_jitter::linux::setting::{Form, Setting};
/// # let folder = tempfile::tempdir()?;
/// # let file = folder.path().join("setting");
/// # std::fs::write(&file, "5\n")?;
/// # let store = Store::at(folder.path().join("journals"));
/// let mut journal = Journal::begin(&store)?;
/// journal.change(&Setting::file(&file, Form::Plain), "7")?;
/// assert_eq!(std::fs::read(&file)?, b"7\n");
/// assert!(journal.roll_back()?.iter().all(|restoration| restoration.fate.is_good()));
/// assert_eq!(std::fs::read(&file)?, b"5\n");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "settings are put back when the journal is dropped"]
pub struct Journal {
    store: Store,
    path: PathBuf,
    file: File,
    entries: Vec<Entry>,
    records: usize,
    is_over: bool,
}

impl Journal {
    /// Begins a journal.
    ///
    /// # Errors
    ///
    /// Its folder cannot be created, or is not safe.
    pub fn begin(store: &Store) -> Result<Self, JournalError> {
        let busy = || about("make", Path::new(""))(io::ErrorKind::ResourceBusy.into());
        let locked = store.lock(true)?.ok_or_else(busy)?;
        let (path, file) = locked.create()?;
        let mut journal = Self {
            store: store.clone(),
            path,
            file,
            entries: Vec::new(),
            records: 0,
            is_over: false,
        };
        journal.append(&Record::Head { boot: process::boot(), owner: Owner::own() })?;
        Ok(journal)
    }

    /// Changes a setting: records it, writes it, reads it back.
    ///
    /// # Errors
    ///
    /// See [`JournalError`]. A setting that does not take the value is restored at once.
    pub fn change(&mut self, setting: &Setting, value: &str) -> Result<Change, JournalError> {
        let locked = self.lock()?;
        let setting = &setting.anchored();
        let now = setting.read()?;
        let new = setting.with(&now, value)?;
        match self.entry(setting) {
            Some(entry) if !entry.is_ours(&now) => return Err(foreign(setting, &now)),
            _ if setting.is_same(&now, &new) => return Ok(Change::Needless),
            Some(_) => {}
            None => self.check_free(&locked, setting)?,
        }
        if self.entry(setting).is_none_or(|entry| !entry.ours.contains(&new)) {
            self.record(setting, &now, &new)?;
        }
        setting.put(&new)?;
        let follows = setting.read()?;
        if setting.is_same(&follows, &new) {
            return Ok(Change::Made);
        }
        setting.put(&now)?;
        let what = setting.to_string();
        Err(SettingError::NotFollowed { what, value: value.to_owned(), now: follows.to_string() }
            .into())
    }

    /// Restores one setting for the time being; it stays in the journal. Does nothing for a setting
    /// that was never changed.
    ///
    /// # Errors
    ///
    /// See [`JournalError`].
    pub fn put_back(&mut self, setting: &Setting) -> Result<(), JournalError> {
        let _locked = self.lock()?;
        let setting = &setting.anchored();
        let Some(entry) = self.entry(setting) else { return Ok(()) };
        match restore::restore(entry) {
            RestoreResult::Restored
            | RestoreResult::Unchanged
            | RestoreResult::Elsewhere { .. } => Ok(()),
            RestoreResult::Gone => Err(SettingError::Gone { what: setting.to_string() }.into()),
            RestoreResult::Conflict { now } => Err(foreign(setting, &now)),
            RestoreResult::Failed { error } => Err(error.into()),
            RestoreResult::Damaged { .. } | RestoreResult::Rebooted => Ok(()),
        }
    }

    /// Restores everything, last change first, and returns the result for each setting.
    ///
    /// # Errors
    ///
    /// The journal's folder cannot be read any more. A single setting that fails is not an error here:
    /// see [`Restoration`].
    pub fn roll_back(mut self) -> Result<Vec<Restoration>, JournalError> {
        self.is_over = true;
        self.restore()
    }

    /// Leaves the settings as they are, with a journal that only [`Store::undo_kept`] reads.
    ///
    /// # Errors
    ///
    /// The journal cannot be renamed; the settings are restored then.
    pub fn keep(mut self) -> Result<(), JournalError> {
        let locked = self.lock()?;
        if self.entries.is_empty() {
            return Ok(());
        }
        locked.keep(&self.path)?;
        self.is_over = true;
        Ok(())
    }

    fn restore(&mut self) -> Result<Vec<Restoration>, JournalError> {
        let locked = self.lock()?;
        let restorations = restore::all(&self.entries);
        // A later recovery may restore what could not be restored now.
        if restorations.iter().all(|restoration| restoration.is_final()) {
            locked.remove(&self.path)?;
        }
        Ok(restorations)
    }

    fn lock(&self) -> Result<Locked, JournalError> {
        let gone = || about("find", &self.path)(io::ErrorKind::NotFound.into());
        self.store.lock(false)?.ok_or_else(gone)
    }

    fn entry(&self, setting: &Setting) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.setting == *setting)
    }

    /// Two journals of the same setting could not both restore it.
    fn check_free(&self, locked: &Locked, setting: &Setting) -> Result<(), JournalError> {
        for other in
            locked.journals()?.iter().filter(|other| !other.is_kept && other.path != self.path)
        {
            let records = record::read(&folder::bytes(&other.path, record::MAX_BYTES)?);
            if records.entries.iter().any(|entry| entry.setting == *setting) {
                let (what, process) = (setting.to_string(), other.owner.process);
                return Err(JournalError::Held { what, process });
            }
        }
        Ok(())
    }

    fn record(&mut self, setting: &Setting, old: &State, new: &State) -> Result<(), JournalError> {
        let (setting, old, new) = (setting.clone(), old.clone(), new.clone());
        self.append(&Record::Change {
            setting: setting.clone(),
            old: old.clone(),
            new: new.clone(),
        })?;
        record::add_change(&mut self.entries, setting, (old, new));
        Ok(())
    }

    fn append(&mut self, record: &Record) -> Result<(), JournalError> {
        if self.records == MAX_RECORDS {
            return Err(JournalError::Full);
        }
        let before = self.file.metadata().map_err(about("read", &self.path))?.len();
        let written =
            self.file.write_all(record.line().as_bytes()).and_then(|()| self.file.sync_all());
        if written.is_err() {
            // An incomplete line would spoil the next one. If truncating fails too, the journal
            // reports damage.
            let _cut = self.file.set_len(before);
        }
        self.records += 1;
        written.map_err(about("write", &self.path))
    }
}

impl Drop for Journal {
    /// Cannot report errors; the next recovery does: the journal stays if something is wrong.
    fn drop(&mut self) {
        if !self.is_over {
            let _restored = self.restore_quietly();
        }
    }
}

impl Journal {
    fn restore_quietly(&mut self) -> Result<(), JournalError> {
        let locked = self.lock()?;
        if restore::all(&self.entries).iter().all(|one| one.fate.is_good()) {
            locked.remove(&self.path)?;
        }
        Ok(())
    }
}

fn foreign(setting: &Setting, now: &impl std::fmt::Display) -> JournalError {
    JournalError::Foreign { what: setting.to_string(), now: now.to_string() }
}

#[cfg(test)]
mod tests;
