//! What is sent is read and hashed on a thread of its own: lanes do not wait for disks.

use crate::end::Waker;
use crate::file::{ChunkBytes, ChunkHash, FileError, Have, Kind, Object, Reader, Source, Tree};
use std::sync::mpsc::{Receiver, Sender, SyncSender};

/// Results that may wait to be taken.
pub(super) const MAX_READ: usize = 2;

/// What the thread is asked for.
#[derive(Debug)]
pub(super) struct Order {
    pub(super) object: usize,
    pub(super) first_chunk: u32,
    /// Chunks of the object that the receiver has: they are hashed, and not sent.
    pub(super) have: Have,
}

/// What it has done.
#[derive(Debug)]
pub(super) enum Read {
    /// A chunk is to be sent.
    Chunk {
        /// In the connection.
        chunk: u32,
        buffer: Vec<u8>,
        bytes: u32,
        /// Nobody knew how long it would be.
        of_stream: bool,
    },
    /// An object has been read.
    End { object: usize, size: u64, root: [u8; 32] },
    /// It cannot go on.
    Failed(FileError),
}

/// What the thread has.
pub(super) struct Work {
    pub(super) source: Source,
    pub(super) chunk_bytes: ChunkBytes,
    pub(super) orders: Receiver<Order>,
    pub(super) buffers: Receiver<Vec<u8>>,
    pub(super) out: SyncSender<Read>,
    pub(super) waker: Waker,
}

/// Ends of the channels that the other thread has.
pub(super) struct Desk {
    pub(super) orders: Sender<Order>,
    pub(super) buffers: Sender<Vec<u8>>,
    pub(super) results: Receiver<Read>,
}

impl Work {
    /// Reads what is ordered until nobody orders any more.
    pub(super) fn run(self) {
        while let Ok(order) = self.orders.recv() {
            match self.read(&order) {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => {
                    let _gone = self.give(Read::Failed(error));
                    return;
                }
            }
        }
    }

    /// False if nobody takes it any more.
    fn give(&self, read: Read) -> bool {
        let taken = self.out.send(read).is_ok();
        self.waker.wake();
        taken
    }

    fn read(&self, order: &Order) -> Result<bool, FileError> {
        let object = &self.source.objects()[order.object];
        let mut tree = Tree::new(self.chunk_bytes);
        let mut size = 0;
        match object.kind {
            Kind::Folder => {}
            Kind::Test => {
                size = object.size.unwrap_or(0);
                if !self.make_chunks(order, size)? {
                    return Ok(false);
                }
            }
            Kind::File | Kind::Stream => {
                let reader = self.source.reader(object)?;
                if !self.read_chunks(order, object, &reader, &mut tree)? {
                    return Ok(false);
                }
                reader.finish()?;
                size = reader.size();
            }
        }
        let root = tree.root(size)?.map_or([0; 32], |root| *root.as_bytes());
        Ok(self.give(Read::End { object: order.object, size, root }))
    }

    /// Chunks that nobody reads or hashes. False if nobody takes them any more.
    fn make_chunks(&self, order: &Order, size: u64) -> Result<bool, FileError> {
        for chunk in 0..self.chunk_bytes.count(size)? {
            let range = self.chunk_bytes.range(chunk, size);
            let read = Read::Chunk {
                chunk: order.first_chunk + chunk,
                buffer: self.buffer(),
                bytes: (range.end - range.start) as u32,
                of_stream: false,
            };
            if !self.give(read) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// One that is not needed any more, or a new one.
    fn buffer(&self) -> Vec<u8> {
        let length = usize::try_from(self.chunk_bytes.bytes()).unwrap_or(usize::MAX);
        let mut buffer = self.buffers.try_recv().unwrap_or_default();
        buffer.resize(length, 0);
        buffer
    }

    /// False if nobody takes them any more.
    fn read_chunks(
        &self,
        order: &Order,
        object: &Object,
        reader: &Reader,
        tree: &mut Tree,
    ) -> Result<bool, FileError> {
        if object.size == Some(0) {
            return Ok(true);
        }
        for chunk in 0.. {
            let mut buffer = self.buffer();
            let piece = reader.read(chunk, self.chunk_bytes, &mut buffer)?;
            if piece.bytes == 0 {
                return Ok(true);
            }
            tree.set(chunk, &ChunkHash::of(chunk, self.chunk_bytes, &buffer[..piece.bytes]));
            let read = Read::Chunk {
                chunk: order.first_chunk + chunk,
                buffer,
                bytes: piece.bytes as u32,
                of_stream: object.kind == Kind::Stream,
            };
            if !order.have.contains(chunk) && !self.give(read) {
                return Ok(false);
            }
            if piece.is_last {
                return Ok(true);
            }
        }
        Ok(true)
    }
}
