//! Data to send is read and hashed on a separate thread: lanes do not wait for disks.

use super::results::{Bound, Giver, Results, results};
use crate::end::Waker;
use crate::file::{ChunkBytes, FileError, Have, Kind, Object, Pipe, Reader, Source, Tree, derived};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant};

/// Results that may wait to be taken.
const MAX_READ: usize = 256;
/// Of chunks among them, as many bytes as this many full ones have.
const MAX_READ_CHUNKS: u64 = 2;
/// Small objects of an object store that are read ahead: each takes a round trip to the store.
const MAX_AHEAD: usize = 16;
/// The largest of these.
const MAX_AHEAD_BYTES: u64 = 1 << 20;
/// How long data of a pipe waits for more before it is sent: a chunk of its own costs some tenths of a millisecond of a
/// processor.
const HOLD: Duration = Duration::from_millis(10);
/// The first version of messages in which chunks of a pipe have any length.
const SHORT_CHUNKS: u16 = 5;
/// The first version of messages with hard links.
pub(super) const HARD_LINKS: u16 = 6;
/// Buffers that are kept.
const MAX_SPARE: usize = 8;

/// Requests to the thread.
#[derive(Debug)]
pub(super) struct Order {
    pub(super) object: usize,
    pub(super) first_chunk: u32,
    /// Chunks of the object that the receiver has: they are hashed, and not sent.
    pub(super) have: Have,
    /// The hash of a file that the receiver has in its place: if it is the same, nothing is sent.
    pub(super) existing: Option<[u8; 32]>,
    /// A value that follows from the hash of a partial file that may be all of it.
    pub(super) part: Option<[u8; 32]>,
    /// For the proof that this end has all of `existing`.
    pub(super) proof_key: Option<[u8; 32]>,
    /// The receiver has it, by length and time: it is not even read.
    pub(super) is_same: bool,
    /// Nothing is sent: it is opened, and compared.
    pub(super) is_dry: bool,
}

/// The part of an object that the receiver has had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Had {
    /// At most chunks that it has named.
    Chunks,
    /// All of it, in a partial file.
    Part,
    /// All of it, in its place.
    All,
}

/// Its results.
#[derive(Debug)]
pub(super) enum Read {
    /// A chunk is to be sent.
    Chunk {
        /// In the connection.
        chunk: u32,
        buffer: Vec<u8>,
        bytes: u32,
        /// Its length was unknown.
        of_stream: bool,
    },
    /// An object has been read.
    End { object: usize, size: u64, hashes: Hashes, had: Had },
    /// An object cannot be read, from this chunk on, counted in the connection. Others can.
    Unreadable { object: usize, sent_below: u32, error: FileError },
    /// It cannot continue.
    Failed(FileError),
}

/// Hashes of all that is in an object; zeros of one that is not read.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Hashes {
    pub(super) root: [u8; 32],
    /// With the receiver's key.
    pub(super) proof: Option<[u8; 32]>,
}

/// State of the thread.
pub(super) struct Work {
    source: Arc<Source>,
    chunk_bytes: ChunkBytes,
    /// None where the receiver takes only full chunks of pipes.
    hold: Option<Duration>,
    /// Whether the receiver may ask for proofs.
    proves: bool,
    orders: Receiver<Order>,
    /// Orders that were taken early, in turn.
    ahead: VecDeque<(Order, Option<Reader>)>,
    buffers: Buffers,
    out: Giver,
    waker: Waker,
}

/// Buffers of chunks that are done with, for the next.
#[derive(Debug)]
struct Buffers {
    freed: Receiver<Vec<u8>>,
    /// The shortest first, at most [`MAX_SPARE`].
    spare: Vec<Vec<u8>>,
}

/// The read queue: channels to and from the thread that reads.
pub(super) struct ReadQueue {
    pub(super) orders: Sender<Order>,
    pub(super) buffers: Sender<Vec<u8>>,
    pub(super) results: Results,
}

/// The results that may wait where lanes do not keep up.
pub(super) const fn bound(chunk_bytes: ChunkBytes) -> Bound {
    Bound { results: MAX_READ, bytes: MAX_READ_CHUNKS * chunk_bytes.bytes() }
}

/// The work of the thread, for a receiver of this version of messages, and the queue of the lanes' thread, which is woken
/// by results.
pub(super) fn work_and_queue(
    source: Arc<Source>,
    chunk_bytes: ChunkBytes,
    (version, bound): (u16, Bound),
    waker: Waker,
) -> (Work, ReadQueue) {
    let (orders, ordered) = mpsc::channel();
    let (buffers, freed) = mpsc::channel();
    let (out, results) = results(bound);
    let (ahead, freed) = (VecDeque::new(), Buffers::new(freed));
    let hold = (version >= SHORT_CHUNKS).then_some(HOLD);
    let proves = version >= HARD_LINKS;
    let work = Work {
        source,
        chunk_bytes,
        hold,
        proves,
        orders: ordered,
        ahead,
        buffers: freed,
        out,
        waker,
    };
    (work, ReadQueue { orders, buffers, results })
}

impl Buffers {
    const fn new(freed: Receiver<Vec<u8>>) -> Self {
        Self { freed, spare: Vec::new() }
    }

    /// A buffer of `bytes`. Its content is to be overwritten: only what it has to grow is cleared.
    fn take(&mut self, bytes: usize) -> Vec<u8> {
        while let Ok(freed) = self.freed.try_recv() {
            self.keep(freed);
        }
        let at = self.spare.partition_point(|spare| spare.capacity() < bytes);
        // A small file does not keep a large buffer from a large chunk.
        let fits =
            self.spare.get(at).is_some_and(|spare| spare.capacity() / 4 <= bytes.max(1 << 16));
        if !fits {
            return vec![0; bytes];
        }
        let mut buffer = self.spare.remove(at);
        buffer.resize(bytes, 0);
        buffer
    }

    fn keep(&mut self, freed: Vec<u8>) {
        let at = self.spare.partition_point(|spare| spare.capacity() < freed.capacity());
        self.spare.insert(at, freed);
        if self.spare.len() > MAX_SPARE {
            self.spare.remove(0);
        }
    }
}

impl Work {
    /// Reads ordered chunks until there are no more orders.
    pub(super) fn run(mut self) {
        while let Some(next) = self.next_order()
            && self.carry_out(next)
        {}
    }

    /// Reads what an order says. False if it cannot continue.
    fn carry_out(&mut self, (order, reader): (Order, Option<Reader>)) -> bool {
        let mut sent_below = order.first_chunk;
        match self.read((&order, reader), &mut sent_below) {
            Ok(is_taken) => is_taken,
            // One of many: the others continue.
            Err(error) if self.source.objects().len() > 1 && !error.is_of_store() => {
                self.give(Read::Unreadable { object: order.object, sent_below, error })
            }
            Err(error) => {
                let _gone = self.give(Read::Failed(error));
                false
            }
        }
    }

    /// Reads what was ordered so far, without waiting for more; how many orders.
    #[cfg(test)]
    pub(super) fn work_off(&mut self) -> usize {
        let mut count = 0;
        while let Ok(order) = self.orders.try_recv() {
            count += 1;
            self.carry_out((order, None));
        }
        count
    }

    /// The next order; none if no more come. Objects of the next ones are opened if each of them would take a while.
    fn next_order(&mut self) -> Option<(Order, Option<Reader>)> {
        if self.source.is_far() {
            while self.ahead.len() < MAX_AHEAD
                && let Ok(order) = self.orders.try_recv()
            {
                let reader = self.begun(&order);
                self.ahead.push_back((order, reader));
            }
        }
        self.ahead.pop_front().or_else(|| self.orders.recv().ok().map(|order| (order, None)))
    }

    /// The object of an order, if it is small and will be read.
    fn begun(&self, order: &Order) -> Option<Reader> {
        let object = &self.source.objects()[order.object];
        let is_read = !order.is_same && (!order.is_dry || order.is_compared());
        let is_small = object.size.is_some_and(|size| size > 0 && size <= MAX_AHEAD_BYTES);
        let reader = (is_read && is_small && object.kind == Kind::File)
            .then(|| self.source.reader(order.object))?
            .ok()?;
        reader.begin();
        Some(reader)
    }

    /// False if the receiver of the channel has ended.
    fn give(&self, read: Read) -> bool {
        let taken = self.out.give(read);
        self.waker.wake();
        taken
    }

    /// Reads an object, and hands on chunks to send: those below `sent_below` are done.
    fn read(
        &mut self,
        (order, begun): (&Order, Option<Reader>),
        sent_below: &mut u32,
    ) -> Result<bool, FileError> {
        let object = self.source.objects()[order.object].clone();
        let (mut size, mut hashes) = (0, None);
        if let Kind::HardLink(of) = object.kind {
            self.source.check_link(order.object, of)?;
        }
        if order.is_same {
            let size = object.size.unwrap_or(0);
            let (object, hashes) = (order.object, Hashes::default());
            return Ok(self.give(Read::End { object, size, hashes, had: Had::All }));
        }
        match object.kind {
            Kind::Folder | Kind::HardLink(_) => {}
            Kind::Test => {
                let is_taken = match object.size {
                    Some(size) => self.make_chunks(order, size)?,
                    None => self.make_chunks_for(order, self.source.probe),
                };
                if !is_taken {
                    return Ok(false);
                }
                size = object.size.unwrap_or(0);
            }
            Kind::Stream if order.is_dry => {}
            Kind::Stream => {
                let mut pipe = self.source.pipe(order.object)?;
                let root = self.read_pipe(order, &mut pipe, sent_below)?;
                hashes = root.map(|root| Hashes { root, proof: None });
                if hashes.is_none() {
                    return Ok(false);
                }
                size = pipe.bytes();
            }
            Kind::File | Kind::Link => {
                let reader = match begun {
                    Some(reader) => reader,
                    None => self.source.reader(order.object)?,
                };
                if order.is_compared() {
                    let nothing = Have::all(self.chunk_bytes.count(reader.size())?);
                    hashes = self.read_chunks((order, &nothing), &object, &reader, sent_below)?;
                }
                let is_there = order.compare(hashes) != Had::Chunks;
                // If the receiver keeps its file, it only asks whether that is equal.
                let is_read = order.is_dry
                    || order.existing.is_some()
                        && order.have.count() == self.chunk_bytes.count(reader.size())?;
                if !is_there && !is_read {
                    hashes =
                        self.read_chunks((order, &order.have), &object, &reader, sent_below)?;
                }
                if hashes.is_none() && !order.is_dry {
                    return Ok(false);
                }
                reader.finish()?;
                size = reader.size();
            }
        }
        let (object, had) = (order.object, order.compare(hashes));
        let hashes = hashes.unwrap_or_default();
        Ok(self.give(Read::End { object, size, hashes, had }))
    }

    /// Chunks that are neither read nor hashed. False if the receiver of the channel has ended.
    fn make_chunks(&mut self, order: &Order, size: u64) -> Result<bool, FileError> {
        for chunk in 0..self.chunk_bytes.count(size)? {
            let range = self.chunk_bytes.range(chunk, size);
            let bytes = (range.end - range.start) as u32;
            let read = Read::Chunk {
                chunk: order.first_chunk + chunk,
                buffer: self.buffers.take(bytes as usize),
                bytes,
                of_stream: false,
            };
            if !self.give(read) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The same for a time.
    fn make_chunks_for(&mut self, order: &Order, time: Duration) -> bool {
        let begun = Instant::now();
        let bytes = self.chunk_bytes.bytes() as usize;
        (order.first_chunk..u32::MAX).take_while(|_| begun.elapsed() < time).all(|chunk| {
            let buffer = self.buffers.take(bytes);
            self.give(Read::Chunk { chunk, buffer, bytes: bytes as u32, of_stream: true })
        })
    }

    /// The hashes of all chunks, of which those that are not in `have` are handed on. None if nobody takes
    /// them any more.
    fn read_chunks(
        &mut self,
        (order, have): (&Order, &Have),
        object: &Object,
        reader: &Reader,
        sent_below: &mut u32,
    ) -> Result<Option<Hashes>, FileError> {
        let mut tree = Tree::new(self.chunk_bytes);
        // A receiver gets no hash with a key of its own but to find out whether it may make links.
        let is_asked = self.proves && object.has_links && order.existing.is_some();
        let key = order.proof_key.as_ref().filter(|_| is_asked);
        let mut prover = key.map(blake3::Hasher::new_keyed);
        let known = object.size.unwrap_or(u64::MAX);
        for chunk in 0.. {
            let range = self.chunk_bytes.range(chunk, known);
            if range.is_empty() {
                break;
            }
            let mut buffer = self.buffers.take((range.end - range.start) as usize);
            let (bytes, hash) = reader.read_and_hash(chunk, self.chunk_bytes, &mut buffer)?;
            tree.set(chunk, &hash);
            if let Some(prover) = &mut prover {
                prover.update(&buffer[..bytes]);
            }
            if have.contains(chunk) {
                self.buffers.keep(buffer);
            } else {
                let (chunk, bytes) = (order.first_chunk + chunk, bytes as u32);
                if !self.give(Read::Chunk { chunk, buffer, bytes, of_stream: false }) {
                    return Ok(None);
                }
                *sent_below = chunk + 1;
            }
        }
        let proof = prover.map(|prover| *prover.finalize().as_bytes());
        Ok(tree.root(reader.size())?.map(|root| Hashes { root: *root.as_bytes(), proof }))
    }

    /// The hash of all that comes of a pipe, which is handed on. None if nobody takes it any more.
    fn read_pipe(
        &mut self,
        order: &Order,
        pipe: &mut Pipe,
        sent_below: &mut u32,
    ) -> Result<Option<[u8; 32]>, FileError> {
        let mut hasher = blake3::Hasher::new();
        let whole = self.chunk_bytes.bytes() as usize;
        let mut room = self.buffers.take(whole);
        for chunk in order.first_chunk..u32::MAX {
            let bytes = pipe.read(&mut room, self.hold)?;
            if bytes == 0 {
                self.buffers.keep(room);
                return Ok(Some(*hasher.finalize().as_bytes()));
            }
            hasher.update(&room[..bytes]);
            // Many little ones may be on their way.
            let buffer = match bytes < whole / 4 {
                true => room[..bytes].to_vec(),
                false => std::mem::replace(&mut room, self.buffers.take(whole)),
            };
            let read = Read::Chunk { chunk, buffer, bytes: bytes as u32, of_stream: true };
            if !self.give(read) {
                return Ok(None);
            }
            *sent_below = chunk + 1;
        }
        Err(self.chunk_bytes.too_many(pipe.bytes()))
    }
}

impl Order {
    /// Whether it is read first to be compared.
    const fn is_compared(&self) -> bool {
        self.existing.is_some() || self.part.is_some()
    }

    /// The part of what was read that the receiver has had.
    fn compare(&self, hashes: Option<Hashes>) -> Had {
        match hashes {
            Some(Hashes { root, .. }) if self.existing == Some(root) => Had::All,
            Some(Hashes { root, .. }) if self.part == Some(derived(&root)) => Had::Part,
            _ => Had::Chunks,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::Choice;
    use std::fs;

    /// A folder with a file of two names, and another file: their numbers are 1, 2 and 3.
    fn linked() -> (tempfile::TempDir, Arc<Source>) {
        let at = tempfile::tempdir().unwrap();
        fs::write(at.path().join("a"), "content").unwrap();
        fs::hard_link(at.path().join("a"), at.path().join("b")).unwrap();
        fs::write(at.path().join("c"), "content").unwrap();
        let path = at.path().to_path_buf();
        let choice = Choice { hard_links: true, ..Choice::default() };
        let source = Source::open(&[path], choice).unwrap();
        (at, Arc::new(source))
    }

    /// The last result for an order of a receiver with this version of messages.
    fn read(source: &Arc<Source>, version: u16, order: Order) -> Read {
        let chunk_bytes = ChunkBytes::default();
        let (bounds, waker) = ((version, bound(chunk_bytes)), Waker::new().unwrap());
        let source = Arc::clone(source);
        let (mut work, queue) = work_and_queue(source, chunk_bytes, bounds, waker);
        queue.orders.send(order).unwrap();
        assert_eq!(work.work_off(), 1);
        std::iter::from_fn(|| queue.results.take()).last().unwrap()
    }

    fn order(object: usize) -> Order {
        Order {
            object,
            first_chunk: 0,
            have: Have::default(),
            existing: None,
            part: None,
            proof_key: None,
            is_same: false,
            is_dry: false,
        }
    }

    /// A receiver cannot ask for hashes with keys of its own choice of whatever is sent.
    #[test]
    fn only_files_with_hard_links_that_the_receiver_has_are_proved() {
        let (_at, source) = linked();
        let key = [7; 32];
        let proof = *blake3::keyed_hash(&key, b"content").as_bytes();
        let hash = *blake3::hash(b"content").as_bytes();
        for (object, existing, version, expected) in [
            (1, Some(hash), HARD_LINKS, Some(proof)),
            (1, Some([0; 32]), HARD_LINKS, Some(proof)),
            (1, Some(hash), HARD_LINKS - 1, None),
            (1, None, HARD_LINKS, None),
            (3, Some(hash), HARD_LINKS, None),
        ] {
            let order = Order { existing, proof_key: Some(key), ..order(object) };
            let Read::End { hashes, .. } = read(&source, version, order) else {
                panic!("{object} is read to its end");
            };
            assert_eq!((hashes.root, hashes.proof), (hash, expected), "{object} {existing:?}");
        }
    }

    #[test]
    fn what_the_receiver_has_in_its_place_or_in_part_is_not_sent() {
        let (_at, source) = linked();
        let hash = *blake3::hash(b"content").as_bytes();
        let (part, other) = (Some(derived(&hash)), Some([0; 32]));
        for (existing, part, is_dry, expected) in [
            (Some(hash), None, false, Had::All),
            (Some(hash), part, false, Had::All),
            (None, part, false, Had::Part),
            (other, part, false, Had::Part),
            (other, part, true, Had::Part),
            (other, Some(hash), true, Had::Chunks),
        ] {
            let order = Order { existing, part, is_dry, ..order(3) };
            let Read::End { had, .. } = read(&source, HARD_LINKS, order) else {
                panic!("it is read to its end");
            };
            assert_eq!(had, expected, "{existing:?} {part:?}");
        }
    }

    #[test]
    fn a_link_that_the_receiver_has_is_one_here_as_well() {
        let (at, source) = linked();
        let there = || Order { is_same: true, ..order(2) };
        let read_again = || read(&source, HARD_LINKS, there());
        assert!(matches!(read_again(), Read::End { had: Had::All, .. }));
        fs::remove_file(at.path().join("b")).unwrap();
        fs::write(at.path().join("b"), "another").unwrap();
        let read = read_again();
        let Read::Unreadable { object: 2, error: FileError::Changed { what, .. }, .. } = &read
        else {
            panic!("{read:?}");
        };
        assert!(what.contains("no longer a hard link of"), "{what}");
    }
}
