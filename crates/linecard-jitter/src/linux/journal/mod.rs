//! The write-ahead journal of settings: what was, written down before it is changed.
//!
//! Each change is recorded and on disk before it is made, and read again after. Everything is put back
//! in reverse order when the journal ends, whether by a call, an early return or a panic; after a crash
//! or `kill -9`, the next [`Store::recover`] does it. A setting that somebody else has changed meanwhile
//! is not overwritten: that is a [`Fate::Conflict`]. With a reboot settings are gone, and so is the
//! journal, which is in `/run`.

mod folder;
pub(super) mod process;
mod record;
mod restore;

pub use folder::Store;
pub use restore::{Fate, Restoration};

use super::setting::{Setting, SettingError, State};
use folder::Locked;
use process::Owner;
use record::{Entry, MAX_RECORDS, Record};
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Why a journal cannot be kept, or a change not be made.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// Its folder is not safe.
    #[error(
        "{} is not a folder that only this user can write to: others could have settings changed by it; \
         remove it", folder.display()
    )]
    Folder {
        /// The folder.
        folder: PathBuf,
    },
    /// The system refuses.
    #[error("cannot {doing} the journal {}: {source}; without it nothing is changed", path.display())]
    System {
        /// What was to be done.
        doing: &'static str,
        /// With which file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A setting cannot be read or changed.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// Another journal has it.
    #[error(
        "{what} is held by process {process}, which has changed it and will put it back; end that one first"
    )]
    Held {
        /// The setting.
        what: String,
        /// The process.
        process: u32,
    },
    /// Somebody else has changed it since.
    #[error("{what} reads \"{now}\": somebody else has changed it meanwhile; it is left alone")]
    Foreign {
        /// The setting.
        what: String,
        /// What it reads.
        now: String,
    },
    /// More changes than a journal holds.
    #[error("over {MAX_RECORDS} changes in one journal: end it and begin another")]
    Full,
}

fn about<'p>(doing: &'static str, path: &'p Path) -> impl Fn(io::Error) -> JournalError + 'p {
    move |source| JournalError::System { doing, path: path.to_owned(), source }
}

/// Whether a change was one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// It reads as was asked for.
    Made,
    /// It did so before.
    Needless,
}

/// Settings that this process has changed.
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
    instances: Vec<String>,
    records: usize,
    is_over: bool,
}

impl Journal {
    /// Begins one.
    ///
    /// # Errors
    ///
    /// Its folder cannot be made, or is not safe.
    pub fn begin(store: &Store) -> Result<Self, JournalError> {
        let busy = || about("make", Path::new(""))(io::ErrorKind::ResourceBusy.into());
        let locked = store.lock(true)?.ok_or_else(busy)?;
        let (path, file) = locked.create()?;
        let mut journal = Self {
            store: store.clone(),
            path,
            file,
            entries: Vec::new(),
            instances: Vec::new(),
            records: 0,
            is_over: false,
        };
        journal.append(&Record::Head { boot: process::boot(), owner: Owner::own() })?;
        Ok(journal)
    }

    /// Changes a setting: recorded, written, read again.
    ///
    /// # Errors
    ///
    /// See [`JournalError`]. A setting that does not follow is put back at once.
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

    /// Puts one setting back for the time being; it stays in the journal. One that was never changed is
    /// as it was.
    ///
    /// # Errors
    ///
    /// See [`JournalError`].
    pub fn put_back(&mut self, setting: &Setting) -> Result<(), JournalError> {
        let _locked = self.lock()?;
        let setting = &setting.anchored();
        let Some(entry) = self.entry(setting) else { return Ok(()) };
        match restore::restore(entry) {
            Fate::Restored | Fate::Unchanged | Fate::Elsewhere { .. } => Ok(()),
            Fate::Gone => Err(SettingError::Gone { what: setting.to_string() }.into()),
            Fate::Conflict { now } => Err(foreign(setting, &now)),
            Fate::Failed { error } => Err(error.into()),
            Fate::Removed | Fate::Damaged { .. } | Fate::Rebooted => Ok(()),
        }
    }

    /// Records a trace instance that is about to be made in tracefs, so that it is removed after a
    /// crash. It is also removed when the journal ends, if it is still there.
    ///
    /// # Errors
    ///
    /// A name that is none, or the journal cannot be written.
    pub fn trace_instance(&mut self, name: &str) -> Result<(), JournalError> {
        if name.is_empty() || name.contains('/') || name.starts_with('.') {
            let what = format!("trace instance \"{name}\"");
            return Err(SettingError::Missing { what }.into());
        }
        let _locked = self.lock()?;
        self.append(&Record::Instance { name: name.to_owned() })?;
        self.instances.push(name.to_owned());
        Ok(())
    }

    /// Puts everything back, the last change first, and says what has become of each setting.
    ///
    /// # Errors
    ///
    /// The journal's folder cannot be read any more. Single settings are no error here: see
    /// [`Restoration`].
    pub fn roll_back(mut self) -> Result<Vec<Restoration>, JournalError> {
        self.is_over = true;
        self.restore()
    }

    /// Leaves the settings as they are, with a journal that only [`Store::undo_kept`] takes up.
    ///
    /// # Errors
    ///
    /// The journal cannot be renamed; settings are put back then.
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
        let restorations = restore::all(&self.entries, &self.instances);
        // What could not be put back now may be later.
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

    /// Two that change one setting could not both put it back.
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
            // Half a line would spoil the next one. Where that fails too, the journal says it is damaged.
            let _cut = self.file.set_len(before);
        }
        self.records += 1;
        written.map_err(about("write", &self.path))
    }
}

impl Drop for Journal {
    /// What this cannot say, the next recovery does: the journal stays where something is wrong.
    fn drop(&mut self) {
        if !self.is_over {
            let _restored = self.restore_quietly();
        }
    }
}

impl Journal {
    fn restore_quietly(&mut self) -> Result<(), JournalError> {
        let locked = self.lock()?;
        if restore::all(&self.entries, &self.instances).iter().all(|one| one.fate.is_good()) {
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
