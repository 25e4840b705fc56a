//! The partial file and its journal: opened for one process alone, and checked before they are
//! resumed.

use super::flusher::Flush;
use super::journal::{self, HEADER_BYTES, Header, RECORD_BYTES};
use super::name::{JOURNAL, NEW_JOURNAL, PART};
use super::{ChunkBytes, ChunkHash, FileError, Have, Kind, Name, Object};
use rustix::fs::{AtFlags, FallocateFlags, FileType, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Only the user reads incomplete files.
pub(super) const PARTIAL_MODE: u32 = 0o600;
/// How a file of ours is opened, and made if it is missing.
const MAKE: OFlags = OFlags::RDWR.union(OFlags::CREATE);
/// How often a partial file may disappear between opening and locking it.
const MAX_TRIES: usize = 8;
/// Bytes read in one call to be hashed.
pub(super) const READ_BYTES: usize = 1 << 20;

/// The journal of an object of known size.
#[derive(Debug)]
pub(super) struct Journal {
    file: Arc<File>,
    header: Header,
    /// Where the next record goes: behind the last whole one, whatever else was begun there.
    end: u64,
    /// Bytes of chunks that were recorded since the last flush was requested.
    pub(super) unflushed: u64,
    pub(super) flush: Flush,
}

/// A partial file that is locked, and of which object it is a part.
pub(super) struct Partial<'a> {
    pub(super) folder: &'a OwnedFd,
    pub(super) path: &'a Path,
    pub(super) object: &'a Object,
    pub(super) file: &'a Arc<File>,
    pub(super) size: u64,
    pub(super) chunk_bytes: ChunkBytes,
    /// Ends the checking early.
    pub(super) stop: &'a AtomicBool,
}

impl Partial<'_> {
    /// The chunks that an earlier run has left of this object, without changing anything.
    pub(super) fn look(&self) -> Result<Have, FileError> {
        let failed = || self.failed("open the journal of", 0);
        let name = self.object.name.beside(JOURNAL);
        let opened = open(self.folder, &name, OFlags::RDONLY);
        let journal = match unblocked(opened, &self.path.with_file_name(&name))? {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Have::default()),
            journal => journal.map_err(failed())?,
        };
        let mut have = Have::default();
        if let Some(found) = self.recorded(&journal)?.0 {
            for (chunk, _) in self.verified(found)? {
                have.insert(chunk);
            }
        }
        Ok(have)
    }

    /// Takes what an earlier run has left of this object, or makes room for all of it.
    pub(super) fn go_on(&self) -> Result<(Journal, Vec<(u32, ChunkHash)>), FileError> {
        let header = Header::new(self.object, self.size, self.chunk_bytes);
        let failed = || self.failed("open the journal of", HEADER_BYTES as u64);
        let name = self.object.name.beside(JOURNAL);
        let file = open_to_write(self.folder, &name);
        let file = unblocked(file, &self.path.with_file_name(&name))?.map_err(failed())?;
        let (found, bytes) = self.recorded(&file)?;
        let mut is_clean = found.as_ref().is_some_and(|found| found.is_clean);
        let mut chunks = Vec::new();
        if let Some(found) = found {
            let recorded = found.chunks.len();
            chunks = self.verified(found)?;
            is_clean &= chunks.len() == recorded;
        }
        let mut journal = Journal::new(file, self.file, header, bytes);
        if chunks.is_empty() {
            self.make_room()?;
        }
        if !is_clean {
            let rewritten = journal.rewrite(self, &chunks);
            let name = self.object.name.beside(NEW_JOURNAL);
            unblocked(rewritten, &self.path.with_file_name(name))?.map_err(failed())?;
        }
        Ok((journal, chunks))
    }

    /// The entries of a journal, if they are about this partial file, and its length.
    fn recorded(&self, file: &File) -> Result<(Option<journal::Contents>, u64), FileError> {
        let failed = || self.failed("read the journal of", 0);
        let header = Header::new(self.object, self.size, self.chunk_bytes);
        let mut bytes = Vec::new();
        let longest = journal::longest(self.size);
        file.take(longest).read_to_end(&mut bytes).map_err(failed())?;
        let length = self.file.metadata().map_err(failed())?.len();
        let found = header.read(&bytes, self.size).filter(|_| length == self.size);
        Ok((found, bytes.len() as u64))
    }

    /// The chunks whose bytes in the file have the hash that was written down. Where the chunks of the
    /// earlier run had another length, those of today that consist of such.
    fn verified(&self, found: journal::Contents) -> Result<Vec<(u32, ChunkHash)>, FileError> {
        let mut buffer = vec![0; READ_BYTES];
        let mut hash_of = |chunk, chunk_bytes| self.hash_of(chunk, chunk_bytes, &mut buffer);
        let (mut good, mut kept) = (Have::default(), Vec::new());
        for (chunk, hash) in found.chunks {
            if hash_of(chunk, found.chunk_bytes)? == hash && good.insert(chunk) {
                kept.push((chunk, hash));
            }
        }
        if found.chunk_bytes == self.chunk_bytes {
            return Ok(kept);
        }
        kept.clear();
        for chunk in 0..self.chunk_bytes.count(self.size)? {
            let range = self.chunk_bytes.range(chunk, self.size);
            let old = found.chunk_bytes.bytes();
            // As many as the earlier run had, which fit into 32 bits.
            let mut parts = (range.start / old) as u32..range.end.div_ceil(old) as u32;
            if parts.all(|part| good.contains(part)) {
                kept.push((chunk, hash_of(chunk, self.chunk_bytes)?));
            }
        }
        Ok(kept)
    }

    /// The hash of its only chunk, if an earlier run may have written all of it. If it cannot be read, it has not.
    pub(super) fn left(&self) -> Result<Option<ChunkHash>, FileError> {
        let is_whole = self.size > 0
            && self.object.kind == Kind::File
            && self.file.metadata().is_ok_and(|file| file.len() == self.size);
        let hash = is_whole.then(|| self.hash_of(0, self.chunk_bytes, &mut vec![0; READ_BYTES]));
        match hash.transpose() {
            Err(_) if !self.stop.load(Ordering::Relaxed) => Ok(None),
            hash => hash,
        }
    }

    /// The hash of a chunk, as it is in the file now.
    fn hash_of(
        &self,
        chunk: u32,
        chunk_bytes: ChunkBytes,
        buffer: &mut [u8],
    ) -> Result<ChunkHash, FileError> {
        if self.stop.load(Ordering::Relaxed) {
            let stopped = io::ErrorKind::Interrupted.into();
            return Err(self.failed("check the partial file of", 0)(stopped));
        }
        ChunkHash::of_file(chunk, (chunk_bytes, self.size), self.file, buffer)
            .map_err(self.failed("read the partial file of", 0))
    }

    /// Takes room for all of it at once: a full disk shows now, not after hours.
    pub(super) fn make_room(&self) -> Result<(), FileError> {
        let size = self.size;
        let failed = || self.failed("make room for", size);
        self.file.set_len(0).map_err(failed())?;
        if size == 0 {
            return Ok(());
        }
        // The room that it takes is not known.
        if self.object.has_holes {
            return self.file.set_len(size).map_err(failed());
        }
        match rustix::fs::fallocate(self.file, FallocateFlags::empty(), 0, size) {
            Ok(()) => Ok(()),
            // A file system that cannot: room is found out as it is written.
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => self.file.set_len(size).map_err(failed()),
            Err(error) => {
                // Nothing was received: nothing is left behind.
                remove(self.folder, &self.object.name, true).map_err(io::Error::from).ok();
                Err(failed()(error.into()))
            }
        }
    }

    fn failed(&self, doing: &'static str, bytes: u64) -> impl FnOnce(io::Error) -> FileError {
        let path = self.path.to_path_buf();
        move |error| FileError::of(error, doing, &path, bytes)
    }
}

impl Journal {
    fn new(file: File, part: &Arc<File>, header: Header, end: u64) -> Self {
        let file = Arc::new(file);
        let flush = Flush::new(Arc::clone(part), Arc::clone(&file));
        Self { file, header, end, unflushed: 0, flush }
    }

    pub(super) fn append(&mut self, chunk: u32, hash: &ChunkHash) -> io::Result<()> {
        self.file.write_all_at(&self.header.record(chunk, hash), self.end)?;
        self.end += RECORD_BYTES as u64;
        Ok(())
    }

    /// Puts these and nothing else into the journal. The one that is there stays until the new one is
    /// whole.
    fn rewrite(&mut self, of: &Partial<'_>, chunks: &[(u32, ChunkHash)]) -> io::Result<()> {
        let mut bytes = self.header.as_bytes().to_vec();
        for (chunk, hash) in chunks {
            bytes.extend(self.header.record(*chunk, hash));
        }
        let (name, new) = (of.object.name.beside(JOURNAL), of.object.name.beside(NEW_JOURNAL));
        if self.end > 0 {
            let file = open_to_write(of.folder, &new)?;
            file.set_len(0)?;
            file.write_all_at(&bytes, 0)?;
            rustix::fs::renameat(of.folder, &new, of.folder, &name)?;
            *self = Self::new(file, of.file, self.header.clone(), 0);
        } else {
            self.file.write_all_at(&bytes, 0)?;
        }
        self.end = bytes.len() as u64;
        Ok(())
    }
}

/// Opens a file of ours: no link, and nothing else that may be there ([`Errno::LOOP`]).
pub(super) fn open(folder: &OwnedFd, name: &str, access: OFlags) -> io::Result<File> {
    // Opening a pipe must not wait for its other end.
    let flags = access | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = rustix::fs::openat(folder, name, flags, Mode::from_raw_mode(PARTIAL_MODE))?;
    let stat = rustix::fs::fstat(&file)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(Errno::LOOP.into());
    }
    Ok(File::from(file))
}

/// Opens a journal to be written, under the lock of its partial file. One that has another name, of a copy by hard links
/// perhaps, loses this one, and a new file is made.
fn open_to_write(folder: &OwnedFd, name: &str) -> io::Result<File> {
    for _ in 0..MAX_TRIES {
        let file = open(folder, name, MAKE)?;
        if file.metadata()?.nlink() <= 1 {
            return Ok(file);
        }
        unlink(folder, name)?;
    }
    Err(Errno::MLINK.into())
}

/// Removes a name; a missing one is not an error.
pub(super) fn unlink(folder: &OwnedFd, name: &str) -> rustix::io::Result<()> {
    match rustix::fs::unlinkat(folder, name, AtFlags::empty()) {
        Err(Errno::NOENT) => Ok(()),
        result => result,
    }
}

/// Opens the partial file for this process alone. One that has another name, too, is left under that, and a new one made:
/// only under the lock, as it may be another receiver's. So is its mode changed: a process was killed when it had that of
/// the sender's file, and not its name yet.
pub(super) fn lock(folder: &OwnedFd, path: &Path, name: &str) -> Result<File, FileError> {
    let failed = || FileError::at("open the partial file of", path);
    for _ in 0..MAX_TRIES {
        let opened = open(folder, name, MAKE);
        // Not every mode lets its owner do both.
        let (opened, denied) = match opened {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                let part = open(folder, name, OFlags::RDONLY);
                match part.or_else(|_| open(folder, name, OFlags::WRONLY)) {
                    Ok(part) => (Ok(part), Some(error)),
                    Err(_) => (Err(error), None),
                }
            }
            opened => (opened, None),
        };
        let file = unblocked(opened, &path.with_file_name(name))?.map_err(failed())?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => break,
            Err(error) => return Err(failed()(io::Error::from(error))),
        }
        // Its previous owner may just have given it its final name.
        let ours = rustix::fs::fstat(&file).map_err(|error| failed()(io::Error::from(error)))?;
        let named = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW);
        if !named.is_ok_and(|named| (named.st_dev, named.st_ino) == (ours.st_dev, ours.st_ino)) {
            continue;
        }
        if ours.st_nlink > 1 {
            unlink(folder, name).map_err(|error| failed()(error.into()))?;
            continue;
        }
        let mode = Mode::from_raw_mode(PARTIAL_MODE);
        let changed = match Mode::from_raw_mode(ours.st_mode) == mode {
            true => Ok(()),
            false => rustix::fs::fchmod(&file, mode),
        };
        match (denied, changed) {
            (None, _) => return Ok(file),
            // It can be opened now.
            (Some(_), Ok(())) => {}
            (Some(denied), Err(_)) => return Err(failed()(denied)),
        }
    }
    Err(FileError::Locked { path: path.with_file_name(name) })
}

/// Gives the error of a link, a folder or something else that is no file and has the name, and leaves others.
pub(super) fn unblocked<T>(opened: io::Result<T>, path: &Path) -> Result<io::Result<T>, FileError> {
    let errno = opened.as_ref().err().and_then(io::Error::raw_os_error);
    match errno.map(Errno::from_raw_os_error) {
        Some(Errno::LOOP | Errno::ISDIR | Errno::NXIO) => {
            Err(FileError::InTheWay { path: path.into() })
        }
        _ => Ok(opened),
    }
}

/// Removes the journal, and with `part` the partial file too; a missing file is not an error.
pub(super) fn remove(folder: &OwnedFd, name: &Name, part: bool) -> rustix::io::Result<()> {
    let gone = |name: &str| unlink(folder, name);
    let removed = if part { gone(&name.beside(PART)) } else { Ok(()) };
    removed.and(gone(&name.beside(JOURNAL))).and(gone(&name.beside(NEW_JOURNAL)))
}

/// Removes the partial file of an object, which is there, and the journal, if no process works on it and it is not of
/// another version of the object.
pub(super) fn remove_unused(
    folder: &OwnedFd,
    path: &Path,
    (object, chunk_bytes): (&Object, ChunkBytes),
) -> Result<(), FileError> {
    let (name, size) = (&object.name, object.size.unwrap_or(0));
    let [part, journal] = [PART, JOURNAL].map(|kind| name.beside(kind));
    let _locked = lock(folder, path, &part)?;
    let mut bytes = Vec::new();
    if let Ok(journal) = open(folder, &journal, OFlags::RDONLY) {
        let _read = journal.take(HEADER_BYTES as u64).read_to_end(&mut bytes);
    }
    let header = Header::new(object, size, chunk_bytes);
    if !bytes.is_empty() && header.read(&bytes, size).is_none() {
        return Ok(());
    }
    remove(folder, name, true)
        .map_err(|error| FileError::of(error, "remove the partial file of", path, 0))
}
