//! The object being received: which chunks belong to which object, their lengths, and the missing ones.

use super::writing::{Findings, Job, LINKED_BYTES};
use super::{ReceiveError, ReceiveOptions};
use crate::file::{
    ChunkBytes, Failures, FileError, Have, Kind, MADE_BYTES, Name, Object, Stamp, derived,
};
use linecard_transfer::control::{self, ChunkRange, End};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;

/// Objects that may be open: more than a sender of ours announces ahead.
const MAX_OPEN: usize = 1_024;

/// How far an object is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The other thread looks for parts of it that are stored.
    Opening,
    /// The sender has been told what to send.
    Coming,
    /// It cannot be stored. Data that the sender has sent of it is dropped.
    Refused,
    /// The sender has given it up.
    GivenUp,
}

/// Memory for the lists of folders and of files with hard links, which are kept until the end: this part of that for
/// chunks, and no less than a mebibyte.
const LIST_SHARE: u64 = 8;
const MIN_LIST_BYTES: u64 = 1 << 20;

/// An object that is being received.
#[derive(Debug)]
struct Open {
    id: u32,
    name: Name,
    first_chunk: u32,
    /// Those of a pipe are known at its end.
    chunks: Option<u32>,
    size: Option<u64>,
    state: State,
    /// Chunks that need not come.
    have: Have,
    had_bytes: u64,
    /// The hash of an existing file of this name and length.
    existing: Option<[u8; 32]>,
    /// The value that was told of a partial file that may be all of it.
    part: Option<[u8; 32]>,
    /// It is in its place: the other thread has nothing to do at its end.
    is_settled: bool,
    /// Chunks that are where they belong.
    there: u32,
    end: Option<End>,
    /// Test data of a dry run, which comes until that ends.
    is_probe: bool,
}

/// All that is being received.
#[derive(Debug, Default)]
pub(super) struct Objects {
    /// A dry run: the sender only asks for the stored objects.
    is_dry: bool,
    /// Into a folder or an object store, or out.
    has_folder: bool,
    chunk_bytes: ChunkBytes,
    window: u32,
    /// In the order of their numbers, which is that of announcement; the first ones are mostly done first.
    open: VecDeque<Open>,
    /// Lengths of chunks of streams.
    spans: BTreeMap<u32, u32>,
    next_id: u32,
    next_chunk: u32,
    /// Files of which there are hard links.
    with_links: BTreeSet<u32>,
    /// Memory for the lists of folders and of such files, and how much of it is taken.
    max_list_bytes: u64,
    list_bytes: u64,
    /// There is only one, which is not a folder.
    is_alone: bool,
    pub(super) total_bytes: u64,
    pub(super) had_bytes: u64,
    pub(super) done_bytes: u64,
    pub(super) stored: u64,
    pub(super) stored_bytes: u64,
    pub(super) unchanged: u64,
    pub(super) failures: Failures,
}

/// Decision about an object.
#[derive(Debug)]
pub(super) enum Step {
    /// More is to come.
    Wait,
    /// All has come.
    Finish(Job),
    /// Nothing had to come.
    Settled,
    /// No more comes, and it is not stored.
    Drop(Job),
}

impl Objects {
    pub(super) fn new(
        options: &ReceiveOptions,
        (chunk_bytes, window): (u32, u32),
        is_dry: bool,
    ) -> Result<Self, FileError> {
        Ok(Self {
            is_dry,
            has_folder: options.folder.is_some() || options.bucket.is_some(),
            chunk_bytes: ChunkBytes::new(chunk_bytes.into())?,
            window,
            max_list_bytes: (options.memory_bytes / LIST_SHARE).max(MIN_LIST_BYTES),
            ..Self::default()
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Whether test data of a dry run comes.
    pub(super) fn is_probed(&self) -> bool {
        self.open.iter().any(|open| open.is_probe)
    }

    /// No more objects come, nor test data of a dry run.
    pub(super) fn finish(&mut self) {
        self.open.retain(|open| !open.is_probe);
    }

    /// All that was announced is in its place.
    pub(super) fn are_stored(&self) -> bool {
        self.open.is_empty() && self.failures.count() == 0
    }

    /// An object is going to come.
    pub(super) fn announce(&mut self, told: &control::Object) -> Result<Job, ReceiveError> {
        if told.id != self.next_id || told.first_chunk != self.next_chunk {
            return Err(ReceiveError::Unexpected("an object out of order"));
        }
        let after_stream = self.open.back().is_some_and(|object| object.size.is_none());
        if self.open.len() >= MAX_OPEN || after_stream {
            return Err(ReceiveError::Unexpected("more objects at a time than the limit"));
        }
        let object = object_of(told)?;
        if !self.has_folder && (told.id > 0 || object.kind == Kind::Folder) {
            return Err(ReceiveError::OneOnly);
        }
        let count = self.chunk_bytes.count(told.size.unwrap_or(0))?;
        let next = self.next_chunk.checked_add(count);
        self.next_chunk = next.ok_or(ReceiveError::Unexpected("too many chunks"))?;
        self.next_id += 1;
        self.check_links(&object)?;
        if object.kind == Kind::Folder {
            self.list(told.name.len() as u64 + MADE_BYTES)?;
        }
        if object.has_links {
            self.list(told.name.len() as u64 + LINKED_BYTES)?;
            self.with_links.insert(told.id);
        }
        let is_single = !told.has_others && told.id == 0 && object.kind != Kind::Folder;
        // The answer to a question is listed.
        self.is_alone = is_single && !self.is_dry;
        self.total_bytes = self.total_bytes.saturating_add(told.size.unwrap_or(0));
        self.open.push_back(Open {
            id: told.id,
            name: object.name.clone(),
            first_chunk: told.first_chunk,
            chunks: told.size.map(|_| count),
            size: told.size,
            state: State::Opening,
            have: Have::default(),
            had_bytes: 0,
            existing: None,
            part: None,
            is_settled: false,
            there: 0,
            end: None,
            is_probe: self.is_dry && object.is_probe(),
        });
        Ok(Job::Open { object: told.id, about: Box::new(object) })
    }

    /// Hard links are of files that were announced before, as such files, and have no bytes of their own.
    fn check_links(&self, object: &Object) -> Result<(), ReceiveError> {
        match object.kind {
            Kind::HardLink(of) if object.has_links || !self.with_links.contains(&of) => {
                Err(ReceiveError::Unexpected("a hard link of another object than a file before it"))
            }
            Kind::HardLink(_) if object.size != Some(0) => {
                Err(ReceiveError::Unexpected("a hard link with a length"))
            }
            Kind::File | Kind::HardLink(_) => Ok(()),
            _ if object.has_links => {
                Err(ReceiveError::Unexpected("hard links of another object than a file"))
            }
            _ => Ok(()),
        }
    }

    /// An object is open: what to tell the sender, and which chunks will not come.
    pub(super) fn opened(
        &mut self,
        object: u32,
        found: Findings,
    ) -> Option<(control::Have, Vec<Range<u32>>)> {
        let Findings { have, existing, part, is_same, is_settled, replaces, proof_key } = found;
        let chunk_bytes = self.chunk_bytes;
        let open = self.place_of(object).map(|at| &mut self.open[at])?;
        open.state = State::Coming;
        open.there = have.count();
        let size = open.size.unwrap_or(0);
        let bytes = |range: Range<u32>| {
            chunk_bytes.start(range.end).min(size) - chunk_bytes.start(range.start).min(size)
        };
        open.had_bytes = have.ranges().map(bytes).sum();
        self.had_bytes += open.had_bytes;
        let first = open.first_chunk;
        let ranges = have
            .ranges()
            .map(|range| ChunkRange { first: first + range.start, count: range.end - range.start });
        let skip = have.ranges().map(|range| first + range.start..first + range.end).collect();
        let ranges = ranges.collect();
        let part = part.map(|hash| derived(hash.as_bytes()));
        let told = control::Have { object, ranges, existing, part, is_same, replaces, proof_key };
        (open.have, open.is_settled) = (have, is_settled);
        (open.existing, open.part) = (existing, part);
        if self.is_dry && !open.is_probe {
            // Nothing comes of it.
            self.remove(object);
            return Some((told, Vec::new()));
        }
        Some((told, skip))
    }

    /// Accounts for one more folder or file with hard links, whose name is kept until the end.
    fn list(&mut self, bytes: u64) -> Result<(), ReceiveError> {
        self.list_bytes += bytes;
        match self.list_bytes > self.max_list_bytes {
            true => Err(ReceiveError::TooManyFolders { limit: self.max_list_bytes }),
            false => Ok(()),
        }
    }

    /// An object cannot be stored. Returns the chunks that will not come, and the next action.
    pub(super) fn refused(
        &mut self,
        object: u32,
        error: FileError,
    ) -> Result<(Vec<Range<u32>>, Step), ReceiveError> {
        if self.is_alone {
            return Err(error.into());
        }
        self.failures.add(error.to_string());
        let Some(open) = self.place_of(object).map(|at| &mut self.open[at]) else {
            return Ok((Vec::new(), Step::Wait));
        };
        let was = open.state;
        if was != State::GivenUp {
            open.state = State::Refused;
        }
        if was != State::Opening {
            return Ok((Vec::new(), self.step(object)));
        }
        // The sender has not begun it, and will not.
        let skip = open.first_chunk..open.first_chunk + open.chunks.unwrap_or(0);
        Ok((vec![skip], Step::Drop(Job::Abandon { object })))
    }

    /// The sender gives an object up. Returns the chunks that will not come, and the next action.
    pub(super) fn given_up(
        &mut self,
        object: u32,
        failed: &control::Failed,
    ) -> Result<(Vec<Range<u32>>, Step), ReceiveError> {
        let open = self.place_of(object).map(|at| &mut self.open[at]);
        let Some(open) = open.filter(|open| open.end.is_none() && open.state != State::GivenUp)
        else {
            return Err(ReceiveError::Unexpected("the failure of an object that does not exist"));
        };
        let (Some(count), false) = (open.chunks, open.state == State::Opening) else {
            return Err(ReceiveError::Unexpected("the failure of an object before it has begun"));
        };
        if open.state == State::Coming {
            self.failures.add(format!("{}: {}", open.name, failed.text));
        }
        open.state = State::GivenUp;
        let sent = failed.sent_below.map_or(count, |end| end.saturating_sub(open.first_chunk));
        let skip = open.skip_from(sent, count);
        Ok((skip, self.step(object)))
    }

    /// A chunk of a stream has this length.
    pub(super) fn span(&mut self, chunk: u32, bytes: u32) -> Result<(), ReceiveError> {
        let is_of = |open: &Open| open.chunks.is_none() && open.first_chunk <= chunk;
        let is_length = bytes > 0 && u64::from(bytes) <= self.chunk_bytes.bytes();
        let has_room = self.spans.len() <= 2 * self.window as usize + 64;
        if !self.open.iter().any(is_of) || !is_length || !has_room {
            return Err(ReceiveError::Unexpected("the length of a chunk that does not exist"));
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

    /// The first chunk of the next object, if `chunk` is of none that is open.
    pub(super) fn next_begin(&self, chunk: u32) -> Option<u32> {
        if self.of(chunk).is_some() {
            return None;
        }
        let next = self.open.partition_point(|open| open.first_chunk <= chunk);
        self.open.get(next).map(|open| open.first_chunk)
    }

    /// The object of a chunk, and its number there.
    pub(super) fn place(&self, chunk: u32) -> Option<(u32, u32)> {
        self.of(chunk).map(|open| (open.id, chunk - open.first_chunk))
    }

    /// Objects without chunks begin where the one before them ends.
    fn of(&self, chunk: u32) -> Option<&Open> {
        let count = |open: &Open| open.chunks.unwrap_or(u32::MAX);
        let end = self.open.partition_point(|open| open.first_chunk <= chunk);
        let last = self.open.iter().take(end).rev().find(|open| count(open) > 0);
        last.filter(|open| chunk - open.first_chunk < count(open))
    }

    /// Objects are announced in the order of their numbers.
    fn place_of(&self, id: u32) -> Option<usize> {
        self.open.binary_search_by_key(&id, |open| open.id).ok()
    }

    /// An object has been sent. Returns the chunks that will not come, and the next action if all of it is stored.
    pub(super) fn end(&mut self, end: &End) -> Result<(Vec<Range<u32>>, Step), ReceiveError> {
        let next_chunk = self.next_chunk;
        let Some(open) = self.place_of(end.object).map(|at| &mut self.open[at]) else {
            return Err(ReceiveError::Unexpected("the end of an object that does not exist"));
        };
        let is_open = matches!(open.state, State::Coming | State::Refused) && open.end.is_none();
        if open.size.is_some_and(|size| size != end.size) || !is_open {
            return Err(ReceiveError::Unexpected("another end of an object than it announced"));
        }
        open.end = Some(*end);
        // Lengths of chunks came before the end, and another object has not begun.
        let chunks = *open.chunks.get_or_insert(next_chunk - open.first_chunk);
        // The sender has compared: the stored object is the same, and none of its chunks come.
        let is_same = open.existing == Some(end.root);
        let is_part = !is_same && open.part == Some(derived(&end.root));
        if is_part {
            self.had_bytes += end.size - open.had_bytes.min(end.size);
            open.had_bytes = end.size;
        }
        let skip = if is_same || is_part { open.skip_from(0, chunks) } else { Vec::new() };
        Ok((skip, self.step(end.object)))
    }

    /// A chunk is where it belongs. The next step if its object is complete.
    pub(super) fn written(&mut self, chunk: u32) -> Step {
        let bytes = self.length(chunk);
        self.spans.remove(&chunk);
        self.done_bytes += u64::from(bytes.unwrap_or(0));
        let Some((object, _)) = self.place(chunk) else { return Step::Wait };
        let Some(open) = self.place_of(object).map(|at| &mut self.open[at]) else {
            return Step::Wait;
        };
        open.there += 1;
        self.step(object)
    }

    fn step(&self, object: u32) -> Step {
        let Some(open) = self.place_of(object).map(|at| &self.open[at]) else {
            return Step::Wait;
        };
        let Some(chunks) =
            open.chunks.filter(|_| open.end.is_some() || open.state == State::GivenUp)
        else {
            return Step::Wait;
        };
        match (&open.end, open.state) {
            _ if open.there < chunks => Step::Wait,
            (Some(_), State::Coming) if open.is_settled => Step::Settled,
            (Some(end), State::Coming) => {
                let End { size, root, proof, .. } = *end;
                Step::Finish(Job::Finish { object, size, root, proof })
            }
            _ => Step::Drop(Job::Abandon { object }),
        }
    }

    /// An object is in its place; `was_there` if it was so before. False if it is not open.
    pub(super) fn close(&mut self, object: u32, was_there: bool) -> bool {
        let Some(open) = self.remove(object) else { return false };
        let bytes = open.end.map_or(0, |end| end.size);
        self.stored += 1;
        self.stored_bytes += bytes;
        if was_there {
            self.unchanged += 1;
            self.had_bytes += bytes - open.had_bytes.min(bytes);
        }
        true
    }

    /// An object is not stored.
    pub(super) fn drop_object(&mut self, object: u32) {
        if let Some(open) = self.remove(object) {
            self.had_bytes -= open.had_bytes;
        }
    }

    fn remove(&mut self, object: u32) -> Option<Open> {
        self.place_of(object).and_then(|at| self.open.remove(at))
    }
}

impl Open {
    /// Of its `count` chunks, those from `from` on do not come: which the other end has not been told of yet,
    /// counted in the connection.
    fn skip_from(&mut self, from: u32, count: u32) -> Vec<Range<u32>> {
        let gaps = self.have.missing(count).map(|gap| gap.start.max(from)..gap.end);
        let gaps: Vec<Range<u32>> = gaps.filter(|gap| !gap.is_empty()).collect();
        self.there += gaps.iter().map(|gap| gap.end - gap.start).sum::<u32>();
        let first = self.first_chunk;
        gaps.into_iter().map(|gap| first + gap.start..first + gap.end).collect()
    }
}

fn object_of(told: &control::Object) -> Result<Object, ReceiveError> {
    let kind = match (told.mode & libc::S_IFMT, told.size) {
        (libc::S_IFDIR, _) => Kind::Folder,
        (libc::S_IFLNK, Some(_)) => Kind::Link,
        (libc::S_IFCHR, _) => Kind::Test,
        (_, None) => Kind::Stream,
        _ => Kind::File,
    };
    let kind = match (told.link_of, kind) {
        (Some(of), Kind::File) => Kind::HardLink(of),
        (Some(_), _) => return Err(ReceiveError::Unexpected("a hard link that is no file")),
        (None, kind) => kind,
    };
    Ok(Object {
        name: Name::new(&told.name)?,
        kind,
        size: told.size,
        has_holes: told.has_holes,
        has_links: told.has_links,
        // Length and time are no proof that the sender has the file.
        by_time: told.by_time && !told.has_links,
        mode: told.mode & 0o7777,
        modified: Stamp::of_ns(told.modified_ns),
    })
}
