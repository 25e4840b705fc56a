//! Network namespaces in which settings are read and changed.
//!
//! `/proc/sys/net` belongs to the calling thread's namespace; `/sys` shows the interfaces of the
//! namespace in which it was mounted. So a separate thread enters the namespace and opens its own
//! sysfs, which is mounted nowhere and disappears when it is closed.
//!
//! A namespace is identified by its inode: when the process that named it was killed, another of
//! its files is searched.

use super::SettingError;
use rustix::fd::OwnedFd;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fmt;
use std::fs::{self, File};
use std::io;
use std::iter;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;

/// A network namespace, with a file that refers to it.
#[derive(Debug, Clone)]
pub struct Namespace {
    path: PathBuf,
    /// Distinguishes it from a later namespace at the same path.
    inode: u64,
}

impl PartialEq for Namespace {
    fn eq(&self, other: &Self) -> bool {
        self.inode == other.inode
    }
}

impl Eq for Namespace {}

/// The calling thread's namespace.
const OWN: &str = "/proc/thread-self/ns/net";
/// The folder in which `ip` keeps named namespaces.
const NAMED: &str = "/run/netns";
/// Maximum files searched for a namespace: names, and processes.
const MAX_FILES: usize = 65_536;

impl Namespace {
    /// The namespace that a file refers to, such as `/run/netns/NAME` or `/proc/PID/ns/net`.
    ///
    /// # Errors
    ///
    /// The file does not exist.
    pub fn at(path: impl Into<PathBuf>) -> Result<Self, SettingError> {
        let path = path.into();
        let about =
            |source| SettingError::system("look for the namespace", &path.display(), source);
        let inode = fs::metadata(&path).map_err(about)?.ino();
        Ok(Self { path, inode })
    }

    /// Its file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn inode(&self) -> u64 {
        self.inode
    }

    pub(super) fn known(path: PathBuf, inode: u64) -> Self {
        Self { path, inode }
    }

    /// The calling thread's namespace; `None` when `/proc` does not report it.
    pub(super) fn own() -> Option<Self> {
        Self::at(OWN).ok()
    }

    /// Whether the calling thread is in this namespace.
    pub(super) fn is_entered(&self) -> bool {
        fs::metadata(OWN).is_ok_and(|own| own.ino() == self.inode)
    }

    /// Runs `work` in the namespace, on a separate thread.
    ///
    /// # Errors
    ///
    /// The namespace no longer exists, or cannot be entered, which needs root.
    pub fn enter<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, SettingError> {
        let about = |source| SettingError::system("enter", &format_args!("{self}"), source);
        let file = self.open().ok_or_else(|| SettingError::Gone { what: self.to_string() })?;
        let entered = thread::scope(|scope| {
            let worker = scope.spawn(|| {
                move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))?;
                Ok(work())
            });
            worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        entered.map_err(|error: rustix::io::Errno| about(error.into()))
    }

    /// Opens its file, or another one that refers to it: a name, or a process in it.
    fn open(&self) -> Option<File> {
        let entries =
            |folder: &str| fs::read_dir(folder).into_iter().flatten().flatten().take(MAX_FILES);
        let named = entries(NAMED).map(|entry| entry.path());
        let processes = entries("/proc").map(|entry| entry.path().join("ns/net"));
        let all = iter::once(self.path.clone()).chain(named).chain(processes);
        all.filter_map(|path| self.open_at(&path)).next()
    }

    fn open_at(&self, path: &Path) -> Option<File> {
        let is_it = |found: fs::Metadata| found.ino() == self.inode;
        // Other files are not opened.
        fs::metadata(path).is_ok_and(is_it).then(|| File::open(path).ok()).flatten()
    }
}

impl fmt::Display for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path == Path::new(OWN) {
            write!(f, "network namespace {}", self.inode)
        } else {
            write!(f, "{}", self.path.display())
        }
    }
}

/// A detached mount of a kernel file system: visible only to the owner of this value.
#[derive(Debug)]
pub(crate) struct Detached {
    root: OwnedFd,
}

impl Detached {
    /// Opens a file system of type `sysfs`, `debugfs` or `tracefs`. A sysfs shows the interfaces of
    /// the thread's network namespace.
    pub(crate) fn open(kind: &str) -> io::Result<Self> {
        let context = fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
        fsconfig_create(context.as_fd())?;
        let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID
            | MountAttrFlags::MOUNT_ATTR_NODEV
            | MountAttrFlags::MOUNT_ATTR_NOEXEC;
        let root = fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes)?;
        Ok(Self { root })
    }

    /// A path to a file in it, valid as long as this value lives.
    pub(crate) fn path(&self, inside: &Path) -> PathBuf {
        let root = format!("/proc/self/fd/{}", self.root.as_raw_fd());
        Path::new(&root).join(inside)
    }
}
