//! Hard links: further names of files that the same transfer has put into their places.
//!
//! Several senders may share a folder, and each name in it may get another file at any time. So a link is made of the
//! file that the transfer has stored, or has proved to have, and not of the one that has its name by then.

use super::folder::READ;
use super::name::LINK;
use super::sink::{refuse_existing, rename_new};
use super::{FileError, Folder, Name, Object};
use crate::end::random_key;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Statx, StatxFlags};
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

/// The folder of a new link; none if the link was there.
pub(crate) type NewLink = Result<Option<Arc<OwnedFd>>, FileError>;

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

impl Folder {
    /// Whether the object's name is that of the file `first`.
    ///
    /// # Errors
    ///
    /// [`FileError::Name`] where a link is in the way, and the error of the operating system.
    pub(crate) fn is_linked(&self, object: &Object, first: &Name) -> Result<bool, FileError> {
        let (link, first) = (self.file_of(&object.name)?, self.file_of(first)?);
        Ok(link.is_some() && link == first)
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
    /// [`FileError::Unproven`], and the error of the operating system.
    pub(crate) fn prove(
        &self,
        name: &Name,
        (key, proof): (&[u8; 32], &[u8; 32]),
    ) -> Result<FileId, FileError> {
        let (folder, path) = (self.beside_name(name)?, self.path_of_name(name));
        let (_, last) = name.split();
        let read = READ.union(OFlags::NONBLOCK);
        let opened = rustix::fs::openat(&*folder, last, read, Mode::empty())
            .and_then(|file| Ok((stat(&file, Path::new(""), AtFlags::EMPTY_PATH)?, file)));
        let (stat, file) = match opened {
            // Another process has put something else there.
            Err(Errno::NOENT | Errno::LOOP | Errno::NXIO) => {
                return Err(FileError::Unproven { path });
            }
            opened => opened.map_err(|error| FileError::of(error, "look for", &path, 0))?,
        };
        let proved = is_file(&stat)
            && self.hash(File::from(file), &path, blake3::Hasher::new_keyed(key))? == *proof;
        match proved {
            true => Ok(FileId::of_stat(&stat)),
            false => Err(FileError::Unproven { path }),
        }
    }

    /// Makes a hard link of a file that is in its place, and says in which folder.
    ///
    /// # Errors
    ///
    /// [`FileError::HardLink`], [`FileError::Exists`] unless `overwrite`, [`FileError::IsFolder`], and the error of the
    /// operating system.
    pub(crate) fn link(
        &self,
        object: &Object,
        (first, id): (&Name, FileId),
        overwrite: bool,
    ) -> Result<Arc<OwnedFd>, FileError> {
        let (from, to) = (self.beside_name(first)?, self.beside_name(&object.name)?);
        let (path, first_path) = (self.path_of(object), self.path_of_name(first));
        let failed = |error: Errno| failed(error, &path, &first_path);
        let (_, first_last) = first.split();
        refuse_existing(&to, &path, object, overwrite)?;
        let new = object.name.beside(LINK);
        // An earlier run may have left one.
        remove(&to, &new).map_err(failed)?;
        rustix::fs::linkat(&*from, first_last, &*to, &new, AtFlags::empty()).map_err(failed)?;
        let made = self.name_link(&to, &new, (object, &path), (id, overwrite));
        // Renaming leaves it where both are names of one file by now.
        let removed = remove(&to, &new);
        made.and_then(|is_same| match is_same {
            true => removed.map_err(failed),
            // Another file has that name: a link of it is not asked for.
            false => Err(FileError::HardLink {
                path: path.clone(),
                first: first_path.clone(),
                why: "another file has taken its place; send again",
            }),
        })?;
        Ok(to)
    }

    /// Gives a link its name if it is one of this file.
    fn name_link(
        &self,
        folder: &OwnedFd,
        new: &str,
        (object, path): (&Object, &Path),
        (id, overwrite): (FileId, bool),
    ) -> Result<bool, FileError> {
        let stat = stat(folder, Path::new(new), AtFlags::SYMLINK_NOFOLLOW)
            .map_err(|error| FileError::of(error, "look for", path, 0))?;
        if !is_file(&stat) || FileId::of_stat(&stat) != id {
            return Ok(false);
        }
        rename_new((folder, new), (object, path), overwrite)?;
        Ok(true)
    }

    /// The file or link of a name.
    fn file_of(&self, name: &Name) -> Result<Option<FileId>, FileError> {
        let Some(folder) = self.if_there(name)? else { return Ok(None) };
        let found = look(&folder, name, &self.path_of_name(name))?;
        Ok(found.map(|stat| FileId::of_stat(&stat)))
    }

    /// The folder of a name; none if it is missing and nothing may be made.
    fn if_there(&self, name: &Name) -> Result<Option<Arc<OwnedFd>>, FileError> {
        match self.beside_name(name) {
            Err(FileError::System { source, .. })
                if source.kind() == io::ErrorKind::NotFound && self.is_read_only() =>
            {
                Ok(None)
            }
            folder => folder.map(Some),
        }
    }
}

/// Waits until the folders of new links are on the disk, once for each folder.
pub(crate) fn sync_links(made: &mut [(&Object, NewLink)], within: &Folder) {
    let mut synced: Vec<Arc<OwnedFd>> = Vec::new();
    for (object, made) in made {
        let Ok(Some(folder)) = made else { continue };
        if synced.iter().any(|other| Arc::ptr_eq(other, folder)) {
            continue;
        }
        synced.push(Arc::clone(folder));
        if let Err(error) = rustix::fs::fsync(&**folder) {
            let doing = "write to the disk the folder of";
            *made = Err(FileError::of(error, doing, &within.path_of(object), 0));
        }
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

fn remove(folder: &OwnedFd, name: &str) -> rustix::io::Result<()> {
    match rustix::fs::unlinkat(folder, name, AtFlags::empty()) {
        Err(Errno::NOENT) => Ok(()),
        result => result,
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
        Errno::NOENT => "the file has been removed meanwhile; send again",
        error => return FileError::of(error, "make the hard link", path, 0),
    };
    FileError::HardLink { path: path.into(), first: first.into(), why }
}
