//! The folder of journals, which only its owner can read.

use super::process::Owner;
use super::{JournalError, about};
use linecard_io::folder::PrivateFolder;
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::SystemTime;

/// Maximum journals in a folder: more than processes that change settings at the same time.
const MAX_JOURNALS: usize = 1_024;
/// Another process can remove the folder between two steps.
const MAX_TRIES: usize = 16;
/// Extension of journals whose process is running with its settings, or has died.
const HELD: &str = "journal";
/// Extension of journals whose settings are to stay.
const KEPT: &str = "kept";

/// The folder of journals.
#[derive(Debug, Clone)]
pub struct Store(PrivateFolder);

impl Store {
    /// The [folder of the user](PrivateFolder::of_user). It is created with the first journal.
    #[must_use]
    pub fn of_user() -> Self {
        Self(PrivateFolder::of_user())
    }

    /// This folder.
    #[must_use]
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self(PrivateFolder::at(folder))
    }

    /// Locks the folder, creating it first if `make` is set; `None` when it does not exist.
    pub(super) fn lock(&self, make: bool) -> Result<Option<Locked>, JournalError> {
        let (folder, path) = (&self.0, self.0.path());
        for _ in 0..MAX_TRIES {
            if make {
                folder.make().map_err(about("make", path))?;
            }
            let directory = match folder.open() {
                Ok(directory) => directory,
                Err(error) if error.kind() == io::ErrorKind::NotFound && make => continue,
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(about("open", path)(error)),
            };
            if !folder.is_private(&directory).map_err(about("look at", path))? {
                return Err(JournalError::Folder { folder: path.to_owned() });
            }
            directory.lock().map_err(about("lock", path))?;
            if folder.is_there(&directory) {
                return Ok(Some(Locked { folder: path.to_owned(), directory }));
            }
        }
        Err(about("lock", path)(io::ErrorKind::ResourceBusy.into()))
    }
}

/// The folder, locked against other processes.
#[derive(Debug)]
pub(super) struct Locked {
    folder: PathBuf,
    /// Dropping it releases the lock.
    directory: File,
}

/// A journal in the folder.
#[derive(Debug, Clone)]
pub(super) struct JournalFile {
    pub(super) path: PathBuf,
    pub(super) owner: Owner,
    pub(super) is_kept: bool,
    changed: SystemTime,
}

impl Locked {
    /// Creates a journal of this process.
    pub(super) fn create(&self) -> Result<(PathBuf, File), JournalError> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let Owner { process, started } = Owner::own();
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = self.folder.join(format!("{process}-{started}-{number}.{HELD}"));
        let flags = libc::O_NOFOLLOW;
        let mut options = OpenOptions::new();
        options.append(true).create_new(true).mode(0o600).custom_flags(flags);
        let file = options.open(&path).map_err(about("make", &path))?;
        self.directory.sync_all().map_err(about("write", &self.folder))?;
        Ok((path, file))
    }

    /// Existing journals, newest first.
    pub(super) fn journals(&self) -> Result<Vec<JournalFile>, JournalError> {
        let entries = fs::read_dir(&self.folder).map_err(about("list", &self.folder))?;
        let mut found: Vec<JournalFile> =
            entries.flatten().filter_map(|entry| found(&entry.path())).take(MAX_JOURNALS).collect();
        found.sort_by(|left, right| (right.changed, &right.path).cmp(&(left.changed, &left.path)));
        Ok(found)
    }

    /// Marks a journal as one whose settings are to stay.
    pub(super) fn keep(&self, path: &Path) -> Result<PathBuf, JournalError> {
        let kept = path.with_extension(KEPT);
        fs::rename(path, &kept).map_err(about("rename", path))?;
        self.directory.sync_all().map_err(about("write", &self.folder))?;
        Ok(kept)
    }

    /// Removes a journal, and the folder after the last one.
    pub(super) fn remove(&self, path: &Path) -> Result<(), JournalError> {
        fs::remove_file(path).map_err(about("remove", path))?;
        self.remove_if_empty();
        Ok(())
    }

    /// Removes the folder unless it has journals. A process that is about to make its first one creates
    /// the folder again.
    pub(super) fn remove_if_empty(&self) {
        let _removed = fs::remove_dir(&self.folder);
    }
}

fn found(path: &Path) -> Option<JournalFile> {
    let is_kept = match path.extension().and_then(OsStr::to_str)? {
        HELD => false,
        KEPT => true,
        _ => return None,
    };
    let mut parts = path.file_stem()?.to_str()?.split('-');
    let owner =
        Owner { process: parts.next()?.parse().ok()?, started: parts.next()?.parse().ok()? };
    let metadata = fs::symlink_metadata(path).ok().filter(|found| found.is_file())?;
    Some(JournalFile { path: path.to_owned(), owner, is_kept, changed: metadata.modified().ok()? })
}

/// Reads the bytes of a journal.
pub(super) fn bytes(path: &Path, limit: u64) -> Result<Vec<u8>, JournalError> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW).open(path);
    let mut bytes = Vec::new();
    let read = file.and_then(|file| file.take(limit).read_to_end(&mut bytes));
    read.map_err(about("read", path))?;
    Ok(bytes)
}
