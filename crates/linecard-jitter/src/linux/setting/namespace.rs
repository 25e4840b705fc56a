//! Network namespaces as places of settings.
//!
//! `/proc/sys/net` is that of the calling thread; `/sys` shows the interfaces of the namespace in which
//! it was mounted. So a thread of its own enters the namespace and has a sysfs of its own, which no folder
//! shows and which is gone when it is closed.
//!
//! A namespace is known by its inode: that of a killed process is found again by another file of it.

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

/// A network namespace, known by a file of it.
#[derive(Debug, Clone)]
pub struct Namespace {
    path: PathBuf,
    /// Tells it from one that later has the same file.
    inode: u64,
}

impl PartialEq for Namespace {
    fn eq(&self, other: &Self) -> bool {
        self.inode == other.inode
    }
}

impl Eq for Namespace {}

/// The calling thread's.
const OWN: &str = "/proc/thread-self/ns/net";
/// Where `ip` keeps names of namespaces.
const NAMED: &str = "/run/netns";
/// Files that are looked at for a namespace: names, and processes.
const MAX_FILES: usize = 65_536;

impl Namespace {
    /// The namespace of this file, as `/run/netns/NAME` or `/proc/PID/ns/net`.
    ///
    /// # Errors
    ///
    /// No such file.
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

    /// The calling thread's, or none where `/proc` does not say.
    pub(super) fn own() -> Option<Self> {
        Self::at(OWN).ok()
    }

    /// Whether the calling thread is in it.
    pub(super) fn is_entered(&self) -> bool {
        fs::metadata(OWN).is_ok_and(|own| own.ino() == self.inode)
    }

    /// Does work in it, on a thread of its own.
    ///
    /// # Errors
    ///
    /// It is gone, or cannot be entered, which takes root.
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

    /// Its file, or another one of it: a name, or a process that is in it.
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
        // Others are not even opened.
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

/// A file system of the kernel's, mounted nowhere: seen by who has it.
#[derive(Debug)]
pub(crate) struct Detached {
    root: OwnedFd,
}

impl Detached {
    /// One of the kind `sysfs`, `debugfs` or `tracefs`. A sysfs has the interfaces of the thread's
    /// network namespace.
    pub(crate) fn open(kind: &str) -> io::Result<Self> {
        let context = fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
        fsconfig_create(context.as_fd())?;
        let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID
            | MountAttrFlags::MOUNT_ATTR_NODEV
            | MountAttrFlags::MOUNT_ATTR_NOEXEC;
        let root = fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes)?;
        Ok(Self { root })
    }

    /// A path to something in it, good as long as this is.
    pub(crate) fn path(&self, inside: &Path) -> PathBuf {
        let root = format!("/proc/self/fd/{}", self.root.as_raw_fd());
        Path::new(&root).join(inside)
    }
}
