//! The user that the process becomes once ports are open.
//!
//! A capture is renamed to its final name when it is complete: by then all privileges are dropped. So the process
//! becomes a user that may rename it, and this is checked before anything is opened.

use super::error::JoinError;
use crate::Error;
use linecard_io::attach::{PortSpec, Settings};
use linecard_io::rights::{Account, folder_of};
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Bits of a folder's mode: others may write, and only to their own files.
const OTHERS_WRITE: u32 = 0o002;
const STICKY: u32 = 0o1000;

/// Whether there is anything to give up: captures take no rights.
pub(super) fn has_rights_to_drop(settings: &Settings) -> bool {
    settings.near.file().is_none() || settings.far.file().is_none()
}

/// The owner of the file that `far` writes, when root gives up its rights; none for all other ports.
pub(super) fn of_capture(far: &PortSpec) -> Result<Option<Account>, Error> {
    let Some(path) = far.file() else { return Ok(None) };
    // Links are followed, as when it is completed; a new one has no target yet.
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let is_replaced = fs::metadata(&target).map_or(path != Path::new("-"), |data| data.is_file());
    // Errors of the folder are reported when it is opened.
    let Ok(folder) = fs::metadata(folder_of(&target)) else { return Ok(None) };
    let existing = fs::metadata(&target).ok();
    if !is_replaced {
        return Ok(None);
    }
    let owner = judge(&folder, existing.as_ref());
    Ok(Some(owner.ok_or_else(|| JoinError::Capture { capture: far.clone() })?))
}

/// The owner of the files of a page, when root gives up its rights: `owner`, if there is one for a
/// capture, which then has to be able to write these too. Their folder exists.
pub(super) fn of_page(
    files: &[PathBuf],
    mut owner: Option<Account>,
) -> Result<Option<Account>, Error> {
    for file in files {
        let target = fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
        let Ok(folder) = fs::metadata(folder_of(&target)) else { continue };
        let existing = fs::metadata(&target).ok();
        let may = match owner {
            Some(owner) => may_replace(&folder, existing.as_ref(), owner).then_some(owner),
            None => judge(&folder, existing.as_ref()),
        };
        owner = Some(may.ok_or_else(|| JoinError::Page { file: file.clone(), owner })?);
    }
    Ok(owner)
}

/// Whether this user may put another file in the place of one.
fn may_replace(folder: &Metadata, existing: Option<&Metadata>, user: Account) -> bool {
    let is_its_own = folder.uid() == user.uid();
    let is_replaceable =
        folder.mode() & STICKY == 0 || existing.is_none_or(|file| file.uid() == user.uid());
    is_its_own || (folder.mode() & OTHERS_WRITE != 0 && is_replaceable)
}

/// The folder's owner, or user "nobody" where all users may write.
fn judge(folder: &Metadata, existing: Option<&Metadata>) -> Option<Account> {
    let owner = Account::new(folder.uid(), folder.gid());
    // Its group may be root's, which no process is to keep.
    let owner = owner.or_else(|| Account::new(folder.uid(), Account::NOBODY.gid()));
    owner.or_else(|| may_replace(folder, existing, Account::NOBODY).then_some(Account::NOBODY))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, chown};

    /// A folder with this owner and mode, and the files of a page that would be in it.
    fn folder(uid: u32, mode: u32) -> (tempfile::TempDir, [PathBuf; 2]) {
        let folder = tempfile::tempdir().expect("a folder");
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(mode)).expect("its mode");
        chown(folder.path(), Some(uid), Some(uid)).expect("its owner");
        let files = ["a.html", "a.json"].map(|name| folder.path().join(name));
        (folder, files)
    }

    fn owner(files: &[PathBuf; 2], owner: Option<Account>) -> Result<Option<u32>, String> {
        let found = of_page(files, owner);
        found.map(|found| found.map(Account::uid)).map_err(|failure| failure.to_string())
    }

    #[test]
    fn who_writes_a_page_may_do_so() {
        if !linecard_io::rights::is_root() {
            linecard_testkit::skip("folders given to others", "not root");
            return;
        }
        let user = Account::new(1_000, 1_000);
        let nobody = Account::NOBODY.uid();
        for (uid, mode, before, expected) in [
            (1_000, 0o755, None, Some(1_000)),
            (1_000, 0o755, user, Some(1_000)),
            (1_001, 0o755, user, None),
            (0, 0o1777, None, Some(nobody)),
            (0, 0o1777, user, Some(1_000)),
            (0, 0o755, None, None),
        ] {
            let (_folder, files) = folder(uid, mode);
            let found = owner(&files, before);
            match expected {
                Some(_) => assert_eq!(found, Ok(expected), "{uid} {mode:o}"),
                None => assert!(found.is_err_and(|what| what.contains("--keep-rights"))),
            }
        }
        // In a folder like /tmp nobody replaces files of root.
        let (_folder, files) = folder(0, 0o1777);
        fs::write(&files[1], "").expect("written");
        assert!(owner(&files, None).is_err());
        assert!(of_page(&[], None).is_ok_and(|owner| owner.is_none()));
    }
}
