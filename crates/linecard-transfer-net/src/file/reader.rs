//! Reading an object chunk by chunk.

use super::{ChunkBytes, FileError, Kind, Object, Stamp, link};
use rustix::fs::OFlags;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// An object that is open. Chunks of files may be read in any order and by several threads, those of
/// streams only in order.
#[derive(Debug)]
pub struct Reader {
    path: PathBuf,
    file: File,
    from: From,
}

/// The data that was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// Bytes, from the start of the buffer.
    pub bytes: usize,
    /// The object ends with it.
    pub is_last: bool,
}

#[derive(Debug)]
enum From {
    File { size: u64, modified: Stamp, inode: u64 },
    Link(Vec<u8>),
    Stream(Mutex<Stream>),
}

/// How far a stream has been read.
#[derive(Debug, Default)]
struct Stream {
    next: u32,
    /// A byte of the next chunk: only by it is known that there is one.
    ahead: Option<u8>,
    has_ended: bool,
    bytes: u64,
}

impl Reader {
    pub(super) fn open(path: PathBuf, object: &Object) -> Result<Self, FileError> {
        if object.kind == Kind::Stream {
            let file = stream(&path).map_err(FileError::at("read", &path))?;
            return Ok(Self { path, file, from: From::Stream(Mutex::default()) });
        }
        if object.kind == Kind::Link {
            let open = OFlags::PATH.union(OFlags::NOFOLLOW).bits().cast_signed();
            let opened = OpenOptions::new().read(true).custom_flags(open).open(&path);
            let file = opened.map_err(FileError::at("read", &path))?;
            let reader = Self { from: From::Link(link::target(&path)), path, file };
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
        let from = From::File { size, modified: object.modified, inode: metadata.ino() };
        let reader = Self { path, file, from };
        reader.compare(&metadata)?;
        Ok(reader)
    }

    /// Reads chunk number `chunk` to the start of `into`.
    ///
    /// # Errors
    ///
    /// [`FileError::Changed`] if a file ends too early, [`FileError::Room`] if `into` is too short,
    /// [`FileError::Chunk`] if a stream is not read in order, and what the system says.
    pub fn read(
        &self,
        chunk: u32,
        chunk_bytes: ChunkBytes,
        into: &mut [u8],
    ) -> Result<Piece, FileError> {
        match &self.from {
            From::File { size, .. } => self.read_file(*size, chunk, chunk_bytes, into),
            From::Link(target) => {
                let range = chunk_bytes.range(chunk, target.len() as u64);
                let into = room(into, chunk, range.end - range.start)?;
                // A path is shorter than memory.
                into.copy_from_slice(&target[range.start as usize..range.end as usize]);
                Ok(Piece { bytes: into.len(), is_last: range.end == target.len() as u64 })
            }
            From::Stream(stream) => {
                let mut stream = stream.lock().unwrap_or_else(PoisonError::into_inner);
                self.read_stream(&mut stream, chunk, chunk_bytes, into)
            }
        }
    }

    /// Bytes of the object: of a stream, those read so far.
    #[must_use]
    pub fn size(&self) -> u64 {
        match &self.from {
            From::File { size, .. } => *size,
            From::Link(target) => target.len() as u64,
            From::Stream(stream) => stream.lock().unwrap_or_else(PoisonError::into_inner).bytes,
        }
    }

    /// To be called when all has been read: whether it is still the file that was listed. (What was
    /// sent then is of one state of it.)
    ///
    /// # Errors
    ///
    /// [`FileError::Changed`].
    pub fn finish(&self) -> Result<(), FileError> {
        match &self.from {
            From::Stream(_) => return Ok(()),
            From::Link(target) if link::target(&self.path) == *target => return Ok(()),
            From::Link(_) => return Err(self.changed("it leads elsewhere".into())),
            From::File { .. } => {}
        }
        let open = self.file.metadata().map_err(FileError::at("read", &self.path))?;
        self.compare(&open)?;
        match fs::metadata(&self.path) {
            Ok(named) => self.compare(&named),
            Err(error) => Err(self.changed(format!("it is gone: {error}"))),
        }
    }

    fn read_file(
        &self,
        size: u64,
        chunk: u32,
        chunk_bytes: ChunkBytes,
        into: &mut [u8],
    ) -> Result<Piece, FileError> {
        let range = chunk_bytes.range(chunk, size);
        let into = room(into, chunk, range.end - range.start)?;
        match self.file.read_exact_at(into, range.start) {
            Ok(()) => Ok(Piece { bytes: into.len(), is_last: range.end == size }),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                let now = self.file.metadata().map_or(0, |metadata| metadata.len());
                Err(self.changed(format!("it had {size} bytes and has {now}")))
            }
            Err(error) => Err(FileError::of(error, "read", &self.path, 0)),
        }
    }

    fn read_stream(
        &self,
        stream: &mut Stream,
        chunk: u32,
        chunk_bytes: ChunkBytes,
        into: &mut [u8],
    ) -> Result<Piece, FileError> {
        if chunk != stream.next || stream.has_ended {
            return Err(FileError::Chunk { path: self.path.clone(), chunk, bytes: 0 });
        }
        chunk_bytes.count(stream.bytes + chunk_bytes.bytes())?;
        let into = room(into, chunk, chunk_bytes.bytes())?;
        let ahead = usize::from(stream.ahead.is_some());
        if let Some(byte) = stream.ahead.take() {
            into[0] = byte;
        }
        let failed = |error| FileError::of(error, "read", &self.path, 0);
        let bytes = ahead + fill(&self.file, &mut into[ahead..]).map_err(failed)?;
        let mut next = [0];
        stream.has_ended = bytes < into.len() || fill(&self.file, &mut next).map_err(failed)? == 0;
        stream.ahead = (!stream.has_ended).then_some(next[0]);
        stream.next += 1;
        stream.bytes += bytes as u64;
        Ok(Piece { bytes, is_last: stream.has_ended })
    }

    fn compare(&self, now: &Metadata) -> Result<(), FileError> {
        let From::File { size, modified, inode } = &self.from else { return Ok(()) };
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

/// The file at `path`, or the standard input for `-`.
fn stream(path: &Path) -> io::Result<File> {
    if path == Path::new("-") {
        // A copy of the descriptor: `Stdin` would copy all bytes once more.
        return Ok(File::from(io::stdin().as_fd().try_clone_to_owned()?));
    }
    File::open(path)
}

/// The first `bytes` of `into`.
fn room(into: &mut [u8], chunk: u32, bytes: u64) -> Result<&mut [u8], FileError> {
    let room = into.len();
    let part = usize::try_from(bytes).ok().and_then(|bytes| into.get_mut(..bytes));
    part.ok_or(FileError::Room { chunk, bytes, room })
}

/// Reads until `into` is full or the stream ends; how many bytes.
fn fill(mut file: &File, into: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < into.len() {
        match file.read(&mut into[filled..]) {
            Ok(0) => break,
            Ok(bytes) => filled += bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}
