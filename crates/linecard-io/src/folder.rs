//! The folder of records by which changes to this host can be undone after a crash. Only its owner can read it.

use rustix::process::geteuid;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Environment variable for another folder, for tests and for hosts where `/run` is read-only.
const VARIABLE: &str = "LINECARD_JOURNALS";

/// A folder that only its owner can read, or the place of one.
///
/// ```
/// use linecard_io::folder::PrivateFolder;
///
/// # let parent = tempfile::tempdir()?;
/// # let path = parent.path().join("linecard");
/// let folder = PrivateFolder::at(path);
/// assert!(folder.open().is_err());
/// folder.make()?;
/// assert!(folder.is_private(&folder.open()?)?);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct PrivateFolder(PathBuf);

impl PrivateFolder {
    /// The user's folder: `/run/linecard` for root, else `linecard` in `XDG_RUNTIME_DIR`, else
    /// `/tmp/linecard-` with the user id; or the one that `LINECARD_JOURNALS` names.
    #[must_use]
    pub fn of_user() -> Self {
        if let Some(folder) = std::env::var_os(VARIABLE).filter(|folder| !folder.is_empty()) {
            return Self::at(folder);
        }
        if geteuid().is_root() {
            return Self::at("/run/linecard");
        }
        match std::env::var_os("XDG_RUNTIME_DIR").filter(|folder| Path::new(folder).is_absolute()) {
            Some(folder) => Self::at(PathBuf::from(folder).join("linecard")),
            None => Self::at(format!("/tmp/linecard-{}", geteuid().as_raw())),
        }
    }

    /// This folder.
    #[must_use]
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self(folder.into())
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Creates it, if it does not exist.
    ///
    /// # Errors
    ///
    /// As the system says.
    pub fn make(&self) -> io::Result<()> {
        match DirBuilder::new().mode(0o700).create(&self.0) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => Ok(()),
        }
    }

    /// Opens it, and no other folder that a link leads to.
    ///
    /// # Errors
    ///
    /// As the system says.
    pub fn open(&self) -> io::Result<File> {
        let flags = libc::O_DIRECTORY | libc::O_NOFOLLOW;
        OpenOptions::new().read(true).custom_flags(flags).open(&self.0)
    }

    /// Whether what was opened belongs to this user, and others can neither read nor write it: in a folder that others
    /// can write to, a link could redirect our writes anywhere.
    ///
    /// # Errors
    ///
    /// As the system says.
    pub fn is_private(&self, opened: &File) -> io::Result<bool> {
        let found = opened.metadata()?;
        Ok(found.uid() == geteuid().as_raw() && found.mode() & 0o077 == 0)
    }

    /// Whether it is still in its place.
    #[must_use]
    pub fn is_there(&self, opened: &File) -> bool {
        let inode = |found: io::Result<fs::Metadata>| found.ok().map(|found| found.ino());
        inode(opened.metadata())
            .is_some_and(|own| inode(fs::symlink_metadata(&self.0)) == Some(own))
    }
}
