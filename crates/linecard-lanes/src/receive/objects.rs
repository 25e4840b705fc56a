//! What is being received: which chunks belong to which object, how long they are, what is still to come.

use super::writing::{Job, Target};
use super::{ReceiveError, ReceiveOptions};
use crate::file::{ChunkBytes, FileError, Folder, Have, Kind, Name, Object, Ordered, Stamp};
use linecard_transfer::control::{self, ChunkRange, End};
use std::collections::{BTreeMap, VecDeque};
use std::io::Write;
use std::ops::Range;
use std::path::Path;

/// Objects that may be open: more than a sender of ours announces ahead.
const MAX_OPEN: usize = 256;

/// Memory for the list of folders, which is kept until the end: this part of that for chunks, and no less than
/// a mebibyte.
const LIST_SHARE: u64 = 8;
const MIN_LIST_BYTES: u64 = 1 << 20;
/// What an entry of the list takes beside its name: itself twice, as lists grow by doubling, and the
/// allocator's own.
const ENTRY_BYTES: u64 = 2 * size_of::<Object>() as u64 + 32;

/// An object that is being received.
#[derive(Debug)]
struct Open {
    id: u32,
    first_chunk: u32,
    size: Option<u64>,
    /// Chunks that are where they belong.
    there: u32,
    end: Option<End>,
    is_folder: bool,
}

/// All that is being received.
#[derive(Debug)]
pub(super) struct Objects {
    folder: Option<Folder>,
    overwrite: bool,
    chunk_bytes: ChunkBytes,
    window: u32,
    open: Vec<Open>,
    /// Lengths of chunks of streams.
    spans: BTreeMap<u32, u32>,
    next_id: u32,
    next_chunk: u32,
    /// Memory for the list of folders, and how much of it is taken.
    max_list_bytes: u64,
    list_bytes: u64,
    pub(super) total_bytes: u64,
    pub(super) had_bytes: u64,
    pub(super) done_bytes: u64,
    pub(super) stored: u64,
    pub(super) stored_bytes: u64,
}

/// What an announcement leads to.
pub(super) struct Announced {
    /// What to tell the sender.
    pub(super) have: control::Have,
    /// Chunks that will not come.
    pub(super) skip: Vec<Range<u32>>,
    pub(super) jobs: VecDeque<Job>,
}

impl Objects {
    pub(super) fn new(
        options: &ReceiveOptions,
        chunk_bytes: u32,
        window: u32,
    ) -> Result<Self, FileError> {
        let folder = options.folder.as_deref().map(Folder::open).transpose()?;
        Ok(Self {
            folder,
            overwrite: options.overwrite,
            chunk_bytes: ChunkBytes::new(chunk_bytes.into())?,
            window,
            open: Vec::new(),
            spans: BTreeMap::new(),
            next_id: 0,
            next_chunk: 0,
            max_list_bytes: (options.memory_bytes / LIST_SHARE).max(MIN_LIST_BYTES),
            list_bytes: 0,
            total_bytes: 0,
            had_bytes: 0,
            done_bytes: 0,
            stored: 0,
            stored_bytes: 0,
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// An object is going to come.
    pub(super) fn announce(&mut self, told: &control::Object) -> Result<Announced, ReceiveError> {
        if told.id != self.next_id || told.first_chunk != self.next_chunk {
            return Err(ReceiveError::Unexpected("an object out of order"));
        }
        let after_stream = self.open.iter().any(|object| object.size.is_none());
        if self.open.len() >= MAX_OPEN || after_stream {
            return Err(ReceiveError::Unexpected("more objects at a time than there may be"));
        }
        let object = object_of(told)?;
        if self.folder.is_none() && (told.id > 0 || object.kind == Kind::Folder) {
            return Err(ReceiveError::OneOnly);
        }
        let count = self.chunk_bytes.count(told.size.unwrap_or(0))?;
        let next = self.next_chunk.checked_add(count);
        self.next_chunk = next.ok_or(ReceiveError::Unexpected("too many chunks"))?;
        self.next_id += 1;
        self.total_bytes += told.size.unwrap_or(0);
        let is_folder = object.kind == Kind::Folder;
        if is_folder {
            self.list(told.name.len())?;
        }
        let (target, have) = self.target(&object)?;
        let size = told.size;
        let there = have.count();
        self.open.push(Open {
            id: told.id,
            first_chunk: told.first_chunk,
            size,
            there,
            end: None,
            is_folder,
        });
        for range in have.ranges() {
            let bytes =
                range.flat_map(|chunk| size.map(|size| self.chunk_bytes.range(chunk, size)));
            self.had_bytes += bytes.map(|bytes| bytes.end - bytes.start).sum::<u64>();
        }
        let first = told.first_chunk;
        let ranges = have
            .ranges()
            .map(|range| ChunkRange { first: first + range.start, count: range.end - range.start });
        let skip = have.ranges().map(|range| first + range.start..first + range.end).collect();
        let have = control::Have { object: told.id, ranges: ranges.collect() };
        let job = target.map(|target| Job::Open { object: told.id, target: Box::new(target) });
        Ok(Announced { have, skip, jobs: job.into_iter().collect() })
    }

    /// Accounts for one more folder, whose name is kept until the end.
    fn list(&mut self, name_bytes: usize) -> Result<(), ReceiveError> {
        self.list_bytes += name_bytes as u64 + ENTRY_BYTES;
        match self.list_bytes > self.max_list_bytes {
            true => Err(ReceiveError::TooManyFolders { limit: self.max_list_bytes }),
            false => Ok(()),
        }
    }

    /// Where it goes, and what of it is there; none for folders.
    fn target(&mut self, object: &Object) -> Result<(Option<Target>, Have), FileError> {
        if object.kind == Kind::Test {
            return Ok((Some(Target::Nowhere), Have::default()));
        }
        let Some(folder) = &mut self.folder else {
            let out: Box<dyn Write + Send> = Box::new(std::io::stdout());
            let path = Path::new("standard output");
            let ordered = Ordered::new(out, path, self.chunk_bytes, self.window);
            let is_folder = object.kind == Kind::Folder;
            return Ok(((!is_folder).then_some(Target::Out(ordered)), Have::default()));
        };
        if object.kind == Kind::Folder {
            folder.make(object)?;
            return Ok((None, Have::default()));
        }
        let sink = folder.sink(object, self.chunk_bytes, self.overwrite)?;
        let have = sink.have();
        Ok((Some(Target::File(sink)), have))
    }

    /// A chunk of a stream has this length.
    pub(super) fn span(&mut self, chunk: u32, bytes: u32) -> Result<(), ReceiveError> {
        let stream = self.open.iter().any(|open| open.size.is_none() && open.first_chunk <= chunk);
        if !stream || self.spans.len() > 2 * self.window as usize + 64 {
            return Err(ReceiveError::Unexpected("the length of a chunk that there is not"));
        }
        self.next_chunk = self.next_chunk.max(chunk.saturating_add(1));
        self.spans.insert(chunk, bytes);
        Ok(())
    }

    /// The length of a chunk, if it is known.
    pub(super) fn length(&self, chunk: u32) -> Option<u32> {
        if let Some(&bytes) = self.spans.get(&chunk) {
            return Some(bytes);
        }
        let open = self.of(chunk)?;
        let range = self.chunk_bytes.range(chunk - open.first_chunk, open.size?);
        u32::try_from(range.end.checked_sub(range.start)?).ok().filter(|bytes| *bytes > 0)
    }

    /// The object of a chunk, and its number there.
    pub(super) fn place(&self, chunk: u32) -> Option<(u32, u32)> {
        self.of(chunk).map(|open| (open.id, chunk - open.first_chunk))
    }

    fn of(&self, chunk: u32) -> Option<&Open> {
        self.open.iter().rev().find(|open| open.first_chunk <= chunk)
    }

    /// An object has been sent. What is to be done if all of it is there.
    pub(super) fn end(&mut self, end: &End) -> Result<Option<Job>, ReceiveError> {
        let Some(open) = self.open.iter_mut().find(|open| open.id == end.object) else {
            return Err(ReceiveError::Unexpected("the end of an object that there is not"));
        };
        if open.size.is_some_and(|size| size != end.size) || open.end.is_some() {
            return Err(ReceiveError::Unexpected("another end of an object than it announced"));
        }
        open.end = Some(*end);
        Ok(self.complete(end.object))
    }

    /// A chunk is where it belongs. What is to be done if all of its object is.
    pub(super) fn written(&mut self, chunk: u32) -> Option<Job> {
        let bytes = self.length(chunk);
        self.spans.remove(&chunk);
        self.done_bytes += u64::from(bytes.unwrap_or(0));
        let (object, _) = self.place(chunk)?;
        let open = self.open.iter_mut().find(|open| open.id == object)?;
        open.there += 1;
        self.complete(object)
    }

    fn complete(&self, object: u32) -> Option<Job> {
        let open = self.open.iter().find(|open| open.id == object)?;
        let end = open.end.as_ref()?;
        let count = self.chunk_bytes.count(end.size).ok()?;
        let all = open.there >= count;
        all.then_some(Job::Finish { object, size: end.size, root: end.root })
    }

    /// Whether an object is a folder, which is there when it was announced.
    pub(super) fn is_folder(&self, object: u32) -> bool {
        self.open.iter().any(|open| open.id == object && open.is_folder)
    }

    /// An object is in its place.
    pub(super) fn close(&mut self, object: u32) {
        if let Some(at) = self.open.iter().position(|open| open.id == object) {
            let open = self.open.remove(at);
            self.stored += 1;
            self.stored_bytes += open.end.map_or(0, |end| end.size);
        }
    }

    /// Everything is there: folders get their modes and times.
    pub(super) fn finish(&mut self) -> Result<(), FileError> {
        self.folder.as_mut().map_or(Ok(()), Folder::finish)
    }
}

fn object_of(told: &control::Object) -> Result<Object, FileError> {
    let kind = match (told.mode & libc::S_IFMT, told.size) {
        (libc::S_IFDIR, _) => Kind::Folder,
        (libc::S_IFCHR, Some(_)) => Kind::Test,
        (_, None) => Kind::Stream,
        _ => Kind::File,
    };
    Ok(Object {
        name: Name::new(&told.name)?,
        kind,
        size: told.size,
        mode: told.mode & 0o7777,
        modified: Stamp::of_ns(told.modified_ns),
    })
}
