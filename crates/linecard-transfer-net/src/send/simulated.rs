//! A sending end in virtual time: all of it but its sockets, its handshake, and its two threads.

use super::lanes::Lanes;
use super::objects::Objects;
use super::open::{Opened, lane_settings, memory_bytes};
use super::path::Path;
use super::reading::{Work, work_and_queue};
use super::results::Bound;
use super::role::Sending;
use super::{SendError, SendOptions, SendProgress};
use crate::control::Control;
use crate::end::{Cores, Crew, Endpoint, Next, Role, SealedSocket, Turns, Waker, next_wakeup};
use crate::lane::Connect;
use crate::simulated::{Due, End};
use linecard::time::Instant;
use linecard_transfer::control::VERSION;
use linecard_transfer::send::{SendSettings, Sender};
use linecard_transfer::store::Source;
use std::net::SocketAddr;
use std::sync::Arc;

/// The reading thread must never wait.
const BOUND: Bound = Bound { results: usize::MAX, bytes: u64::MAX };

/// Values that both ends would agree on, and the seed of this one.
pub(crate) struct Agreement {
    pub(crate) payload_bytes: u32,
    pub(crate) connection: u32,
    pub(crate) window_chunks: u32,
    pub(crate) seed: u64,
}

/// Where a lane leads, and what opens it again.
type Way = (SocketAddr, Box<dyn Connect>);

/// The sending end.
pub(crate) struct SendingEnd<'a> {
    role: Sending<'a>,
    endpoint: Endpoint,
    turns: Turns<'a, SendError>,
    /// How it ended, if it has.
    pub(crate) result: Option<Result<(), SendError>>,
    reading: Work,
}

impl<'a> SendingEnd<'a> {
    /// `sockets` are the lanes of `options`, each with where it leads.
    pub(crate) fn new(
        options: &'a SendOptions,
        agreement: &Agreement,
        (control, sockets): (Control, Vec<(SealedSocket, Way)>),
        (observer, now): (&'a mut dyn FnMut(&SendProgress), Instant),
    ) -> Result<Self, SendError> {
        let source = Arc::new(options.source()?);
        let all = (source.objects().to_vec(), source.unreadable().clone());
        let deletion = options
            .delete
            .then(|| super::delete::Deletion::new(Arc::clone(&source), options.max_delete));
        let (reading, queue) =
            work_and_queue(source, options.chunk_bytes, (VERSION, BOUND), Waker::new()?);
        let objects = Objects::new(options, all, (queue, deletion));
        let (sockets, ways): (Vec<_>, Vec<_>) = sockets.into_iter().unzip();
        let specs = options.lanes.iter().cloned();
        let paths: Vec<Path> = specs
            .zip(ways)
            .map(|(spec, (peer, again))| Path::in_memory(spec, peer, again))
            .collect();
        let settings = SendSettings {
            connection: agreement.connection,
            payload_bytes: agreement.payload_bytes,
            fec: options.fec,
            mode: options.mode,
            window_end: agreement.window_chunks,
            memory_bytes: memory_bytes(options.chunk_bytes.bytes(), paths.len()),
            ..SendSettings::default()
        };
        let lanes = lane_settings(&paths, agreement.payload_bytes);
        let opened = Opened {
            endpoint: Endpoint::new(control, sockets, agreement.payload_bytes),
            lanes: Lanes::new(paths),
            sender: Sender::new(settings, &lanes, agreement.seed),
            source: Source::new(agreement.payload_bytes, options.fec.scheme()),
            payload_bytes: agreement.payload_bytes,
            version: VERSION,
        };
        let (role, endpoint) = Sending::new(options, (opened, objects), observer, now);
        let turns = Turns::new(&options.stop, Crew::new(&Cores::default(), 1)?);
        Ok(Self { role, endpoint, turns, result: None, reading })
    }
}

impl End for SendingEnd<'_> {
    fn take_turn(&mut self, now: Instant, disk_ns: u64) -> Due {
        let next = self.turns.take(&mut self.role, &mut self.endpoint, now);
        let due = Due::of(&next, self.reading.work_off() > 0, (now, disk_ns));
        if let Next::Over(result) = next {
            self.result = Some(result);
        }
        due
    }

    fn next_wakeup(&self) -> Instant {
        next_wakeup(&self.role, &self.endpoint)
    }

    fn has_lane(&self, lane: usize) -> bool {
        self.role.is_up(lane)
    }

    fn has_control(&self) -> bool {
        !self.endpoint.relay.is_down()
    }
}
