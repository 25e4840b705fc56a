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

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::OwnedFd;

    /// A file that never reaches the disk: of a pipe the system refuses it.
    fn pipe() -> Arc<File> {
        let (pipe, _) = io::pipe().unwrap();
        Arc::new(File::from(OwnedFd::from(pipe)))
    }

    fn file() -> Arc<File> {
        Arc::new(tempfile::tempfile().unwrap())
    }

    fn errors(flush: &Flush) -> Vec<String> {
        let checks = (0..2).map(|_| flush.check(Path::new("/in/a")));
        checks.filter_map(Result::err).map(|error| error.to_string()).collect()
    }

    #[test]
    fn data_or_records_that_did_not_reach_the_disk_are_told_once() {
        for (part, journal) in [(pipe(), file()), (file(), pipe())] {
            let flush = Flush::new(part, journal);
            assert!(errors(&flush).is_empty());
            flush.clone().run();
            let errors = errors(&flush);
            assert!(errors.len() == 1 && errors[0].contains("write to the disk \"/in/a\""));
        }
        let flush = Flush::new(file(), file());
        flush.run();
        assert!(errors(&flush).is_empty());
    }

    #[test]
    fn requests_are_worked_on_whether_or_not_there_is_a_thread() {
        let (bad, good) = (Flush::new(pipe(), file()), Flush::new(file(), file()));
        let flusher = Flusher::start().unwrap();
        // Two wait, one of them for the place of the other: so the first has been worked on.
        for flush in [&bad, &good, &good] {
            flusher.request(flush.clone());
        }
        assert_eq!(errors(&bad).len(), 1);
        let (requests, ended) = sync_channel(MAX_WAITING);
        drop(ended);
        Flusher { requests }.request(bad.clone());
        assert_eq!(errors(&bad).len(), 1);
    }
}
