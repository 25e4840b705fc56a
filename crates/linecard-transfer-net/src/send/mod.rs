//! The sending end on a real network.

mod busy;
mod connection;
mod delete;
mod error;
mod lanes;
mod notes;
mod objects;
mod open;
mod path;
mod plan;
mod reading;
mod results;
mod role;
mod silence;
#[cfg(test)]
pub(crate) mod simulated;

pub use error::SendError;
pub use path::LaneProblem;
pub use plan::{Action, Planned};

use crate::control::Access;
use crate::end::{
    Clock, CoreTimes, Cores, Crew, Driver, Pinned, SocketCounters, Waker, processor_time,
};
use crate::file::{Choice, ChunkBytes, Failures, FileError, Input, Kind, Skipped, Source};
use crate::lane::Spec;
use linecard::progress::Progress;
use linecard_transfer::control::Mode;
use linecard_transfer::fec::Repair;
use linecard_transfer::lane::{LaneCounters, LaneState};
use linecard_transfer::send::{LimitTimes, SendCounters};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// Data to send, its receiver, and the options.
#[derive(Debug, Clone)]
pub struct SendOptions {
    /// What.
    pub input: Input,
    /// The part of folders, and how.
    pub choice: Choice,
    /// Find out what would be sent, and send nothing.
    pub dry_run: bool,
    /// When everything is stored, remove files from the folders that are sent that the receiver has and this end does
    /// not have.
    pub delete: bool,
    /// Nothing is removed if it would be more files and folders than this. If it is not given: than 1,000, or if a
    /// folder that they are in is empty at this end.
    pub max_delete: Option<u64>,
    /// Where the receiver listens.
    pub peer: SocketAddr,
    /// Its name in the user's input: under that name its key is known.
    pub name: String,
    /// How both ends know each other.
    pub access: Access,
    /// Lanes; if there are none, one over UDP from each interface of this host by which the receiver is reached.
    pub lanes: Vec<Spec>,
    /// The rate of lanes that say none, in bit/s.
    pub rate_bits_per_second: Option<u64>,
    /// How chunks are spread over lanes.
    pub mode: Mode,
    /// Repair of lost packets.
    pub fec: Repair,
    /// Bytes of a chunk.
    pub chunk_bytes: ChunkBytes,
    /// Data bytes of a packet; as many as all lanes carry if not said.
    pub payload_bytes: Option<u32>,
    /// Where its threads run.
    pub cores: Cores,
    /// How long to wait for the receiver, and for progress.
    pub patience: Duration,
    /// Ends the transfer early.
    pub stop: Arc<Progress>,
}

impl SendOptions {
    /// The source of the objects.
    fn source(&self) -> Result<Source, FileError> {
        Source::of(&self.input, self.choice.clone())
    }

    /// The same, with a folder if something is to be removed.
    fn checked_source(&self) -> Result<Arc<Source>, SendError> {
        let source = self.source()?;
        match !self.delete || source.objects().iter().any(|object| object.kind == Kind::Folder) {
            true => Ok(Arc::new(source)),
            false => Err(SendError::NoFolder),
        }
    }
}

/// How far it is.
#[derive(Debug, Clone, Default)]
pub struct SendProgress {
    /// Nothing has begun, as the receiver is busy with others. Beside this, there are only notes.
    pub waits: bool,
    /// Bytes of all objects, if that is known.
    pub total_bytes: Option<u64>,
    /// Bytes of chunks that are whole at the other end, those that were there before included.
    pub done_bytes: u64,
    /// Of these, bytes that were there before.
    pub had_bytes: u64,
    /// Bytes at the other end of chunks that are not whole yet: an interruption loses them.
    pub arrived_bytes: u64,
    /// Of each lane.
    pub lanes: Vec<LaneView>,
    /// Remarks about lanes that carry nothing or too little: at most four lines for each lane, and two about all. Or about
    /// the receiver, while this waits for it.
    pub notes: Vec<String>,
    /// Since the first message.
    pub elapsed: Duration,
    /// Counters of the protocol.
    pub counters: SendCounters,
}

impl SendProgress {
    /// All bytes at the other end, those of chunks that are not whole included.
    #[must_use]
    pub const fn there_bytes(&self) -> u64 {
        self.done_bytes + self.arrived_bytes
    }
}

/// A lane as others see it.
#[derive(Debug, Clone)]
pub struct LaneView {
    /// Kind, own end and peer.
    pub name: String,
    /// How it is written.
    pub spec: Spec,
    /// It leads to an interface that the receiver has offered: written like another lane, it would lead where that does.
    pub is_spare: bool,
    /// Whether it works.
    pub state: LaneState,
    /// Its round-trip time, in ns; nothing while none was measured.
    pub rtt_ns: Option<u64>,
    /// The shortest one of the last while, in ns.
    pub least_rtt_ns: Option<u64>,
    /// How long it was not alive since lanes are probed, the time until the first answer included.
    pub silent: Duration,
    /// Counters of the protocol.
    pub counters: LaneCounters,
    /// Counters of the socket.
    pub socket: SocketCounters,
}

/// The sent data.
#[derive(Debug, Clone)]
pub struct Sent {
    /// Objects stored by the receiver.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes that the receiver had before.
    pub had_bytes: u64,
    /// From the first data to the last confirmation.
    pub elapsed: Duration,
    /// Processor time of this process meanwhile, from before it connected.
    pub processor: Duration,
    /// Of that, time of the thread that serves the lanes, since the first data.
    pub lane_thread: Duration,
    /// Time of the cores that this process may use, from the announcement of the first object.
    pub cores: CoreTimes,
    /// The limits that kept lanes from sending more.
    pub limits: LimitTimes,
    /// Of each chunk, from its first packet to the news that it is whole, in ns.
    pub latencies_ns: Vec<u64>,
    /// Counters of the protocol.
    pub counters: SendCounters,
    /// Of each lane.
    pub lanes: Vec<LaneView>,
    /// As [`SendProgress::notes`].
    pub notes: Vec<String>,
    /// Data bytes of a packet.
    pub payload_bytes: u32,
    /// Objects that were not sent.
    pub skipped: Vec<Skipped>,
    /// Files and folders that the patterns left out.
    pub left_out: u64,
    /// Files that the receiver had in their places before, and that are the same.
    pub unchanged: u64,
    /// Files that could not be read here, or not be stored there.
    pub failures: Failures,
    /// Files and folders that were removed at the receiver.
    pub removed: u64,
    /// Why others, or all, were not.
    pub unremoved: Failures,
    /// In a dry run: the action for each object.
    pub plan: Option<Vec<Planned>>,
}

/// Sends; calls `observer` some times a second, and once more at the end, whatever it is. While a receiver that is busy is
/// asked again, it is called when that begins, and when it ends.
///
/// # Errors
///
/// [`SendError`]: complete data stays at the receiver, and another attempt resumes from it.
pub fn send(
    options: &SendOptions,
    observer: &mut dyn FnMut(&SendProgress),
) -> Result<Sent, SendError> {
    let began = processor_time();
    // Resources that are not available are reported before the receiver is contacted.
    options.cores.check()?;
    let source = options.checked_source()?;
    let (source, opened) = match open::open(options, &source) {
        Err(SendError::Refused(refuse)) if busy::is_worth_asking(&refuse, options) => {
            busy::open(options, refuse, source, observer)?
        }
        opened => (source, opened?),
    };
    let (skipped, left_out) = (source.skipped().to_vec(), source.left_out());
    let all = (source.objects().to_vec(), source.unreadable().clone());
    let deletion =
        options.delete.then(|| delete::Deletion::new(Arc::clone(&source), options.max_delete));
    let waker = Waker::new()?;
    let bounds = (opened.version, reading::bound(options.chunk_bytes));
    let (work, queue) = reading::work_and_queue(source, options.chunk_bytes, bounds, waker.clone());
    let reading = Pinned::to(options.cores.files)?;
    // Not waited for: it may be reading a pipe in which nothing comes any more.
    std::thread::spawn(move || work.run());
    drop(reading);
    let crew = Crew::new(&options.cores, opened.lanes.count())?;
    let before = CoreTimes::so_far();
    let pinned = Pinned::to(options.cores.lanes)?;
    let objects = objects::Objects::new(options, all, (queue, deletion));
    let driver = Driver { clock: Clock::start(), waker, stop: &options.stop, crew };
    let mut sent = role::run(options, (opened, objects), driver, observer)?;
    (sent.skipped, sent.left_out) = (skipped, left_out);
    sent.processor = processor_time().saturating_sub(began);
    drop(pinned);
    sent.cores = CoreTimes::so_far().since(before);
    Ok(sent)
}
