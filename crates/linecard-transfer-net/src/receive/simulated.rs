//! A receiving end in virtual time: all of it but its sockets, its handshake, and its two threads.

use super::lanes::{Incoming, Lanes};
use super::open::{Destination, Opened};
use super::role::Receiving;
use super::writing::{Work, Writing};
use super::{ReceiveError, ReceiveOptions, ReceiveProgress};
use crate::control::Control;
use crate::end::{Cores, Crew, Endpoint, Next, SealedSocket, Turns, Waker, next_wakeup};
use crate::file::Folder;
use crate::lane::Accept;
use crate::simulated::{Due, End};
use linecard::time::Instant;
use linecard_transfer::receive::{ReceiveSettings, Receiver};
use linecard_transfer::store::Store;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The socket of a lane, and the listener of one over TCP.
type Socket = (SealedSocket, Option<Box<dyn Accept>>);

/// Resources of a receiver in memory.
pub(crate) struct OpenedInMemory(Opened);

impl OpenedInMemory {
    /// For a sender that only asks if `is_dry` is set, and that wants to remove files, and may, if `may_delete` is.
    pub(crate) fn new(
        settings: ReceiveSettings,
        (control, sockets, from): (Control, Vec<Socket>, SocketAddr),
        (seed, is_dry, may_delete): (u64, bool, bool),
    ) -> Result<Self, ReceiveError> {
        let ReceiveSettings { payload_bytes, chunk_bytes, fec, window, .. } = settings;
        let (sockets, listeners): (Vec<_>, Vec<_>) = sockets.into_iter().unzip();
        let listeners = listeners.into_iter();
        let all = listeners.map(|listener| listener.map_or_else(Incoming::default, Incoming::at));
        let all = all.collect();
        Ok(Self(Opened {
            endpoint: Endpoint::new(control, sockets, payload_bytes),
            from,
            lanes: Lanes { all, addresses: Vec::new() },
            receiver: Receiver::new(settings, &[], seed)?,
            store: Store::new(chunk_bytes, payload_bytes, fec),
            chunk_bytes,
            window,
            // Few, so that some wait.
            max_files: 4 + seed as usize % 4,
            is_dry,
            may_delete,
            has_begun: false,
        }))
    }
}

impl OpenedInMemory {
    /// As the receiver tells a sender.
    pub(crate) const fn first_window(&self) -> u32 {
        self.0.receiver.window_end()
    }
}

/// The receiving end.
pub(crate) struct ReceivingEnd<'a> {
    role: Receiving<'a>,
    endpoint: &'a mut Endpoint,
    turns: Turns<'a, ReceiveError>,
    /// How it ended.
    pub(crate) result: Option<Result<(), ReceiveError>>,
    writing: Writing,
    /// The writing thread finishes files only.
    over: Arc<AtomicBool>,
}

impl<'a> ReceivingEnd<'a> {
    pub(crate) fn new(
        options: &'a ReceiveOptions,
        OpenedInMemory(opened): &'a mut OpenedInMemory,
        (observer, now): (&'a mut dyn FnMut(&ReceiveProgress), Instant),
    ) -> Result<Self, ReceiveError> {
        let folder = match (options.folder.as_deref(), opened.is_dry) {
            (Some(path), true) => Folder::look(path)?,
            (path, _) => path.map(Folder::open).transpose()?,
        };
        let destination =
            Destination { folder, may_delete: opened.may_delete, ..Destination::default() };
        let (waker, over) = (Waker::new()?, Arc::new(AtomicBool::new(false)));
        let (work, files) = Work::new(options, opened, destination, (&over, &waker))?;
        let writing = Writing::new(work);
        let (role, endpoint) = Receiving::new(options, (opened, files), observer, now)?;
        let turns = Turns::new(&options.stop, Crew::new(&Cores::default(), 1)?);
        Ok(Self { role, endpoint, turns, result: None, writing, over })
    }

    /// Bytes that came in this transfer and are written.
    pub(crate) const fn written_bytes(&self) -> u64 {
        self.role.written_bytes()
    }
}

impl End for ReceivingEnd<'_> {
    fn take_turn(&mut self, now: Instant, disk_ns: u64) -> Due {
        let next = self.turns.take(&mut self.role, self.endpoint, now);
        if matches!(next, Next::Over(_)) {
            self.over.store(true, Ordering::Relaxed);
        }
        let due = Due::of(&next, self.writing.work_off_waiting() > 0, (now, disk_ns));
        if let Next::Over(result) = next {
            self.result = Some(result);
        }
        due
    }

    fn next_wakeup(&self) -> Instant {
        next_wakeup(&self.role, self.endpoint)
    }

    /// Connections come also where there is none.
    fn has_lane(&self, _lane: usize) -> bool {
        true
    }

    fn has_control(&self) -> bool {
        !self.endpoint.relay.is_down()
    }
}
