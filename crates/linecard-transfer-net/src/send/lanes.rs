//! The lanes of the sending end: where each goes, its connection, and messages to the user about it.

use super::connection::Connection;
use super::notes::Notes;
use super::path::Path;
use super::{LaneProblem, SendError};
use crate::end::SealedSocket;
use crate::lane::{LaneError, Spec};
use linecard::time::Instant;
use linecard_transfer::control::LaneKind;
use linecard_transfer::lane::{LaneSender, LaneState};
use linecard_transfer::send::Sender;
use std::io;

/// All lanes.
#[derive(Debug)]
pub(super) struct Lanes {
    pub(super) paths: Vec<Path>,
    connections: Vec<Connection>,
    pub(super) notes: Notes,
}

impl Lanes {
    pub(super) fn new(paths: Vec<Path>) -> Self {
        let connection =
            |path: &Path| Connection::new(path.spec.kind == LaneKind::Tcp, path.is_proven);
        let connections = paths.iter().map(connection).collect();
        Self { notes: Notes::of(&paths), connections, paths }
    }

    /// Lanes whose socket could not be opened are tried again; those that must not be used are closed.
    pub(super) fn start(&mut self, sender: &mut Sender, now: Instant) {
        self.notes.start(now);
        for (lane, path) in self.paths.iter().enumerate() {
            match &path.problem {
                None => self.connections[lane].tried(now),
                Some(LaneProblem::Refused { .. } | LaneProblem::Elsewhere) => {
                    self.connections[lane].give_up();
                    sender.close(lane, now);
                }
                Some(_) => self.connections[lane].failed(now),
            }
        }
    }

    /// Whether a lane has a socket.
    pub(super) fn is_up(&self, lane: usize) -> bool {
        !self.connections[lane].is_pending()
    }

    /// When a lane is connected again by itself.
    pub(super) fn next_try(&self, lane: usize) -> Instant {
        self.connections[lane].next_try()
    }

    /// Makes connections again that broke, or that have not carried anything for too long.
    pub(super) fn reconnect(
        &mut self,
        sockets: &mut [SealedSocket],
        sender: &mut Sender,
        now: Instant,
    ) {
        for (lane, connection) in self.connections.iter_mut().enumerate() {
            if !connection.is_due(now) {
                continue;
            }
            let path = &mut self.paths[lane];
            if connection.lasts() && !path.has_lost_address() {
                connection.is_silent(now);
                continue;
            }
            connection.tried(now);
            let before = path.spec.local.clone();
            match path.connect() {
                Ok(connected) => {
                    if path.spec.local != before {
                        let text = format!("{before} is gone: it goes on from {}", path.spec.local);
                        self.notes.add(lane, path, &text);
                    }
                    // Data in flight on the previous connection is lost with it.
                    sender.fail(lane, now);
                    sockets[lane].replace(connected);
                    path.problem = None;
                    sender.probe_now(lane);
                }
                Err(_) => connection.failed(now),
            }
        }
    }

    /// A lane's socket has failed. Packets that are too long for it end its use; without any other lane, the transfer.
    pub(super) fn failed(
        &mut self,
        lane: usize,
        error: &LaneError,
        sender: &mut Sender,
        now: Instant,
    ) -> Result<(), SendError> {
        if !matches!(error, LaneError::TooLong { .. }) {
            sender.fail(lane, now);
            self.connections[lane].broke(error, now);
            return Ok(());
        }
        sender.close(lane, now);
        self.connections[lane].give_up();
        if self.are_given_up() {
            return Err(io::Error::other(error.to_string()).into());
        }
        self.notes.add(lane, &self.paths[lane], &format!("{error}; it is no longer used"));
        Ok(())
    }

    /// The receiver has closed a lane: its socket is not used any more.
    pub(super) fn closed(&mut self, lane: usize) {
        if !self.connections[lane].is_given_up() {
            self.connections[lane].give_up();
            self.notes.add(lane, &self.paths[lane], "the receiver has closed it");
        }
    }

    /// Whether none is used any more.
    pub(super) fn are_given_up(&self) -> bool {
        self.connections.iter().all(Connection::is_given_up)
    }

    /// The receiver answers on a lane, or has stopped answering.
    pub(super) fn turned(&mut self, lane: usize, is_up: bool, now: Instant) {
        match is_up {
            true => self.connections[lane].works(),
            false => self.connections[lane].is_silent(now),
        }
        self.notes.turned(lane, is_up, now);
    }

    /// Notes lanes without any answer while others work; spare ones are not tried any more.
    pub(super) fn look(&mut self, sender: &mut Sender, now: Instant) {
        for lane in self.notes.look(&self.paths, sender) {
            self.paths[lane].leave_out();
            self.connections[lane].give_up();
            sender.close(lane, now);
        }
    }

    /// How many lead to the receiver, as far as this is known.
    pub(super) fn count(&self) -> usize {
        self.paths.iter().filter(|path| !path.is_elsewhere()).count()
    }

    /// Notes lanes that have stopped answering.
    pub(super) fn report_silence(&mut self, sender: &Sender, now: Instant) {
        self.notes.report_silence(&self.paths, sender, now);
    }

    /// Whether those that have answered, one at least, do not any more, for longer than a burst of losses takes.
    pub(super) fn are_silent(&self, sender: &Sender, now: Instant) -> bool {
        let state = |lane: &usize| sender.lane(*lane).map(LaneSender::state);
        let is_used =
            |lane: &usize| matches!(state(lane), Some(LaneState::Alive | LaneState::Suspect));
        let mut used = (0..self.paths.len()).filter(is_used).peekable();
        used.peek().is_some() && used.all(|lane| self.notes.is_long_silent(lane, now))
    }

    /// Notes for how long lanes did not answer.
    pub(super) fn sum_up_silence(&mut self, sender: &Sender, now: Instant) {
        self.notes.sum_up_silence(&self.paths, sender, now);
    }

    /// Whether none is over TCP.
    pub(super) fn are_all_udp(&self) -> bool {
        self.paths.iter().all(|path| path.spec.kind == LaneKind::Udp)
    }

    /// Those that are used, or would be if they were reached, without spare ones.
    pub(super) fn specs(&self) -> Vec<Spec> {
        let used = self.paths.iter().filter(|path| !path.is_elsewhere() && !path.is_spare);
        used.map(|path| path.spec.clone()).collect()
    }
}
