//! The receiving end on a real network.

mod conduct;
mod error;
mod lanes;
mod objects;
mod open;
mod writing;

pub use error::ReceiveError;

use crate::control::Access;
use crate::end::{CarrierCounters, Clock, Cores, Pinned, Waker, processor_time};
use crate::file::{ChunkBytes, Failures, Folder};
use crate::keys::Fingerprint;
use crate::lane::Spec;
use linecard_transfer::receive::ReceiveCounters;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// Where to receive, from whom, and where to put it.
#[derive(Debug)]
pub struct ReceiveOptions {
    /// The folder; none for the standard output.
    pub folder: Option<PathBuf>,
    /// Files that are there may be replaced.
    pub overwrite: bool,
    /// How both ends know each other.
    pub access: Access,
    /// Lanes, in the sender's order; those that are missing are made at the address that it connects to.
    pub lanes: Vec<Spec>,
    /// Memory for chunks that are under way, in bytes.
    pub memory_bytes: u64,
    /// Where its threads run.
    pub cores: Cores,
    /// How long to wait for the sender to speak, and for progress.
    pub patience: Duration,
    /// Ends the transfer early.
    pub stop: Arc<AtomicBool>,
}

/// How far it is.
#[derive(Debug, Clone, Default)]
pub struct ReceiveProgress {
    /// Bytes of all objects that were announced, where that is known.
    pub total_bytes: u64,
    /// Bytes that are where they belong.
    pub done_bytes: u64,
    /// Of each lane: its name, and what its socket has counted.
    pub lanes: Vec<(String, CarrierCounters)>,
    /// Since the sender was there.
    pub elapsed: Duration,
    /// What the protocol has counted.
    pub counters: ReceiveCounters,
}

/// What was received.
#[derive(Debug, Clone)]
pub struct Got {
    /// The sender's key, if it showed one.
    pub sender: Option<Fingerprint>,
    /// Its address.
    pub from: SocketAddr,
    /// Objects in their places.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes that were there before.
    pub had_bytes: u64,
    /// Files that were there before, and are what was sent.
    pub unchanged: u64,
    /// Files that were sent, or should have been, and are not there.
    pub failures: Failures,
    /// From the first packet to the last object.
    pub elapsed: Duration,
    /// Processor time of this process meanwhile, from when the sender had come.
    pub processor: Duration,
    /// What the protocol has counted.
    pub counters: ReceiveCounters,
    /// Of each lane: its name, and what its socket has counted.
    pub lanes: Vec<(String, CarrierCounters)>,
}

/// Waits for a sender at `listener` and receives all that it sends; calls `watch` some times a second,
/// and once more at the end, whatever it is.
///
/// # Errors
///
/// [`ReceiveError`]: what is whole stays, and the sender can go on with it. After
/// [`ReceiveError::TurnedAway`] call it again: whoever reaches the port must not end it.
pub fn receive(
    options: &ReceiveOptions,
    listener: &TcpListener,
    watch: &mut dyn FnMut(&ReceiveProgress),
) -> Result<Got, ReceiveError> {
    // What cannot be had is said before anybody comes.
    drop((Pinned::to(options.cores.files)?, Pinned::to(options.cores.lanes)?));
    let mut opened = open::open(options, listener)?;
    let began = processor_time();
    let (jobs, given) = mpsc::channel();
    let (out, results) = mpsc::channel();
    let waker = Waker::new()?;
    let over = Arc::new(AtomicBool::new(false));
    let folder = options.folder.as_deref().map(Folder::open).transpose()?;
    let work = writing::Work {
        folder: folder.map(|folder| folder.with_flusher(Arc::clone(&over))).transpose()?,
        overwrite: options.overwrite,
        chunk_bytes: ChunkBytes::new(opened.chunk_bytes.into())?,
        window: opened.window,
        jobs: given,
        out,
        waker: waker.clone(),
    };
    std::thread::scope(|scope| {
        let writing = Pinned::to(options.cores.files)?;
        scope.spawn(move || work.run());
        drop(writing);
        let _pinned = Pinned::to(options.cores.lanes)?;
        let conductor = conduct::Conductor::new(options, &mut opened, (jobs, results))?;
        let got = conductor.run(waker, Clock::start(), watch);
        // What was asked for is written, but nothing more is read to be checked.
        over.store(true, Ordering::Relaxed);
        let mut got = got?;
        got.processor = processor_time().saturating_sub(began);
        Ok(got)
    })
}
