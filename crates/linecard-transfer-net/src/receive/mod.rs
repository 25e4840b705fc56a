//! The receiving end on a real network.

mod accept;
mod descriptors;
mod ending;
mod error;
mod lanes;
mod moderation;
mod objects;
mod open;
mod pending;
mod removal;
mod role;
#[cfg(test)]
pub(crate) mod simulated;
mod writing;

pub use accept::{Acceptor, Notice, TurnedAway};
pub use descriptors::reserve_descriptors;
pub use error::ReceiveError;
pub use open::fitting_chunk;
pub use pending::{Crowd, MAX_FROM_ADDRESS, MAX_HANDSHAKES};

use crate::control::Access;
use crate::end::{Clock, Cores, Crew, Driver, Pinned, SocketCounters, Waker, processor_time};
use crate::file::{Bucket, Failures};
use crate::keys::Fingerprint;
use crate::lane::Spec;
use linecard::progress::Progress;
use linecard_transfer::receive::ReceiveCounters;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Where to receive, from whom, and where to put it.
#[derive(Debug, Clone)]
pub struct ReceiveOptions {
    /// The folder; none for the standard output and for an object store.
    pub folder: Option<PathBuf>,
    /// The object store.
    pub bucket: Option<Arc<dyn Bucket>>,
    /// Existing files may be replaced.
    pub overwrite: bool,
    /// All senders may remove files that they do not have, in the folders that they send.
    pub allow_delete: bool,
    /// All senders may send links that lead out of the folders that they send. This never follows one.
    pub allow_links_out: bool,
    /// How both ends know each other.
    pub access: Access,
    /// Lanes, in the sender's order; those that are missing are made at the address that this host uses
    /// towards the sender's end of the lane.
    pub lanes: Vec<Spec>,
    /// From how many senders at once, each on a thread that calls [`Acceptor::receive`] again and again: others are told to
    /// ask again. None if it ends with the first transfer: others are refused meanwhile.
    pub at_once: Option<usize>,
    /// Memory for the chunks of one transfer in flight, in bytes.
    pub memory_bytes: u64,
    /// Where its threads run.
    pub cores: Cores,
    /// How long to wait for the sender to speak, and for progress.
    pub patience: Duration,
    /// Ends the transfer early.
    pub stop: Arc<Progress>,
}

/// How far it is.
#[derive(Debug, Clone, Default)]
pub struct ReceiveProgress {
    /// The sender's address, and its key if it showed one.
    pub from: Option<(SocketAddr, Option<Fingerprint>)>,
    /// Bytes of all objects that were announced, where that is known.
    pub total_bytes: u64,
    /// Bytes that are where they belong.
    pub done_bytes: u64,
    /// Of these, bytes that were there before.
    pub had_bytes: u64,
    /// Of each lane: its name, and what its socket has counted.
    pub lanes: Vec<(String, SocketCounters)>,
    /// Time since the sender connected.
    pub elapsed: Duration,
    /// Counters of the protocol.
    pub counters: ReceiveCounters,
}

/// The received data.
#[derive(Debug, Clone)]
pub struct Received {
    /// The sender's key, if it showed one.
    pub sender: Option<Fingerprint>,
    /// Its address.
    pub from: SocketAddr,
    /// Objects in their places.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes that were stored before.
    pub had_bytes: u64,
    /// Files that were stored before, and equal the sent ones.
    pub unchanged: u64,
    /// Files that were sent, or should have been, and are not there.
    pub failures: Failures,
    /// Files and folders that the sender had removed, as it has them not.
    pub removed: u64,
    /// Those that could not be removed.
    pub unremoved: Failures,
    /// From the first packet to the last object.
    pub elapsed: Duration,
    /// Processor time of this process meanwhile, from when the sender had come.
    pub processor: Duration,
    /// Counters of the protocol.
    pub counters: ReceiveCounters,
    /// Of each lane: its name, and what its socket has counted.
    pub lanes: Vec<(String, SocketCounters)>,
}

/// Waits for a sender at `listener` and receives all that it sends; calls `observer` some times a second, and once more
/// at the end, whatever it is. Peers that are turned away are not reported: an [`Acceptor`] does that, and does not
/// lose connections that arrive between two transfers.
///
/// # Errors
///
/// [`ReceiveError`]: complete chunks are kept, and the sender can resume.
pub fn receive(
    options: &ReceiveOptions,
    listener: &TcpListener,
    observer: &mut dyn FnMut(&ReceiveProgress),
) -> Result<Received, ReceiveError> {
    let acceptor = Acceptor::start(listener.try_clone()?, options.clone(), Box::new(|_| {}))?;
    acceptor.receive(observer)
}

impl Acceptor {
    /// Waits for a sender and receives all that it sends; calls `observer` some times a second from when the
    /// sender has announced something, and once more at the end, whatever it is.
    ///
    /// A peer that cannot be received from, or is gone before it has announced anything, is turned away, and
    /// the next may come.
    ///
    /// # Errors
    ///
    /// [`ReceiveError`]: complete chunks are kept, and the sender can resume.
    pub fn receive(
        &self,
        observer: &mut dyn FnMut(&ReceiveProgress),
    ) -> Result<Received, ReceiveError> {
        let options = &self.options;
        // Resources that are not available are reported before the first connection.
        options.cores.check()?;
        loop {
            if options.stop.is_stopped() {
                return Err(ReceiveError::Stopped);
            }
            let Some(guest) = self.shared.next()? else { continue };
            let (from, is_dry) = (guest.from, guest.hello.dry_run);
            let mut has_begun = false;
            let outcome = self.transfer(guest, &mut has_begun, observer);
            self.shared.release(from);
            match outcome {
                Ok(received) if is_dry => {
                    self.shared.turned_away(
                        from,
                        match received.bytes {
                            0 => ReceiveError::DryRun,
                            test_bytes => ReceiveError::Probed { test_bytes },
                        },
                    );
                }
                Err(ReceiveError::Stopped) => return Err(ReceiveError::Stopped),
                // It has changed nothing, and ends nothing.
                Err(why) if is_dry || (!has_begun && why.is_of_sender()) => {
                    self.shared.turned_away(from, why);
                }
                outcome => return outcome,
            }
        }
    }

    /// Receives from a sender. `has_begun` is set when it has announced something.
    fn transfer(
        &self,
        guest: accept::Guest,
        has_begun: &mut bool,
        observer: &mut dyn FnMut(&ReceiveProgress),
    ) -> Result<Received, ReceiveError> {
        let options = &self.options;
        let key = guest.control.peer();
        self.endings.wait(key);
        let mut ending = None;
        let (mut opened, destination) = open::open(self, guest)?;
        let began = processor_time();
        let (waker, over) = (Waker::new()?, Arc::new(AtomicBool::new(false)));
        let destination = destination.with_flusher(&over)?;
        let (work, queue) = writing::Work::new(options, &opened, destination, (&over, &waker))?;
        let crew = Crew::new(&options.cores, opened.lanes.count())?;
        let received = std::thread::scope(|scope| {
            let writing = Pinned::to(options.cores.files)?;
            scope.spawn(move || work.run());
            drop(writing);
            let _pinned = Pinned::to(options.cores.lanes)?;
            let driver = Driver { clock: Clock::start(), waker, stop: &options.stop, crew };
            let received = role::run(options, &mut opened, (queue, driver), observer);
            // One that succeeds has stored all.
            ending = received.is_err().then(|| self.endings.begin(key));
            // Files that are whole get their names; nothing else is done any more.
            over.store(true, Ordering::Relaxed);
            let mut received = received?;
            received.processor = processor_time().saturating_sub(began);
            Ok(received)
        });
        drop(ending);
        *has_begun = opened.has_begun;
        received
    }
}
