//! A lane with its keys: packets are gathered in one area, sealed and handed over many by one call, and opened where they
//! lie. Sealing, opening and system calls are most of the work of an end, and need nothing but the socket: those of
//! several lanes can be done by several threads.

use crate::lane::{Datagrams, Lane, LaneError, MAX_DATAGRAM_BYTES, ReceiveBuffer};
use crate::seal::{Counters, Opener, SealError, Sealer};
use linecard_transfer::wire::{HEADER_BYTES, Header, TAG_BYTES};
use std::collections::VecDeque;
use std::net::SocketAddr;

/// Packets of one length that wait to be sent to one address, where the lane is not connected.
#[derive(Debug, Clone, Copy)]
struct Run {
    start: usize,
    end: usize,
    stride: usize,
    to: Option<SocketAddr>,
}

/// Counters of a socket.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SocketCounters {
    /// Datagrams sent.
    pub sent: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Datagrams that came.
    pub received: u64,
    /// Those that were refused, by kind.
    pub sealed: Counters,
    /// Those that found no room in this host.
    pub dropped: u64,
}

/// Peer of a connection, from its first packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// No whole packet has come yet.
    Undecided,
    /// A packet opened with the keys of the lane: the peer made this connection.
    Accepted,
    /// None of the packets that came opened.
    Refused,
}

/// Why packets of a lane were not sent.
#[derive(Debug, thiserror::Error)]
pub enum FlushError {
    /// One could not be sealed: a fault of linecard.
    #[error(transparent)]
    Seal(#[from] SealError),
    /// The lane's socket has failed.
    #[error(transparent)]
    Lane(#[from] LaneError),
}

/// Packets of a lane that have come, opened.
#[derive(Debug, Default)]
pub struct Inbox {
    received: ReceiveBuffer,
    /// Headers and sources of those that opened; none of the others.
    opened: Vec<Option<(Header, Option<SocketAddr>)>>,
}

impl Inbox {
    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Header, body and source of each packet that opened, in the order in which they came.
    pub fn packets(&mut self) -> impl Iterator<Item = (Header, &[u8], Option<SocketAddr>)> {
        self.received.datagrams().zip(&self.opened).filter_map(|(datagram, opened)| {
            let (header, from) = (*opened)?;
            let bytes: &[u8] = datagram.bytes;
            Some((header, &bytes[HEADER_BYTES..bytes.len() - TAG_BYTES], from))
        })
    }
}

/// Work on a lane that needs nothing but its socket.
#[derive(Debug)]
pub enum Task {
    /// [`SealedSocket::flush`].
    Send,
    /// [`SealedSocket::receive`].
    Receive(Inbox),
}

/// Results of a [`Task`].
#[derive(Debug)]
pub enum Done {
    /// Of [`SealedSocket::flush`].
    Sent(Result<(), FlushError>),
    /// Of [`SealedSocket::receive`].
    Received(Inbox, Result<usize, LaneError>),
}

/// A lane with its keys.
#[derive(Debug)]
pub struct SealedSocket {
    lane: Box<dyn Lane>,
    sealer: Sealer,
    opener: Opener,
    area: Vec<u8>,
    runs: VecDeque<Run>,
    /// Packets that are not sealed yet: where they start, and their headers.
    unsealed: VecDeque<(usize, Header)>,
    /// Where the next packets go.
    to: Option<SocketAddr>,
    /// Bytes that are handed over by one call, at most.
    burst_bytes: usize,
    came_bytes: usize,
    task: Option<Task>,
    done: Option<Done>,
    counters: SocketCounters,
}

impl SealedSocket {
    /// `lane` under these keys.
    #[must_use]
    pub fn new(lane: Box<dyn Lane>, (sealer, opener): (Sealer, Opener)) -> Self {
        Self {
            lane,
            sealer,
            opener,
            to: None,
            burst_bytes: MAX_DATAGRAM_BYTES,
            came_bytes: 0,
            task: None,
            done: None,
            area: Vec::new(),
            runs: VecDeque::new(),
            unsealed: VecDeque::new(),
            counters: SocketCounters::default(),
        }
    }

    /// Hands over no more than `bytes` by one call, but at least a datagram. The interface behind it may shape by
    /// tokens, and splits a large packet that exceeds its bucket.
    pub const fn limit_bursts(&mut self, bytes: usize) {
        self.burst_bytes = bytes;
    }

    /// The lane.
    #[must_use]
    pub fn lane(&self) -> &dyn Lane {
        &*self.lane
    }

    /// Replaces the lane: a connection that was made again. Waiting data is lost.
    pub fn replace(&mut self, lane: Box<dyn Lane>) {
        self.lane = lane;
        self.clear();
    }

    /// Forgets what waits.
    fn clear(&mut self) {
        self.area.clear();
        self.runs.clear();
        self.unsealed.clear();
    }

    /// Where packets go that are pushed from now on, if the lane is not connected.
    pub const fn answer_to(&mut self, peer: SocketAddr) {
        self.to = Some(peer);
    }

    /// Whether all that was pushed has been taken by the lane.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.runs.is_empty() && self.lane.is_flushed()
    }

    /// Bytes that were pushed and not taken.
    #[must_use]
    pub fn waiting_bytes(&self) -> usize {
        self.area.len() - self.runs.front().map_or(self.area.len(), |run| run.start)
    }

    /// Counters.
    #[must_use]
    pub fn counters(&self) -> SocketCounters {
        SocketCounters {
            sealed: self.opener.counters(),
            dropped: self.lane.dropped(),
            ..self.counters
        }
    }

    /// Adds a packet whose body `fill` appends, to be sealed and sent by [`SealedSocket::flush`].
    pub fn push(&mut self, header: &Header, fill: impl FnOnce(&mut Vec<u8>)) {
        let start = self.area.len();
        self.area.extend_from_slice(&[0; HEADER_BYTES]);
        fill(&mut self.area);
        self.area.extend_from_slice(&[0; TAG_BYTES]);
        self.unsealed.push_back((start, *header));
        let end = self.area.len();
        let bytes = end - start;
        match self.runs.back_mut() {
            // A shorter packet ends a run: behind it the stride is none any more.
            Some(run)
                if run.to == self.to
                    && bytes <= run.stride
                    && (run.end - run.start) % run.stride == 0 =>
            {
                run.end = end;
            }
            _ => self.runs.push_back(Run { start, end, stride: bytes, to: self.to }),
        }
    }

    /// Seals all that was pushed.
    ///
    /// # Errors
    ///
    /// A packet number that must not be used: a fault of the caller.
    pub fn seal(&mut self) -> Result<(), SealError> {
        self.seal_below(usize::MAX)
    }

    /// Seals the packets that start below there.
    fn seal_below(&mut self, end: usize) -> Result<(), SealError> {
        while let Some(&(start, header)) = self.unsealed.front().filter(|(start, _)| *start < end) {
            let behind = self.unsealed.get(1).map_or(self.area.len(), |(next, _)| *next);
            self.sealer.seal(&header, &mut self.area[start..behind])?;
            self.unsealed.pop_front();
        }
        Ok(())
    }

    /// Seals and hands over what waits, as far as the lane takes it.
    ///
    /// # Errors
    ///
    /// [`FlushError`]: what waited is gone.
    pub fn flush(&mut self) -> Result<(), FlushError> {
        let result = self.hand_over();
        if result.is_err() || self.runs.is_empty() {
            self.clear();
        }
        result
    }

    fn hand_over(&mut self) -> Result<(), FlushError> {
        self.lane.flush()?;
        while let Some(&Run { start, end, stride, to }) = self.runs.front() {
            to.into_iter().for_each(|to| self.lane.answer_to(to));
            let count = (self.burst_bytes / stride).max(1);
            // Sealed packets are sent while they are still in the cache.
            self.seal_below(end.min(start + count * stride))?;
            let all = Datagrams { bytes: &self.area[start..end], stride };
            let taken = self.lane.send(&all.first(count))?;
            if taken == 0 {
                return Ok(());
            }
            let sent = end.min(start + taken * stride);
            self.counters.sent += taken as u64;
            self.counters.sent_bytes += (sent - start) as u64;
            match self.runs.front_mut() {
                Some(run) if sent < end => run.start = sent,
                _ => drop(self.runs.pop_front()),
            }
        }
        Ok(self.lane.flush()?)
    }

    /// There is something to do, for whichever thread has the socket next.
    pub fn assign(&mut self, task: Task) {
        self.task = Some(task);
    }

    /// Bytes that the task is about: as many may come as came last.
    #[must_use]
    pub fn task_bytes(&self) -> usize {
        match self.task {
            None => 0,
            Some(Task::Send) => self.waiting_bytes(),
            Some(Task::Receive(_)) => self.came_bytes,
        }
    }

    /// Does the task, if there is one.
    pub fn work(&mut self) {
        self.done = self.task.take().map(|task| match task {
            Task::Send => Done::Sent(self.flush()),
            Task::Receive(mut inbox) => {
                let came = self.receive(&mut inbox);
                Done::Received(inbox, came)
            }
        });
    }

    /// Its result, once.
    pub const fn done(&mut self) -> Option<Done> {
        self.done.take()
    }

    /// Receives datagrams by one call to the lane, and opens them. Of how many; with 0, nothing has come.
    ///
    /// # Errors
    ///
    /// [`LaneError`].
    pub fn receive(&mut self, inbox: &mut Inbox) -> Result<usize, LaneError> {
        let count = self.take(inbox)?;
        self.open(inbox);
        Ok(count)
    }

    /// Receives datagrams by one call to the lane, unopened; returns their number.
    ///
    /// # Errors
    ///
    /// [`LaneError`].
    pub fn take(&mut self, inbox: &mut Inbox) -> Result<usize, LaneError> {
        inbox.opened.clear();
        let count = self.lane.receive(&mut inbox.received)?;
        self.counters.received += count as u64;
        if count > 0 {
            self.came_bytes = inbox.received.bytes();
        }
        Ok(count)
    }

    /// Opens what was taken; how many packets opened. Others are counted.
    pub fn open(&mut self, inbox: &mut Inbox) -> usize {
        let Inbox { received, opened } = inbox;
        opened.clear();
        opened.extend(received.datagrams().map(|datagram| {
            let (header, _body) = self.opener.open(datagram.bytes).ok()?;
            Some((header, datagram.source))
        }));
        opened.iter().flatten().count()
    }

    /// Reads once from `candidate`, a connection that may replace the lane, and opens what came with the keys of this
    /// lane. Until a packet has been authenticated, the peer is unknown.
    ///
    /// # Errors
    ///
    /// [`LaneError`] of the candidate; the lane itself is not touched.
    pub fn try_candidate(
        &mut self,
        candidate: &mut dyn Lane,
        inbox: &mut Inbox,
    ) -> Result<Verdict, LaneError> {
        inbox.opened.clear();
        let count = candidate.receive(&mut inbox.received)?;
        if count == 0 {
            return Ok(Verdict::Undecided);
        }
        if self.open(inbox) == 0 {
            return Ok(Verdict::Refused);
        }
        self.counters.received += count as u64;
        Ok(Verdict::Accepted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seal::LaneSecret;
    use linecard_transfer::control::Suite;
    use linecard_transfer::wire::Kind;
    use std::os::fd::BorrowedFd;
    use std::sync::{Arc, Mutex};

    /// Where datagrams went, and the room that is left.
    #[derive(Debug, Default)]
    struct Taken {
        to: Vec<Option<SocketAddr>>,
        room: usize,
    }

    #[derive(Debug, Default)]
    struct Recorder {
        taken: Arc<Mutex<Taken>>,
        to: Option<SocketAddr>,
    }

    impl Lane for Recorder {
        fn send(&mut self, datagrams: &Datagrams<'_>) -> Result<usize, LaneError> {
            let mut taken = self.taken.lock().unwrap();
            let count = datagrams.count().min(taken.room);
            taken.room -= count;
            taken.to.extend(vec![self.to; count]);
            Ok(count)
        }

        fn receive(&mut self, _received: &mut ReceiveBuffer) -> Result<usize, LaneError> {
            Ok(0)
        }

        fn answer_to(&mut self, peer: SocketAddr) {
            self.to = Some(peer);
        }

        fn as_fd(&self) -> BorrowedFd<'_> {
            rustix::stdio::stdin()
        }

        fn describe(&self) -> String {
            String::new()
        }

        fn is_stream(&self) -> bool {
            false
        }

        fn max_datagram(&self) -> usize {
            MAX_DATAGRAM_BYTES
        }
    }

    fn socket(lane: Recorder) -> SealedSocket {
        let (suite, secret) = (Suite::Aes128Gcm, || LaneSecret::new([7; 32]));
        let opener = Opener::new(suite, &secret(), 0, 1).unwrap();
        SealedSocket::new(Box::new(lane), (Sealer::new(suite, secret()).unwrap(), opener))
    }

    /// Packets that waited for room went to the address of those that were pushed behind them.
    #[test]
    fn packets_that_wait_keep_their_address() {
        let taken = Arc::new(Mutex::new(Taken { room: 1, ..Taken::default() }));
        let mut socket = socket(Recorder { taken: Arc::clone(&taken), to: None });
        let [old, new] = [1_000, 2_000].map(|port| SocketAddr::from(([192, 0, 2, 1], port)));
        let mut number = 0;
        let mut push = |socket: &mut SealedSocket| {
            let header = Header::without_chunk(Kind::Probe, 0, 1, number);
            socket.push(&header, |out| out.extend_from_slice(&[0; 100]));
            number += 1;
        };
        socket.answer_to(old);
        (0..3).for_each(|_| push(&mut socket));
        socket.flush().unwrap();
        socket.answer_to(new);
        (0..2).for_each(|_| push(&mut socket));
        assert!(!socket.is_idle());
        taken.lock().unwrap().room = 10;
        socket.flush().unwrap();
        assert!(socket.is_idle());
        assert_eq!(taken.lock().unwrap().to, [old, old, old, new, new].map(Some));
    }
}
