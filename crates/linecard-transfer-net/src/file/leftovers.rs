//! Files that interrupted transfers have left in a folder: whether there are any is asked once for many objects in it.

use super::Name;
use super::name::{LINK, PART};
use rustix::fs::Dir;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Questions about objects in a folder after which it is listed, as far as [`ENTRIES_EACH`] allows; so that a few objects
/// in a huge folder do not cost its list.
const LISTED_AT: [u32; 2] = [64, 2_048];
/// Entries that are read for each question at most: it takes about as long as a question of the system.
const ENTRIES_EACH: u32 = 32;

/// The folder that was used last: most objects come beside others.
#[derive(Debug)]
pub(super) struct LastFolder {
    name: Vec<u8>,
    folder: Arc<OwnedFd>,
    /// Questions about leftovers.
    asked: u32,
    /// It was listed, and had none.
    is_clean: bool,
}

impl LastFolder {
    pub(super) fn new(name: &[u8], folder: OwnedFd) -> Self {
        Self { name: name.to_vec(), folder: Arc::new(folder), asked: 0, is_clean: false }
    }

    pub(super) fn folder(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.folder)
    }

    /// Whether it is the folder of an object.
    pub(super) fn is_of(&self, object: &Name) -> bool {
        self.name[..] == *object.folder()
    }

    /// Whether a partial file or a link without its name may be in the folder. Those that another transfer makes
    /// meanwhile are its own.
    pub(super) fn may_have_leftovers(&mut self) -> bool {
        if self.is_clean {
            return false;
        }
        self.asked = self.asked.saturating_add(1);
        if LISTED_AT.contains(&self.asked) {
            self.is_clean = is_clean(&self.folder, self.asked.saturating_mul(ENTRIES_EACH));
        }
        !self.is_clean
    }
}

/// Whether a folder has at most so many entries, and no leftovers among them.
fn is_clean(folder: &OwnedFd, most: u32) -> bool {
    let Ok(entries) = Dir::read_from(folder) else { return false };
    let mut left = most;
    for entry in entries {
        let Ok(entry) = entry else { return false };
        let name = entry.file_name().to_bytes();
        let is_leftover = [PART, LINK].iter().any(|end| name.ends_with(end.as_bytes()));
        if is_leftover || left == 0 {
            return false;
        }
        left -= 1;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, File};
    use std::path::Path;

    fn last(at: &Path) -> LastFolder {
        LastFolder::new(b"", File::open(at).unwrap().into())
    }

    /// Questions until the folder counts as clean.
    fn asked(mut last: LastFolder, most: u32) -> Option<u32> {
        (1..=most).find(|_| !last.may_have_leftovers())
    }

    #[test]
    fn a_folder_is_listed_after_some_questions_and_as_far_as_these_pay() {
        let at = tempfile::tempdir().unwrap();
        assert_eq!(asked(last(at.path()), 100), Some(64));
        // With `.` and `..`.
        for file in 2..64 * 32 {
            fs::write(at.path().join(file.to_string()), b"").unwrap();
        }
        assert_eq!(asked(last(at.path()), 100), Some(64));
        fs::write(at.path().join("more"), b"").unwrap();
        assert_eq!(asked(last(at.path()), 3_000), Some(2_048));
    }

    #[test]
    fn leftovers_are_found() {
        for end in [PART, LINK] {
            let at = tempfile::tempdir().unwrap();
            let name = Name::new(b"file").unwrap().beside(end);
            fs::write(at.path().join(&name), b"").unwrap();
            assert_eq!(asked(last(at.path()), 3_000), None);
            fs::remove_file(at.path().join(name)).unwrap();
            assert_eq!(asked(last(at.path()), 3_000), Some(64));
        }
    }
}
