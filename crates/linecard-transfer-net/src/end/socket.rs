//! A lane with its keys: packets are sealed into one area, many by one call, and opened where they lie.

use crate::lane::{Datagrams, Lane, LaneError, MAX_DATAGRAM_BYTES, ReceiveBuffer};
use crate::seal::{Counters, Opener, SealError, Sealer};
use linecard_transfer::wire::{HEADER_BYTES, Header, TAG_BYTES};
use std::collections::VecDeque;
use std::net::SocketAddr;

/// Most consecutive calls to receive from a lane, before other lanes have their turn.
const MAX_ROUNDS: usize = 4;

/// Packets of one length that wait to be sent.
#[derive(Debug, Clone, Copy)]
struct Run {
    start: usize,
    end: usize,
    stride: usize,
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

/// A lane with its keys.
#[derive(Debug)]
pub struct SealedSocket {
    lane: Box<dyn Lane>,
    sealer: Sealer,
    opener: Opener,
    area: Vec<u8>,
    runs: VecDeque<Run>,
    /// Bytes that are handed over by one call, at most.
    burst_bytes: usize,
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
            burst_bytes: MAX_DATAGRAM_BYTES,
            area: Vec::new(),
            runs: VecDeque::new(),
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
        self.area.clear();
        self.runs.clear();
    }

    /// Where it sends to from now on.
    pub fn answer_to(&mut self, peer: SocketAddr) {
        self.lane.answer_to(peer);
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

    /// Seals a packet whose body `fill` appends, to be sent by [`SealedSocket::flush`].
    ///
    /// # Errors
    ///
    /// A packet number that must not be used: a fault of the caller.
    pub fn push(
        &mut self,
        header: &Header,
        fill: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(), SealError> {
        let start = self.area.len();
        self.area.extend_from_slice(&[0; HEADER_BYTES]);
        fill(&mut self.area);
        self.area.extend_from_slice(&[0; TAG_BYTES]);
        self.sealer.seal(header, &mut self.area[start..])?;
        let end = self.area.len();
        let bytes = end - start;
        match self.runs.back_mut() {
            // A shorter packet ends a run: behind it the stride is none any more.
            Some(run) if bytes <= run.stride && (run.end - run.start) % run.stride == 0 => {
                run.end = end;
            }
            _ => self.runs.push_back(Run { start, end, stride: bytes }),
        }
        Ok(())
    }

    /// Hands over what waits, as far as the lane takes it.
    ///
    /// # Errors
    ///
    /// [`LaneError`]: what waited is gone.
    pub fn flush(&mut self) -> Result<(), LaneError> {
        let result = self.hand_over();
        if result.is_err() || self.runs.is_empty() {
            self.area.clear();
            self.runs.clear();
        }
        result
    }

    fn hand_over(&mut self) -> Result<(), LaneError> {
        self.lane.flush()?;
        while let Some(run) = self.runs.front_mut() {
            let bytes = &self.area[run.start..run.end];
            let all = Datagrams { bytes, stride: run.stride };
            let taken = self.lane.send(&all.first((self.burst_bytes / run.stride).max(1)))?;
            if taken == 0 {
                return Ok(());
            }
            let end = run.end.min(run.start + taken * run.stride);
            self.counters.sent += taken as u64;
            self.counters.sent_bytes += (end - run.start) as u64;
            run.start = end;
            if run.start == run.end {
                self.runs.pop_front();
            }
        }
        self.lane.flush()
    }

    /// Opens what has come and gives each packet to `take`: its header, its body, and whom the network
    /// says it is from. Others are counted. True if there is more.
    ///
    /// # Errors
    ///
    /// [`LaneError`].
    pub fn receive(
        &mut self,
        received: &mut ReceiveBuffer,
        mut take: impl FnMut(&Header, &[u8], Option<SocketAddr>),
    ) -> Result<bool, LaneError> {
        for _ in 0..MAX_ROUNDS {
            if self.take(received)? == 0 {
                return Ok(false);
            }
            self.open(received, &mut take);
        }
        Ok(true)
    }

    /// Receives datagrams by one call to the lane, unopened; returns their number.
    ///
    /// # Errors
    ///
    /// [`LaneError`].
    pub fn take(&mut self, received: &mut ReceiveBuffer) -> Result<usize, LaneError> {
        let count = self.lane.receive(received)?;
        self.counters.received += count as u64;
        Ok(count)
    }

    /// Opens what was taken, as [`SealedSocket::receive`] does; how many packets opened.
    pub fn open(
        &mut self,
        received: &mut ReceiveBuffer,
        mut take: impl FnMut(&Header, &[u8], Option<SocketAddr>),
    ) -> usize {
        let mut opened = 0;
        for datagram in received.datagrams() {
            if let Ok((header, body)) = self.opener.open(datagram.bytes) {
                opened += 1;
                take(&header, &datagram.bytes[body], datagram.source);
            }
        }
        opened
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
        received: &mut ReceiveBuffer,
        take: impl FnMut(&Header, &[u8], Option<SocketAddr>),
    ) -> Result<Verdict, LaneError> {
        let count = candidate.receive(received)?;
        if count == 0 {
            return Ok(Verdict::Undecided);
        }
        let opened = self.open(received, take);
        if opened == 0 {
            return Ok(Verdict::Refused);
        }
        self.counters.received += count as u64;
        Ok(Verdict::Accepted)
    }
}
