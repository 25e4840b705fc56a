//! The data to send: which objects are announced, what the receiver needs of each, and their state.

use super::delete::Deletion;
use super::plan::{Action, Planned, There};
use super::reading::{Had, Hashes, Order, Read, ReadQueue};
use super::{SendError, SendOptions};
use crate::end::Endpoint;
use crate::file::{ChunkBytes, Failures, FileError, Have, Kind, Object};
use linecard_transfer::control::{self, End, Listed, Message, Removed, Span};
use std::collections::{BTreeMap, BTreeSet};

/// Objects that are announced and not stored yet. Small files over a long round trip are bounded by the
/// window of chunks, not by this.
const MAX_AHEAD: usize = 512;

/// An object that is announced, and neither stored nor given up.
#[derive(Debug, Default)]
struct Open {
    /// The receiver has said what it needs.
    is_ordered: bool,
    /// All of it has been read, and the receiver told its hash.
    is_ended: bool,
    /// It is in its place there, and the same.
    is_there: bool,
    had_bytes: u64,
    /// In a dry run.
    there: There,
}

/// A chunk to be sent.
#[derive(Debug)]
pub(super) struct Chunk {
    /// In the connection.
    pub(super) number: u32,
    pub(super) buffer: Vec<u8>,
    pub(super) bytes: u32,
}

/// State of the objects.
#[derive(Debug, Default)]
pub(super) struct Stored {
    pub(super) objects: u64,
    pub(super) bytes: u64,
    /// Bytes that the receiver had before.
    pub(super) had_bytes: u64,
    pub(super) unchanged: u64,
    pub(super) failures: Failures,
    pub(super) removed: u64,
    pub(super) unremoved: Failures,
    /// In a dry run: the action for each object.
    pub(super) plan: Option<Vec<Planned>>,
}

/// All objects.
pub(super) struct Objects {
    all: Vec<Object>,
    chunk_bytes: ChunkBytes,
    queue: ReadQueue,
    announced: usize,
    first_chunks: Vec<u32>,
    next_chunk: u32,
    /// Objects of which nothing more will be read.
    read: usize,
    /// Objects that the other thread has been asked to read, and has not ended.
    reading: usize,
    open: BTreeMap<u32, Open>,
    /// A result for which there was no room.
    next_read: Option<Read>,
    /// Removes files at the receiver when everything is stored.
    deletion: Option<Deletion>,
    /// Files of which there are hard links, and which the receiver did not have; and which are not transferred.
    changed: BTreeSet<u32>,
    missing: BTreeSet<u32>,
    is_finished: bool,
    pub(super) stored: Stored,
}

impl Objects {
    /// `unreadable` are those that could not even be listed.
    pub(super) fn new(
        options: &SendOptions,
        (all, unreadable): (Vec<Object>, Failures),
        (queue, deletion): (ReadQueue, Option<Deletion>),
    ) -> Self {
        Self {
            all,
            chunk_bytes: options.chunk_bytes,
            queue,
            announced: 0,
            first_chunks: Vec::new(),
            next_chunk: 0,
            read: 0,
            reading: 0,
            open: BTreeMap::new(),
            next_read: None,
            deletion,
            changed: BTreeSet::new(),
            missing: BTreeSet::new(),
            is_finished: false,
            stored: Stored {
                failures: unreadable,
                plan: options.dry_run.then(Vec::new),
                ..Stored::default()
            },
        }
    }

    pub(super) fn count(&self) -> usize {
        self.all.len()
    }

    /// Bytes of all, if that is known.
    pub(super) fn total_bytes(&self) -> Option<u64> {
        self.all.iter().map(|object| object.size).sum()
    }

    /// Whether nothing more will be read.
    pub(super) fn is_read(&self) -> bool {
        self.read == self.all.len()
    }

    /// Whether the receiver was informed that nothing more comes.
    pub(super) const fn is_finished(&self) -> bool {
        self.is_finished
    }

    /// Announces the next objects, as far as the receiver keeps up; behind the last, that nothing more comes.
    pub(super) fn announce(&mut self, endpoint: &mut Endpoint) -> Result<(), SendError> {
        while self.announced < self.all.len() && self.open.len() < MAX_AHEAD {
            let object = &self.all[self.announced];
            let chunks = self.chunk_bytes.count(object.size.unwrap_or(0))?;
            endpoint.send(&Message::Object(control::Object {
                id: self.announced as u32,
                name: object.name.as_bytes().to_vec(),
                size: if object.kind == Kind::Stream { None } else { object.size },
                mode: object.mode | type_bits(object.kind),
                has_holes: object.has_holes,
                by_time: object.by_time,
                has_others: self.all.len() > 1,
                has_links: object.has_links,
                link_of: match object.kind {
                    Kind::HardLink(of) => Some(of),
                    _ => None,
                },
                modified_ns: object.modified.to_ns(),
                first_chunk: self.next_chunk,
            }))?;
            self.open.insert(self.announced as u32, Open::default());
            self.first_chunks.push(self.next_chunk);
            self.next_chunk = self.next_chunk.saturating_add(chunks);
            self.announced += 1;
        }
        let is_done = self.announced == self.all.len() && self.open.is_empty();
        if is_done && !self.is_finished {
            if let Some(deletion) = &mut self.deletion
                && !deletion.go_on(&mut self.stored, endpoint)?
            {
                return Ok(());
            }
            endpoint.send(&Message::Finish)?;
            self.is_finished = true;
        }
        Ok(())
    }

    /// The receiver has listed its files in a folder.
    pub(super) fn listed(&mut self, told: &Listed) -> Result<(), SendError> {
        let unexpected = SendError::Unexpected("a list that was not asked for");
        let deletion = self.deletion.as_mut().ok_or(unexpected)?;
        deletion.listed(told, &mut self.stored)
    }

    /// The receiver has removed what it was asked to.
    pub(super) fn removed(&mut self, told: &Removed) -> Result<(), SendError> {
        let unexpected = SendError::Unexpected("that it removed what it was not asked to");
        self.deletion.as_mut().ok_or(unexpected)?.removed(told, &mut self.stored)
    }

    /// The receiver has named its stored chunks of an object: the rest is read.
    pub(super) fn order(
        &mut self,
        told: &control::Have,
        endpoint: &mut Endpoint,
    ) -> Result<(), SendError> {
        let object = told.object as usize;
        let open = self.open.get_mut(&told.object).filter(|open| !open.is_ordered);
        let (Some(&first_chunk), Some(open)) = (self.first_chunks.get(object), open) else {
            return Err(SendError::Unexpected("that it has an object that was not announced"));
        };
        open.is_ordered = true;
        let mut have = Have::default();
        let size = self.all[object].size.unwrap_or(0);
        let count = self.chunk_bytes.count(size)?;
        for range in &told.ranges {
            let first = range.first.checked_sub(first_chunk).filter(|first| *first < count);
            let Some(first) = first.filter(|first| range.count <= count - first) else {
                return Err(SendError::Unexpected("that it has chunks that do not exist"));
            };
            for chunk in first..first + range.count {
                let bytes = self.chunk_bytes.range(chunk, size);
                open.had_bytes += bytes.end - bytes.start;
                have.insert(chunk);
            }
        }
        self.stored.had_bytes += open.had_bytes;
        let (existing, part, is_same) = (told.existing, told.part, told.is_same);
        let is_dry = self.stored.plan.is_some();
        if is_dry {
            open.there = There::of(told);
            let about = &self.all[object];
            let is_file = matches!(about.kind, Kind::File | Kind::Link);
            // It is known only when the file is that it is a link of.
            let is_link = matches!(about.kind, Kind::HardLink(_));
            if !is_link && (!is_file && !about.is_probe() || is_same) {
                self.planned(told.object, is_same);
                return Ok(());
            }
        }
        // Not even opened: the other thread has nothing to do.
        if is_same && !is_dry && !matches!(self.all[object].kind, Kind::HardLink(_)) {
            return self.end((told.object, size), (Hashes::default(), Had::All), endpoint);
        }
        let proof_key = told.proof_key;
        let order = Order { object, first_chunk, have, existing, part, proof_key, is_same, is_dry };
        self.reading += 1;
        let _gone = self.queue.orders.send(order);
        Ok(())
    }

    /// In a dry run, it is known what the receiver has of an object, and whether that is the same.
    fn planned(&mut self, object: u32, is_equal: bool) {
        let Some(open) = self.open.remove(&object) else { return };
        self.read += 1;
        let is_equal = self.is_equal(object, is_equal);
        let about = &self.all[object as usize];
        let planned = match about.kind {
            Kind::HardLink(of) if self.missing.contains(&of) => {
                let [path, first] =
                    [about, &self.all[of as usize]].map(|of| of.name.as_path().into());
                Err(FileError::NoFirst { path, first })
            }
            _ => open.there.planned(about, open.had_bytes, is_equal),
        };
        let planned = planned.unwrap_or_else(|error| {
            let why = refusal(&error.to_string());
            self.stored.failures.add(why.clone());
            self.missing.extend(about.has_links.then_some(object));
            Planned::refused(about, why)
        });
        if let (Some(deletion), Action::Equal | Action::Replace) =
            (&mut self.deletion, planned.action)
        {
            deletion.is_there(object);
        }
        self.stored.plan.get_or_insert_default().push(planned);
    }

    /// Whether the receiver has an object in its place, as it says: a hard link is there only if its file is that which
    /// is sent.
    fn is_equal(&mut self, object: u32, is_equal: bool) -> bool {
        let about = &self.all[object as usize];
        let is_changed = matches!(about.kind, Kind::HardLink(of) if self.changed.contains(&of));
        self.changed.extend((about.has_links && !is_equal).then_some(object));
        is_equal && !is_changed
    }

    /// An object is not transferred.
    fn fail(&mut self, object: u32, why: String) {
        self.missing.extend(self.all[object as usize].has_links.then_some(object));
        if let Some(plan) = &mut self.stored.plan {
            plan.push(Planned::refused(&self.all[object as usize], why.clone()));
        }
        self.stored.failures.add(why);
    }

    /// The receiver has stored an object.
    pub(super) fn stored(&mut self, object: u32) -> Result<(), SendError> {
        let open = self.open.remove(&object).filter(|open| open.is_ended);
        let Some((open, stored)) = open.zip(self.all.get(object as usize)) else {
            return Err(SendError::Unexpected("that it stored an object that was not all sent"));
        };
        if let Some(deletion) = &mut self.deletion {
            deletion.is_there(object);
        }
        let bytes = stored.size.unwrap_or(0);
        self.stored.objects += 1;
        self.stored.bytes += bytes;
        if open.is_there {
            self.stored.unchanged += 1;
            self.stored.had_bytes += bytes - open.had_bytes.min(bytes);
        }
        Ok(())
    }

    /// The receiver cannot store an object; the others continue.
    pub(super) fn refused(&mut self, object: u32, why: &str) {
        // Both ends may give up the same object at the same time.
        let Some(open) = self.open.remove(&object) else { return };
        self.stored.had_bytes -= open.had_bytes;
        self.fail(object, refusal(why));
        if !open.is_ordered {
            self.read += 1;
        }
    }

    /// Whether something is being read, and the receiver is not what is waited for.
    pub(super) const fn is_reading(&self) -> bool {
        self.reading > 0
    }

    /// Whether a chunk was read for which there was no room.
    pub(super) const fn has_read(&self) -> bool {
        self.next_read.is_some()
    }

    /// The next chunk that was read, if there is `room` for it. Other results are acted on.
    pub(super) fn next_chunk(
        &mut self,
        endpoint: &mut Endpoint,
        room: usize,
    ) -> Result<Option<Chunk>, SendError> {
        loop {
            let read = match self.next_read.take() {
                Some(read) => read,
                None => match self.queue.results.take() {
                    Some(read) => read,
                    None => return Ok(None),
                },
            };
            if matches!(read, Read::End { .. } | Read::Unreadable { .. }) {
                self.reading -= 1;
            }
            match read {
                Read::Chunk { .. } if room == 0 => {
                    self.next_read = Some(read);
                    return Ok(None);
                }
                Read::Chunk { chunk, mut buffer, bytes, of_stream } => {
                    if of_stream {
                        endpoint.send(&Message::Span(Span { chunk, bytes }))?;
                        self.next_chunk = chunk + 1;
                    }
                    buffer.truncate(bytes as usize);
                    return Ok(Some(Chunk { number: chunk, buffer, bytes }));
                }
                Read::Unreadable { object, sent_below, error } => {
                    self.give_up(object as u32, &error);
                    if self.stored.plan.is_none() {
                        endpoint.send_failed(object as u32, Some(sent_below), &error)?;
                    }
                }
                Read::End { object, size, had, .. } if self.stored.plan.is_some() => {
                    self.count_part(object as u32, size, had);
                    self.planned(object as u32, had == Had::All);
                }
                Read::End { object, size, hashes, had } => {
                    self.end((object as u32, size), (hashes, had), endpoint)?;
                }
                Read::Failed(error) => return Err(error.into()),
            }
        }
    }

    /// All of an object has been read, or the receiver has it in its place.
    fn end(
        &mut self,
        (object, size): (u32, u64),
        (Hashes { root, proof }, had): (Hashes, Had),
        endpoint: &mut Endpoint,
    ) -> Result<(), SendError> {
        self.count_part(object, size, had);
        let is_there = self.is_equal(object, had == Had::All);
        if let Some(open) = self.open.get_mut(&object) {
            (open.is_there, open.is_ended) = (is_there, true);
        }
        self.all[object as usize].size.get_or_insert(size);
        self.read += 1;
        Ok(endpoint.send(&Message::End(End { object, size, root, proof }))?)
    }

    /// Counts what the receiver has of an object in a partial file, if that is all of it.
    fn count_part(&mut self, object: u32, size: u64, had: Had) {
        if let (Had::Part, Some(open)) = (had, self.open.get_mut(&object)) {
            self.stored.had_bytes += size - open.had_bytes.min(size);
            open.had_bytes = size;
        }
    }

    /// An object cannot be read any further; the others continue.
    fn give_up(&mut self, object: u32, error: &FileError) {
        if let Some(open) = self.open.remove(&object) {
            self.stored.had_bytes -= open.had_bytes;
            self.fail(object, error.to_string());
        }
        self.read += 1;
    }

    /// The buffer of a chunk that has arrived may be used again.
    pub(super) fn give_back(&self, buffer: Vec<u8>) {
        let _gone = self.queue.buffers.send(buffer);
    }
}

/// The error of the receiver.
pub(super) fn refusal(why: &str) -> String {
    format!("refused by the receiver: {why}")
}

/// Distinguishes folders and devices from files as `st_mode` does.
const fn type_bits(kind: Kind) -> u32 {
    match kind {
        Kind::Folder => libc::S_IFDIR,
        Kind::Link => libc::S_IFLNK,
        Kind::Test => libc::S_IFCHR,
        Kind::File | Kind::HardLink(_) | Kind::Stream => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::super::reading::bound;
    use super::super::results::results;
    use super::*;
    use std::sync::mpsc;

    /// The sender ended well, and had sent nothing.
    #[test]
    fn an_object_is_stored_when_all_of_it_was_sent() {
        let (orders, buffers) = (mpsc::channel().0, mpsc::channel().0);
        let results = results(bound(ChunkBytes::default())).1;
        let mut objects = Objects {
            all: vec![Object::file("file", 3_000)],
            chunk_bytes: ChunkBytes::default(),
            queue: ReadQueue { orders, buffers, results },
            announced: 1,
            first_chunks: vec![0],
            next_chunk: 1,
            read: 0,
            reading: 0,
            open: BTreeMap::new(),
            next_read: None,
            deletion: None,
            changed: BTreeSet::new(),
            missing: BTreeSet::new(),
            is_finished: false,
            stored: Stored::default(),
        };
        for (is_ended, is_believed) in [(false, false), (true, true)] {
            objects.open.insert(0, Open { is_ordered: true, is_ended, ..Open::default() });
            assert_eq!(objects.stored(0).is_ok(), is_believed);
        }
        assert_eq!((objects.stored.objects, objects.stored.bytes), (1, 3_000));
    }
}
