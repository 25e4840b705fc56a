//! Hard links: further names of files that the same transfer has put into their places.
//!
//! Several senders may share a folder, and each name in it may get another file at any time. So a link is made of the
//! file that the transfer has stored, or has proved to have, and not of the one that has its name by then.
//!
//! A link gets a temporary name first, `.NAME.linecard-link`. It is made under the lock that a file of that name would
//! have, so that transfers do not take each other's.

use super::folder::READ;
use super::name::{LINK, PART};
use super::partial::{self, lock};
use super::sink::{refuse_existing, rename_new};
use super::{FileError, Folder, Name, Object};
use crate::end::random_key;
use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, OFlags, Statx, StatxFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

/// A file, whatever names it has. Numbers of files are used again, with another time of birth; file systems that know
/// none tell only files apart that exist at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileId {
    device: (u32, u32),
    inode: u64,
    born: Option<(i64, u32)>,
}

/// A folder in which links are made: opened once for all of them.
#[derive(Debug)]
pub(crate) struct LinkFolder(Arc<OwnedFd>);

/// The lock of a name, which is that of its partial file.
struct NameLock<'a> {
    folder: &'a OwnedFd,
    name: &'a Name,
    file: File,
}

impl FileId {
    /// That of an open file.
    pub(super) fn of(file: impl AsFd) -> rustix::io::Result<Self> {
        stat(file, Path::new(""), AtFlags::EMPTY_PATH).map(|stat| Self::of_stat(&stat))
    }

    fn of_stat(stat: &Statx) -> Self {
        let is_known = StatxFlags::from_bits_retain(stat.stx_mask).contains(StatxFlags::BTIME);
        Self {
            device: (stat.stx_dev_major, stat.stx_dev_minor),
            inode: stat.stx_ino,
            born: is_known.then_some((stat.stx_btime.tv_sec, stat.stx_btime.tv_nsec)),
        }
    }
}

impl<'a> NameLock<'a> {
    fn take(folder: &'a OwnedFd, name: &'a Name, path: &Path) -> Result<Self, FileError> {
        lock(folder, path, &name.beside(PART)).map(|file| Self { folder, name, file })
    }

    /// Releases it. Of a partial file that an earlier run has left nothing is resumed where the name `is_given` now.
    fn release(self, is_given: bool) -> rustix::io::Result<()> {
        let is_empty = self.file.metadata().is_ok_and(|part| part.len() == 0);
        if is_given || is_empty { partial::remove(self.folder, self.name, true) } else { Ok(()) }
    }
}

impl Drop for NameLock<'_> {
    /// As that of a file that is received.
    fn drop(&mut self) {
        let _unlocked = rustix::fs::flock(&self.file, FlockOperation::Unlock);
    }
}

impl Folder {
    /// Whether the object's name is that of the file `first`.
    ///
    /// # Errors
    ///
    /// [`FileError::Name`] where a link is in the way, and the error of the operating system.
    pub(crate) fn is_linked(&self, object: &Object, first: &Name) -> Result<bool, FileError> {
        let Some(folder) = self.if_there(&object.name)? else { return Ok(false) };
        self.is_linked_in(&LinkFolder(folder), object, first)
    }

    /// The same in a folder that is open.
    ///
    /// # Errors
    ///
    /// As [`Folder::is_linked`].
    pub(crate) fn is_linked_in(
        &self,
        to: &LinkFolder,
        object: &Object,
        first: &Name,
    ) -> Result<bool, FileError> {
        let link = look(&to.0, &object.name, &self.path_of(object))?;
        let link = link.map(|stat| FileId::of_stat(&stat));
        Ok(link.is_some() && link == self.file_of(first)?)
    }

    /// Opens the folder of a link.
    ///
    /// # Errors
    ///
    /// [`FileError::Name`] where a link is in the way, and the error of the operating system.
    pub(crate) fn link_folder(&self, object: &Object) -> Result<LinkFolder, FileError> {
        self.beside_name(&object.name).map(LinkFolder)
    }

    /// Removes the temporary name of a link that a killed process has left beside an object that is in its place. An error
    /// fails nothing.
    pub(crate) fn remove_old_link(&self, object: &Object) {
        let Ok(folder) = self.beside_name(&object.name) else { return };
        if !self.may_have_leftovers(&object.name) {
            return;
        }
        let new = object.name.beside(LINK);
        if rustix::fs::statat(&*folder, &new, AtFlags::SYMLINK_NOFOLLOW).is_err() {
            return;
        }
        // Where another transfer has the lock, it is not old.
        if let Ok(lock) = NameLock::take(&folder, &object.name, &self.path_of(object)) {
            let _kept = partial::unlink(&folder, &new).and(lock.release(false));
        }
    }

    /// Whether something is in the place of a link that would be replaced.
    ///
    /// # Errors
    ///
    /// [`FileError::Exists`] unless `overwrite`, and [`FileError::IsFolder`].
    pub(crate) fn would_replace(
        &self,
        object: &Object,
        overwrite: bool,
    ) -> Result<bool, FileError> {
        let Some(folder) = self.if_there(&object.name)? else { return Ok(false) };
        let path = self.path_of(object);
        refuse_existing(&folder, &path, object, overwrite)?;
        Ok(look(&folder, &object.name, &path)?.is_some())
    }

    /// A key for [`Folder::prove`].
    ///
    /// # Errors
    ///
    /// The error of the operating system: it gives no random numbers.
    pub(crate) fn proof_key(&self, name: &Name) -> Result<[u8; 32], FileError> {
        random_key().map_err(FileError::at("choose a key for", &self.path_of_name(name)))
    }

    /// The file of this name, if its bytes have this hash with this key.
    ///
    /// # Errors
    ///
    /// The error of the operating system.
    pub(crate) fn prove(
        &self,
        name: &Name,
        (key, proof): (&[u8; 32], &[u8; 32]),
    ) -> Result<Option<FileId>, FileError> {
        let (folder, path) = (self.beside_name(name)?, self.path_of_name(name));
        let (_, last) = name.split();
        let read = READ.union(OFlags::NONBLOCK);
        let opened = rustix::fs::openat(&*folder, last, read, Mode::empty())
            .and_then(|file| Ok((stat(&file, Path::new(""), AtFlags::EMPTY_PATH)?, file)));
        let (stat, file) = match opened {
            // Another process has put something else there.
            Err(Errno::NOENT | Errno::LOOP | Errno::NXIO) => return Ok(None),
            opened => opened.map_err(|error| FileError::of(error, "look for", &path, 0))?,
        };
        let proved = is_file(&stat)
            && self.hash(File::from(file), &path, blake3::Hasher::new_keyed(key))? == *proof;
        Ok(proved.then(|| FileId::of_stat(&stat)))
    }

    /// Makes a hard link of a file that is in its place.
    ///
    /// # Errors
    ///
    /// [`FileError::HardLink`], [`FileError::Exists`] unless `overwrite`, [`FileError::IsFolder`], [`FileError::Locked`],
    /// and the error of the operating system.
    pub(crate) fn link(
        &self,
        to: &LinkFolder,
        object: &Object,
        (first, id): (&Name, FileId),
        overwrite: bool,
    ) -> Result<(), FileError> {
        let path = self.path_of(object);
        refuse_existing(&to.0, &path, object, overwrite)?;
        let lock = NameLock::take(&to.0, &object.name, &path)?;
        let made = self.link_locked(&to.0, (object, &path), (first, id), overwrite);
        let released = lock.release(made.is_ok());
        made?;
        released.map_err(FileError::at("remove the partial file of", &path))
    }

    fn link_locked(
        &self,
        to: &OwnedFd,
        (object, path): (&Object, &Path),
        (first, id): (&Name, FileId),
        overwrite: bool,
    ) -> Result<(), FileError> {
        let (from, first_path) = (self.beside_name(first)?, self.path_of_name(first));
        let failed = |error: Errno| failed(error, path, &first_path);
        let ((_, first_last), new) = (first.split(), object.name.beside(LINK));
        // An earlier run may have left one.
        partial::unlink(to, &new).map_err(failed)?;
        rustix::fs::linkat(&*from, first_last, to, &new, AtFlags::empty()).map_err(failed)?;
        let made = match stat(to, Path::new(&new), AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) if is_file(&stat) && FileId::of_stat(&stat) == id => {
                let renaming = (overwrite, "rename the new hard link to");
                rename_new((to, &new), (object, path), renaming).map_err(|error| match error {
                    FileError::System { source, .. }
                        if source.kind() == io::ErrorKind::NotFound =>
                    {
                        failed(Errno::NOENT)
                    }
                    error => error,
                })
            }
            // Another file has that name: a link of it is not asked for.
            Ok(_) => Err(FileError::HardLink {
                path: path.into(),
                first: first_path.clone(),
                why: "another file has taken its place; send again",
            }),
            Err(error) => Err(failed(error)),
        };
        // Renaming leaves it where both are names of one file by now.
        let removed = partial::unlink(to, &new).map_err(failed);
        made.and(removed)
    }

    /// Waits until the folder of new links is on the disk; `object` is one of them.
    ///
    /// # Errors
    ///
    /// The error of the operating system.
    pub(crate) fn sync_links(&self, to: &LinkFolder, object: &Object) -> Result<(), FileError> {
        let doing = "write to the disk the folder of";
        rustix::fs::fsync(&*to.0).map_err(FileError::at(doing, &self.path_of(object)))
    }

    /// The file or link of a name.
    fn file_of(&self, name: &Name) -> Result<Option<FileId>, FileError> {
        let Some(folder) = self.if_there(name)? else { return Ok(None) };
        let found = look(&folder, name, &self.path_of_name(name))?;
        Ok(found.map(|stat| FileId::of_stat(&stat)))
    }
}

fn stat(folder: impl AsFd, last: &Path, flags: AtFlags) -> rustix::io::Result<Statx> {
    let parts = StatxFlags::TYPE | StatxFlags::INO | StatxFlags::BTIME;
    rustix::fs::statx(folder, last, flags, parts)
}

fn is_file(stat: &Statx) -> bool {
    FileType::from_raw_mode(stat.stx_mode.into()) == FileType::RegularFile
}

/// The file of a name; links are not followed.
fn look(folder: &OwnedFd, name: &Name, path: &Path) -> Result<Option<Statx>, FileError> {
    let (_, last) = name.split();
    match stat(folder, Path::new(last), AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(stat)),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(FileError::of(error, "look for", path, 0)),
    }
}

/// Some errors are about this link: the others can still be made.
fn failed(error: Errno, path: &Path, first: &Path) -> FileError {
    let why = match error {
        Errno::XDEV => {
            "they are on two file systems or mounts, or in two folders, which Landlock of Linux before 5.19 keeps apart; \
             send without --hard-links"
        }
        Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS => {
            "the file system has none, or the file is of another user (sysctl fs.protected_hardlinks); send without \
             --hard-links"
        }
        Errno::MLINK => {
            "the file has as many as the file system permits; send without --hard-links"
        }
        Errno::NOENT => "the file or the new link has been removed meanwhile; send again",
        Errno::EXIST | Errno::ISDIR => {
            "something else has the temporary name .NAME.linecard-link beside it; remove that, and send again"
        }
        error => return FileError::of(error, "make the hard link", path, 0),
    };
    FileError::HardLink { path: path.into(), first: first.into(), why }
}
