//! A lane over TCP in memory: connections that the sender makes one after the other, and a listener.

use super::Time;
use super::connection::{Connection, ConnectionFault, ConnectionSettings, MemoryStream};
use super::lane::PathSettings;
use crate::lane::{Accept, At, Connect, Lane, LaneError, LocalEnd, OpenError, Tcp};
use crate::stream::Stream;
use linecard::rng::Rng;
use linecard::time::Instant;
use linecard_transfer::sim::LinkCounters;
use std::collections::VecDeque;
use std::io::{self, IoSlice, Read, Write};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, MutexGuard};

/// After so long without an answer a kernel gives a connection up, in ns (`TCP_USER_TIMEOUT`).
const USER_TIMEOUT_NS: u64 = 10_000_000_000;
/// Bytes for which a turn or two are expected.
const TURN_BYTES: u64 = 512;

/// Shared by both ends.
#[derive(Debug)]
struct State {
    settings: PathSettings,
    /// Those that an end may have: of the receiver, if they are accepted.
    connections: Vec<Connection>,
    /// Those that are not accepted yet.
    waiting: Vec<Connection>,
    /// Strangers connect at these moments, and send something, or nothing.
    strangers: VecDeque<Instant>,
    rng: Rng,
    counters: LinkCounters,
    /// How many the sender has made.
    made: u64,
}

/// A lane and its connections.
#[derive(Debug, Clone)]
pub(super) struct TcpWire {
    time: Time,
    state: Arc<Mutex<State>>,
}

impl TcpWire {
    pub(super) fn new(settings: &PathSettings, time: &Time, rng: &mut Rng) -> Self {
        let mut strangers = settings.visits.clone();
        strangers.sort();
        let state = State {
            settings: settings.clone(),
            connections: Vec::new(),
            waiting: Vec::new(),
            strangers: strangers.into(),
            rng: Rng::new(rng.next_u64()),
            counters: LinkCounters::default(),
            made: 0,
        };
        Self { time: time.clone(), state: Arc::new(Mutex::new(state)) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("one thread has them all")
    }

    /// When something comes to an end.
    pub(super) fn next_event(&self, end: usize) -> Instant {
        let state = self.state();
        let events = |all: &[Connection]| {
            all.iter().map(|one| one.next_event(end)).fold(Instant::NEVER, Instant::min)
        };
        let accepted = events(&state.connections);
        if end == 0 {
            return accepted.min(events(&state.waiting));
        }
        let waiting = state.waiting.iter().map(|connection| connection.opens(1));
        waiting.chain(state.strangers.front().copied()).fold(accepted, Instant::min)
    }

    /// The process of an end is gone.
    pub(super) fn close(&self, end: usize) {
        let state = self.state();
        let all = state.connections.iter().chain(&state.waiting);
        all.for_each(|connection| connection.close(end, true));
    }

    /// As if each so many bytes were a packet.
    pub(super) fn counters(&self) -> LinkCounters {
        self.state().counters
    }

    /// How many connections the sender has made.
    pub(super) fn made(&self) -> u64 {
        self.state().made
    }

    fn lane(&self, connection: &Connection, end: usize) -> Box<dyn Lane> {
        let stream = LaneStream { wire: self.clone(), stream: connection.end(end) };
        Box::new(Tcp::over(Box::new(stream), "tcp in memory".into()))
    }

    /// A connection that is made now, and that its ends have from these moments on.
    fn connection(&self, state: &mut State, open: [Instant; 2]) -> Connection {
        let now = self.time.now();
        let PathSettings { link, rebinds, .. } = &state.settings;
        let dead = &link.dead;
        let is_lost = !dead.is_empty() && now < dead.start;
        let fault = match rebinds.iter().copied().filter(|at| *at > now).min() {
            Some(at) if !is_lost || at <= dead.start => ConnectionFault::Cut(at),
            _ if is_lost => {
                let noticed = [dead.start.plus_ns(USER_TIMEOUT_NS); 2];
                ConnectionFault::Lost { from: dead.start, noticed, until: dead.end }
            }
            _ => ConnectionFault::Lives,
        };
        let rate_bits_per_second = link.rate_bits_per_second;
        let settings =
            ConnectionSettings { delay_ns: link.delay_ns, rate_bits_per_second, open, fault };
        let connection = Connection::new(&self.time, settings);
        state.connections.retain(|connection| !connection.is_gone());
        connection
    }
}

impl Connect for TcpWire {
    fn connect(&self, _peer: SocketAddr) -> Result<Box<dyn Lane>, OpenError> {
        let mut state = self.state();
        let now = self.time.now();
        if state.settings.is_noticed && state.settings.link.dead.contains(&now) {
            let at = At { local: LocalEnd::Interface("memory".into()), port: 0 };
            return Err(OpenError { at, source: io::ErrorKind::NetworkDown.into() });
        }
        let PathSettings { link, .. } = &state.settings;
        // A host repeats the first packet of a connection until it is answered.
        let begun = if link.dead.contains(&now) { link.dead.end } else { now };
        let open = [begun.plus_ns(2 * link.delay_ns), begun.plus_ns(link.delay_ns)];
        let connection = self.connection(&mut state, open);
        state.made += 1;
        state.waiting.push(connection.clone());
        drop(state);
        Ok(self.lane(&connection, 0))
    }
}

impl Accept for TcpWire {
    fn accept(&self) -> Result<Option<Box<dyn Lane>>, LaneError> {
        let mut state = self.state();
        let now = self.time.now();
        if state.strangers.front().is_some_and(|at| *at <= now) {
            state.strangers.pop_front();
            let connection = self.connection(&mut state, [now; 2]);
            let mut bytes = vec![0; state.rng.below(2_000) as usize];
            state.rng.fill(&mut bytes);
            // Some of it begins as a frame does.
            if let (Some(start), true) = (bytes.first_mut(), state.rng.chance(0.5)) {
                *start = 0;
            }
            state.connections.push(connection.clone());
            drop(state);
            let _unsent = connection.end(0).write(&bytes);
            connection.leave(0);
            return Ok(Some(self.lane(&connection, 1)));
        }
        let come = state.waiting.iter().position(|connection| connection.opens(1) <= now);
        let Some(connection) = come.map(|at| state.waiting.remove(at)) else { return Ok(None) };
        state.connections.push(connection.clone());
        drop(state);
        Ok(Some(self.lane(&connection, 1)))
    }

    fn as_fd(&self) -> BorrowedFd<'_> {
        // Nobody waits for it.
        rustix::stdio::stdin()
    }
}

/// An end of a connection, which counts, and takes and gives any part of what it could.
#[derive(Debug)]
struct LaneStream {
    wire: TcpWire,
    stream: MemoryStream,
}

impl LaneStream {
    /// A part of so many bytes; of few calls only.
    fn part(&self, bytes: usize) -> usize {
        let mut state = self.wire.state();
        let busy = state.settings.busy;
        if bytes > 1 && state.rng.chance(busy) {
            return 1 + state.rng.below(bytes as u64) as usize;
        }
        bytes
    }
}

impl Read for LaneStream {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let most = self.part(bytes.len());
        self.stream.read(&mut bytes[..most])
    }
}

impl Write for LaneStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let most = self.part(bytes.len());
        let written = self.stream.write(&bytes[..most])?;
        self.stream.want_room(written < bytes.len());
        self.wire.state().counters.given += 1 + written as u64 / TURN_BYTES;
        Ok(written)
    }

    /// As one call does.
    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let parts: Vec<&[u8]> = slices.iter().map(|slice| &**slice).collect();
        self.write(&parts.concat())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl AsFd for LaneStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

impl Stream for LaneStream {}

impl Drop for LaneStream {
    /// A socket that is closed.
    fn drop(&mut self) {
        self.stream.close();
    }
}
