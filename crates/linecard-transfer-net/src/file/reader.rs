//! Reading an object chunk by chunk.

use super::bucket::{Bucket, Stored, StoredReader, place};
use super::digest::{ChunkHasher, STEP_BYTES};
use super::{ChunkBytes, ChunkHash, FileError, Kind, Object, Stamp, link};
use rustix::fs::OFlags;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// An object that is open. Chunks of files may be read in any order and by several threads, those of stored objects
/// best in order.
#[derive(Debug)]
pub struct Reader {
    path: PathBuf,
    from: From,
}

#[derive(Debug)]
enum From {
    File { file: File, size: u64, modified: Stamp, inode: u64 },
    Link(Vec<u8>),
    Stored(Mutex<StoredReader>),
}

impl Reader {
    pub(super) fn open(path: PathBuf, object: &Object) -> Result<Self, FileError> {
        if object.kind == Kind::Link {
            let open = OFlags::PATH.union(OFlags::NOFOLLOW).bits().cast_signed();
            let opened = OpenOptions::new().read(true).custom_flags(open).open(&path);
            drop(opened.map_err(FileError::at("read", &path))?);
            let reader = Self { from: From::Link(link::target(&path)), path };
            return match reader.size() == object.size.unwrap_or(0) {
                true => Ok(reader),
                false => Err(reader.changed("it leads elsewhere".into())),
            };
        }
        // A pipe that has taken the file's place must not be waited for.
        let nonblocking = OFlags::NONBLOCK.bits().cast_signed();
        let opened = OpenOptions::new().read(true).custom_flags(nonblocking).open(&path);
        let file = opened.map_err(FileError::at("read", &path))?;
        let metadata = file.metadata().map_err(FileError::at("read", &path))?;
        let size = object.size.unwrap_or(0);
        let from = From::File { file, size, modified: object.modified, inode: metadata.ino() };
        let reader = Self { path, from };
        reader.compare(&metadata)?;
        Ok(reader)
    }

    /// An object of an object store, of which nothing is read yet.
    pub(super) fn of_stored(bucket: &Arc<dyn Bucket>, stored: &Stored) -> Self {
        let path = place(&**bucket, &stored.name);
        let reader = StoredReader::new(Arc::clone(bucket), stored.clone());
        Self { path, from: From::Stored(Mutex::new(reader)) }
    }

    /// Begins to read what is far away, before it is asked for.
    pub(crate) fn begin(&self) {
        if let From::Stored(stored) = &self.from {
            locked(stored).begin();
        }
    }

    /// Reads chunk number `chunk` to the start of `into`; how many bytes, none behind the end.
    ///
    /// # Errors
    ///
    /// [`FileError::Changed`] if a file ends too early, [`FileError::Room`] if `into` is too short,
    /// and what the system says.
    pub fn read(
        &self,
        chunk: u32,
        chunk_bytes: ChunkBytes,
        into: &mut [u8],
    ) -> Result<usize, FileError> {
        match &self.from {
            From::File { file, size, .. } => {
                self.read_file((file, *size), (chunk, chunk_bytes), into, |_| {})
            }
            From::Link(target) => {
                let range = chunk_bytes.range(chunk, target.len() as u64);
                let into = room(into, chunk, range.end - range.start)?;
                // A path is shorter than memory.
                into.copy_from_slice(&target[range.start as usize..range.end as usize]);
                Ok(into.len())
            }
            From::Stored(stored) => {
                let mut stored = locked(stored);
                let range = chunk_bytes.range(chunk, stored.size());
                let into = room(into, chunk, range.end - range.start)?;
                stored.read_at(into, range.start)?;
                Ok(into.len())
            }
        }
    }

    /// The same with the hash of the chunk. The bytes of a file are hashed while they are in the cache.
    ///
    /// # Errors
    ///
    /// As [`Reader::read`].
    pub fn read_and_hash(
        &self,
        chunk: u32,
        chunk_bytes: ChunkBytes,
        into: &mut [u8],
    ) -> Result<(usize, ChunkHash), FileError> {
        let mut hasher = ChunkHasher::new(chunk, chunk_bytes);
        let bytes = match &self.from {
            From::File { file, size, .. } => {
                let update = |bytes: &[u8]| hasher.update(bytes);
                self.read_file((file, *size), (chunk, chunk_bytes), into, update)?
            }
            _ => {
                let bytes = self.read(chunk, chunk_bytes, into)?;
                hasher.update(&into[..bytes]);
                bytes
            }
        };
        Ok((bytes, hasher.finish()))
    }

    /// Bytes of the object.
    #[must_use]
    pub fn size(&self) -> u64 {
        match &self.from {
            From::File { size, .. } => *size,
            From::Link(target) => target.len() as u64,
            From::Stored(stored) => locked(stored).size(),
        }
    }

    /// To be called when all has been read: whether it is still the file that was listed. (What was
    /// sent then is of one state of it.)
    ///
    /// # Errors
    ///
    /// [`FileError::Changed`].
    pub fn finish(&self) -> Result<(), FileError> {
        let file = match &self.from {
            // Each request of a stored object names the state of it that was listed.
            From::Stored(_) => return Ok(()),
            From::Link(target) if link::target(&self.path) == *target => return Ok(()),
            From::Link(_) => return Err(self.changed("it leads elsewhere".into())),
            From::File { file, .. } => file,
        };
        let open = file.metadata().map_err(FileError::at("read", &self.path))?;
        self.compare(&open)?;
        match fs::metadata(&self.path) {
            Ok(named) => self.compare(&named),
            Err(error) => Err(self.changed(format!("it is gone: {error}"))),
        }
    }

    fn read_file(
        &self,
        (file, size): (&File, u64),
        (chunk, chunk_bytes): (u32, ChunkBytes),
        into: &mut [u8],
        mut each: impl FnMut(&[u8]),
    ) -> Result<usize, FileError> {
        let range = chunk_bytes.range(chunk, size);
        let into = room(into, chunk, range.end - range.start)?;
        let mut at = range.start;
        let read: io::Result<()> = into.chunks_mut(STEP_BYTES).try_for_each(|step| {
            file.read_exact_at(step, at)?;
            at += step.len() as u64;
            each(step);
            Ok(())
        });
        match read {
            Ok(()) => Ok(into.len()),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                let now = file.metadata().map_or(0, |metadata| metadata.len());
                Err(self.changed(format!("it had {size} bytes and has {now}")))
            }
            Err(error) => Err(FileError::of(error, "read", &self.path, 0)),
        }
    }

    fn compare(&self, now: &Metadata) -> Result<(), FileError> {
        let From::File { size, modified, inode, .. } = &self.from else { return Ok(()) };
        if !now.is_file() || now.ino() != *inode {
            return Err(self.changed("another file has its name".into()));
        }
        if now.len() != *size {
            return Err(self.changed(format!("it had {size} bytes and has {}", now.len())));
        }
        if Stamp::of(now) != *modified {
            return Err(self.changed("it has been written".into()));
        }
        Ok(())
    }

    fn changed(&self, what: String) -> FileError {
        FileError::Changed { path: self.path.clone(), what }
    }
}

fn locked<T>(state: &Mutex<T>) -> MutexGuard<'_, T> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The first `bytes` of `into`.
fn room(into: &mut [u8], chunk: u32, bytes: u64) -> Result<&mut [u8], FileError> {
    let room = into.len();
    let part = usize::try_from(bytes).ok().and_then(|bytes| into.get_mut(..bytes));
    part.ok_or(FileError::Room { chunk, bytes, room })
}
