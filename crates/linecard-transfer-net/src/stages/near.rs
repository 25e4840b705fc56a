//! The sending end, step by step: as `send::role` and `send::reading` do it, but for one thing: all of a
//! call is sealed before any of it is handed over, which they do by 64 KiB.

use super::far::Far;
use super::{FILE_CHUNKS, LineError, LineSettings, Stage};
use crate::end::{Inbox, SealedSocket};
use crate::file::{ChunkBytes, Folder, Patterns, Reader, Source as Files, Tree};
use crate::lane::{At, Lane, LocalEnd, Udp};
use crate::seal::{LaneSecret, Opener, Sealer};
use linecard::rng::Rng;
use linecard::time::Instant;
use linecard_transfer::control::Mode;
use linecard_transfer::control::Suite;
use linecard_transfer::fec::Repair;
use linecard_transfer::lane::LaneSettings;
use linecard_transfer::send::{Content, SendEvent, SendSettings, Sender, Transmit};
use linecard_transfer::store::Source;
use linecard_transfer::wire::OVERHEAD_BYTES;
use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

/// Nothing is paced here: the caller decides when.
const RATE_BPS: u64 = 1_000_000_000_000;
/// Chunks that the receiver has room for.
const WINDOW: u32 = 8;
const CONNECTION: u32 = 7;

pub(super) struct Near {
    reader: Reader,
    tree: Tree,
    chunk_bytes: ChunkBytes,
    next: u32,
    buffers: Vec<Vec<u8>>,
    sender: Sender,
    source: Source,
    socket: SealedSocket,
    inbox: Inbox,
    transmits: Vec<Transmit>,
    /// Groups among them whose repair is to be made.
    groups: usize,
    room: Vec<u8>,
    pub(super) batch: usize,
    /// Datagrams that wait to be handed over, and those that were.
    sealed: u32,
    sent: u64,
    /// Acknowledgments and answers taken.
    pub(super) heard: u64,
}

impl Near {
    /// Both ends, joined.
    pub(super) fn new(folder: &Path, settings: &LineSettings) -> Result<(Self, Far), LineError> {
        let LineSettings { payload_bytes, fec, chunk_bytes, batch, .. } = *settings;
        let from = folder.join("from");
        write_random(&from, chunk_bytes)?;
        let files = Files::open(std::slice::from_ref(&from), Patterns::default())?;
        let object = files.objects()[0].clone();
        let reader = files.reader(0)?;
        // It is open: whatever ends this process, nothing of it stays.
        fs::remove_file(&from)?;
        let at = || At { local: LocalEnd::Address(IpAddr::V4(Ipv4Addr::LOCALHOST)), port: 0 };
        let far_lane = Udp::bind(&at())?;
        // Waiting packets must fit there, or they are lost.
        if let Some(note) = far_lane.note() {
            return Err(LineError::Buffers(note.into()));
        }
        let near_lane = Udp::connect(&at(), far_lane.local_addr()?)?;
        let sending = SendSettings {
            connection: CONNECTION,
            payload_bytes,
            fec: Repair::Fixed(fec),
            mode: Mode::Stable,
            window_end: WINDOW,
            ..SendSettings::default()
        };
        let lane = LaneSettings {
            rate_bits_per_second: RATE_BPS,
            datagram_bytes: payload_bytes + OVERHEAD_BYTES as u32,
            ..LaneSettings::default()
        };
        let near = Self {
            reader,
            tree: Tree::new(chunk_bytes),
            chunk_bytes,
            next: 0,
            buffers: Vec::new(),
            sender: Sender::new(sending, &[lane], 1),
            source: Source::new(payload_bytes, fec),
            socket: socket(Box::new(near_lane), [1, 2])?,
            inbox: Inbox::new(),
            transmits: Vec::new(),
            groups: 0,
            room: Vec::new(),
            batch,
            sealed: 0,
            sent: 0,
            heard: 0,
        };
        let root = near.root()?;
        let socket = socket(Box::new(far_lane), [2, 1])?;
        let into = Folder::open(folder)?;
        let far = Far::new(socket, (into, object, root), settings, (CONNECTION, WINDOW))?;
        Ok((near, far))
    }

    /// The hash of all.
    fn root(&self) -> Result<blake3::Hash, LineError> {
        let mut tree = Tree::new(self.chunk_bytes);
        let mut buffer = vec![0; self.chunk_bytes.bytes() as usize];
        for chunk in 0..FILE_CHUNKS {
            let (_, hash) = self.reader.read_and_hash(chunk, self.chunk_bytes, &mut buffer)?;
            tree.set(chunk, &hash);
        }
        tree.root(self.reader.size())?.ok_or(LineError::Stuck)
    }

    /// Datagrams handed over.
    pub(super) const fn sent(&self) -> u64 {
        self.sent
    }

    pub(super) fn is_ready(&self, stage: Stage, now: Instant) -> bool {
        match stage {
            Stage::Read => self.sender.room() > 0,
            Stage::Split => {
                let due = self.sender.next_wakeup(0).is_some_and(|at| at <= now);
                self.transmits.is_empty() && self.socket.is_idle() && due
            }
            Stage::Encode => self.groups > 0,
            Stage::Seal => self.groups == 0 && !self.transmits.is_empty(),
            Stage::Tx => !self.socket.is_idle(),
            _ => false,
        }
    }

    pub(super) fn call(&mut self, stage: Stage, now: Instant) -> Result<u32, LineError> {
        match stage {
            Stage::Read => self.read(),
            Stage::Split => Ok(self.split(now)),
            Stage::Encode => Ok(self.encode()),
            Stage::Seal => self.seal(),
            Stage::Tx => {
                self.socket.flush()?;
                self.sent += u64::from(self.sealed);
                Ok(std::mem::take(&mut self.sealed))
            }
            _ => self.hear(now),
        }
    }

    fn read(&mut self) -> Result<u32, LineError> {
        let length = self.chunk_bytes.bytes() as usize;
        let mut buffer = self.buffers.pop().unwrap_or_default();
        buffer.resize(length, 0);
        let of_file = self.next % FILE_CHUNKS;
        let (bytes, hash) = self.reader.read_and_hash(of_file, self.chunk_bytes, &mut buffer)?;
        self.tree.set(of_file, &hash);
        self.source.put(self.next, buffer);
        self.sender.offer(self.next, bytes as u32)?;
        self.next += 1;
        Ok(1)
    }

    fn split(&mut self, now: Instant) -> u32 {
        self.sender.tick(now);
        self.sender.poll(0, now, self.batch, &mut self.transmits);
        self.groups = self.transmits.iter().filter(|transmit| is_first_row(transmit)).count();
        self.transmits.len() as u32
    }

    fn encode(&mut self) -> u32 {
        for transmit in self.transmits.iter().filter(|transmit| is_first_row(transmit)) {
            self.room.clear();
            self.source.fill(transmit, &mut self.room);
        }
        std::mem::take(&mut self.groups) as u32
    }

    fn seal(&mut self) -> Result<u32, LineError> {
        let count = self.transmits.len();
        for transmit in self.transmits.drain(..) {
            let source = &mut self.source;
            self.socket.push(&transmit.header, |out| {
                source.fill(&transmit, out);
            });
        }
        self.socket.seal()?;
        self.sealed += count as u32;
        Ok(count as u32)
    }

    /// Packets that are acknowledged.
    fn hear(&mut self, now: Instant) -> Result<u32, LineError> {
        let in_flight = |sender: &Sender| sender.lane(0).map_or(0, |lane| lane.in_flight());
        let before = in_flight(&self.sender);
        while self.socket.receive(&mut self.inbox)? > 0 {
            for (header, body, _from) in self.inbox.packets() {
                self.heard += 1;
                self.sender.receive(&header, body, now);
            }
        }
        while let Some(event) = self.sender.next_event() {
            if let SendEvent::Done { chunk, .. } = event {
                self.buffers.extend(self.source.remove(chunk));
            }
        }
        let datagram = self.sender.lane(0).map_or(1, |lane| lane.settings().datagram_bytes);
        let bytes = before.saturating_sub(in_flight(&self.sender));
        Ok(bytes.div_ceil(u64::from(datagram)) as u32)
    }
}

impl std::fmt::Debug for Near {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Near").field("next", &self.next).finish_non_exhaustive()
    }
}

/// The first of a group's repair packets: with it, all are made.
const fn is_first_row(transmit: &Transmit) -> bool {
    matches!(transmit.body, Content::Repair { row: 0, .. })
}

/// A lane with keys for both directions, as they are agreed on.
fn socket(lane: Box<dyn Lane>, [own, other]: [u8; 2]) -> Result<SealedSocket, LineError> {
    let suite = Suite::Aes128Gcm;
    let sealer = Sealer::new(suite, LaneSecret::new([own; 32]))?;
    let opener = Opener::new(suite, &LaneSecret::new([other; 32]), 0, CONNECTION)?;
    Ok(SealedSocket::new(lane, (sealer, opener)))
}

fn write_random(path: &Path, chunk_bytes: ChunkBytes) -> Result<(), LineError> {
    let mut file = fs::File::create(path)?;
    let mut bytes = vec![0; chunk_bytes.bytes() as usize];
    let mut rng = Rng::new(1);
    for _ in 0..FILE_CHUNKS {
        rng.fill(&mut bytes);
        std::io::Write::write_all(&mut file, &bytes)?;
    }
    Ok(())
}
