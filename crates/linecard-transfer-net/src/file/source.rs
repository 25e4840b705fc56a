//! The data to send: files, folders with their contents, or a pipe.

use super::bucket::{Bucket, Listing, Stored};
use super::name::{MAX_DEPTH, is_ours};
use super::{Choice, Failures, FileError, Name, Patterns, Pipe, Reader, Stamp, link};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ffi::OsStr;
use std::fs::{self, DirEntry, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The mode of a file that comes from a pipe: nobody has said who may read it.
const STREAM_MODE: u32 = 0o600;
/// Most objects of a source.
pub const MAX_OBJECTS: usize = 1 << 20;

/// Type of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A folder, before its content.
    Folder,
    /// A symbolic link; its bytes are the path of its target.
    Link,
    /// A hard link of the file with this number among the objects; it has no bytes of its own.
    HardLink(u32),
    /// A pipe or a device, which is read once, in order, until it ends.
    Stream,
    /// Zeros from memory, which the receiver drops: to see what the way between them carries.
    Test,
}

/// The user's input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// Files and folders, or `-` alone for the standard input.
    Paths(Vec<PathBuf>),
    /// An object of an object store, or those below a prefix.
    Bucket(Arc<dyn Bucket>),
    /// The standard input, under this name at the receiver.
    Stdin(String),
    /// A number of bytes of [`Kind::Test`].
    Test(u64),
    /// The same for a time, in a dry run: to see what the lanes carry.
    Probe(Duration),
}

/// An object to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    /// Relative; of a folder that is sent, its own name comes first.
    pub name: Name,
    /// Its type.
    pub kind: Kind,
    /// In bytes; 0 for folders, unknown for streams.
    pub size: Option<u64>,
    /// Parts of it are zero and take no room on the disk.
    pub has_holes: bool,
    /// Objects behind it are hard links of it.
    pub has_links: bool,
    /// A file of the same length and time at the receiver counts as the same, and neither is read.
    pub by_time: bool,
    /// Permission bits.
    pub mode: u32,
    /// When it was last written.
    pub modified: Stamp,
}

impl Object {
    /// Test data of open length: in a dry run, it shows what the lanes carry.
    pub(crate) fn is_probe(&self) -> bool {
        self.kind == Kind::Test && self.size.is_none()
    }
}

#[cfg(test)]
impl Object {
    /// A file without holes, of 1970.
    pub(crate) fn file(name: &str, size: u64) -> Self {
        Self {
            name: Name::new(name.as_bytes()).expect("a name"),
            kind: Kind::File,
            size: Some(size),
            has_holes: false,
            has_links: false,
            by_time: false,
            mode: 0o644,
            modified: Stamp::of_ns(0),
        }
    }
}

/// Why [`Skipped`] names a file that is a transfer's own.
pub(super) const A_PARTIAL_FILE: &str = "a partial file of a receiver";

/// Objects that are not sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    /// Where it is.
    pub path: PathBuf,
    /// The name that it would have at the receiver.
    pub name: Vec<u8>,
    /// Why.
    pub why: &'static str,
}

/// Everything to be sent, in the order of names.
#[derive(Debug, Default)]
pub struct Source {
    roots: Vec<Root>,
    choice: Choice,
    objects: Vec<Object>,
    skipped: Vec<Skipped>,
    left_out: u64,
    /// There are links that lead out of their folder among the objects.
    has_links_out: bool,
    unreadable: Failures,
    /// Files below folders that have other names, by device and inode, and the number of the object of each; empty where
    /// hard links are sent as files of their own.
    linked: BTreeMap<(u64, u64), u32>,
    /// The object store that all of them are in, and what each is there.
    bucket: Option<(Arc<dyn Bucket>, Vec<Stored>)>,
    /// How long test data of open length comes.
    pub(crate) probe: Duration,
}

/// One of the paths that the user names.
#[derive(Debug)]
pub(crate) struct Root {
    /// The folder that names are relative to.
    pub(crate) base: PathBuf,
    /// Its place among the objects; those below it follow.
    first: usize,
    /// An empty folder, also without objects that are not sent.
    pub(crate) is_empty: bool,
}

impl Source {
    /// Meaning of `input`. What the patterns of `choice` leave out of a folder is not listed.
    ///
    /// # Errors
    ///
    /// Those of [`Source::open`].
    pub fn of(input: &Input, choice: impl Into<Choice>) -> Result<Self, FileError> {
        let choice = choice.into();
        match input {
            Input::Paths(paths) => Self::open(paths, choice),
            Input::Bucket(bucket) => Self::stored(bucket, choice),
            Input::Stdin(name) => Self::alone(name, Kind::Stream, None),
            Input::Test(size) => Self::alone("test", Kind::Test, Some(*size)),
            Input::Probe(time) => {
                Ok(Self { probe: *time, ..Self::alone("test", Kind::Test, None)? })
            }
        }
    }

    /// A single object that has no place.
    fn alone(name: &str, kind: Kind, size: Option<u64>) -> Result<Self, FileError> {
        let name = Name::new(name.as_bytes())?;
        let modified = if kind == Kind::Stream { Stamp::now() } else { Stamp::default() };
        let object = Object {
            name,
            kind,
            size,
            has_holes: false,
            has_links: false,
            by_time: false,
            mode: STREAM_MODE,
            modified,
        };
        let root = Root { base: "-".into(), first: 0, is_empty: false };
        Ok(Self { roots: vec![root], objects: vec![object], ..Self::default() })
    }

    /// The objects of an object store.
    fn stored(bucket: &Arc<dyn Bucket>, choice: Choice) -> Result<Self, FileError> {
        let leave_out = |name: &[u8], is_folder: bool| choice.patterns.leave_out(name, is_folder);
        let listing = Listing::of(&**bucket, MAX_OBJECTS, leave_out)?;
        Ok(Self {
            roots: vec![Root { base: bucket.url().into(), first: 0, is_empty: false }],
            objects: listing.objects,
            skipped: listing.skipped,
            unreadable: listing.refused,
            left_out: listing.left_out,
            bucket: Some((Arc::clone(bucket), listing.stored)),
            choice,
            ..Self::default()
        }
        .compared())
    }

    /// Lists what `paths` are: a file or pipe, a folder and all below it, or the standard input for `-` alone.
    /// A link is followed if the user names it. Below that it is sent as a link, unless it leads out of the folder and
    /// [`Choice::links_out`] is not set.
    ///
    /// # Errors
    ///
    /// [`FileError`]: a path that does not exist or cannot be read, more than [`MAX_OBJECTS`], two paths whose last part is the
    /// same, and a pipe among several paths.
    pub fn open(paths: &[PathBuf], choice: impl Into<Choice>) -> Result<Self, FileError> {
        if let [path] = paths
            && path == Path::new("-")
        {
            return Self::alone("stdin", Kind::Stream, None);
        }
        Self { choice: choice.into(), ..Self::default() }.with_roots(paths).map(Self::compared)
    }

    /// All of it, each file to be compared with one of the same length and time as chosen.
    fn compared(mut self) -> Self {
        let by_contents = self.choice.by_contents;
        self.objects.iter_mut().for_each(|object| object.by_time &= !by_contents);
        self
    }

    fn with_roots(mut self, paths: &[PathBuf]) -> Result<Self, FileError> {
        Self::check_names(paths)?;
        for path in paths {
            self.add_root(path)?;
        }
        let has_stream = self.objects.iter().position(|object| object.kind == Kind::Stream);
        match has_stream.filter(|_| paths.len() > 1) {
            Some(at) => {
                let path = self.root_of(at).base.join(self.objects[at].name.as_path());
                Err(FileError::PipeAmongOthers { path })
            }
            None => Ok(self),
        }
    }

    /// Checks that no two paths would have one name at the receiver; reads no folder.
    ///
    /// # Errors
    ///
    /// [`FileError::SameName`], or a path that cannot be read.
    pub fn check_names(paths: &[PathBuf]) -> Result<(), FileError> {
        let mut names = BTreeMap::new();
        for path in paths {
            let full = full(path)?;
            if let Some(first) = names.insert(full.file_name().map(OsStr::to_os_string), full) {
                return Err(FileError::SameName { first, second: path.clone() });
            }
        }
        Ok(())
    }

    fn add_root(&mut self, path: &Path) -> Result<(), FileError> {
        let metadata = fs::metadata(path).map_err(FileError::at("read", path))?;
        let full = full(path)?;
        let mut base = full.clone();
        base.pop();
        let name = full.file_name().map(OsStrExt::as_bytes).unwrap_or_default();
        let mut object = Object::of(Name::new(name)?, &metadata);
        if object.kind == Kind::Stream {
            (object.mode, object.modified) = (STREAM_MODE, Stamp::now());
        }
        self.bounded(path)?;
        let is_folder = object.kind == Kind::Folder;
        let is_empty =
            is_folder && fs::read_dir(&full).is_ok_and(|mut entries| entries.next().is_none());
        self.roots.push(Root { base, first: self.objects.len(), is_empty });
        self.objects.push(object);
        match is_folder {
            true => self.walk(&full, name, 1),
            false => Ok(()),
        }
    }

    /// Whether there are hard links to send.
    pub(crate) fn has_links(&self) -> bool {
        self.objects.iter().any(|object| object.has_links)
    }

    /// Whether there are links to send that lead out of their folder.
    pub(crate) const fn has_links_out(&self) -> bool {
        self.has_links_out
    }

    /// Whether opening an object takes a round trip of a network.
    pub(crate) const fn is_far(&self) -> bool {
        self.bucket.is_some()
    }

    /// The one of the paths that an object is at, or below.
    pub(crate) fn root_of(&self, object: usize) -> &Root {
        let behind = self.roots.partition_point(|root| root.first <= object);
        &self.roots[behind - 1]
    }

    /// Patterns of names that are left out of folders.
    pub(crate) const fn patterns(&self) -> &Patterns {
        &self.choice.patterns
    }

    /// The data to send, folders before their contents.
    #[must_use]
    pub fn objects(&self) -> &[Object] {
        &self.objects
    }

    /// Objects that are not sent: links that lead out, devices, sockets, partial files, and keys of a store that are no names.
    #[must_use]
    pub fn skipped(&self) -> &[Skipped] {
        &self.skipped
    }

    /// Entries below a folder that could not be listed, or have names that no receiver takes, each with the reason.
    #[must_use]
    pub const fn unreadable(&self) -> &Failures {
        &self.unreadable
    }

    /// How many files and folders the patterns have left out; the content of a folder is not counted.
    #[must_use]
    pub const fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Opens one of [`Source::objects`] for reading, by its place there.
    ///
    /// # Errors
    ///
    /// [`FileError`]: it is not there any more, not to be read, or not what was listed.
    ///
    /// # Panics
    ///
    /// When the object does not exist.
    pub fn reader(&self, object: usize) -> Result<Reader, FileError> {
        if let Some((bucket, stored)) = &self.bucket {
            return Ok(Reader::of_stored(bucket, &stored[object]));
        }
        Reader::open(self.path_of(object), &self.objects[object])
    }

    /// Opens the one that is a pipe.
    ///
    /// # Errors
    ///
    /// [`FileError`]: it is not there any more, or not to be read.
    ///
    /// # Panics
    ///
    /// When the object does not exist.
    pub fn pipe(&self, object: usize) -> Result<Pipe, FileError> {
        Pipe::open(self.path_of(object))
    }

    /// Whether an object is still a hard link of the file that it was listed as.
    ///
    /// # Errors
    ///
    /// [`FileError`]: one of them is not there any more, or they are two files by now.
    pub(crate) fn check_link(&self, object: usize, of: u32) -> Result<(), FileError> {
        let file = |object: usize| {
            let path = self.path_of(object);
            let found = fs::symlink_metadata(&path).map_err(FileError::at("read", &path))?;
            Ok::<_, FileError>((found.dev(), found.ino()))
        };
        match file(object)? == file(of as usize)? {
            true => Ok(()),
            false => {
                let first = self.objects[of as usize].name.to_string();
                let what = format!("it is no longer a hard link of {first}");
                Err(FileError::Changed { path: self.path_of(object), what })
            }
        }
    }

    /// Where an object is read from.
    fn path_of(&self, object: usize) -> PathBuf {
        let base = &self.root_of(object).base;
        let is_stdin = base == Path::new("-");
        if is_stdin { base.clone() } else { base.join(self.objects[object].name.as_path()) }
    }

    /// Adds the content of `folder`. As deep as names may be.
    fn walk(&mut self, folder: &Path, prefix: &[u8], depth: usize) -> Result<(), FileError> {
        let entries = match entries(folder, MAX_OBJECTS) {
            Ok(entries) => entries,
            // The folder that the user names is all there is to be sent.
            Err(error) if depth == 1 || matches!(error, FileError::TooMuch { .. }) => {
                return Err(error);
            }
            Err(error) => {
                self.unreadable.add(error.to_string());
                return Ok(());
            }
        };
        for entry in entries {
            let name = [prefix, b"/", entry.file_name().as_bytes()].concat();
            self.add(&entry.path(), &name, depth)?;
        }
        Ok(())
    }

    fn add(&mut self, path: &Path, name: &[u8], depth: usize) -> Result<(), FileError> {
        let metadata = match fs::symlink_metadata(path).map_err(FileError::at("read", path)) {
            Ok(metadata) => metadata,
            Err(error) => {
                self.unreadable.add(error.to_string());
                return Ok(());
            }
        };
        let kind = metadata.file_type();
        if self.choice.patterns.leave_out(name, kind.is_dir()) {
            self.left_out += 1;
            return Ok(());
        }
        let last = path.file_name().map(OsStrExt::as_bytes).unwrap_or_default();
        let is_link = kind.is_symlink();
        let why = match Name::new(name) {
            _ if !kind.is_file() && !kind.is_dir() && !is_link => {
                "neither a file, a folder nor a link"
            }
            _ if is_ours(last) => A_PARTIAL_FILE,
            Err(error) => {
                self.unreadable.add(error.to_string());
                return Ok(());
            }
            Ok(name) if is_link => {
                let target = link::target(path);
                match self.why_left_out(&name, &target) {
                    Some(why) => why,
                    None => {
                        // Some file systems give no length of links.
                        let size = Some(target.len() as u64);
                        let object = Object { size, ..Object::of(name, &metadata) };
                        return self.take(path, object, depth);
                    }
                }
            }
            Ok(name) => {
                let object = self.linked(Object::of(name, &metadata), &metadata);
                return self.take(path, object, depth);
            }
        };
        self.bounded(path)?;
        self.skipped.push(Skipped { path: path.into(), name: name.to_vec(), why });
        Ok(())
    }

    /// Why a link is not sent, if it is not.
    fn why_left_out(&mut self, name: &Name, target: &[u8]) -> Option<&'static str> {
        if !link::is_path(target) {
            return Some("a link whose target cannot be read");
        }
        let leads_out = link::leads_out(name, target);
        self.has_links_out |= leads_out && self.choice.links_out;
        (leads_out && !self.choice.links_out)
            .then_some("a link that leads out of the folder that is sent: --links-out sends it")
    }

    /// The object, or a hard link if its file is sent under another name already.
    fn linked(&mut self, object: Object, metadata: &Metadata) -> Object {
        let is_file = object.kind == Kind::File && metadata.nlink() > 1;
        if !self.choice.hard_links || !is_file {
            return object;
        }
        match self.linked.entry((metadata.dev(), metadata.ino())) {
            Entry::Vacant(new) => {
                new.insert(self.objects.len() as u32);
                object
            }
            Entry::Occupied(first) => {
                let file = &mut self.objects[*first.get() as usize];
                (file.has_links, file.by_time) = (true, false);
                let kind = Kind::HardLink(*first.get());
                Object { kind, size: Some(0), has_holes: false, by_time: false, ..object }
            }
        }
    }

    fn take(&mut self, path: &Path, object: Object, depth: usize) -> Result<(), FileError> {
        self.bounded(path)?;
        let name = (object.kind == Kind::Folder).then(|| object.name.as_bytes().to_vec());
        self.objects.push(object);
        if let Some(name) = name.filter(|_| depth < MAX_DEPTH) {
            let listed = self.objects.len();
            self.walk(path, &name, depth + 1)?;
            // A folder without any of the files that are wanted.
            if self.choice.patterns.only_included() && self.objects.len() == listed {
                self.objects.pop();
            }
        }
        Ok(())
    }

    fn bounded(&self, path: &Path) -> Result<(), FileError> {
        if self.objects.len() + self.skipped.len() < MAX_OBJECTS {
            return Ok(());
        }
        Err(too_much(path.parent().unwrap_or(path), MAX_OBJECTS))
    }
}

/// Entries of a folder, in order; more than `limit` is an error, also where patterns would leave some of it out.
fn entries(folder: &Path, limit: usize) -> Result<Vec<DirEntry>, FileError> {
    let entries: io::Result<Vec<_>> =
        fs::read_dir(folder).and_then(|entries| entries.take(limit + 1).collect());
    let mut entries = entries.map_err(FileError::at("list", folder))?;
    if entries.len() > limit {
        return Err(too_much(folder, limit));
    }
    entries.sort_by_key(DirEntry::file_name);
    Ok(entries)
}

fn too_much(path: &Path, limit: usize) -> FileError {
    FileError::TooMuch { path: path.into(), limit, what: "files and folders" }
}

impl Object {
    fn of(name: Name, metadata: &Metadata) -> Self {
        let (kind, size) = match metadata.file_type() {
            kind if kind.is_file() => (Kind::File, Some(metadata.len())),
            kind if kind.is_dir() => (Kind::Folder, Some(0)),
            kind if kind.is_symlink() => (Kind::Link, Some(metadata.len())),
            _ => (Kind::Stream, None),
        };
        // Neither set-user-ID nor sticky bits travel.
        let mode = metadata.mode() & 0o777;
        // The system counts in units of 512 bytes.
        let has_holes = kind == Kind::File && metadata.blocks() * 512 < metadata.len();
        let by_time = kind == Kind::File;
        let modified = Stamp::of(metadata);
        Self { name, kind, size, has_holes, has_links: false, by_time, mode, modified }
    }
}

/// A path with its name: those that end in `.` or `..` have it elsewhere.
fn full(path: &Path) -> Result<PathBuf, FileError> {
    match path.file_name() {
        Some(_) => Ok(path.to_path_buf()),
        None => {
            let full = fs::canonicalize(path).map_err(FileError::at("read", path))?;
            if full.parent().is_none() {
                return Err(FileError::Nameless(path.to_path_buf()));
            }
            Ok(full)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_of_the_file_system_has_no_name() {
        for root in ["/", "/..", "/usr/.."] {
            let error = Source::open(&[root.into()], Patterns::default()).err().unwrap();
            assert!(matches!(error, FileError::Nameless(_)), "{root}: {error}");
        }
    }

    /// Entries beyond the limit were not looked at, and taken for missing, if a pattern left out others.
    #[test]
    fn a_folder_is_not_cut() {
        let at = tempfile::tempdir().unwrap();
        for name in ["a", "b", "c"] {
            fs::write(at.path().join(name), "").unwrap();
        }
        assert_eq!(entries(at.path(), 3).unwrap().len(), 3);
        let cut = entries(at.path(), 2).unwrap_err();
        assert!(matches!(&cut, FileError::TooMuch { path, limit: 2, .. } if path == at.path()));
    }
}
