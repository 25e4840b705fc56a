//! The receiving folder: nothing is ever created outside it.
//!
//! Names are checked ([`Name`]), and each of their folders is opened from the one above without
//! following links, so a link that is placed there at any time cannot lead elsewhere.

use super::dress::{self, dress};
use super::flusher::Flusher;
use super::leftovers::LastFolder;
use super::name::PART;
use super::partial::{self, Partial, READ_BYTES};
use super::sink::{Setup, refuse_existing};
use super::{ChunkBytes, FileError, Have, Kind, Name, Object, Quota, Sink, Stamp, link};
use rustix::fs::{Access, AtFlags, CWD, FileType, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Mode of new folders, before the umask.
const FOLDER_MODE: u32 = 0o777;
/// How folders are opened: only folders, without following links.
pub(super) const OPEN: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// How an existing file is opened.
pub(super) const READ: OFlags = OFlags::RDONLY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Where objects are put.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    root: OwnedFd,
    /// Folders made, whose modes and times come last.
    made: Vec<Made>,
    last: Mutex<Option<LastFolder>>,
    flusher: Option<Flusher>,
    stop: Arc<AtomicBool>,
    /// Nothing is made.
    is_read_only: bool,
    /// Links are made that lead out of the folder that was sent.
    links_out: bool,
    /// Folders that are made count against it.
    quota: Option<Arc<Quota>>,
}

/// A folder that was made, and its mode and time.
#[derive(Debug)]
struct Made {
    name: Name,
    mode: u32,
    modified: Stamp,
}

/// Memory of such a folder beside its name: itself twice, as lists grow by doubling, and the allocator's own.
pub(crate) const MADE_BYTES: u64 = 2 * size_of::<Made>() as u64 + 32;

/// The existing object at the place of a new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Existing {
    /// Nothing, not even a part of it.
    Nothing,
    /// A partial file, which an earlier run has left or another process writes.
    Part,
    /// A file or link of the same length with this hash, and a part of a newer one if `part`.
    File {
        /// BLAKE3 of what it holds now.
        hash: blake3::Hash,
        /// Whether there is a partial file beside it.
        part: bool,
    },
    /// A file of the same length and time, which counts as the same ([`Object::by_time`]).
    Same,
    /// Something else: a file of another length, a folder, a link.
    Other,
}

impl Folder {
    /// Opens the folder, and makes it if it is missing.
    ///
    /// # Errors
    ///
    /// [`FileError::NotAFolder`], and what the system says.
    pub fn open(path: &Path) -> Result<Self, FileError> {
        if path.exists() && !path.is_dir() {
            return Err(FileError::NotAFolder { path: path.into() });
        }
        fs::create_dir_all(path).map_err(FileError::at("make the folder", path))?;
        Self::open_existing(path)
    }

    /// Whether something can be put into the folder.
    ///
    /// # Errors
    ///
    /// [`FileError::Denied`], and what the system says.
    pub fn check_writable(&self) -> Result<(), FileError> {
        let rights = Access::WRITE_OK | Access::EXEC_OK;
        rustix::fs::accessat(&self.root, ".", rights, AtFlags::empty())
            .map_err(FileError::at("write to the folder", &self.path))
    }

    /// Opens the folder to list it, none if it is missing: nothing is made or changed there.
    ///
    /// # Errors
    ///
    /// As [`Folder::open`].
    pub fn look(path: &Path) -> Result<Option<Self>, FileError> {
        match Self::open_existing(path) {
            Ok(folder) => Ok(Some(Self { is_read_only: true, ..folder })),
            Err(FileError::System { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn open_existing(path: &Path) -> Result<Self, FileError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = match rustix::fs::openat(CWD, path, flags, Mode::empty()) {
            Err(Errno::NOTDIR) => return Err(FileError::NotAFolder { path: path.into() }),
            root => root.map_err(FileError::at("open the folder", path))?,
        };
        Ok(Self {
            path: path.into(),
            root,
            made: Vec::new(),
            last: Mutex::default(),
            flusher: None,
            stop: Arc::default(),
            is_read_only: false,
            links_out: false,
            quota: None,
        })
    }

    /// Lets a thread of its own bring data to the disk while more is written; `stop` ends the reading of
    /// existing files.
    ///
    /// # Errors
    ///
    /// The error of the operating system: no thread could be started.
    pub fn with_flusher(self, stop: Arc<AtomicBool>) -> io::Result<Self> {
        Ok(Self { flusher: Some(Flusher::start()?), stop, ..self })
    }

    /// Links are made, too, that lead out of the folder that was sent. None is ever followed.
    #[must_use]
    pub fn with_links_out(self, links_out: bool) -> Self {
        Self { links_out, ..self }
    }

    /// Each folder that is made counts against this quota.
    #[must_use]
    pub fn with_quota(self, quota: Option<Arc<Quota>>) -> Self {
        Self { quota, ..self }
    }

    /// A folder below this one, which is made if it is missing; none where nothing may be made. No link is followed.
    ///
    /// # Errors
    ///
    /// [`FileError::Name`] if a file or a link is in its place, and what the system says.
    pub fn below(self, name: &Name) -> Result<Option<Self>, FileError> {
        let root = match self.is_read_only {
            true => self.find(name, name.parts())?,
            false => Some(self.enter(name, name.parts())?),
        };
        Ok(root.map(|root| Self { path: self.path.join(name.as_path()), root, ..self }))
    }

    /// Creates a folder that was sent, or uses an existing one.
    ///
    /// # Errors
    ///
    /// [`FileError::Name`] if a file or a link is in its place, and what the system says.
    pub fn make(&mut self, object: &Object) -> Result<(), FileError> {
        let made = self.enter(&object.name, object.name.parts())?;
        self.check_owner(&made, object)?;
        dress::open_up(&made);
        let mode = dress::of_folder(object.mode);
        let (name, modified) = (object.name.clone(), object.modified);
        self.made.push(Made { name, mode, modified });
        Ok(())
    }

    /// Whether this process may give a folder its mode and time: one that is there may be another user's. Found out before
    /// anything is put into it, as this one alone is refused then.
    fn check_owner(&self, folder: &OwnedFd, object: &Object) -> Result<(), FileError> {
        let path = self.path_of(object);
        let failed = FileError::at("set mode and time of", &path);
        let checked = rustix::fs::fstat(folder).and_then(|stat| {
            match stat.st_uid == rustix::process::geteuid().as_raw() {
                true => Ok(()),
                // To what it has, which changes nothing.
                false => rustix::fs::fchmod(folder, Mode::from_raw_mode(stat.st_mode)),
            }
        });
        checked.map_err(failed)
    }

    /// Removes the journal beside an existing file that has no partial file: a process that was killed when the file had
    /// just got its name has left it. An error fails nothing: the file is in its place.
    pub(crate) fn remove_journal(&self, object: &Object) {
        let _kept = self.beside(object).map(|folder| match self.has_part(&folder, object) {
            Ok(false) => partial::remove(&folder, &object.name, false),
            _ => Ok(()),
        });
    }

    /// Whether there is a partial file of the name of an object.
    fn has_part(&self, folder: &OwnedFd, object: &Object) -> Result<bool, Errno> {
        if !self.may_have_leftovers(&object.name) {
            return Ok(false);
        }
        match rustix::fs::statat(folder, object.name.beside(PART), AtFlags::SYMLINK_NOFOLLOW) {
            Ok(_) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Removes a partial file of an object, and its journal, beside a whole file that is what was sent, unless another
    /// process works on them. An error fails nothing: the file is in its place.
    pub(crate) fn remove_part(&self, object: &Object, chunk_bytes: ChunkBytes) {
        let _kept = self.beside(object).and_then(|folder| match self.has_part(&folder, object) {
            Ok(true) => {
                partial::remove_unused(&folder, &self.path_of(object), (object, chunk_bytes))
            }
            _ => Ok(()),
        });
    }

    /// The existing object under the name of a file. One of the same length is read and hashed, unless its time
    /// says enough.
    ///
    /// # Errors
    ///
    /// [`FileError::Name`] where a link is in the way, and what the system says.
    pub fn existing(&self, object: &Object) -> Result<Existing, FileError> {
        let Some(folder) = self.if_there(&object.name)? else { return Ok(Existing::Nothing) };
        let path = self.path_of(object);
        let (_, last) = object.name.split();
        let failed = |error: Errno| FileError::of(error, "look for", &path, 0);
        let part = self.has_part(&folder, object).map_err(failed)?;
        let stat = match rustix::fs::statat(&*folder, last, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            // A folder has no partial file: that one is of a file of its name.
            Err(Errno::NOENT) if part && object.kind != Kind::Folder => return Ok(Existing::Part),
            Err(Errno::NOENT) => return Ok(Existing::Nothing),
            Err(error) => return Err(failed(error)),
        };
        if object.kind == Kind::Link {
            let target = link::target_at(&folder, last);
            let same = target.filter(|target| object.size == Some(target.len() as u64));
            return Ok(same.map_or(Existing::Other, |target| Existing::File {
                hash: blake3::hash(&target),
                part,
            }));
        }
        let found = FileType::from_raw_mode(stat.st_mode);
        if object.kind == Kind::Folder && found == FileType::Directory {
            let inner = rustix::fs::openat(&*folder, last, OPEN, Mode::empty()).map_err(failed)?;
            // Root may, in all probability, and the folder keeps its time of change.
            let is_root = rustix::process::geteuid().is_root();
            let checked = if is_root { Ok(()) } else { self.check_owner(&inner, object) };
            return checked.map(|()| Existing::Same);
        }
        let is_file = found == FileType::RegularFile;
        if !is_file || object.kind != Kind::File || u64::try_from(stat.st_size).ok() != object.size
        {
            return Ok(Existing::Other);
        }
        if object.by_time && Stamp::of_stat(&stat) == object.modified {
            return Ok(Existing::Same);
        }
        let read = READ.union(OFlags::NONBLOCK);
        let file = rustix::fs::openat(&*folder, last, read, Mode::empty()).map_err(failed)?;
        let hash = self.hash(File::from(file), &path, blake3::Hasher::new())?;
        Ok(Existing::File { hash, part })
    }

    /// The error of making a folder where something else is.
    fn in_the_way(name: &Name) -> FileError {
        let name = name.to_string().chars().take(80).collect();
        FileError::Name {
            name,
            why: "a file or a link is there where it needs a folder; move that away",
        }
    }

    /// Whether an object may take its place, as [`Folder::sink`] would say, which of its chunks are there in a partial
    /// file, and the hash of one that may be its only chunk ([`Sink::left`]). Nothing is changed.
    ///
    /// # Errors
    ///
    /// [`FileError::Exists`] unless `overwrite`, and what the system says.
    pub fn would_take(
        &self,
        object: &Object,
        chunk_bytes: ChunkBytes,
        overwrite: bool,
    ) -> Result<(Have, Option<blake3::Hash>), FileError> {
        let none = || Ok((Have::default(), None));
        let (folder, path) = (self.beside(object)?, self.path_of(object));
        if object.kind == Kind::Folder {
            return Err(Self::in_the_way(&object.name));
        }
        refuse_existing(&folder, &path, object, overwrite)?;
        let size = object.size.unwrap_or(0);
        let count = chunk_bytes.count(size)?;
        if object.kind == Kind::Stream {
            return none();
        }
        let part = object.name.beside(PART);
        let opened = partial::open(&folder, &part, OFlags::RDONLY);
        let file = match partial::unblocked(opened, &path.with_file_name(part))? {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return none(),
            part => Arc::new(part.map_err(FileError::at("open the partial file of", &path))?),
        };
        // It is left under its other name, and a new one begun.
        if file.metadata().is_ok_and(|file| file.nlink() > 1) {
            return none();
        }
        let (folder, path, file, stop) = (&*folder, &*path, &file, &*self.stop);
        let partial = Partial { folder, path, object, file, size, chunk_bytes, stop };
        match count {
            0 | 1 => Ok((Have::default(), partial.left()?.map(|left| left.alone.into()))),
            _ => Ok((partial.look()?, None)),
        }
    }

    /// Bytes on the disk of a partial file of an object that may be resumed; 0 where there is none.
    ///
    /// # Errors
    ///
    /// [`FileError::Name`] where a link is in the way.
    pub fn there_bytes(&self, object: &Object) -> Result<u64, FileError> {
        let Some(folder) = self.if_there(&object.name)? else { return Ok(0) };
        let part = object.name.beside(PART);
        let stat = rustix::fs::statat(&*folder, part, AtFlags::SYMLINK_NOFOLLOW);
        let alone = stat.ok().filter(|stat| stat.st_nlink <= 1);
        Ok(alone.map_or(0, |stat| stat.st_blocks.try_into().unwrap_or(0) * 512))
    }

    /// Gives an existing file the mode and time of the object.
    ///
    /// # Errors
    ///
    /// The error of the operating system.
    pub fn dress(&self, object: &Object) -> Result<(), FileError> {
        let folder = self.beside(object)?;
        let path = self.path_of(object);
        let (_, last) = object.name.split();
        let dressed = match object.kind {
            Kind::Link => link::dress(&folder, last, object),
            _ => rustix::fs::openat(&*folder, last, READ, Mode::empty())
                .and_then(|file| dress(file, object.mode, object.modified)),
        };
        dressed.map_err(FileError::at("set mode and time of", &path))
    }

    pub(super) fn hash(
        &self,
        mut file: File,
        path: &Path,
        mut hasher: blake3::Hasher,
    ) -> Result<blake3::Hash, FileError> {
        let mut buffer = vec![0; READ_BYTES];
        let failed = || FileError::at("read", path);
        loop {
            if self.stop.load(Ordering::Relaxed) {
                return Err(failed()(io::Error::from(io::ErrorKind::Interrupted)));
            }
            match file.read(&mut buffer).map_err(failed())? {
                0 => return Ok(hasher.finalize()),
                bytes => hasher.update(&buffer[..bytes]),
            };
        }
    }

    /// Opens the partial file of an object, or resumes one that an earlier run has left: chunks that its
    /// journal lists are read again, and count if their hash is right. Folders are made as needed.
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
        let folder = self.beside(object)?;
        let path = self.path_of(object);
        let (flusher, stop) = (self.flusher.as_ref(), &*self.stop);
        let links_out = self.links_out;
        Sink::open(folder, path, object, Setup { chunk_bytes, overwrite, links_out, flusher, stop })
    }

    /// The path that it was opened by.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) const fn root(&self) -> &OwnedFd {
        &self.root
    }

    /// Where an object is put.
    #[must_use]
    pub fn path_of(&self, object: &Object) -> PathBuf {
        self.path_of_name(&object.name)
    }

    pub(crate) fn path_of_name(&self, name: &Name) -> PathBuf {
        self.path.join(name.as_path())
    }

    /// The folder that an object is put into.
    fn beside(&self, object: &Object) -> Result<Arc<OwnedFd>, FileError> {
        self.beside_name(&object.name)
    }

    /// The folder of a name.
    pub(super) fn beside_name(&self, of: &Name) -> Result<Arc<OwnedFd>, FileError> {
        if let Some(folder) = self.if_there(of)? {
            return Ok(folder);
        }
        let (folders, _) = of.split();
        let folder = LastFolder::new(of.folder(), self.enter(of, folders)?);
        Ok(self.last().insert(folder).folder())
    }

    /// The same; none if it is missing. Nothing is made.
    pub(super) fn if_there(&self, of: &Name) -> Result<Option<Arc<OwnedFd>>, FileError> {
        let mut last = self.last();
        if let Some(last) = last.as_ref().filter(|last| last.is_of(of)) {
            return Ok(Some(last.folder()));
        }
        let (folders, _) = of.split();
        let folder = self.find(of, folders)?.map(|folder| LastFolder::new(of.folder(), folder));
        Ok(folder.map(|folder| last.insert(folder).folder()))
    }

    fn last(&self) -> MutexGuard<'_, Option<LastFolder>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a partial file or a link without its name may be beside a name, whose folder was used last.
    pub(super) fn may_have_leftovers(&self, of: &Name) -> bool {
        let mut last = self.last();
        last.as_mut().filter(|last| last.is_of(of)).is_none_or(LastFolder::may_have_leftovers)
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
        made.sort_by_key(|made| std::cmp::Reverse(made.name.as_bytes().len()));
        for Made { name, mode, modified } in made {
            // One that was removed or replaced meanwhile stays so.
            let found = match self.find(&name, name.parts()) {
                Err(FileError::Name { .. }) => Ok(None),
                found => found,
            };
            let path = self.path_of_name(&name);
            let done = found.and_then(|folder| {
                folder.map_or(Ok(()), |folder| {
                    dress(&folder, mode, modified)
                        .map_err(FileError::at("set mode and time of", &path))
                })
            });
            result = result.and(done);
        }
        result
    }

    /// Opens folders, each from the one above; makes those that are missing, unless nothing may be made.
    fn enter<'a>(
        &self,
        name: &Name,
        folders: impl Iterator<Item = &'a OsStr>,
    ) -> Result<OwnedFd, FileError> {
        self.walk((name, !self.is_read_only), folders)
    }

    /// Opens folders, each from the one above; none if one is missing.
    pub(super) fn find<'a>(
        &self,
        name: &Name,
        folders: impl Iterator<Item = &'a OsStr>,
    ) -> Result<Option<OwnedFd>, FileError> {
        match self.walk((name, false), folders) {
            Err(FileError::System { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                Ok(None)
            }
            found => found.map(Some),
        }
    }

    fn walk<'a>(
        &self,
        (name, makes): (&Name, bool),
        folders: impl Iterator<Item = &'a OsStr>,
    ) -> Result<OwnedFd, FileError> {
        let path = self.path_of_name(name);
        let doing = if makes { "make the folders of" } else { "open the folder of" };
        let failed = |error: Errno| FileError::of(error, doing, &path, 0);
        let mut folder = rustix::io::fcntl_dupfd_cloexec(&self.root, 0).map_err(failed)?;
        for part in folders {
            let open = || rustix::fs::openat(&folder, part, OPEN, Mode::empty());
            let inner = match open() {
                Err(Errno::NOENT) if makes => {
                    self.make_in(&folder, part, &path)?;
                    open()
                }
                inner => inner,
            };
            folder = match inner {
                Ok(inner) => inner,
                Err(Errno::NOTDIR | Errno::LOOP) => return Err(Self::in_the_way(name)),
                Err(error) => return Err(failed(error)),
            };
        }
        Ok(folder)
    }

    /// Makes a folder in another, on the way to `path`; it counts against the quota, announced or not.
    fn make_in(&self, folder: &OwnedFd, part: &OsStr, path: &Path) -> Result<(), FileError> {
        self.quota.as_ref().map_or(Ok(()), |quota| quota.take_object(0, 0, path))?;
        let made = match rustix::fs::mkdirat(folder, part, Mode::from_raw_mode(FOLDER_MODE)) {
            // The folder of a file must survive a loss of power as well.
            Ok(()) => rustix::fs::fsync(folder),
            Err(Errno::EXIST) => Ok(()),
            made => made,
        };
        made.map_err(|error| FileError::of(error, "make the folders of", path, 0))
    }
}
