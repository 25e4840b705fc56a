//! The folder that receives: nothing is ever made outside it.
//!
//! Names are checked ([`Name`]), and each of their folders is opened from the one above without
//! following links: so no link, whoever puts it there and when, leads elsewhere.

use super::{ChunkBytes, FileError, Object, Sink, Stamp};
use rustix::fs::{CWD, Mode, OFlags, Timespec, Timestamps, UTIME_OMIT};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// What new folders may be, before the umask takes its share.
const FOLDER_MODE: u32 = 0o777;
/// How folders are opened: nothing else, and through no link.
const OPEN: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Where objects are put.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    root: OwnedFd,
    /// Folders made, whose modes and times come last.
    made: Vec<Object>,
}

impl Folder {
    /// Opens the folder, and makes it if it is missing.
    ///
    /// # Errors
    ///
    /// [`FileError`]: what the system says.
    pub fn open(path: &Path) -> Result<Self, FileError> {
        fs::create_dir_all(path).map_err(FileError::at("make the folder", path))?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::openat(CWD, path, flags, Mode::empty());
        let root = root.map_err(FileError::at("open the folder", path))?;
        Ok(Self { path: path.into(), root, made: Vec::new() })
    }

    /// Makes a folder that was sent, or takes one that is there.
    ///
    /// # Errors
    ///
    /// [`FileError::Name`] if a file or a link is in its place, and what the system says.
    pub fn make(&mut self, object: &Object) -> Result<(), FileError> {
        let (folders, last) = object.name.split();
        self.enter(object, folders.chain(std::iter::once(last)))?;
        self.made.push(object.clone());
        Ok(())
    }

    /// Opens the partial file of an object, goes on with one that an earlier run has left. Folders are
    /// made as needed.
    ///
    /// # Errors
    ///
    /// [`FileError::Exists`] unless `overwrite`, [`FileError::Locked`], [`FileError::DiskFull`],
    /// [`FileError::Name`] where a link is in the way, [`FileError::TooManyChunks`], and what the system
    /// says.
    pub fn sink(
        &self,
        object: &Object,
        chunk_bytes: ChunkBytes,
        overwrite: bool,
    ) -> Result<Sink, FileError> {
        let (folders, _) = object.name.split();
        let folder = self.enter(object, folders)?;
        let path = self.path.join(object.name.as_path());
        Sink::open(folder, path, object, (chunk_bytes, overwrite))
    }

    /// Gives the folders made their modes and times, the innermost first: to be called when all that is
    /// in them is there.
    ///
    /// # Errors
    ///
    /// [`FileError`]: the first one; the others are done all the same.
    pub fn finish(&mut self) -> Result<(), FileError> {
        let mut result = Ok(());
        let mut made = std::mem::take(&mut self.made);
        made.sort_by_key(|object| std::cmp::Reverse(object.name.as_bytes().len()));
        for object in made {
            let (folders, last) = object.name.split();
            let done = self.enter(&object, folders.chain(std::iter::once(last)));
            let path = self.path.join(object.name.as_path());
            let done = done.and_then(|folder| {
                dress(&folder, &object).map_err(FileError::at("set mode and time of", &path))
            });
            result = result.and(done);
        }
        result
    }

    /// Opens folders, each from the one above; makes those that are missing.
    fn enter<'a>(
        &self,
        object: &Object,
        folders: impl Iterator<Item = &'a OsStr>,
    ) -> Result<OwnedFd, FileError> {
        let path = self.path.join(object.name.as_path());
        let failed = |error: Errno| FileError::of(error, "make the folders of", &path, 0);
        let mut folder = rustix::io::fcntl_dupfd_cloexec(&self.root, 0).map_err(failed)?;
        for part in folders {
            match rustix::fs::mkdirat(&folder, part, Mode::from_raw_mode(FOLDER_MODE)) {
                // What a file is in must be there after a loss of power as well.
                Ok(()) => rustix::fs::fsync(&folder).map_err(failed)?,
                Err(Errno::EXIST) => {}
                Err(error) => return Err(failed(error)),
            }
            folder = match rustix::fs::openat(&folder, part, OPEN, Mode::empty()) {
                Ok(inner) => inner,
                Err(Errno::NOTDIR | Errno::LOOP) => {
                    let name = object.name.to_string().chars().take(80).collect();
                    let why = "a file or a link is there where it needs a folder";
                    return Err(FileError::Name { name, why });
                }
                Err(error) => return Err(failed(error)),
            };
        }
        Ok(folder)
    }
}

/// Mode and time of what was sent; of the mode, only permissions that the umask of this process leaves.
pub(super) fn dress(made: &OwnedFd, object: &Object) -> rustix::io::Result<()> {
    let times = times(object.modified);
    rustix::fs::fchmod(made, Mode::from_raw_mode(object.mode & 0o777 & !umask()))?;
    rustix::fs::futimens(made, &times)
}

/// What this process takes away from the modes of new files: read once, as changing it to find out would
/// change it for other threads as well. Without /proc, that others write.
fn umask() -> u32 {
    static UMASK: OnceLock<u32> = OnceLock::new();
    *UMASK.get_or_init(|| {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let digits = status.lines().find_map(|line| line.strip_prefix("Umask:"));
        let umask = digits.and_then(|digits| u32::from_str_radix(digits.trim(), 8).ok());
        umask.unwrap_or(0o022) & 0o777
    })
}

fn times(modified: Stamp) -> Timestamps {
    let ns = i64::from(modified.ns.min(999_999_999));
    Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        last_modification: Timespec { tv_sec: modified.secs, tv_nsec: ns },
    }
}
