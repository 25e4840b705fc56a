//! Written data reach the disk while more is being written.

use super::FileError;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// Bytes of a partial file after which they are brought to the disk, and then the journal.
pub(super) const FLUSH_BYTES: u64 = 64 << 20;
/// Requests that wait while one is worked on. With those bytes that are written meanwhile, at most three
/// times [`FLUSH_BYTES`] are not on the disk yet.
const MAX_WAITING: usize = 1;

/// A thread that calls `fdatasync`: first on the partial file, then on its journal.
#[derive(Debug, Clone)]
pub(super) struct Flusher {
    requests: SyncSender<Flush>,
}

/// A partial file with its journal. The system says only once that data could not be written, so the
/// answer is kept here until it is asked for.
#[derive(Debug, Clone)]
pub(super) struct Flush {
    part: Arc<File>,
    journal: Arc<File>,
    failed: Arc<Mutex<Option<io::Error>>>,
}

impl Flusher {
    /// Starts the thread. It ends with the last copy of this.
    pub(super) fn start() -> io::Result<Self> {
        let (requests, waiting) = sync_channel::<Flush>(MAX_WAITING);
        thread::Builder::new().name("flusher".into()).spawn(move || {
            while let Ok(flush) = waiting.recv() {
                flush.run();
            }
        })?;
        Ok(Self { requests })
    }

    /// Returns at once, unless the disk is behind by two requests.
    pub(super) fn request(&self, flush: Flush) {
        if let Err(refused) = self.requests.send(flush) {
            // The thread is gone: this one does it.
            refused.0.run();
        }
    }
}

impl Flush {
    pub(super) fn new(part: Arc<File>, journal: Arc<File>) -> Self {
        Self { part, journal, failed: Arc::default() }
    }

    /// Brings the data to the disk, then the records that claim them.
    pub(super) fn run(&self) {
        if let Err(error) = self.part.sync_data().and_then(|()| self.journal.sync_data()) {
            *self.failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
        }
    }

    /// Errors since the last call.
    pub(super) fn check(&self, path: &Path) -> Result<(), FileError> {
        let failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner).take();
        failed.map_or(Ok(()), |error| Err(FileError::of(error, "write to the disk", path, 0)))
    }
}
