//! How many bytes a sender may have in its folder.

use super::folder::OPEN;
use super::{FileError, Folder};
use rustix::fs::{AtFlags, Dir, FileType, Mode};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The least that a file, a folder or a link counts for, and the unit of more: a block of usual file systems. So
/// however small they are, their number is bounded, too.
const BLOCK: u64 = 4_096;

/// The quota of a folder, and how much of it is used.
#[derive(Debug)]
pub struct Quota {
    limit: u64,
    used: AtomicU64,
}

/// The quotas of the folders into which something is received at present: transfers into one folder share one.
#[derive(Debug, Default)]
pub struct Quotas(Mutex<Vec<(PathBuf, Weak<Quota>)>>);

impl Quotas {
    /// The quota of this folder. What is in it is counted, unless something is received into it already.
    ///
    /// # Errors
    ///
    /// [`FileError`]: a folder in it cannot be listed.
    pub fn of(&self, folder: &Folder, limit: u64) -> Result<Arc<Quota>, FileError> {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|(_, quota)| quota.strong_count() > 0);
        let same = open.iter().find(|(path, _)| path == folder.path());
        if let Some(quota) = same.and_then(|(_, quota)| quota.upgrade()) {
            return Ok(quota);
        }
        let quota = Arc::new(Quota { limit, used: AtomicU64::new(usage(folder)?) });
        open.push((folder.path().into(), Arc::downgrade(&quota)));
        Ok(quota)
    }
}

impl Quota {
    /// Of a folder that is not there: nothing is used.
    #[must_use]
    pub const fn unused(limit: u64) -> Self {
        Self { limit, used: AtomicU64::new(0) }
    }

    /// The same as it is now, to be counted against by who only asks.
    #[must_use]
    pub fn copied(&self) -> Self {
        Self { limit: self.limit, used: AtomicU64::new(self.used.load(Ordering::Relaxed)) }
    }

    /// Counts a file, folder or link of this many bytes that is to be stored, some of which are stored already.
    ///
    /// # Errors
    ///
    /// [`FileError::Quota`] if it is more than is left: it is not counted then.
    pub fn take_object(&self, bytes: u64, there: u64, path: &Path) -> Result<(), FileError> {
        let room = bytes.div_ceil(BLOCK).max(1).saturating_mul(BLOCK);
        self.take(room.saturating_sub(there), path)
    }

    /// Counts bytes that are going to be stored.
    ///
    /// # Errors
    ///
    /// As [`Quota::take_object`].
    pub fn take(&self, bytes: u64, path: &Path) -> Result<(), FileError> {
        let more = |used: u64| used.checked_add(bytes).filter(|used| *used <= self.limit);
        let taken = self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        taken.map(drop).map_err(|used| FileError::Quota {
            path: path.into(),
            bytes,
            left: self.limit.saturating_sub(used),
            limit: self.limit,
        })
    }
}

/// The room on the disk that is taken below a folder, partial files included. Links are counted, and not followed: a folder
/// in whose place one has come since it was listed is left out.
fn usage(folder: &Folder) -> Result<u64, FileError> {
    let mut used = 0;
    let mut linked = BTreeSet::new();
    let mut folders = vec![(PathBuf::from("."), None)];
    while let Some((name, listed)) = folders.pop() {
        let path = folder.path().join(&name);
        let failed = |error: Errno| FileError::of(error, "list", &path, 0);
        let opened = match rustix::fs::openat(folder.root(), &name, OPEN, Mode::empty()) {
            Ok(opened) => opened,
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => continue,
            Err(error) => return Err(failed(error)),
        };
        let stat = rustix::fs::fstat(&opened).map_err(failed)?;
        if listed.is_some_and(|listed| listed != (stat.st_dev, stat.st_ino)) {
            continue;
        }
        for entry in Dir::read_from(&opened).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let last = entry.file_name();
            if matches!(last.to_bytes(), b"." | b"..") {
                continue;
            }
            // Gone meanwhile: it takes no room.
            let Ok(stat) = rustix::fs::statat(&opened, last, AtFlags::SYMLINK_NOFOLLOW) else {
                continue;
            };
            let id = (stat.st_dev, stat.st_ino);
            let is_folder = FileType::from_raw_mode(stat.st_mode).is_dir();
            // Another name of a file that is counted takes no more than a link does.
            let is_linked = stat.st_nlink > 1 && !is_folder;
            let is_counted = is_linked && !linked.insert(id);
            used += if is_counted { BLOCK } else { (stat.st_blocks as u64 * 512).max(BLOCK) };
            if is_folder {
                folders.push((name.join(OsStr::from_bytes(last.to_bytes())), Some(id)));
            }
        }
    }
    Ok(used)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    fn open(path: &Path) -> Folder {
        Folder::open(path).unwrap()
    }

    /// The link itself, and nothing behind it.
    #[test]
    fn no_link_is_followed() {
        let (at, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(outside.path().join("large"), vec![1; 1_000_000]).unwrap();
        fs::create_dir(at.path().join("in")).unwrap();
        let before = usage(&open(at.path())).unwrap();
        for name in ["link", "in/link"] {
            symlink(outside.path(), at.path().join(name)).unwrap();
        }
        assert_eq!(usage(&open(at.path())).unwrap(), before + 2 * BLOCK);
    }

    #[test]
    fn transfers_into_one_folder_share_what_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let empty = tempfile::tempdir().unwrap();
        let below = folder.path().join("a/b");
        fs::create_dir_all(&below).unwrap();
        fs::write(below.join("there"), vec![1; 100_000]).unwrap();
        let there = usage(&open(folder.path())).unwrap();
        assert!(there >= 100_000, "{there}");
        let quotas = Quotas::default();
        let limit = there + 1_000;
        let first = quotas.of(&open(folder.path()), limit).unwrap();
        first.take(600, &below).unwrap();
        let second = quotas.of(&open(folder.path()), limit).unwrap();
        let refused = second.take(401, &below).unwrap_err();
        assert!(matches!(refused, FileError::Quota { bytes: 401, left: 400, .. }), "{refused}");
        second.take(400, &below).unwrap();
        drop((first, second));
        // Bytes that were counted and did not come are free again.
        quotas.of(&open(folder.path()), limit).unwrap().take(1_000, &below).unwrap();
        assert!(quotas.of(&open(&empty.path().join("none")), 1).unwrap().take(2, &below).is_err());
        // Further names of a file have no data of their own.
        for name in ["second", "third"] {
            fs::hard_link(below.join("there"), below.join(name)).unwrap();
        }
        assert_eq!(usage(&open(folder.path())).unwrap(), there + 2 * BLOCK);
        // Empty ones are not for nothing.
        let small = quotas.of(&open(&empty.path().join("small")), 3 * BLOCK).unwrap();
        small.take_object(0, 0, &below).unwrap();
        small.take_object(BLOCK + 1, 0, &below).unwrap();
        assert!(small.take_object(0, 0, &below).is_err());
        small.take_object(BLOCK, BLOCK, &below).unwrap();
    }
}
