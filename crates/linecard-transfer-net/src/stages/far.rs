//! The receiving end, step by step: as `receive::role` and `receive::writing` do it, one call to the lane
//! at a time.

use super::{FILE_CHUNKS, LineError, LineSettings, Stage};
use crate::end::{Inbox, SealedSocket};
use crate::file::{ChunkBytes, Folder, Name, Object, Sink};
use linecard::time::Instant;
use linecard_transfer::lane::AckSettings;
use linecard_transfer::receive::{Arrival, ReceiveEvent, ReceiveSettings, Receiver};
use linecard_transfer::store::Store;
use linecard_transfer::wire::{Header, Kind};
use std::collections::VecDeque;

pub(super) struct Far {
    socket: SealedSocket,
    inbox: Inbox,
    /// Taken from the socket, and not opened.
    taken: usize,
    /// Opened, and not placed.
    opened: usize,
    receiver: Receiver,
    announced: u32,
    store: Store,
    whole: VecDeque<(u32, u32, Vec<u8>)>,
    folder: Folder,
    object: Object,
    root: blake3::Hash,
    chunk_bytes: ChunkBytes,
    sink: Option<Sink>,
    written: u32,
    /// Chunks written, of all files.
    pub(super) chunks: u64,
    /// Acknowledgments and answers sent.
    pub(super) number: u64,
    came: u64,
    /// Packets placed, and those of them that no acknowledgment has told of.
    pub(super) placed: u64,
    unacknowledged: u32,
}

impl Far {
    pub(super) fn new(
        socket: SealedSocket,
        (folder, object, root): (Folder, Object, blake3::Hash),
        settings: &LineSettings,
        (connection, window): (u32, u32),
    ) -> Result<Self, LineError> {
        let LineSettings { payload_bytes, fec, chunk_bytes, .. } = *settings;
        let bytes = chunk_bytes.bytes() as u32;
        let receiving = ReceiveSettings {
            connection,
            lanes: 1,
            payload_bytes,
            chunk_bytes: bytes,
            fec,
            window,
            memory_bytes: u64::MAX,
            ack: AckSettings::default(),
        };
        Ok(Self {
            socket,
            inbox: Inbox::new(),
            taken: 0,
            opened: 0,
            receiver: Receiver::new(receiving, &[], 2)?,
            announced: 0,
            store: Store::new(bytes, payload_bytes, fec),
            whole: VecDeque::new(),
            folder,
            object: Object { name: Name::new(b"to")?, ..object },
            root,
            chunk_bytes,
            sink: None,
            written: 0,
            chunks: 0,
            number: 0,
            came: 0,
            placed: 0,
            unacknowledged: 0,
        })
    }

    /// Datagrams taken.
    pub(super) const fn came(&self) -> u64 {
        self.came
    }

    pub(super) fn is_ready(&self, stage: Stage, now: Instant) -> bool {
        match stage {
            Stage::Rx => self.taken == 0 && self.opened == 0,
            Stage::Open => self.taken > 0,
            Stage::Place => self.opened > 0,
            Stage::Write => !self.whole.is_empty() && self.sink.is_some(),
            _ => self.receiver.next_wakeup(0).is_some_and(|at| at <= now),
        }
    }

    pub(super) fn call(&mut self, stage: Stage, now: Instant) -> Result<u32, LineError> {
        match stage {
            Stage::Rx => {
                self.taken = self.socket.take(&mut self.inbox)?;
                self.came += self.taken as u64;
                Ok(self.taken as u32)
            }
            Stage::Open => self.open(),
            Stage::Place => self.place(now),
            Stage::Write => self.write(),
            _ => self.reply(now),
        }
    }

    fn open(&mut self) -> Result<u32, LineError> {
        self.opened = self.socket.open(&mut self.inbox);
        let taken = std::mem::take(&mut self.taken);
        if self.opened != taken {
            return Err(LineError::Stuck);
        }
        Ok(taken as u32)
    }

    fn place(&mut self, now: Instant) -> Result<u32, LineError> {
        let window_end = self.receiver.window_end();
        while self.announced < window_end {
            let announced = self.receiver.announce(self.announced, self.chunk_bytes.bytes() as u32);
            announced.map_err(|_| LineError::Stuck)?;
            self.announced += 1;
        }
        let count = std::mem::take(&mut self.opened) as u32;
        for (header, body, from) in self.inbox.packets() {
            let arrival = self.receiver.receive(&header, body, now);
            self.store.put(arrival, body);
            if header.kind == Kind::Probe {
                from.into_iter().for_each(|from| self.socket.answer_to(from));
            }
            self.placed += u64::from(matches!(arrival, Arrival::Data { .. }));
        }
        self.unacknowledged += count;
        while let Some(event) = self.receiver.next_event() {
            match event {
                ReceiveEvent::Whole { chunk, bytes } => {
                    let buffer = self.store.take(chunk).ok_or(LineError::Stuck)?;
                    self.whole.push_back((chunk, bytes, buffer));
                }
                ReceiveEvent::Repair { chunk, group, bytes, missing } => {
                    let _repaired = self.store.repair(chunk, group, bytes, &missing);
                }
            }
        }
        Ok(count)
    }

    fn write(&mut self) -> Result<u32, LineError> {
        // A complete file is not written to before it is stored.
        let Some(sink) = self.sink.as_ref().filter(|_| self.written < FILE_CHUNKS) else {
            return Ok(0);
        };
        let Some((chunk, bytes, buffer)) = self.whole.pop_front() else { return Ok(0) };
        sink.write(chunk % FILE_CHUNKS, &buffer[..bytes as usize])?;
        self.receiver.taken(chunk);
        self.store.give_back(buffer);
        self.written += 1;
        self.chunks += 1;
        Ok(1)
    }

    /// A file that is whole gets its name, and a new one is begun: no part of any stage.
    pub(super) fn turn_over(&mut self) -> Result<(), LineError> {
        if self.written == FILE_CHUNKS {
            self.written = 0;
            if let Some(sink) = self.sink.take() {
                sink.finish(&self.root)?;
            }
        }
        if self.sink.is_none() {
            self.sink = Some(self.folder.sink(&self.object, self.chunk_bytes, true)?);
        }
        Ok(())
    }

    fn reply(&mut self, now: Instant) -> Result<u32, LineError> {
        while let Some((reply, _)) = self.receiver.poll(0, now) {
            let header =
                Header::without_chunk(reply.kind(), 0, self.receiver.connection(), self.number);
            self.number += 1;
            self.socket.push(&header, |out| reply.write(out));
            self.socket.flush()?;
        }
        Ok(std::mem::take(&mut self.unacknowledged))
    }
}

impl std::fmt::Debug for Far {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Far").field("placed", &self.placed).finish_non_exhaustive()
    }
}
