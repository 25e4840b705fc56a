//! A file that appears when it is complete.
//!
//! Until then its bytes are in `.NAME.linecard-part` beside it, at their places, and `.NAME.linecard-journal` says
//! which chunks are complete. However the process ends, the next one reads those again, and keeps the ones whose hash
//! is right. At the end the hash of all chunks is compared with the sender's, and the file takes its name in one step.
//! A file of one chunk has no journal: as it was left, it counts if its hash is the sender's. A pipe, whose length is
//! unknown, starts again.

use super::digest::{ChunkHasher, STEP_BYTES};
use super::dress::{self, dress};
use super::flusher::{FLUSH_BYTES, Flusher};
use super::journal::RECORD_BYTES;
use super::name::{DAMAGED, LINK, PART};
use super::partial::{Journal, PARTIAL_MODE, Partial, lock, remove};
use super::{ChunkBytes, ChunkHash, FileError, FileId, Have, Kind, Object, Tree, holes, link};
use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, RenameFlags};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Files of at most this many bytes are not preallocated.
pub(crate) const SMALL_BYTES: u64 = 1 << 20;

/// An object that is being received. Chunks may be written by several threads.
#[derive(Debug)]
pub struct Sink {
    folder: Arc<OwnedFd>,
    /// Its final path.
    path: PathBuf,
    object: Object,
    chunk_bytes: ChunkBytes,
    overwrite: bool,
    links_out: bool,
    /// Locked as long as it is open.
    file: Arc<File>,
    /// None where no other thread writes data to the disk.
    flusher: Option<Flusher>,
    state: Mutex<State>,
}

/// Common state of the sinks of one folder.
#[derive(Debug, Clone, Copy)]
pub(super) struct Setup<'a> {
    pub(super) chunk_bytes: ChunkBytes,
    pub(super) overwrite: bool,
    /// Links are made that lead out of the folder that was sent.
    pub(super) links_out: bool,
    pub(super) flusher: Option<&'a Flusher>,
    pub(super) stop: &'a AtomicBool,
}

#[derive(Debug)]
struct State {
    size: Option<u64>,
    have: Have,
    tree: Tree,
    journal: Option<Journal>,
    /// A partial file of one chunk that an earlier run has left, as long as the object: it is whole or not.
    left: Option<ChunkHash>,
}

impl Sink {
    pub(super) fn open(
        folder: Arc<OwnedFd>,
        path: PathBuf,
        object: &Object,
        setup: Setup<'_>,
    ) -> Result<Self, FileError> {
        let Setup { chunk_bytes, overwrite, links_out, .. } = setup;
        let size = if object.kind == Kind::Stream { None } else { object.size };
        let count = chunk_bytes.count(size.unwrap_or(0))?;
        refuse_existing(&folder, &path, object, overwrite)?;
        let file = Arc::new(lock(&folder, &path, &object.name.beside(PART))?);
        let (have, tree) = (Have::default(), Tree::new(chunk_bytes));
        let state = Mutex::new(State { size, have, tree, journal: None, left: None });
        let (object, flusher) = (object.clone(), setup.flusher.cloned());
        let sink =
            Self { folder, path, object, chunk_bytes, overwrite, links_out, file, flusher, state };
        // The new name of a link, of a process that was killed before it gave it this one.
        let _kept =
            rustix::fs::unlinkat(&*sink.folder, sink.object.name.beside(LINK), AtFlags::empty());
        let goes_on = size.is_some() && count > 1;
        if !goes_on && sink.file.metadata().is_ok_and(|part| part.len() > 0) {
            // An earlier run with shorter chunks may have left its journal.
            let failed = sink.failed("remove the journal of", 0);
            remove(&sink.folder, &sink.object.name, false).map_err(|error| failed(error.into()))?;
        }
        match size {
            Some(size) if goes_on => sink.go_on(size, setup.stop)?,
            size => {
                let left = size.map(|size| sink.partial(size, setup.stop).left()).transpose()?;
                match left.flatten() {
                    Some(left) => sink.state().left = Some(left),
                    None => sink.empty(size)?,
                }
            }
        }
        Ok(sink)
    }

    /// Empties the partial file of a pipe, or of one chunk.
    fn empty(&self, size: Option<u64>) -> Result<(), FileError> {
        match size {
            Some(size) if size > SMALL_BYTES => {
                let never = AtomicBool::new(false);
                self.partial(size, &never).make_room()
            }
            _ => self.file.set_len(0).map_err(self.failed("empty the partial file of", 0)),
        }
    }

    /// Where it will be.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The object being received.
    pub(crate) const fn object(&self) -> &Object {
        &self.object
    }

    /// Chunks that are whole, those of an earlier run included: they need not be sent.
    #[must_use]
    pub fn have(&self) -> Have {
        self.state().have.clone()
    }

    /// The hash of a partial file of one chunk that an earlier run has left. If it is the sender's, nothing needs to be sent.
    /// No sender may be told of it: only those that have the data know it.
    #[must_use]
    pub fn left(&self) -> Option<blake3::Hash> {
        self.state().left.map(|left| left.alone.into())
    }

    /// Writes a complete chunk and records it as stored. One that is stored already is not changed.
    ///
    /// # Errors
    ///
    /// [`FileError::Chunk`] if it is none of this object, [`FileError::DiskFull`], and what the system
    /// says: the chunk is not there then, and may be written again.
    pub fn write(&self, chunk: u32, bytes: &[u8]) -> Result<ChunkHash, FileError> {
        if self.expect(chunk, bytes.len())? {
            return Ok(ChunkHash::of(chunk, self.chunk_bytes, bytes));
        }
        if self.state().left.take().is_some() {
            // Holes of the object would show it.
            self.empty(Some(bytes.len() as u64))?;
        }
        let failed = self.failed("write the partial file of", bytes.len() as u64);
        let mut hasher = ChunkHasher::new(chunk, self.chunk_bytes);
        let mut start = self.chunk_bytes.start(chunk);
        let written = bytes.chunks(STEP_BYTES).try_for_each(|step| {
            hasher.update(step);
            match self.object.has_holes {
                true => holes::write(&self.file, step, start),
                false => self.file.write_all_at(step, start),
            }?;
            start += step.len() as u64;
            Ok(())
        });
        if let Err(error) = written {
            if self.state().journal.is_none() {
                // There is nothing to resume.
                let _kept = remove(&self.folder, &self.object.name, true);
            }
            return Err(failed(error));
        }
        let hash = hasher.finish();
        self.remember(chunk, &hash)?;
        Ok(hash)
    }

    /// Writes some bytes of a pipe at their place.
    pub(super) fn write_some(&self, bytes: &[u8], at: u64) -> io::Result<usize> {
        self.file.write_at(bytes, at)
    }

    /// Says where a pipe ends, which was written in order and is what was sent.
    pub(super) fn end_at(&self, size: u64) {
        self.state().size = Some(size);
    }

    /// Compares the hash of all with `expected`, and lets the file appear under its name.
    ///
    /// # Errors
    ///
    /// [`FileError::NotWhole`]; [`FileError::Damaged`], what arrived being kept apart then;
    /// [`FileError::Exists`] if something has appeared there; what the system says.
    pub fn finish(self, expected: &blake3::Hash) -> Result<(), FileError> {
        self.verify(expected)?;
        Self::appear_all(&[self]).into_iter().collect()
    }

    /// Whether it is whole, and what was sent.
    pub(crate) fn verify(&self, expected: &blake3::Hash) -> Result<(), FileError> {
        let size = self.state().size;
        let Some(size) = size else { return Err(self.not_whole(0)) };
        let count = self.chunk_bytes.count(size)?;
        self.accept_left(expected);
        let missing: u32 = self.state().have.missing(count).map(|gap| gap.end - gap.start).sum();
        // None while chunks are missing.
        let root = self.state().tree.root(size)?;
        match root {
            Some(root) if root == *expected => Ok(()),
            Some(_) => Err(self.set_aside()),
            None => Err(self.not_whole(missing)),
        }
    }

    /// Takes what an earlier run has left for the only chunk, if it is what was sent.
    fn accept_left(&self, expected: &blake3::Hash) {
        let mut state = self.state();
        if let Some(left) = state.left.filter(|left| left.alone == *expected.as_bytes()) {
            state.have.insert(0);
            state.tree.set(0, &left);
        }
    }

    /// Lets files appear that have been verified, each only after all of it is on the disk. Together they
    /// cost fewer waits for the disk: a folder is synchronised once for all that have appeared in it.
    pub(crate) fn appear_all(sinks: &[Self]) -> Vec<Result<(), FileError>> {
        let mut results: Vec<_> = sinks.iter().map(|sink| sink.complete()).collect();
        for (sink, result) in sinks.iter().zip(&mut results) {
            if result.is_ok() {
                *result = sink.sync();
            }
        }
        for (sink, result) in sinks.iter().zip(&mut results) {
            if result.is_ok() {
                *result = sink.rename();
            }
        }
        let mut synced: Vec<&Arc<OwnedFd>> = Vec::new();
        for (sink, result) in sinks.iter().zip(&mut results) {
            if result.is_ok() && !synced.iter().any(|folder| Arc::ptr_eq(folder, &sink.folder)) {
                *result = sink.sync_folder();
                synced.push(&sink.folder);
            }
            if result.is_ok() && sink.state().journal.is_some() {
                *result = remove(&sink.folder, &sink.object.name, false)
                    .map_err(|error| sink.failed("remove the journal of", 0)(error.into()));
            }
        }
        results
    }

    /// Discards the partial file: the existing file of this name equals the sent one.
    pub(crate) fn discard(self) -> Result<(), FileError> {
        remove(&self.folder, &self.object.name, true)
            .map_err(|error| self.failed("remove the partial file of", 0)(error.into()))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A thread that ended in the middle has left a chunk that does not count.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn partial<'a>(&'a self, size: u64, stop: &'a AtomicBool) -> Partial<'a> {
        Partial {
            folder: &self.folder,
            path: &self.path,
            object: &self.object,
            file: &self.file,
            size,
            chunk_bytes: self.chunk_bytes,
            stop,
        }
    }

    fn go_on(&self, size: u64, stop: &AtomicBool) -> Result<(), FileError> {
        let (journal, chunks) = self.partial(size, stop).go_on()?;
        let mut state = self.state();
        for (chunk, hash) in &chunks {
            state.have.insert(*chunk);
            state.tree.set(*chunk, hash);
        }
        state.journal = Some(journal);
        Ok(())
    }

    /// Whether a chunk of this object is stored already.
    fn expect(&self, chunk: u32, bytes: usize) -> Result<bool, FileError> {
        let state = self.state();
        let fits = match state.size {
            Some(size) => {
                let range = self.chunk_bytes.range(chunk, size);
                !range.is_empty() && range.end - range.start == bytes as u64
            }
            // A pipe has no chunks in other places than behind each other.
            None => false,
        };
        if !fits {
            return Err(FileError::Chunk { path: self.path.clone(), chunk, bytes });
        }
        Ok(state.have.contains(chunk))
    }

    /// Only what the journal has counts: it is written first. It may say so before the chunk is on the disk, since a
    /// resumed transfer reads the chunk again.
    fn remember(&self, chunk: u32, hash: &ChunkHash) -> Result<(), FileError> {
        let mut state = self.state();
        let range = self.chunk_bytes.range(chunk, state.size.unwrap_or(0));
        let mut due = None;
        if let Some(journal) = &mut state.journal {
            let failed = self.failed("write the journal of", RECORD_BYTES as u64);
            journal.append(chunk, hash).map_err(failed)?;
            journal.flush.check(&self.path)?;
            journal.unflushed += range.end - range.start;
            if journal.unflushed >= FLUSH_BYTES {
                journal.unflushed = 0;
                due = Some(journal.flush.clone());
            }
        }
        state.have.insert(chunk);
        state.tree.set(chunk, hash);
        drop(state);
        match (due, &self.flusher) {
            (Some(flush), Some(flusher)) => flusher.request(flush),
            (Some(flush), None) => flush.run(),
            (None, _) => {}
        }
        Ok(())
    }

    /// Gives the file its length, mode and time, and starts to write it to the disk, without waiting: files that
    /// are being written when the first of them is synchronised share its commit of the file system.
    fn complete(&self) -> Result<(), FileError> {
        let size = self.state().size.unwrap_or(0);
        // Longer only if a chunk of a pipe was not written to its end.
        self.file.set_len(size).map_err(self.failed("complete", size))?;
        // It can be opened again if this process is killed before the file has its name.
        let mode = self.object.mode | PARTIAL_MODE;
        dress(&*self.file, mode, self.object.modified)
            .map_err(|error| self.failed("set mode and time of", 0)(error.into()))?;
        // Advice: dirty pages are queued for writing, and `sync` waits for them. Errors show there.
        let _advised = rustix::fs::fadvise(&*self.file, 0, None, rustix::fs::Advice::DontNeed);
        Ok(())
    }

    /// Waits until the file is on the disk.
    fn sync(&self) -> Result<(), FileError> {
        let size = self.state().size.unwrap_or(0);
        self.file.sync_all().map_err(self.failed("write to the disk", size))?;
        // The system reports an error of a flush only once.
        self.state().journal.as_ref().map_or(Ok(()), |journal| journal.flush.check(&self.path))
    }

    fn sync_folder(&self) -> Result<(), FileError> {
        rustix::fs::fsync(&*self.folder)
            .map_err(|error| self.failed("write to the disk the folder of", 0)(error.into()))
    }

    fn rename(&self) -> Result<(), FileError> {
        if self.object.kind != Kind::Link {
            let mode = dress::left_of(self.object.mode);
            if !mode.contains(Mode::RUSR | Mode::WUSR) {
                rustix::fs::fchmod(&*self.file, mode)
                    .map_err(|error| self.failed("set mode and time of", 0)(error.into()))?;
            }
            return self.rename_from(&self.object.name.beside(PART), "rename the partial file to");
        }
        let new = self.object.name.beside(LINK);
        let made = self.link(&new).and_then(|()| self.rename_from(&new, "rename the new link to"));
        if made.is_err() {
            let _removed = rustix::fs::unlinkat(&*self.folder, &new, AtFlags::empty());
        }
        // There is nothing to resume, whether or not it was made.
        let removed = remove(&self.folder, &self.object.name, true)
            .map_err(|error| self.failed("remove the partial file of", 0)(error.into()));
        made.and(removed)
    }

    /// Renames `part` to its final name.
    fn rename_from(&self, part: &str, doing: &'static str) -> Result<(), FileError> {
        let renaming = (self.overwrite, doing);
        rename_new((&self.folder, part), (&self.object, &self.path), renaming)
    }

    /// The file of the data, whatever its name.
    pub(crate) fn id(&self) -> Option<FileId> {
        FileId::of(&*self.file).ok()
    }

    /// Makes the link whose target the partial file has, under another name.
    fn link(&self, new: &str) -> Result<(), FileError> {
        let mut target = Vec::new();
        let file = &*self.file;
        let size = file.metadata().map_or(0, |metadata| metadata.len()).min(SMALL_BYTES);
        target.resize(size as usize, 0);
        file.read_exact_at(&mut target, 0).map_err(self.failed("read the partial file of", 0))?;
        link::make(&self.folder, new, (&self.object, &self.path), (&target, self.links_out))
    }

    /// Keeps received data that differs from the sent data, where no transfer resumes it.
    pub(super) fn set_aside(&self) -> FileError {
        let (part, name) = (self.object.name.beside(PART), self.object.name.beside(DAMAGED));
        let kept = self.path.with_file_name(&name);
        let renamed = rustix::fs::renameat(&*self.folder, &part, &*self.folder, &name);
        if let Err(error) = renamed.and_then(|()| remove(&self.folder, &self.object.name, false)) {
            return self.failed("set aside the damaged", 0)(error.into());
        }
        FileError::Damaged { path: self.path.clone(), kept }
    }

    fn not_whole(&self, missing: u32) -> FileError {
        FileError::NotWhole { path: self.path.clone(), missing }
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
        let _unlocked = rustix::fs::flock(&*self.file, FlockOperation::Unlock);
    }
}

/// Renames a file of another name to the final one of an object.
pub(super) fn rename_new(
    (folder, new): (&OwnedFd, &str),
    (object, path): (&Object, &Path),
    (overwrite, doing): (bool, &'static str),
) -> Result<(), FileError> {
    let (_, last) = object.name.split();
    let failed = |error: Errno| FileError::of(error, doing, path, 0);
    if overwrite {
        return rustix::fs::renameat(folder, new, folder, last).map_err(failed);
    }
    match rustix::fs::renameat_with(folder, new, folder, last, RenameFlags::NOREPLACE) {
        Err(Errno::EXIST) => Err(FileError::Exists { path: path.into() }),
        // A file system that cannot do both in one step.
        Err(Errno::INVAL | Errno::NOSYS) => {
            refuse_existing(folder, path, object, false)?;
            rustix::fs::renameat(folder, new, folder, last).map_err(failed)
        }
        result => result.map_err(failed),
    }
}

/// Existing files are not touched, unless the user says so; folders never are.
pub(super) fn refuse_existing(
    folder: &OwnedFd,
    path: &Path,
    object: &Object,
    overwrite: bool,
) -> Result<(), FileError> {
    let (_, last): (_, &OsStr) = object.name.split();
    match rustix::fs::statat(folder, last, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(FileError::of(error, "look for", path, 0)),
        Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::Directory => {
            Err(FileError::IsFolder { path: path.into() })
        }
        Ok(_) if overwrite => Ok(()),
        Ok(_) => Err(FileError::Exists { path: path.into() }),
    }
}

#[cfg(test)]
mod tests {
    use super::super::flusher::Flush;
    use super::super::{Folder, Stamp};
    use super::*;
    use rustix::fs::{Mode, OFlags};
    use std::fs;

    /// A quarter of the bytes between flushes.
    const CHUNK_BYTES: u64 = FLUSH_BYTES / 4;

    /// Holes, so that they take no room.
    fn object(name: &str, chunks: u64) -> Object {
        let modified = Stamp { secs: 1_000_000_000, ns: 7 };
        let file = Object::file(name, chunks * CHUNK_BYTES);
        Object { has_holes: true, mode: 0o640, modified, ..file }
    }

    fn chunk_bytes() -> ChunkBytes {
        ChunkBytes::new(CHUNK_BYTES).unwrap()
    }

    fn open(folder: &Path, object: &Object) -> Result<Sink, FileError> {
        Folder::open(folder).unwrap().sink(object, chunk_bytes(), false)
    }

    fn listing(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    /// The next flushes of this sink fail: the system refuses to synchronise a pipe.
    fn fail_flushes(sink: &Sink) {
        let (pipe, _) = io::pipe().unwrap();
        let pipe = Arc::new(File::from(OwnedFd::from(pipe)));
        sink.state().journal.as_mut().unwrap().flush = Flush::new(Arc::clone(&pipe), pipe);
    }

    #[test]
    fn every_fourth_chunk_is_flushed_and_an_error_refuses_the_next_one() {
        let at = tempfile::tempdir().unwrap();
        let sink = open(at.path(), &object("a", 9)).unwrap();
        fail_flushes(&sink);
        let zeros = vec![0; CHUNK_BYTES as usize];
        let refused: Vec<u32> = [0, 1, 2, 3, 4, 4, 5, 6, 7, 8]
            .into_iter()
            .filter(|&chunk| sink.write(chunk, &zeros).is_err())
            .collect();
        assert_eq!(refused, [4, 8]);
        assert_eq!(sink.have(), Have::all(8), "chunk 4 came twice, and 8 is missing");
    }

    #[test]
    fn a_file_whose_last_flush_failed_does_not_appear() {
        let at = tempfile::tempdir().unwrap();
        let sink = open(at.path(), &object("a", 4)).unwrap();
        fail_flushes(&sink);
        let zeros = vec![0; CHUNK_BYTES as usize];
        for chunk in 0..4 {
            sink.write(chunk, &zeros).unwrap();
        }
        let hash = blake3::hash(&vec![0; 4 * CHUNK_BYTES as usize]);
        let error = sink.finish(&hash).unwrap_err().to_string();
        assert!(error.contains("write to the disk"), "{error}");
        assert!(!at.path().join("a").exists());
        // The chunks are there: the next run needs nothing but the end.
        let again = open(at.path(), &object("a", 4)).unwrap();
        assert_eq!(again.have(), Have::all(4));
        again.finish(&hash).unwrap();
        assert_eq!(listing(at.path()), ["a"]);
    }

    /// A folder that only names are looked up in: the system refuses to synchronise it.
    #[test]
    fn a_name_that_did_not_reach_the_disk_is_an_error() {
        let at = tempfile::tempdir().unwrap();
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::openat(rustix::fs::CWD, at.path(), flags, Mode::empty()).unwrap();
        let folder = Arc::new(folder);
        let stop = AtomicBool::new(false);
        let setup = Setup {
            chunk_bytes: chunk_bytes(),
            overwrite: false,
            links_out: false,
            flusher: None,
            stop: &stop,
        };
        let empty = |name: &str| {
            let path = at.path().join(name);
            Sink::open(Arc::clone(&folder), path, &object(name, 0), setup).unwrap()
        };
        let sinks = [empty("a"), empty("b"), empty("c")];
        fs::write(at.path().join("a"), "mine").unwrap();
        let results = Sink::appear_all(&sinks);
        assert!(matches!(results[0], Err(FileError::Exists { .. })), "{results:?}");
        // One call for the folder of both.
        let error = results[1].as_ref().unwrap_err().to_string();
        assert!(error.contains("the folder of") && error.contains("/b"), "{error}");
        assert!(results[2].is_ok(), "{results:?}");
    }

    #[test]
    fn a_file_that_cannot_appear_can_still_be_resumed() {
        let at = tempfile::tempdir().unwrap();
        let object = object("a", 2);
        let sink = open(at.path(), &object).unwrap();
        let zeros = vec![0; CHUNK_BYTES as usize];
        for chunk in 0..2 {
            sink.write(chunk, &zeros).unwrap();
        }
        fs::write(at.path().join("a"), "mine").unwrap();
        let refused = sink.finish(&blake3::hash(&vec![0; 2 * CHUNK_BYTES as usize]));
        assert!(matches!(refused, Err(FileError::Exists { .. })), "{refused:?}");
        fs::remove_file(at.path().join("a")).unwrap();
        assert_eq!(open(at.path(), &object).unwrap().have(), Have::all(2));
    }

    #[test]
    fn nothing_is_left_of_what_is_discarded() {
        let at = tempfile::tempdir().unwrap();
        let object = object("a", 2);
        let sink = open(at.path(), &object).unwrap();
        assert_eq!((sink.path(), sink.object()), (&*at.path().join("a"), &object));
        sink.write(1, &vec![0; CHUNK_BYTES as usize]).unwrap();
        sink.discard().unwrap();
        assert!(listing(at.path()).is_empty());
    }

    /// As for a moment in a program that is being started.
    #[test]
    fn a_sink_that_is_gone_locks_nothing_though_its_file_is_still_open() {
        let at = tempfile::tempdir().unwrap();
        let sink = open(at.path(), &object("a", 1)).unwrap();
        let copy = sink.file.try_clone().unwrap();
        let locked = open(at.path(), &object("a", 1));
        assert!(matches!(locked, Err(FileError::Locked { .. })), "{locked:?}");
        drop(sink);
        open(at.path(), &object("a", 1)).unwrap();
        drop(copy);
    }

    #[test]
    fn only_a_single_chunk_that_is_large_has_its_room_at_once() {
        let at = tempfile::tempdir().unwrap();
        let larger = SMALL_BYTES + 1;
        for (size, room) in [(1, 0), (SMALL_BYTES, 0), (larger, larger)] {
            let name = format!("file{size}");
            let small = Object { size: Some(size), ..object(&name, 1) };
            let sink = open(at.path(), &small).unwrap();
            assert_eq!(sink.file.metadata().unwrap().len(), room, "{size}");
            // There is nothing to resume.
            assert_eq!(listing(at.path()), [format!(".{name}.linecard-part")]);
            sink.discard().unwrap();
        }
    }
}
