//! The stages of a transfer one by one, to be called and timed by themselves.
//!
//! A [`Line`] is a transfer with both ends on the calling thread: a file is read, divided, sealed and sent over a
//! UDP lane on loopback, received, opened, put into chunks, hashed and written, and acknowledged, by the
//! same parts and with as much memory as when [`send`](crate::send::send) and
//! [`receive`](crate::receive::receive) do it. Only the order and the times of calls are up to the caller.

mod far;
mod folder;
mod near;

pub use folder::Folder;

use crate::end::FlushError;
use crate::file::{ChunkBytes, FileError};
use crate::lane::{LaneError, OpenError};
use crate::seal::SealError;
use far::Far;
use linecard::time::Instant;
use linecard_transfer::fec::Scheme;
use linecard_transfer::layout::LayoutError;
use near::Near;
use std::io;

/// Chunks of the file that is sent again and again: several times what caches hold, as a page that is
/// written was made long before.
const FILE_CHUNKS: u32 = 48;
/// The protocol's time advances by this with each call, in ns: a pause between calls is not a silence.
const STEP_NS: u64 = 20_000;
/// Idle rounds after which stages run although the queue between the ends is not as deep as set.
const HURRY: u32 = 2;
/// Rounds in which a stage is looked for.
const MOST_IDLE: u32 = 1_000;
/// Calls until both ends know each other: some dozens will do.
const MOST_TO_BEGIN: u32 = 10_000;

/// A stage of a transfer, in the order of a packet's way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Stage {
    /// A chunk is read and hashed.
    Read,
    /// The protocol says which packets leave.
    Split,
    /// Repair packets of a group are made.
    Encode,
    /// A packet is copied behind others, and sealed.
    Seal,
    /// Packets are handed to the kernel, which on loopback brings them to the other socket.
    Tx,
    /// Packets are taken from the kernel.
    Rx,
    /// A packet is opened.
    Open,
    /// The protocol says where a packet belongs, and it is put there.
    Place,
    /// A chunk is hashed, and written.
    Write,
    /// Packets are acknowledged.
    AckTx,
    /// An acknowledgment of packets is taken.
    AckRx,
}

impl Stage {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::Read,
        Self::Split,
        Self::Encode,
        Self::Seal,
        Self::Tx,
        Self::Rx,
        Self::Open,
        Self::Place,
        Self::Write,
        Self::AckTx,
        Self::AckRx,
    ];

    /// Its name, as calibrations and scenarios have it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Split => "split",
            Self::Encode => "encode",
            Self::Seal => "seal",
            Self::Tx => "tx",
            Self::Rx => "rx",
            Self::Open => "open",
            Self::Place => "place",
            Self::Write => "write",
            Self::AckTx => "ack-tx",
            Self::AckRx => "ack-rx",
        }
    }

    /// Whether the sending end has it.
    #[must_use]
    pub const fn is_near(self) -> bool {
        matches!(
            self,
            Self::Read | Self::Split | Self::Encode | Self::Seal | Self::Tx | Self::AckRx
        )
    }
}

/// How packets are made and how many are on their way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineSettings {
    /// Data bytes of a packet.
    pub payload_bytes: u32,
    /// Repair of lost packets.
    pub fec: Scheme,
    /// Bytes of a chunk.
    pub chunk_bytes: ChunkBytes,
    /// Packets in a call of the sending end, 1 to 64.
    pub batch: usize,
    /// Packets that wait in the receiver's socket before it takes any.
    pub depth: usize,
}

/// Why a line cannot continue.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum LineError {
    #[error("no lane: {0}")]
    Lane(#[from] OpenError),
    #[error("the lane failed: {0}")]
    LaneError(#[from] LaneError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Seal(#[from] SealError),
    #[error(transparent)]
    Layout(#[from] LayoutError),
    #[error("{0}: stages of transfers cannot be measured so")]
    Buffers(String),
    #[error("somebody else sends to the line, or it stands still")]
    Stuck,
}

impl From<FlushError> for LineError {
    fn from(error: FlushError) -> Self {
        match error {
            FlushError::Seal(error) => error.into(),
            FlushError::Lane(error) => error.into(),
        }
    }
}

/// A transfer whose stages are called one by one.
#[derive(Debug)]
pub struct Line {
    near: Near,
    far: Far,
    settings: LineSettings,
    now: Instant,
    /// Where the round is, in [`Stage::ALL`], and how many firings it had.
    at: usize,
    done: u64,
    /// Rounds without any.
    idle: u32,
    /// Last: removed when nothing is open there any more.
    folder: Folder,
}

impl Line {
    /// A line, whose files are in memory where that has room.
    ///
    /// # Errors
    ///
    /// [`LineError`]: no lane over loopback, no room, chunks that cannot be divided like this.
    pub fn new(settings: LineSettings) -> Result<Self, LineError> {
        // The file, and its received copy, twice: one replaces another.
        let folder = Folder::with_room(3 * u64::from(FILE_CHUNKS) * settings.chunk_bytes.bytes())?;
        let (near, far) = Near::new(folder.path(), &settings)?;
        // 0 would look like an expired deadline.
        let now = Instant::from_ns(1_000_000_000);
        let mut line = Self { near, far, settings, now, at: 0, done: 0, idle: 0, folder };
        line.begin()?;
        Ok(line)
    }

    /// Goes round until both ends know each other and data has come.
    fn begin(&mut self) -> Result<(), LineError> {
        for _ in 0..MOST_TO_BEGIN {
            if let Some(stage) = self.next_stage()? {
                self.call(stage)?;
            }
            if self.far.placed > 0 {
                return Ok(());
            }
        }
        Err(LineError::Stuck)
    }

    /// The next stage that has something to do, in order behind the one before. A file that is whole is
    /// put away here, which is part of no stage.
    ///
    /// # Errors
    ///
    /// [`LineError`].
    pub fn next_stage(&mut self) -> Result<Option<Stage>, LineError> {
        for _ in 0..MOST_IDLE {
            while let Some(&stage) = Stage::ALL.get(self.at) {
                self.at += 1;
                if self.is_ready(stage) {
                    return Ok(Some(stage));
                }
            }
            self.at = 0;
            self.far.turn_over()?;
            self.idle = if self.done == 0 { self.idle + 1 } else { 0 };
            self.done = 0;
            // Nothing may be due yet.
            self.now = self.now.plus_ns(STEP_NS);
        }
        Ok(None)
    }

    /// Packets that were sent and not taken.
    fn queued(&self) -> u64 {
        (self.near.sent()).saturating_sub(self.far.came())
    }

    /// Whether a stage has something to do.
    fn is_ready(&self, stage: Stage) -> bool {
        let is_deep = self.queued() >= self.settings.depth as u64;
        let hurries = self.idle >= HURRY;
        match stage {
            Stage::AckRx => self.far.number > self.near.heard,
            Stage::Split => self.near.is_ready(stage, self.now) && (!is_deep || hurries),
            Stage::Rx => self.far.is_ready(stage, self.now) && (is_deep || hurries),
            stage if stage.is_near() => self.near.is_ready(stage, self.now),
            stage => self.far.is_ready(stage, self.now),
        }
    }

    /// Calls a stage; how many firings it made: chunks, groups, or packets, of acknowledgments those that
    /// they tell of.
    ///
    /// # Errors
    ///
    /// [`LineError`].
    pub fn call(&mut self, stage: Stage) -> Result<u32, LineError> {
        self.now = self.now.plus_ns(STEP_NS);
        let done = if stage.is_near() {
            self.near.call(stage, self.now)
        } else {
            self.far.call(stage, self.now)
        }?;
        self.done += u64::from(done);
        Ok(done)
    }

    /// Packets in a call of the sending end from now on, 1 to 64.
    pub const fn set_batch(&mut self, batch: usize) {
        self.near.batch = batch;
    }

    /// Has memory for a file that is received ready: [`Folder::warm`]. Before stages are timed on another core,
    /// or after a while.
    ///
    /// # Errors
    ///
    /// The error of the operating system.
    pub fn warm(&self) -> io::Result<()> {
        self.folder.warm(u64::from(FILE_CHUNKS) * self.settings.chunk_bytes.bytes())
    }

    /// Chunks written so far.
    #[must_use]
    pub const fn chunks(&self) -> u64 {
        self.far.chunks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Firings of each stage while some chunks pass, the last file having been compared with its hash.
    fn firings(fec: &str) -> [u64; Stage::ALL.len()] {
        let settings = LineSettings {
            payload_bytes: 1_408,
            fec: fec.parse().unwrap(),
            chunk_bytes: ChunkBytes::new(1 << 16).unwrap(),
            batch: 8,
            depth: 20,
        };
        let mut line = Line::new(settings).unwrap();
        let mut firings = [0; Stage::ALL.len()];
        while line.chunks() < u64::from(FILE_CHUNKS) + 4 {
            let stage = line.next_stage().unwrap().expect("there is always something to do");
            let at = Stage::ALL.iter().position(|other| *other == stage).unwrap();
            firings[at] += u64::from(line.call(stage).unwrap());
        }
        firings
    }

    #[test]
    fn every_stage_has_its_part_of_what_passes() {
        let all = firings("rs:28,4");
        assert!(all.iter().all(|firings| *firings > 0), "{all:?}");
        // 47 packets of data in two groups, and 8 of repair, in each chunk; some are in flight at the end.
        let [read, .., write, _, _] = all;
        assert!((52..=60).contains(&read) && write >= 51, "{all:?}");
        let sealed = all[3];
        assert!((51 * 55..=61 * 55).contains(&sealed), "{all:?}");
        assert!(all[6] <= sealed && all[7] == all[6], "{all:?}");
    }

    #[test]
    fn without_a_code_nothing_is_encoded() {
        let all = firings("none");
        assert_eq!(all[2], 0);
        assert!(all.iter().filter(|firings| **firings == 0).count() == 1, "{all:?}");
    }
}
