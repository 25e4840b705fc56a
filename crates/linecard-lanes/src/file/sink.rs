//! A file that appears when it is whole.
//!
//! Until then its bytes are in `.NAME.linecard-part` beside it, at their places, and
//! `.NAME.linecard-journal` says which chunks are whole. Whatever kills the process, the next one goes on
//! with those. At the end the hash of all chunks is compared with the sender's, and the file takes its
//! name in one step. A stream, whose length nobody knows, has no journal and starts anew.

use super::folder::dress;
use super::journal::{self, HEADER_BYTES, Header, RECORD_BYTES};
use super::name::{DAMAGED, JOURNAL, PART};
use super::{ChunkBytes, ChunkHash, FileError, Have, Kind, MAX_CHUNKS, Object, Tree};
use rustix::fs::{AtFlags, FallocateFlags, FileType, FlockOperation, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Nobody but the user reads what is not whole yet.
const PARTIAL_MODE: u32 = 0o600;
/// How often a partial file may disappear between opening and locking it.
const MAX_TRIES: usize = 8;

/// An object that is being received. Chunks may be written by several threads.
#[derive(Debug)]
pub struct Sink {
    folder: OwnedFd,
    /// What it will be.
    path: PathBuf,
    object: Object,
    chunk_bytes: ChunkBytes,
    overwrite: bool,
    /// Locked as long as it is open.
    file: File,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    size: Option<u64>,
    have: Have,
    tree: Tree,
    journal: Option<Journal>,
}

/// The journal of an object of known size.
#[derive(Debug)]
struct Journal {
    file: File,
    header: Header,
    /// Where the next record goes: behind the last whole one, whatever else was begun there.
    end: u64,
}

impl Sink {
    pub(super) fn open(
        folder: OwnedFd,
        path: PathBuf,
        object: &Object,
        (chunk_bytes, overwrite): (ChunkBytes, bool),
    ) -> Result<Self, FileError> {
        let size = if object.kind == Kind::Stream { None } else { object.size };
        let count = chunk_bytes.count(size.unwrap_or(0))?;
        refuse_existing(&folder, &path, object, overwrite)?;
        let file = lock(&folder, &path, &object.name.beside(PART))?;
        let (have, tree) = (Have::default(), Tree::new(chunk_bytes));
        let state = Mutex::new(State { size, have, tree, journal: None });
        let object = object.clone();
        let sink = Self { folder, path, object, chunk_bytes, overwrite, file, state };
        match size {
            Some(size) => sink.go_on(size, count, &journal::boot())?,
            None => sink.file.set_len(0).map_err(sink.failed("empty the partial file of", 0))?,
        }
        Ok(sink)
    }

    /// Chunks that are whole, those of an earlier run included: they need not be sent.
    #[must_use]
    pub fn have(&self) -> Have {
        self.state().have.clone()
    }

    /// Writes a whole chunk and remembers that it is there. One that is there already stays as it is.
    ///
    /// # Errors
    ///
    /// [`FileError::Chunk`] if it is none of this object, [`FileError::DiskFull`], and what the system
    /// says: the chunk is not there then, and may be written again.
    pub fn write(&self, chunk: u32, bytes: &[u8]) -> Result<ChunkHash, FileError> {
        let is_there = self.expect(chunk, bytes.len())?;
        let hash = ChunkHash::of(chunk, self.chunk_bytes, bytes);
        if is_there {
            return Ok(hash);
        }
        let failed = self.failed("write the partial file of", bytes.len() as u64);
        self.file.write_all_at(bytes, self.chunk_bytes.start(chunk)).map_err(failed)?;
        self.remember(chunk, &hash)?;
        Ok(hash)
    }

    /// Says where a stream ends. A chunk that is shorter than others says the same.
    ///
    /// # Errors
    ///
    /// [`FileError::TooManyChunks`], and [`FileError::Chunk`] if it has been known to end elsewhere.
    pub fn end_at(&self, size: u64) -> Result<(), FileError> {
        let count = self.chunk_bytes.count(size)?;
        let mut state = self.state();
        let known = *state.size.get_or_insert(size);
        // Chunks that came before are all whole ones, but the last.
        let reach = state.have.ranges().last().map_or(0, |range| range.end);
        if known == size && reach <= count {
            return Ok(());
        }
        Err(FileError::Chunk { path: self.path.clone(), chunk: reach.max(1) - 1, bytes: 0 })
    }

    /// Compares the hash of all with `expected`, and lets the file appear under its name.
    ///
    /// # Errors
    ///
    /// [`FileError::NotWhole`]; [`FileError::Damaged`], what arrived being kept apart then;
    /// [`FileError::Exists`] if something has appeared there; what the system says.
    pub fn finish(self, expected: &blake3::Hash) -> Result<(), FileError> {
        let size = self.state().size;
        let Some(size) = size else { return Err(self.not_whole(0)) };
        let count = self.chunk_bytes.count(size)?;
        let missing: u32 = self.state().have.missing(count).map(|gap| gap.end - gap.start).sum();
        let root = self.state().tree.root(size)?;
        match root {
            Some(root) if missing == 0 && root == *expected => self.appear(size),
            Some(_) if missing == 0 => Err(self.set_aside()),
            _ => Err(self.not_whole(missing)),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A thread that ended in the middle has left a chunk that does not count.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes what an earlier run has left of this object, or makes room for all of it.
    fn go_on(&self, size: u64, count: u32, boot: &journal::Boot) -> Result<(), FileError> {
        let header = Header::new(&self.object, size, self.chunk_bytes, boot);
        let name = self.object.name.beside(JOURNAL);
        let failed = || self.failed("open the journal of", HEADER_BYTES as u64);
        let file = open(&self.folder, &name, OFlags::RDWR).map_err(failed())?;
        let mut bytes = Vec::new();
        (&file).take(journal::longest(count)).read_to_end(&mut bytes).map_err(failed())?;
        let length = self.file.metadata().map_err(failed())?.len();
        let found = header.read(&bytes, count).filter(|_| length == size);
        let is_clean = found.as_ref().is_some_and(|found| found.is_clean && found.is_same_boot);
        let mut chunks = match found {
            Some(found) if found.is_same_boot => found.chunks,
            Some(found) => self.checked(size, found.chunks)?,
            None => Vec::new(),
        };
        // The later of two records of a chunk is as good as the first.
        let mut have = Have::default();
        chunks.retain(|(chunk, _)| have.insert(*chunk));
        let mut journal = Journal { file, header, end: bytes.len() as u64 };
        if !is_clean {
            journal.file.set_len(0).map_err(failed())?;
            if chunks.is_empty() {
                self.make_room(size)?;
            }
            journal.rewrite(&chunks).map_err(failed())?;
        }
        let mut state = self.state();
        for (chunk, hash) in &chunks {
            state.tree.set(*chunk, hash);
        }
        state.have = have;
        state.journal = Some(journal);
        Ok(())
    }

    /// The chunks whose bytes still have the hash that was written down.
    fn checked(
        &self,
        size: u64,
        mut chunks: Vec<(u32, ChunkHash)>,
    ) -> Result<Vec<(u32, ChunkHash)>, FileError> {
        let longest = usize::try_from(self.chunk_bytes.bytes().min(size)).unwrap_or(0);
        let mut buffer = vec![0; longest];
        let mut result = Ok(());
        chunks.retain(|(chunk, hash)| {
            let range = self.chunk_bytes.range(*chunk, size);
            let bytes = &mut buffer[..(range.end - range.start) as usize];
            if let Err(error) = self.file.read_exact_at(bytes, range.start) {
                result = Err(self.failed("read the partial file of", 0)(error));
                return false;
            }
            ChunkHash::of(*chunk, self.chunk_bytes, bytes) == *hash
        });
        result.map(|()| chunks)
    }

    /// Takes room for all of it at once: a full disk shows now, not after hours.
    fn make_room(&self, size: u64) -> Result<(), FileError> {
        let failed = || self.failed("make room for", size);
        self.file.set_len(0).map_err(failed())?;
        if size == 0 {
            return Ok(());
        }
        match rustix::fs::fallocate(&self.file, FallocateFlags::empty(), 0, size) {
            Ok(()) => Ok(()),
            // A file system that cannot: room is found out as it is written.
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => self.file.set_len(size).map_err(failed()),
            Err(error) => {
                // Nothing was received: nothing is left behind.
                let _kept = self.unlink(&self.object.name.beside(PART));
                let _kept = self.unlink(&self.object.name.beside(JOURNAL));
                Err(failed()(error.into()))
            }
        }
    }

    /// Whether a chunk is there already, if it is one of this object.
    fn expect(&self, chunk: u32, bytes: usize) -> Result<bool, FileError> {
        let whole = self.chunk_bytes.bytes();
        let mut state = self.state();
        let fits = match state.size {
            Some(size) => {
                let range = self.chunk_bytes.range(chunk, size);
                !range.is_empty() && range.end - range.start == bytes as u64
            }
            None => bytes > 0 && bytes as u64 <= whole && chunk < MAX_CHUNKS,
        };
        if !fits {
            return Err(FileError::Chunk { path: self.path.clone(), chunk, bytes });
        }
        let is_there = state.have.contains(chunk);
        if state.size.is_none() && (bytes as u64) < whole {
            state.size = Some(self.chunk_bytes.start(chunk) + bytes as u64);
        }
        Ok(is_there)
    }

    /// Only what the journal has counts: it is written first.
    fn remember(&self, chunk: u32, hash: &ChunkHash) -> Result<(), FileError> {
        let mut state = self.state();
        if let Some(journal) = &mut state.journal {
            let failed = self.failed("write the journal of", RECORD_BYTES as u64);
            journal.append(chunk, hash).map_err(failed)?;
        }
        state.have.insert(chunk);
        state.tree.set(chunk, hash);
        Ok(())
    }

    fn appear(&self, size: u64) -> Result<(), FileError> {
        let failed = |doing| self.failed(doing, size);
        // Longer only if a chunk of a stream came that turned out to be behind its end.
        self.file.set_len(size).map_err(failed("complete"))?;
        let file = self.file.try_clone().map_err(failed("complete"))?;
        dress(&OwnedFd::from(file), &self.object)
            .map_err(|error| self.failed("set mode and time of", 0)(error.into()))?;
        self.file.sync_all().map_err(failed("write to the disk"))?;
        self.rename()?;
        rustix::fs::fsync(&self.folder)
            .map_err(|error| failed("write to the disk the folder of")(error.into()))?;
        self.unlink(&self.object.name.beside(JOURNAL))
            .map_err(|error| failed("remove the journal of")(error.into()))
    }

    fn rename(&self) -> Result<(), FileError> {
        let part = self.object.name.beside(PART);
        let (_, last) = self.object.name.split();
        let failed = |error: Errno| self.failed("rename the partial file to", 0)(error.into());
        let folder = &self.folder;
        if self.overwrite {
            return rustix::fs::renameat(folder, &part, folder, last).map_err(failed);
        }
        match rustix::fs::renameat_with(folder, &part, folder, last, RenameFlags::NOREPLACE) {
            Err(Errno::EXIST) => Err(FileError::Exists { path: self.path.clone() }),
            // A file system that cannot do both in one step.
            Err(Errno::INVAL | Errno::NOSYS) => {
                refuse_existing(folder, &self.path, &self.object, false)?;
                rustix::fs::renameat(folder, &part, folder, last).map_err(failed)
            }
            result => result.map_err(failed),
        }
    }

    /// Keeps what arrived and is not what was sent, where nobody goes on with it.
    fn set_aside(&self) -> FileError {
        let (part, name) = (self.object.name.beside(PART), self.object.name.beside(DAMAGED));
        let kept = self.path.with_file_name(&name);
        let renamed = rustix::fs::renameat(&self.folder, &part, &self.folder, &name);
        if let Err(error) = renamed.and_then(|()| self.unlink(&self.object.name.beside(JOURNAL))) {
            return self.failed("set aside the damaged", 0)(error.into());
        }
        FileError::Damaged { path: self.path.clone(), kept }
    }

    fn not_whole(&self, missing: u32) -> FileError {
        FileError::NotWhole { path: self.path.clone(), missing }
    }

    fn unlink(&self, name: &str) -> rustix::io::Result<()> {
        match rustix::fs::unlinkat(&self.folder, name, AtFlags::empty()) {
            Err(Errno::NOENT) => Ok(()),
            result => result,
        }
    }

    fn failed(&self, doing: &'static str, bytes: u64) -> impl FnOnce(io::Error) -> FileError {
        let path = self.path.clone();
        move |error| FileError::of(error, doing, &path, bytes)
    }
}

impl Drop for Sink {
    /// A program that is being started holds copies of all descriptors for a moment: closing this one
    /// would leave the file locked.
    fn drop(&mut self) {
        let _unlocked = rustix::fs::flock(&self.file, FlockOperation::Unlock);
    }
}

impl Journal {
    fn append(&mut self, chunk: u32, hash: &ChunkHash) -> io::Result<()> {
        self.file.write_all_at(&self.header.record(chunk, hash), self.end)?;
        self.end += RECORD_BYTES as u64;
        Ok(())
    }

    /// Puts these and nothing else into an empty file.
    fn rewrite(&mut self, chunks: &[(u32, ChunkHash)]) -> io::Result<()> {
        let mut bytes = self.header.as_bytes().to_vec();
        for (chunk, hash) in chunks {
            bytes.extend(self.header.record(*chunk, hash));
        }
        self.end = bytes.len() as u64;
        self.file.write_all_at(&bytes, 0)
    }
}

/// Opens or makes a file of ours: no link, and nothing else that may be there.
fn open(folder: &OwnedFd, name: &str, access: OFlags) -> io::Result<File> {
    // Who opens a pipe must not wait for its other end.
    let flags = access | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = rustix::fs::openat(folder, name, flags, Mode::from_raw_mode(PARTIAL_MODE))?;
    let stat = rustix::fs::fstat(&file)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(io::Error::other("something that is no file has the partial file's name"));
    }
    Ok(File::from(file))
}

/// Opens the partial file for this process alone.
fn lock(folder: &OwnedFd, path: &Path, name: &str) -> Result<File, FileError> {
    let failed = || FileError::at("open the partial file of", path);
    for _ in 0..MAX_TRIES {
        let file = open(folder, name, OFlags::RDWR).map_err(failed())?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => break,
            Err(error) => return Err(failed()(io::Error::from(error))),
        }
        // Who had it before may just have given it its final name.
        let ours = rustix::fs::fstat(&file).map_err(|error| failed()(io::Error::from(error)))?;
        let named = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW);
        if named.is_ok_and(|named| (named.st_dev, named.st_ino) == (ours.st_dev, ours.st_ino)) {
            return Ok(file);
        }
    }
    Err(FileError::Locked { path: path.with_file_name(name) })
}

/// What is there already is not touched, unless the user says so; folders never are.
fn refuse_existing(
    folder: &OwnedFd,
    path: &Path,
    object: &Object,
    overwrite: bool,
) -> Result<(), FileError> {
    let (_, last): (_, &OsStr) = object.name.split();
    match rustix::fs::statat(folder, last, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(FileError::of(error, "look for", path, 0)),
        Ok(stat) if overwrite && FileType::from_raw_mode(stat.st_mode) != FileType::Directory => {
            Ok(())
        }
        Ok(_) => Err(FileError::Exists { path: path.into() }),
    }
}
