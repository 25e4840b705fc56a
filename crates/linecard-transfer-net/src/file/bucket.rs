//! Object stores: what a transfer needs of one, as source and as destination.
//!
//! A [`Bucket`] is a bucket with a prefix; names are below that. Objects have no part that can be written alone: an
//! upload is in order, and visible when it is finished. So there is no partial object to resume.

use super::name::is_ours;
use super::source::{A_PARTIAL_FILE, Skipped};
use super::{Existing, Failures, FileError, Kind, Name, Object, Stamp};
use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::path::PathBuf;
use std::str;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Most bytes of a key, with its prefix.
const MAX_KEY_BYTES: usize = 1_024;
/// Bytes that are read at a time to compare the content of an object.
const READ_BYTES: usize = 1 << 20;

/// A stored object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// Below the prefix; empty for the object whose key is the prefix.
    pub name: String,
    /// In bytes.
    pub size: u64,
    /// From a list: when it was stored. From [`Bucket::look`]: the time of the file that it was, if that is known.
    pub modified: Option<Stamp>,
    /// Changes with its content.
    pub tag: String,
}

/// A part of an object store. Errors are one line, with the remedy. Two of their kinds have a meaning:
/// [`ErrorKind::NotFound`], and [`ErrorKind::StaleNetworkFileHandle`] for an object that is no longer the listed one.
pub trait Bucket: fmt::Debug + Send + Sync {
    /// As the user writes it, without a slash at its end.
    fn url(&self) -> &str;

    /// Whether it is there and can be used.
    ///
    /// # Errors
    ///
    /// The store's.
    fn check(&self) -> io::Result<()>;

    /// All objects in the order of names, at most `limit` and one: the one whose key is the prefix, if there is one,
    /// and otherwise those below it.
    ///
    /// # Errors
    ///
    /// The store's.
    fn list(&self, limit: usize) -> io::Result<Vec<Stored>>;

    /// The object of this name, if there is one.
    ///
    /// # Errors
    ///
    /// The store's.
    fn look(&self, name: &str) -> io::Result<Option<Stored>>;

    /// Reads an object in order from a byte on, ahead of the caller. As soon as all is `over`, it waits for nothing any more.
    ///
    /// # Errors
    ///
    /// The store's; also while it is read.
    fn read(
        &self,
        stored: &Stored,
        from: u64,
        over: &Arc<AtomicBool>,
    ) -> io::Result<Box<dyn Read + Send>>;

    /// Begins an upload of that many bytes, if it is known, of a file of that time. As soon as all is `over`, it waits for
    /// nothing but what ends soon.
    ///
    /// # Errors
    ///
    /// The store's.
    fn create(
        &self,
        name: &str,
        about: (Option<u64>, Stamp),
        over: &Arc<AtomicBool>,
    ) -> io::Result<Box<dyn Upload>>;
}

/// An object that is being written. It is visible when it is finished; dropped before that, it never is.
pub trait Upload: Write + Send {
    /// Ends it, without waiting.
    fn finish(&mut self);

    /// Waits until it is stored.
    ///
    /// # Errors
    ///
    /// The store's.
    fn wait(&mut self) -> io::Result<()>;
}

impl fmt::Debug for dyn Upload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Upload")
    }
}

impl PartialEq for dyn Bucket {
    fn eq(&self, other: &Self) -> bool {
        self.url() == other.url()
    }
}

impl Eq for dyn Bucket {}

/// Where an object is, for messages.
pub(crate) fn place(bucket: &dyn Bucket, name: &str) -> PathBuf {
    match name {
        "" => bucket.url().into(),
        name => format!("{}/{name}", bucket.url()).into(),
    }
}

/// The name of an object as part of a key.
pub(crate) fn key_of<'a>(bucket: &dyn Bucket, name: &'a Name) -> Result<&'a str, FileError> {
    let refused = |why| FileError::Name { name: name.to_string().chars().take(80).collect(), why };
    let key = str::from_utf8(name.as_bytes())
        .map_err(|_| refused("it is not UTF-8, which keys of object stores are"))?;
    if key.contains(|c: char| c.is_ascii_control()) {
        return Err(refused("it has a control character, which not every object store can list"));
    }
    // The URL has `s3://` and the bucket before the prefix; both are short.
    match bucket.url().len() + 1 + key.len() > MAX_KEY_BYTES {
        true => Err(refused("with its prefix, it is longer than the 1024 bytes of a key")),
        false => Ok(key),
    }
}

/// The existing object at the place of a new one, of which `stored` is known.
pub(crate) fn existing(
    bucket: &dyn Bucket,
    object: &Object,
    stored: Option<&Stored>,
    over: &Arc<AtomicBool>,
) -> Result<Existing, FileError> {
    let Some(stored) = stored else { return Ok(Existing::Nothing) };
    if object.kind != Kind::File || object.size != Some(stored.size) {
        return Ok(Existing::Other);
    }
    if object.by_time && stored.modified == Some(object.modified) {
        return Ok(Existing::Same);
    }
    let failed = |error| failure(error, "read", place(bucket, &stored.name));
    let mut reader = bucket.read(stored, 0, over).map_err(failed)?;
    let (mut hasher, mut buffer) = (blake3::Hasher::new(), vec![0; READ_BYTES]);
    loop {
        if over.load(Ordering::Relaxed) {
            return Err(failed(ErrorKind::Interrupted.into()));
        }
        match reader.read(&mut buffer) {
            Ok(0) => return Ok(Existing::File { hash: hasher.finalize(), part: false }),
            Ok(bytes) => {
                hasher.update(&buffer[..bytes]);
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => {
                return Err(failure(error, "read", place(bucket, &stored.name)));
            }
        }
    }
}

/// The error of an operation on an object.
pub(crate) fn failure(source: io::Error, doing: &'static str, path: PathBuf) -> FileError {
    match source.kind() {
        ErrorKind::StaleNetworkFileHandle => {
            FileError::Changed { path, what: "another object has its key".into() }
        }
        ErrorKind::ConnectionAborted | ErrorKind::TimedOut => {
            FileError::Store { doing, path, source }
        }
        _ => FileError::System { doing, path, source },
    }
}

/// The listed objects, with the names that they get at the receiver.
#[derive(Default)]
pub(super) struct Listing {
    /// As [`super::Source::objects`]; an object whose key ends with a slash is a folder.
    pub(super) objects: Vec<Object>,
    pub(super) stored: Vec<Stored>,
    pub(super) skipped: Vec<Skipped>,
    /// Keys that no receiver takes.
    pub(super) refused: Failures,
    pub(super) left_out: u64,
}

impl Listing {
    /// Lists a bucket. As of a folder that is sent, the last part of its URL comes first in names; `leave_out` has the
    /// patterns.
    pub(super) fn of(
        bucket: &dyn Bucket,
        limit: usize,
        leave_out: impl Fn(&[u8], bool) -> bool,
    ) -> Result<Self, FileError> {
        let url = bucket.url();
        let all = bucket.list(limit).map_err(|error| failure(error, "list", url.into()))?;
        if all.is_empty() {
            let source = io::Error::new(ErrorKind::NotFound, "no object has this key or prefix");
            return Err(FileError::System { doing: "find", path: url.into(), source });
        }
        if all.len() > limit {
            return Err(FileError::TooMuch { path: url.into(), limit, what: "objects" });
        }
        let base = url.rsplit('/').next().unwrap_or_default();
        let mut listing = Self::default();
        for stored in all {
            let (name, is_folder) = match stored.name.strip_suffix('/') {
                Some(name) => (format!("{base}/{name}"), stored.size == 0),
                None if stored.name.is_empty() => (base.to_owned(), false),
                None => (format!("{base}/{}", stored.name), false),
            };
            listing.add(bucket, stored, (name, is_folder), &leave_out);
        }
        Ok(listing)
    }

    fn add(
        &mut self,
        bucket: &dyn Bucket,
        stored: Stored,
        (name, is_folder): (String, bool),
        leave_out: impl Fn(&[u8], bool) -> bool,
    ) {
        let bytes = name.as_bytes();
        let slashes = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'/');
        // The outermost folder is the one that is sent: patterns are not about its name.
        let mut above = slashes.skip(1).map(|(at, _)| &bytes[..at]);
        let is_single = stored.name.is_empty();
        if !is_single
            && (above.any(|folder| leave_out(folder, true)) || leave_out(bytes, is_folder))
        {
            self.left_out += 1;
            return;
        }
        if is_ours(bytes) {
            let path = place(bucket, &stored.name);
            return self.skipped.push(Skipped { path, name: bytes.to_vec(), why: A_PARTIAL_FILE });
        }
        let name = match Name::new(bytes) {
            Ok(name) if is_folder || !stored.name.ends_with('/') => name,
            Ok(_) => {
                let key = place(bucket, &stored.name);
                return self.refused.add(format!("{key:?} ends as a folder does, and has content"));
            }
            Err(error) => return self.refused.add(error.to_string()),
        };
        self.objects.push(Object {
            name,
            kind: if is_folder { Kind::Folder } else { Kind::File },
            size: Some(stored.size),
            has_holes: false,
            has_links: false,
            by_time: !is_folder && stored.modified.is_some(),
            mode: if is_folder { 0o755 } else { 0o644 },
            modified: stored.modified.unwrap_or_default(),
        });
        self.stored.push(stored);
    }
}

/// An object of a bucket that is read in order, and from its beginning again if it has to be.
pub(super) struct StoredReader {
    bucket: Arc<dyn Bucket>,
    stored: Stored,
    /// The next byte.
    at: u64,
    from: Option<Box<dyn Read + Send>>,
}

impl fmt::Debug for StoredReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoredReader({:?} at {})", self.stored, self.at)
    }
}

impl StoredReader {
    pub(super) const fn new(bucket: Arc<dyn Bucket>, stored: Stored) -> Self {
        Self { bucket, stored, at: 0, from: None }
    }

    pub(super) const fn size(&self) -> u64 {
        self.stored.size
    }

    /// Begins to read ahead.
    pub(super) fn begin(&mut self) {
        if self.from.is_none() {
            // An error shows again when it is read.
            self.from = self.bucket.read(&self.stored, self.at, &Arc::default()).ok();
        }
    }

    pub(super) fn read_at(&mut self, into: &mut [u8], at: u64) -> Result<(), FileError> {
        let read = self.try_read(into, at);
        if read.is_err() {
            self.from = None;
        }
        let path = || place(&*self.bucket, &self.stored.name);
        read.map_err(|error| match error.kind() {
            ErrorKind::UnexpectedEof => {
                FileError::Changed { path: path(), what: "it is shorter now".into() }
            }
            ErrorKind::NotFound => FileError::Changed { path: path(), what: "it is gone".into() },
            _ => failure(error, "read", path()),
        })
    }

    fn try_read(&mut self, into: &mut [u8], at: u64) -> io::Result<()> {
        let from = match &mut self.from {
            Some(from) if self.at == at => from,
            from => from.insert(self.bucket.read(&self.stored, at, &Arc::default())?),
        };
        self.at = at + into.len() as u64;
        from.read_exact(into)
    }
}
