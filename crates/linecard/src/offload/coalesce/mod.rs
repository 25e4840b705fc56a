//! LRO: the coalescer merges consecutive packets of a flow into one; segmenting restores the
//! originals (see [`crate::offload::segment`]).
//!
//! Payload is neither copied nor read to merge: a merged packet is its first packet with a patched
//! header, and the payload of the others as a list of slices. Its checksum is computed from the
//! checksums of the segments. The rules are those of Linux's GRO, made stricter where GRO is not
//! reversible. Sources: Li, Chen, Su (connection table, timers, creation at SYN).
//!
//! A packet that does not merge is not verified: packets are held unchanged, and their checksums are verified when
//! another one is to join them. So one that stays alone leaves unchanged, a wrong checksum included.
//!
//! No packet overtakes held data of its flow, and nothing is held beyond its budget. Memory is
//! allocated at construction, except for the lists of merged packets, which are reused when they
//! are given back, and for batches of which nothing is held, where it grows with the largest; see
//! [`Config`] for every bound.

mod admit;
mod aggregate;
mod ahead;
mod arrivals;
pub(in crate::offload) mod burst;
mod bypass;
mod candidate;
mod config;
mod counters;
mod fresh;
mod ids;
mod input;
mod merge;
mod patch;
mod predict;
mod reason;
mod recent;
mod release;
mod slab;
mod steady;
mod successor;
mod table;
mod whole;

pub(super) use bypass::{has_ip_options, may_belong_to_a_flow};
pub(crate) use candidate::MIN_FRAME;
pub use config::{ChecksumPolicy, Config, Creation, LargePackets};
pub use counters::Counters;
pub use input::Input;
pub use reason::{Flush, Flushes, Refusal, Refusals};

use crate::offload::ends::Ends;
use crate::offload::lists::Lists;
use crate::offload::timer::Wheel;
use crate::packet::{BATCH, Batch, FlowHasher, LinkType, Meta, Packet, Piece};
use crate::time::{Instant, ns};
use ahead::{Ahead, Known};
use alloc::boxed::Box;
use alloc::vec::Vec;
use arrivals::{Arrivals, Frames, Packets};
use burst::Burst;
use candidate::Candidate;
use fresh::Fresh;
use ids::SlotId;
use recent::Recent;
use slab::Slab;
use table::Table;

/// Emptied lists of pieces kept for reuse, and the capacity of a new list: most merged packets have
/// fewer pieces.
const SPARE_CHAINS: usize = 256;
const CHAIN_ROOM: usize = 16;

/// The result of [`Coalescer::push`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It joined the held data of its flow.
    Merged,
    /// It opened a new merged packet; if data was held before, the reason why the packet did not
    /// join it.
    Opened(Option<Refusal>),
    /// It passed unchanged.
    Passed(Refusal),
}

/// Why a packet leaves the coalescer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// It cannot merge. It was not held, unless its checksums were found wrong when another packet was to join it.
    Passed(Refusal),
    /// It was held, alone or merged with others; or it is part of a batch of which nothing is held, and
    /// was merged, or not examined because it met no packet that it could join.
    Flushed(Flush),
}

/// Merges packets of flows; see the [module](self).
///
/// ```
/// use linecard::offload::coalesce::{Coalescer, Config, Flush};
/// use linecard::packet::{LinkType, Meta, Packet};
/// use linecard::time::Instant;
///
/// // Two UDP datagrams of one flow, without checksum.
/// let datagram = |id: u8, payload: &[u8; 4]| {
///     let mut bytes = vec![0x45, 0, 0, 32, 0, id, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
///     let checksum = linecard::packet::checksum::Sum::of(&bytes).checksum();
///     bytes[10..12].copy_from_slice(&checksum.to_be_bytes());
///     bytes.extend([0, 7, 0, 9, 0, 12, 0, 0]);
///     bytes.extend(payload);
///     Packet::new(bytes, LinkType::Raw, Meta::default())
/// };
/// let mut coalescer = Coalescer::new(Config::default());
/// let mut out = Vec::new();
/// let now = Instant::ZERO;
/// coalescer.push(datagram(1, b"line"), now, &mut |packet, _| out.push(packet));
/// coalescer.push(datagram(2, b"card"), now, &mut |packet, _| out.push(packet));
/// coalescer.flush_all(Flush::Stop, &mut |packet, _| out.push(packet));
/// assert_eq!(out.len(), 1);
/// assert_eq!(out[0].payload().collect::<Vec<_>>().concat(), b"linecard");
/// assert_eq!(out[0].meta.gso.map(|gso| (gso.size, gso.segments)), Some((4, 2)));
/// ```
#[derive(Debug)]
pub struct Coalescer<B> {
    config: Config,
    /// The packets that are worth merging.
    large: LargePackets,
    hasher: FlowHasher,
    table: Table,
    held: Slab<B>,
    held_packets: usize,
    held_bytes: usize,
    /// The held data with which the next packet is compared first: usually what the last packet
    /// joined or opened. Only a guess: the data may have been flushed.
    current: Option<SlotId>,
    wheel: Wheel,
    recent: Recent,
    /// The idle floor in nanoseconds.
    floor_ns: u64,
    /// Whether data is held between batches at all: with limits of 0, each packet is due when the
    /// next one comes.
    patient: bool,
    /// Held data in the order in which it was opened: a queue.
    ages: Lists,
    /// Held data by address pair, for packets whose ports are not visible.
    ends: Ends,
    fresh: Fresh,
    ahead: Box<Ahead>,
    few_flows: usize,
    /// Where nothing is held beyond a batch.
    burst: Burst,
    /// Empty; kept for their memory.
    burst_packets: Vec<Option<Packet<B>>>,
    burst_frames: Vec<Option<B>>,
    chains: Vec<Vec<Piece<B>>>,
    now: Instant,
    counters: Counters,
}

impl<B: AsRef<[u8]> + AsMut<[u8]>> Coalescer<B> {
    /// Allocates all memory but packet buffers, the lists of merged packets, and what batches take of
    /// which nothing is held.
    #[must_use]
    pub fn new(config: Config) -> Self {
        let table = Table::new(config.max_flows);
        let places = table.capacity().min(config.max_held_packets.max(1));
        let held = Slab::new(places);
        let slots = held.slots();
        Self {
            hasher: FlowHasher::new(config.secret),
            held,
            held_packets: 0,
            held_bytes: 0,
            current: None,
            recent: Recent::new(),
            floor_ns: ns(config.idle_floor),
            patient: ns(config.hold_budget.min(config.idle_floor)) > 0,
            wheel: Wheel::new(config.hold_budget, slots),
            ages: Lists::new(1, slots),
            ends: Ends::new(slots),
            fresh: Fresh::new(),
            ahead: Box::new(Ahead::new()),
            few_flows: ahead::few_flows(config.secret),
            burst: Burst::new(config.secret),
            burst_packets: Vec::new(),
            burst_frames: Vec::new(),
            chains: Vec::with_capacity(SPARE_CHAINS),
            now: Instant::ZERO,
            counters: Counters::default(),
            table,
            config,
            large: LargePackets::ALL,
        }
    }

    /// Has only those packets merge from now on that the port behind takes whole, and the others pass.
    /// Held data is flushed if that changes, and counted as by a stop.
    #[inline]
    pub fn set_large<F: FnMut(Packet<B>, Exit)>(&mut self, large: LargePackets, out: &mut F) {
        if self.large != large {
            self.flush_all(Flush::Stop, out);
            self.large = large;
        }
    }

    /// Passes packets of `input` to `output` unread if nothing merges, as many as there is room for; returns
    /// whether that is so.
    pub(crate) fn pass_all(&mut self, input: &mut Batch<B>, output: &mut Batch<B>) -> bool {
        if self.large != LargePackets::NONE {
            return false;
        }
        for packet in input.iter_mut().take(output.room()) {
            let len = packet.bytes().len();
            self.counters.received(len);
            self.count_refused(len, Refusal::NotTaken);
        }
        output.append(input);
        true
    }

    /// The configuration.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The counters so far.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Packets held now.
    #[must_use]
    pub fn held(&self) -> usize {
        self.held_packets
    }

    /// Flows in the table now, with or without held packets.
    #[must_use]
    pub fn flows(&self) -> usize {
        self.table.used()
    }

    /// When [`Coalescer::advance`] has to be called next: not later than the earliest deadline of
    /// held data.
    #[must_use]
    pub fn next_wakeup(&self) -> Option<Instant> {
        let oldest = self.ages.first(0).map(|slot| self.held.get(slot).entry.spent);
        let idle = self.wheel.next_deadline();
        oldest.into_iter().chain(idle).min()
    }

    /// Processes packets that arrived together: a [`Batch`], a list of packets, or a list of frames that share their
    /// metadata ([`Input`]); it is emptied. Packets that leave go to `out`, each with its reason.
    ///
    /// ```
    /// use linecard::offload::coalesce::{Coalescer, Config, Input};
    /// use linecard::packet::{LinkType, Meta, Packet};
    /// use linecard::time::Instant;
    ///
    /// let mut coalescer = Coalescer::new(Config::burst());
    /// let mut out = Vec::new();
    /// let now = Instant::from_ns(1);
    /// let meta = Meta { timestamp: now, ..Meta::default() };
    /// let mut packets = vec![Packet::new(vec![0_u8; 60], LinkType::Ethernet, meta)];
    /// coalescer.push_batch(&mut packets, now, &mut |packet, _| out.push(packet));
    ///
    /// let mut frames = vec![vec![0_u8; 60]; 3];
    /// let input = Input::Frames(&mut frames, LinkType::Ethernet, meta);
    /// coalescer.push_batch(input, now, &mut |packet, _| out.push(packet));
    /// assert!(packets.is_empty() && frames.is_empty());
    /// assert_eq!(out.len(), 4); // They are not an IP.
    /// ```
    pub fn push_batch<'i, F: FnMut(Packet<B>, Exit)>(
        &mut self,
        input: impl Into<Input<'i, B>>,
        now: Instant,
        out: &mut F,
    ) where
        B: 'i,
    {
        self.advance(now, out);
        match input.into() {
            Input::Batch(batch) => {
                let mut packets = batch.take_list();
                self.push_packets(&mut packets, out);
                batch.set_list(packets);
            }
            Input::Packets(packets) => self.push_packets(packets, out),
            Input::Frames(frames, link, meta) => self.push_frames(frames, (link, meta), out),
        }
    }

    fn push_packets<F: FnMut(Packet<B>, Exit)>(
        &mut self,
        packets: &mut Vec<Packet<B>>,
        out: &mut F,
    ) {
        let part = self.part_of(packets.len());
        if self.large == LargePackets::ALL
            && self.holds_none_of(part)
            && !packets.iter().any(Packet::is_merged)
        {
            while !packets.is_empty() {
                self.merge_packets(packets.drain(..part.min(packets.len())), out);
            }
            return;
        }
        self.push_list(Packets(packets.drain(..)), out);
    }

    fn push_frames<F: FnMut(Packet<B>, Exit)>(
        &mut self,
        frames: &mut Vec<B>,
        (link, meta): (LinkType, Meta),
        out: &mut F,
    ) {
        let part = self.part_of(frames.len());
        if self.large == LargePackets::ALL && self.holds_none_of(part) {
            while !frames.is_empty() {
                self.merge_frames(frames.drain(..part.min(frames.len())), (link, meta), out);
            }
            return;
        }
        self.push_list(Frames::new(frames.drain(..), link, meta), out);
    }

    /// Processes all packets of a list, where some may be held.
    #[inline(always)]
    fn push_list<A: Arrivals<B>, F: FnMut(Packet<B>, Exit)>(
        &mut self,
        mut arrivals: A,
        out: &mut F,
    ) {
        while arrivals.len() > 0 {
            self.settle();
            self.push_all(&mut arrivals, out);
        }
        drop(arrivals);
        self.end_batch(out);
    }

    /// Processes up to [`BATCH`] packets.
    #[inline(always)]
    fn push_all<A: Arrivals<B>, F: FnMut(Packet<B>, Exit)>(
        &mut self,
        arrivals: &mut A,
        out: &mut F,
    ) {
        let count = arrivals.len();
        let end = count.saturating_sub(BATCH);
        let many = self.look_ahead(arrivals);
        while arrivals.len() > end {
            // Most packets continue the current data, or data opened a little earlier. For the
            // others, the data of their flow is looked up; a packet that does not simply continue
            // it takes the slow path.
            let index = count - arrivals.len();
            let mut known = if many { self.ahead.of(index) } else { Known::default() };
            // If it does not seem to go on after the one before, its flow is known, and what that held: a guess, which
            // is verified as any other.
            if known.hash.is_some() {
                self.current = known.held;
            }
            if known.is_empty && self.pass_empty(&mut known, arrivals, out) {
                self.ahead.tell_next(known, None);
                continue;
            }
            let joined = self.follow(arrivals, out);
            if joined > 0 {
                if many {
                    let last = Known { flow: known.flow, ..self.ahead.of(index + joined - 1) };
                    self.ahead.tell_next(last, self.current);
                }
                continue;
            }
            if !many && self.turn_to_recent(arrivals) && self.follow(arrivals, out) > 0 {
                continue;
            }
            if known.hash.is_none() {
                (known.hash, known.is_empty) = arrivals.flow(0, &mut self.hasher);
                if known.is_empty && self.pass_empty(&mut known, arrivals, out) {
                    continue;
                }
            }
            if self.turn_to(&mut known) && self.follow(arrivals, out) > 0 {
                self.ahead.tell_next(known, self.current);
                continue;
            }
            let behind = usize::from(known.next).wrapping_sub(index);
            if known.next != 0 && self.leave_before((&mut known, behind), arrivals, out) {
                self.ahead.tell_next(known, None);
                continue;
            }
            let Some(packet) = arrivals.take() else { break };
            let later = arrivals.bytes(1).unwrap_or_default();
            self.take(packet, (known, later), out);
            self.ahead.tell_next(known, self.current);
        }
    }

    fn end_batch<F: FnMut(Packet<B>, Exit)>(&mut self, out: &mut F) {
        if self.config.flush_at_batch_end {
            self.flush_all(Flush::BatchEnd, out);
        } else {
            if self.config.flush_quiet_at_batch_end {
                self.flush_quiet(out);
            }
            self.settle();
        }
    }

    /// Processes a packet that arrived at `now`, after flushing due aggregates: as
    /// [`push_batch`](Self::push_batch) does with a batch that goes on, so that nothing is flushed at its
    /// end. If `now` lies before the latest time given, that latest time is used.
    pub fn push<F: FnMut(Packet<B>, Exit)>(
        &mut self,
        packet: Packet<B>,
        now: Instant,
        out: &mut F,
    ) -> Verdict {
        let verdict = self.push_part(packet, now, out);
        self.settle();
        verdict
    }

    /// Processes a packet of several that arrived together, as [`push`](Self::push) does;
    /// [`push_batch`](Self::push_batch) with the others, or with none, ends the batch.
    pub fn push_part<F: FnMut(Packet<B>, Exit)>(
        &mut self,
        packet: Packet<B>,
        now: Instant,
        out: &mut F,
    ) -> Verdict {
        self.advance(now, out);
        if self.fresh.is_full() {
            self.settle();
        }
        self.take(packet, (Known::default(), &[]), out)
    }

    /// Passes the first packet, which carries no data and has a visible flow, behind what that holds; false if more has to
    /// be known of it.
    #[inline(never)]
    fn pass_empty<A: Arrivals<B>, F: FnMut(Packet<B>, Exit)>(
        &mut self,
        known: &mut Known,
        arrivals: &mut A,
        out: &mut F,
    ) -> bool {
        let len = arrivals.bytes(0).map_or(0, <[u8]>::len);
        if self.examines_at_once() || !self.patient || len > self.config.max_held_bytes {
            return false;
        }
        known.flow = known.hash.and_then(|hash| self.table.find_near(hash, known.flow));
        if let Some(slot) = known.flow.and_then(|flow| self.table.held(flow)) {
            self.flush(slot, Flush::Bypass, out);
        }
        let Some(packet) = arrivals.take() else { return false };
        self.counters.received(len);
        self.send_refused(packet, Refusal::NoPayload, out);
        true
    }

    /// Whether packets are examined when they come: one whose checksum is wrong makes no flow where SYNs do.
    #[inline(always)]
    fn examines_at_once(&self) -> bool {
        self.config.verify_alone || self.config.creation == Creation::OnSyn
    }

    #[inline]
    fn take<F: FnMut(Packet<B>, Exit)>(
        &mut self,
        packet: Packet<B>,
        (known, later): (Known, &[u8]),
        out: &mut F,
    ) -> Verdict {
        if !self.patient {
            self.settle();
            self.advance(self.now, out);
        }
        self.counters.received(packet.bytes().len());
        self.held.land(packet);
        let landed = self.held.landed().ok_or(Refusal::Malformed);
        let at_once = self.examines_at_once();
        let large = self.large;
        let seen = landed.and_then(|packet| {
            if !large.has(packet.layout()) {
                Err(Refusal::NotTaken)
            } else if at_once {
                Candidate::examine(packet, &self.config, later).map(Some)
            } else {
                Candidate::look(packet, &self.config).map(|()| None)
            }
        });
        match seen {
            Err(refusal) => self.bypass(refusal, known.hash, out),
            Ok(candidate) => self.admit(candidate, (known, later), out),
        }
    }

    /// Makes the data that the first packet may continue the current data; returns whether that is
    /// other data than before.
    #[inline(always)]
    fn turn_to_recent<A: Arrivals<B>>(&mut self, arrivals: &A) -> bool {
        let guess = arrivals.bytes(0).and_then(|bytes| self.recent.guess(bytes));
        let turned = guess.is_some() && guess != self.current;
        if turned {
            self.current = guess;
        }
        turned
    }

    /// Makes the data held by the flow with this hash the current data; returns whether that is
    /// other data than before.
    fn turn_to(&mut self, known: &mut Known) -> bool {
        known.flow = known.hash.and_then(|hash| self.table.find_near(hash, known.flow));
        let held = known.flow.and_then(|flow| self.table.held(flow));
        let turned = held.is_some() && held != self.current;
        if turned {
            self.current = held;
        }
        turned
    }

    /// A list for a merged packet: a reused one if there is any.
    #[inline(always)]
    fn spare_chain(chains: &mut Vec<Vec<Piece<B>>>) -> Vec<Piece<B>> {
        chains.pop().unwrap_or_else(|| Vec::with_capacity(CHAIN_ROOM))
    }

    /// Takes the list of a merged packet back for reuse, which avoids an allocation per packet.
    pub fn recycle(&mut self, mut chain: Vec<Piece<B>>) {
        if chain.capacity() > 0 && self.chains.len() < SPARE_CHAINS {
            chain.clear();
            self.chains.push(chain);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::steady::tests::{Traffic, each_traffic};
    use super::*;

    #[test]
    fn all_passes_unread_where_nothing_merges() {
        let traffic = each_traffic().next().expect("one");
        for large in [LargePackets::ALL, LargePackets::TCP4, LargePackets::NONE] {
            let mut coalescer = Coalescer::new(Config::default());
            coalescer.set_large(large, &mut |_, _| unreachable!("nothing is held"));
            let (mut input, mut output) = (Batch::new(), Batch::bounded(2));
            let packets = (0..3).map(|index| traffic.packet(index, 1));
            packets.for_each(|packet| input.push(packet).expect("room"));
            let passes = large == LargePackets::NONE;
            assert_eq!(coalescer.pass_all(&mut input, &mut output), passes);
            let passed = if passes { 2 } else { 0 };
            assert_eq!((input.len(), output.len()), (3 - passed, passed));
            let Counters { packets_in, packets_out, refused, .. } = coalescer.counters();
            let counts = [*packets_in, *packets_out, refused.of(Refusal::NotTaken)];
            assert_eq!(counts, [passed as u64; 3]);
        }
    }

    #[test]
    fn the_data_of_a_flow_becomes_the_current_data() {
        let traffic = each_traffic().next().expect("one");
        let of = |port, index| Traffic { ports: (port, 9), ..traffic }.packet(index, 0);
        let mut coalescer = Coalescer::new(Config::default());
        let slots = [1, 2].map(|port| {
            coalescer.push(of(port, 0), Instant::ZERO, &mut |_, _| ());
            coalescer.current
        });
        // To a flow, from data of another one or its own or none, or to a flow that holds nothing.
        for (port, from, to, turns) in [
            (1, slots[1], slots[0], true),
            (1, slots[0], slots[0], false),
            (1, None, slots[0], true),
            (3, slots[0], slots[0], false),
            (3, None, None, false),
        ] {
            let mut list = alloc::vec![of(port, 1)];
            let mut arrivals = Packets(list.drain(..));
            coalescer.current = from;
            assert_eq!((coalescer.turn_to_recent(&arrivals), coalescer.current), (turns, to));
            coalescer.current = from;
            let (hash, _) = arrivals.flow(0, &mut coalescer.hasher);
            let mut known = Known { hash, ..Known::default() };
            assert_eq!((coalescer.turn_to(&mut known), coalescer.current), (turns, to));
        }
    }

    #[test]
    fn what_is_empty_passes_at_once_if_it_is_not_too_long() {
        let traffic = each_traffic().find(|traffic| traffic.tcp).expect("one");
        let empty = Traffic { len: 0, ..traffic }.packet(0, 0);
        let len = empty.bytes().len();
        for (max_held_bytes, passes) in [(len - 1, false), (len, true), (len + 1, true)] {
            let config = Config { max_held_bytes, ..Config::default() };
            let mut coalescer = Coalescer::new(config);
            let mut list = alloc::vec![empty.clone()];
            let mut arrivals = Packets(list.drain(..));
            let (hash, is_empty) = arrivals.flow(0, &mut coalescer.hasher);
            let mut known = Known { hash, is_empty, ..Known::default() };
            let mut left = 0;
            let passed = coalescer.pass_empty(&mut known, &mut arrivals, &mut |_, _| left += 1);
            assert_eq!((passed, left), (passes, i32::from(passes)));
        }
    }
}
