//! Pipes, at both ends: data that are read from their beginning to their end, which alone tells their length. A chunk
//! of a pipe is as long as what has come of it: what is there goes on, whether or not more comes.

use super::{FileError, Sink};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A pipe or a device that is being read.
///
/// ```
/// use linecard_transfer_net::file::{Choice, FileError, Input, Source};
/// let source = Source::of(&Input::Paths(vec!["/dev/null".into()]), Choice::default())?;
/// assert_eq!(source.pipe(0)?.read(&mut [0; 100], None)?, 0);
/// # Ok::<(), FileError>(())
/// ```
#[derive(Debug)]
pub struct Pipe {
    path: PathBuf,
    file: File,
    bytes: u64,
    has_ended: bool,
}

impl Pipe {
    /// The pipe at `path`, or the standard input for `-`.
    pub(super) fn open(path: PathBuf) -> Result<Self, FileError> {
        let file = if path == Path::new("-") {
            // A copy of the descriptor: `Stdin` would copy all bytes once more.
            io::stdin().as_fd().try_clone_to_owned().map(File::from)
        } else {
            File::open(&path)
        };
        let file = file.map_err(FileError::at("read", &path))?;
        Ok(Self { path, file, bytes: 0, has_ended: false })
    }

    /// Reads to the start of `into` what comes next: until that is full, the pipe ends or `hold` has passed since the first
    /// byte came. How many bytes; none at the end.
    ///
    /// # Errors
    ///
    /// The error of the system.
    pub fn read(&mut self, into: &mut [u8], hold: Option<Duration>) -> Result<usize, FileError> {
        let mut filled = 0;
        let mut until = None;
        while filled < into.len() && !self.has_ended {
            let read = match self.wait(until) {
                Ok(false) => break,
                Ok(true) => (&self.file).read(&mut into[filled..]),
                Err(error) => Err(error),
            };
            match read {
                Ok(0) => self.has_ended = true,
                Ok(bytes) => {
                    filled += bytes;
                    until = until.or_else(|| hold.map(|hold| Instant::now() + hold));
                }
                // Another program that has it may have made it one that does not wait.
                Err(error) if is_to_repeat(&error) => {}
                Err(error) => return Err(FileError::of(error, "read", &self.path, 0)),
            }
        }
        self.bytes += filled as u64;
        Ok(filled)
    }

    /// Waits until something can be read, the end included. False if it is `until` before that, or was already.
    fn wait(&self, until: Option<Instant>) -> io::Result<bool> {
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            return Ok(false);
        }
        let timeout = left.map(|left| Timespec {
            tv_sec: left.as_secs().cast_signed(),
            tv_nsec: left.subsec_nanos().into(),
        });
        let ready = poll(&mut [PollFd::new(&self.file, PollFlags::IN)], timeout.as_ref())?;
        Ok(ready > 0)
    }

    /// Bytes that were read.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// The standard output, and what it is called in messages.
pub(crate) fn standard_output() -> Result<(File, &'static Path), FileError> {
    let path = Path::new("standard output");
    // A copy of the descriptor: `Stdout` would keep what is behind the last end of a line.
    let out = io::stdout().as_fd().try_clone_to_owned();
    Ok((File::from(out.map_err(FileError::at("write", path))?), path))
}

fn is_to_repeat(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock)
}

/// The file of a pipe that is being received, which is written in order.
#[derive(Debug)]
pub struct PipeFile {
    sink: Sink,
    written: u64,
}

impl PipeFile {
    /// In a sink of which nothing is written.
    #[must_use]
    pub const fn new(sink: Sink) -> Self {
        Self { sink, written: 0 }
    }

    /// The sink of all that was written, whose hash is `hash`.
    ///
    /// # Errors
    ///
    /// [`FileError::Damaged`] if it was to be `expected`: what arrived is kept apart.
    pub fn finish(self, hash: &blake3::Hash, expected: &blake3::Hash) -> Result<Sink, FileError> {
        if hash != expected {
            return Err(self.sink.set_aside());
        }
        self.sink.end_at(self.written);
        Ok(self.sink)
    }

    /// Nothing more comes, and a pipe cannot be resumed.
    pub(crate) fn discard(self) -> Result<(), FileError> {
        self.sink.discard()
    }
}

impl Write for PipeFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.sink.write_some(bytes, self.written)?;
        self.written += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{ChunkBytes, Folder, Kind, Object};
    use super::*;
    use std::fs;

    /// A part that was written beyond what was sent, and then sent again, is cut off.
    #[test]
    fn a_pipe_appears_as_long_as_what_was_sent() {
        let at = tempfile::tempdir().unwrap();
        let pipe = Object { kind: Kind::Stream, size: None, ..Object::file("a", 0) };
        let folder = Folder::open(at.path()).unwrap();
        let sink = folder.sink(&pipe, ChunkBytes::new(1 << 16).unwrap(), false).unwrap();
        sink.write_some(b"xyz", 8).unwrap();
        let mut file = PipeFile::new(sink);
        file.write_all(b"some").unwrap();
        file.write_all(b"thing").unwrap();
        let hash = blake3::hash(b"something");
        let sink = file.finish(&hash, &hash).unwrap();
        let results = Sink::appear_all(&[sink]);
        assert!(results.iter().all(Result::is_ok), "{results:?}");
        assert_eq!(fs::read(at.path().join("a")).unwrap(), b"something");
    }
}
