//! Errors of files, each in one line that names the remedy.

use super::chunk::MAX_CHUNKS;
use std::io;
use std::path::{Path, PathBuf};

/// Why a file is not read or written. Received data is kept and can be resumed, except where stated
/// otherwise.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// No room on the disk, or no quota, for data.
    #[error(
        "no room for {bytes} bytes in {path:?}; free some space and run again: the transfer resumes from there"
    )]
    DiskFull {
        /// The file.
        path: PathBuf,
        /// The data that did not fit.
        bytes: u64,
    },
    /// The same for data of a pipe, of which nothing is kept.
    #[error(
        "no room for {bytes} bytes in {path:?}; free some space and send it from its beginning: a pipe cannot be resumed"
    )]
    DiskFullForPipe {
        /// The file.
        path: PathBuf,
        /// The data that did not fit.
        bytes: u64,
    },
    /// The same for a file, a folder or a link that is created or renamed, or when data were to reach the disk.
    #[error(
        "no room to {doing} {path:?}; free some space or files (`df -i`) and run again: the transfer resumes from there"
    )]
    NoRoom {
        /// The operation.
        doing: &'static str,
        /// The file.
        path: PathBuf,
    },
    /// The sender's folder has no room for it.
    #[error(
        "no room for {bytes} bytes of {path:?}: of its sender's quota of {limit} bytes {left} are left; remove files \
         there, or raise quota= in the list of authorized senders"
    )]
    Quota {
        /// The file.
        path: PathBuf,
        /// Its bytes that are to come.
        bytes: u64,
        /// The rest of the quota.
        left: u64,
        /// The quota.
        limit: u64,
    },
    /// The user may not do that.
    #[error(
        "cannot {doing} {path:?}: {source}; change its permissions, or run as a user who has \
         them"
    )]
    Denied {
        /// The attempted operation.
        doing: &'static str,
        /// With what.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The output is a pipe whose reader has closed it.
    #[error("cannot write {path:?}: its reader has closed it")]
    Closed {
        /// The output.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// Any other error of the operating system.
    #[error("cannot {doing} {path:?}: {source}")]
    System {
        /// The attempted operation.
        doing: &'static str,
        /// With what.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// An object store does not answer, so that none of its objects is read or written.
    #[error("cannot {doing} {path:?}: {source}")]
    Store {
        /// The attempted operation.
        doing: &'static str,
        /// With what.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// A folder to receive into that is something else.
    #[error("{path:?} is a file: name a folder")]
    NotAFolder {
        /// The file.
        path: PathBuf,
    },
    /// A source that is not what it was when it was listed.
    #[error("{path:?} changed while it was read ({what}); send it again when it no longer changes")]
    Changed {
        /// The file.
        path: PathBuf,
        /// Its length, its time, the file itself.
        what: String,
    },
    /// Two of the paths to send would have one name at the receiver.
    #[error(
        "{first:?} and {second:?} have the same name, and would go to one place: send them one after the other, into \
         different folders"
    )]
    SameName {
        /// The first of them.
        first: PathBuf,
        /// The other.
        second: PathBuf,
    },
    /// A pipe or a device among several paths to send.
    #[error("{path:?} is a pipe or a device, and is sent alone: send it by a command of its own")]
    PipeAmongOthers {
        /// The pipe.
        path: PathBuf,
    },
    /// The root of the file system, of which no folder at the receiver could have the name.
    #[error("{0:?} has no name that the receiver could give it: name the folders in it, as /home")]
    Nameless(PathBuf),
    /// A pattern of names that has another form.
    #[error("the pattern {pattern:?}: {why}; write one as in .gitignore, as *.log or /build/")]
    Pattern {
        /// As the user wrote it.
        pattern: String,
        /// The error.
        why: String,
    },
    /// A name that no peer of ours sends.
    #[error("the name {name:?} is refused: {why}")]
    Name {
        /// As it came, at most its first 80 characters.
        name: String,
        /// The error.
        why: &'static str,
    },
    /// Something is there already.
    #[error("{path:?} exists; move it away, or let recv replace it by --overwrite")]
    Exists {
        /// The existing object.
        path: PathBuf,
    },
    /// A hard link cannot be made.
    #[error("cannot make {path:?} a hard link of {first:?}: {why}")]
    HardLink {
        /// The link.
        path: PathBuf,
        /// The file.
        first: PathBuf,
        /// Why, and what to do.
        why: &'static str,
    },
    /// A sender has not proved that it has a file that exists.
    #[error(
        "cannot make {path:?} a hard link of {first:?}: that exists, and the sender did not prove that it has the same; \
         send again"
    )]
    Unproven {
        /// The link.
        path: PathBuf,
        /// The file.
        first: PathBuf,
    },
    /// The file that a hard link is of is not in its place.
    #[error("{path:?} is a hard link of {first:?}, which is not transferred")]
    NoFirst {
        /// The link.
        path: PathBuf,
        /// The file.
        first: PathBuf,
    },
    /// A folder is there already, and a file or a link is to come.
    #[error("{path:?} is a folder, which recv does not replace by a file or a link; move it away")]
    IsFolder {
        /// The folder.
        path: PathBuf,
    },
    /// A link, a folder or something else that is no file has the name of a partial file, or of its journal.
    #[error("{path:?} is no file, and is in the way of a partial file; remove it")]
    InTheWay {
        /// The name of the partial file.
        path: PathBuf,
    },
    /// Another receiver writes it.
    #[error("{path:?} is being received by another process; wait for it, or end it")]
    Locked {
        /// The partial file.
        path: PathBuf,
    },
    /// Received data differs from the sent data. It is set aside and not resumed.
    #[error(
        "{path:?} does not have the hash of the sent file; it is kept as {kept:?}: send it again"
    )]
    Damaged {
        /// Its intended path.
        path: PathBuf,
        /// Where it is.
        kept: PathBuf,
    },
    /// The same for an object of an object store, of which nothing is kept.
    #[error(
        "what was received for {path:?} does not have the hash of the sent data, and was not stored: send it again"
    )]
    Discarded {
        /// Its intended place.
        path: PathBuf,
    },
    /// Chunks are missing.
    #[error("{path:?} is not complete: {missing} chunks are missing; run again to resume")]
    NotWhole {
        /// Its intended path.
        path: PathBuf,
        /// How many; 0 where the end is not known yet.
        missing: u32,
    },
    /// A chunk that is none of this object, or of another length.
    #[error(
        "chunk {chunk} of {bytes} bytes does not belong to {path:?}: peers do not agree on \
         its length"
    )]
    Chunk {
        /// The file.
        path: PathBuf,
        /// Its number.
        chunk: u32,
        /// Its length.
        bytes: usize,
    },
    /// A chunk that does not fit where it is to be read to or held.
    #[error("chunk {chunk} has {bytes} bytes and there is room for {room}")]
    Room {
        /// Its number.
        chunk: u32,
        /// Its length.
        bytes: u64,
        /// The available room.
        room: usize,
    },
    /// A length of chunks that is not allowed.
    #[error("chunks of {0} bytes: write a power of two from 1024 to 1073741824, as 2097152")]
    ChunkBytes(u64),
    /// An object with too many chunks.
    #[error(
        "{size} bytes are more than {MAX_CHUNKS} chunks of {chunk_bytes}: take chunks of {least} bytes"
    )]
    TooManyChunks {
        /// Its length.
        size: u64,
        /// That of a chunk.
        chunk_bytes: u64,
        /// The least length with which there are few enough.
        least: u64,
    },
    /// A source with too much in it.
    #[error("{path:?} has more than {limit} {what}; send its parts one by one")]
    TooMuch {
        /// The folder.
        path: PathBuf,
        /// The bound.
        limit: usize,
        /// Of what.
        what: &'static str,
    },
}

impl FileError {
    /// Whether it is of all objects of an object store.
    pub(crate) const fn is_of_store(&self) -> bool {
        matches!(self, Self::Store { .. })
    }

    /// The error of an operation on `path`; `bytes` is what was to be written, if anything.
    pub(super) fn of(
        source: impl Into<io::Error>,
        doing: &'static str,
        path: &Path,
        bytes: u64,
    ) -> Self {
        let (source, path) = (source.into(), path.to_path_buf());
        match source.raw_os_error() {
            Some(libc::ENOSPC | libc::EDQUOT) if bytes == 0 => Self::NoRoom { doing, path },
            Some(libc::ENOSPC | libc::EDQUOT) => Self::DiskFull { path, bytes },
            Some(libc::EACCES | libc::EPERM | libc::EROFS) => Self::Denied { doing, path, source },
            _ if source.kind() == io::ErrorKind::BrokenPipe => Self::Closed { path, source },
            _ => Self::System { doing, path, source },
        }
    }

    /// For errors of operations that write nothing.
    pub(super) fn at<E: Into<io::Error>>(
        doing: &'static str,
        path: &Path,
    ) -> impl FnOnce(E) -> Self {
        move |source| Self::of(source, doing, path, 0)
    }
}

/// Files that could not be sent or stored, while others could: how many, and the first of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Failures {
    count: u64,
    first: Vec<String>,
}

impl Failures {
    /// Reasons that are kept; those that follow are only counted.
    pub const MAX_KEPT: usize = 1_000;

    /// Adds a file, with its name and the reason in one line.
    pub fn add(&mut self, why: String) {
        self.count += 1;
        if self.first.len() < Self::MAX_KEPT {
            self.first.push(why);
        }
    }

    /// Adds files whose names and reasons are not known.
    pub fn add_more(&mut self, count: u64) {
        self.count += count;
    }

    /// How many there are.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// The reasons of the first ones.
    #[must_use]
    pub fn first(&self) -> &[String] {
        &self.first
    }
}
