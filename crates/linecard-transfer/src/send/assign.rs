//! Assigns chunks to lanes: both modes, switching between them, and the work of idle lanes.

use super::chunk::{Chunk, Spread};
use super::{SendEvent, Sender};
use crate::control::Mode;
use crate::lane::LaneState;
use crate::layout::Layout;
use linecard::time::Instant;

/// Chunks that each lane may have in flight before any has more: two hide the gap between chunks,
/// more hide round trips.
const OWN: usize = 2;

impl Sender {
    /// The next packet of `lane`: index of the chunk, and slot. `at` is the index of the previous
    /// one.
    pub(super) fn pick(
        &mut self,
        lane: usize,
        at: &mut Option<usize>,
        now: Instant,
    ) -> Option<(usize, u32)> {
        let alive = self.alive();
        loop {
            if let Some(chunk) = *at
                && let Some(slot) = self.chunks[chunk].take(lane, alive)
            {
                return Some((chunk, slot));
            }
            match self.next_chunk(lane, now) {
                Some(chunk) => *at = Some(chunk),
                None => return self.straggler(lane, now),
            }
        }
    }

    /// Number of working lanes.
    fn alive(&self) -> usize {
        self.lanes.iter().filter(|lane| lane.state() == LaneState::Alive).count()
    }

    /// The oldest chunk with packets for `lane`, or a new one, or one of another lane.
    fn next_chunk(&mut self, lane: usize, now: Instant) -> Option<usize> {
        let own = self.chunks.iter().position(|chunk| chunk.is_for(lane) && chunk.has_work());
        own.or_else(|| self.start(lane, now)).or_else(|| self.help())
    }

    /// Whether `lane` has packets to send of chunks in flight.
    pub(super) fn has_work(&self, lane: usize) -> bool {
        self.chunks.iter().any(|chunk| chunk.is_for(lane) && chunk.has_work()) || self.may_help()
    }

    /// Whether it may start another chunk.
    pub(super) fn starts(&self, lane: usize, now: Instant) -> bool {
        self.may_start(lane).is_some_and(|(_, from)| from <= now)
    }

    /// How the next chunk would be distributed if `lane` started it, and the earliest time. In
    /// low-latency mode, a chunk is not started on one lane while others still have the previous
    /// chunk in their queues, because its latency would include that time.
    pub(super) fn may_start(&self, lane: usize) -> Option<(Spread, Instant)> {
        let (next, layout) = self.offered.front()?;
        let more = self.more_chunks(layout);
        if *next >= self.window_end || more == 0 {
            return None;
        }
        if self.is_stable() {
            let free = more.min((self.window_end - next) as usize);
            let is_fair = self.own_chunks(lane) < OWN || free > self.kept_for_others(lane);
            return is_fair.then_some((Spread::One(lane), Instant::ZERO));
        }
        let waits = self.chunks.iter().any(|chunk| chunk.spread == Spread::All);
        Some((Spread::All, if waits { self.clear } else { Instant::ZERO }))
    }

    /// How many more chunks like this one may be in flight.
    pub(super) fn more_chunks(&self, layout: &Layout) -> usize {
        let by_count = (self.settings.under_way as usize).saturating_sub(self.chunks.len());
        let left = self.settings.memory_bytes.saturating_sub(self.held_bytes);
        let by_memory = left / u64::from(layout.bytes()).max(1);
        let by_memory = usize::try_from(by_memory).unwrap_or(usize::MAX);
        by_count.min(if self.chunks.is_empty() { by_memory.max(1) } else { by_memory })
    }

    fn own_chunks(&self, lane: usize) -> usize {
        self.chunks.iter().filter(|chunk| chunk.spread == Spread::One(lane)).count()
    }

    /// Chunks of the window reserved for other lanes that have not started theirs.
    fn kept_for_others(&self, lane: usize) -> usize {
        let others = self
            .lanes
            .iter()
            .enumerate()
            .filter(|(other, sender)| *other != lane && sender.state() == LaneState::Alive);
        others.map(|(other, _)| OWN.saturating_sub(self.own_chunks(other))).sum()
    }

    /// Whether the next chunk goes entirely over one lane.
    fn is_stable(&self) -> bool {
        match self.settings.mode {
            Mode::Stable => true,
            Mode::LowLatency => false,
            Mode::Auto => self.offered.len() >= self.alive(),
        }
    }

    fn start(&mut self, lane: usize, now: Instant) -> Option<usize> {
        let (spread, from) = self.may_start(lane)?;
        if from > now {
            return None;
        }
        let (id, layout) = self.offered.pop_front()?;
        self.offered_bytes -= u64::from(layout.bytes());
        let rows = self.repair_rows(&layout, spread);
        let mut chunk = Chunk::new(id, layout, rows, self.lanes.len(), now);
        chunk.spread = spread;
        if self.chunks.is_empty() {
            self.progress = now;
        }
        self.held_bytes += u64::from(layout.bytes());
        self.chunks.push(chunk);
        Some(self.chunks.len() - 1)
    }

    /// Lanes without a chunk help with those of others if no more are offered.
    fn may_help(&self) -> bool {
        self.offered.is_empty() && self.chunks.iter().any(Chunk::has_work)
    }

    fn help(&mut self) -> Option<usize> {
        if !self.may_help() {
            return None;
        }
        let at = self.chunks.iter().position(Chunk::has_work)?;
        self.chunks[at].spread = Spread::All;
        Some(at)
    }

    /// Releases the chunks of a failed lane to all lanes.
    pub(super) fn went_down(&mut self, lane: usize) {
        self.events.push_back(SendEvent::Down(lane));
        for chunk in &mut self.chunks {
            if chunk.spread == Spread::One(lane) {
                chunk.spread = Spread::All;
            }
        }
    }

    /// A packet of the oldest chunk in flight on another lane that would arrive sooner over this
    /// lane, which is idle.
    fn straggler(&mut self, lane: usize, now: Instant) -> Option<(usize, u32)> {
        let here_ns = self.lanes[lane].rtt().smoothed_ns();
        let permille = self.settings.duplicates_permille;
        let at = self.chunks.iter().position(|chunk| chunk.spread == Spread::All)?;
        let chunk = &self.chunks[at];
        let allowed = u64::from(chunk.layout.slots()) * u64::from(permille) / 1_000;
        if u64::from(chunk.duplicates) >= allowed {
            return None;
        }
        let id = chunk.id;
        for other in (0..self.lanes.len()).filter(|&other| other != lane) {
            let Some(piece) = self.lanes[other].late_piece(id, here_ns, now) else { continue };
            if self.chunks[at].duplicate(piece.slot, lane) {
                self.lanes[other].skip_late(piece);
                return Some((at, piece.slot));
            }
            self.lanes[other].skip_late(piece);
        }
        None
    }

    /// Whether `lane` is the one to probe: nothing is in flight, nothing may be sent, and a window
    /// update or the completion of a chunk is awaited.
    pub(super) fn quiet_lane(&self, lane: usize, now: Instant) -> bool {
        self.quiet_due(lane).is_some_and(|due| due <= now)
    }

    pub(super) fn quiet_due(&self, lane: usize) -> Option<Instant> {
        let waits = !self.chunks.is_empty() || !self.offered.is_empty();
        let sender = &self.lanes[lane];
        let idle = sender.state() == LaneState::Alive && sender.in_flight() == 0;
        let is_quiet = waits && idle && !self.has_work(lane) && self.may_start(lane).is_none();
        is_quiet.then(|| sender.quiet_until())
    }
}
