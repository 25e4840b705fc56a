//! LRO: the coalescer merges consecutive packets of a flow into one, and gives back the originals
//! by segmenting (see [`crate::offload::segment`]).
//!
//! Payload is neither copied nor read to merge: a merged packet is its first packet with a patched
//! header, and the others' payload as a list of slices. Its checksum comes from the segments' own.
//! Rules are those of Linux's GRO, made strict where it is not reversible. Sources:
//! papers/lro-npu.txt (connection table, timers, creation at SYN).
//!
//! Nothing of a flow overtakes held data of that flow, and nothing is held beyond its budget.
//! Memory is taken at construction, lists of merged packets aside, which are reused when they are
//! given back; see [`Config`] for every bound.

mod aggregate;
mod candidate;
mod config;
mod counters;
mod lists;
mod merge;
mod reason;
mod slab;
mod table;
mod timer;

pub(crate) use aggregate::written_checksum;
pub(crate) use candidate::MIN_FRAME;
pub use config::{ChecksumPolicy, Config, Creation};
pub use counters::Counters;
pub use reason::{Flush, Flushes, Refusal, Refusals};

use crate::packet::header::{self, Tcp, protocol, tcp_flags};
use crate::packet::{Batch, FlowHasher, FlowKey, Form, LayerKind, Packet, Piece};
use crate::time::Instant;
use aggregate::{Aggregate, Step};
use alloc::vec::Vec;
use candidate::Candidate;
use lists::Lists;
use slab::{Slab, SlotId};
use table::{FlowId, Place, Table};
use timer::Wheel;

/// Emptied lists of pieces kept for the next merged packets.
const SPARE_CHAINS: usize = 64;

/// What became of a packet given to [`Coalescer::push`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It joined the held data of its flow.
    Merged,
    /// It opened a new merged packet; the reason why it did not join the data held before, if
    /// there was any.
    Opened(Option<Refusal>),
    /// It went out as it was.
    Passed(Refusal),
}

/// Why a packet leaves the coalescer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// It was never held.
    Passed(Refusal),
    /// It was held, alone or merged with others.
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
    hasher: FlowHasher,
    table: Table,
    held: Slab<B>,
    held_bytes: usize,
    wheel: Wheel,
    /// Flows with held data by the hash of their two ends, for packets that show no ports.
    ends: Lists,
    ends_mask: usize,
    chains: Vec<Vec<Piece<B>>>,
    now: Instant,
    counters: Counters,
}

impl<B: AsRef<[u8]> + AsMut<[u8]>> Coalescer<B> {
    /// Takes the memory it will need, buffers of packets and lists of merged ones aside.
    #[must_use]
    pub fn new(config: Config) -> Self {
        let table = Table::new(config.max_flows);
        let flows = table.capacity();
        let ends = flows.next_power_of_two();
        Self {
            hasher: FlowHasher::new(config.secret),
            held: Slab::new(config.max_held_packets.max(1)),
            held_bytes: 0,
            wheel: Wheel::new(config.hold_budget, flows),
            ends: Lists::new(ends, flows),
            ends_mask: ends - 1,
            chains: Vec::with_capacity(SPARE_CHAINS),
            now: Instant::ZERO,
            counters: Counters::default(),
            table,
            config,
        }
    }

    /// The configuration it was made with.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// What has been counted so far.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Packets held now.
    #[must_use]
    pub fn held(&self) -> usize {
        self.held.held()
    }

    /// Flows in the table now, with or without held packets.
    #[must_use]
    pub fn flows(&self) -> usize {
        self.table.used()
    }

    /// When [`Coalescer::advance`] wants to be called next: the earliest deadline of held data.
    #[must_use]
    pub fn next_wakeup(&self) -> Option<Instant> {
        self.wheel.next_deadline()
    }

    /// Takes all packets of a batch. What leaves goes to `out`, with the reason.
    pub fn push_batch<F: FnMut(Packet<B>, Exit)>(
        &mut self,
        batch: &mut Batch<B>,
        now: Instant,
        out: &mut F,
    ) {
        for packet in batch.drain() {
            self.push(packet, now, out);
        }
        if self.config.flush_at_batch_end {
            self.flush_all(Flush::BatchEnd, out);
        }
    }

    /// Takes one packet that arrived at `now`; what is due is let go first. A time before the
    /// latest one given counts as that.
    pub fn push<F: FnMut(Packet<B>, Exit)>(
        &mut self,
        packet: Packet<B>,
        now: Instant,
        out: &mut F,
    ) -> Verdict {
        self.advance(now, out);
        self.counters.received(packet.bytes().len());
        match Candidate::examine(&packet, &self.config) {
            Err(refusal) => self.bypass(packet, refusal, out),
            Ok(candidate) => self.admit(packet, &candidate, out),
        }
    }

    /// Lets go what is due at `now`.
    pub fn advance<F: FnMut(Packet<B>, Exit)>(&mut self, now: Instant, out: &mut F) {
        self.now = self.now.max(now);
        while let Some(flow) = self.wheel.due(self.now) {
            let opened = self.table.get(flow).aggregate.as_ref().map(|aggregate| aggregate.opened);
            let spent = opened.is_some_and(|o| self.now.since(o) >= self.config.hold_budget);
            self.flush(flow, if spent { Flush::Budget } else { Flush::Idle }, out);
        }
    }

    /// Lets everything go, those nearest their deadline first.
    pub fn flush_all<F: FnMut(Packet<B>, Exit)>(&mut self, reason: Flush, out: &mut F) {
        while let Some(flow) = self.wheel.nearest() {
            self.flush(flow, reason, out);
        }
    }

    /// Starts a new time line, for captures whose clock was set back: everything is let go, and
    /// the next time given may be earlier.
    pub fn restart_clock<F: FnMut(Packet<B>, Exit)>(&mut self, now: Instant, out: &mut F) {
        self.flush_all(Flush::Stop, out);
        self.wheel.restart(now);
        self.table.restart_clock();
        self.now = now;
    }

    /// Gives the list of a merged packet back for reuse, so that no memory is taken per packet.
    pub fn recycle(&mut self, mut chain: Vec<Piece<B>>) {
        if chain.capacity() > 0 && self.chains.len() < SPARE_CHAINS {
            chain.clear();
            self.chains.push(chain);
        }
    }

    /// Passes a packet that cannot be merged behind all that it must not overtake.
    fn bypass<F: FnMut(Packet<B>, Exit)>(
        &mut self,
        packet: Packet<B>,
        refusal: Refusal,
        out: &mut F,
    ) -> Verdict {
        match FlowKey::of(&packet, &self.hasher) {
            Some(key) if shows_its_flow(refusal) => {
                let hash = self.hasher.flow(&key);
                if let Some(flow) = self.table.find(hash, &key) {
                    self.flush(flow, Flush::Bypass, out);
                }
                if Candidate::controls(&packet, &self.config) {
                    self.follow_connection(&packet, hash, key, out);
                }
            }
            _ if may_belong_to_a_flow(packet.layout().protocol()) => self.flush_ends(&packet, out),
            _ => {}
        }
        self.pass(packet, refusal, out)
    }

    /// Lets go all held data between the two ends of `packet`: it does not show its ports, or
    /// its headers differ from those of its flow.
    fn flush_ends<F: FnMut(Packet<B>, Exit)>(&mut self, packet: &Packet<B>, out: &mut F) {
        let Some(hash) = self.hasher.ends_of_packet(packet) else { return };
        let mut next = self.ends.first(hash as usize & self.ends_mask);
        while let Some(flow) = next {
            next = self.ends.next(flow);
            if self.table.get(flow).key.same_ends(packet) {
                self.flush(flow, Flush::Bypass, out);
            }
        }
    }

    /// SYN makes a flow and FIN or RST removes it, when flows open on SYN.
    fn follow_connection<F: FnMut(Packet<B>, Exit)>(
        &mut self,
        packet: &Packet<B>,
        hash: u64,
        key: FlowKey,
        out: &mut F,
    ) {
        let Some(flags) = tcp_flags_of(packet) else { return };
        match (flags & tcp_flags::SYN != 0, self.table.find(hash, &key)) {
            (true, None) => {
                self.create(hash, key, out);
                self.counters.flows_on_syn += 1;
            }
            (false, Some(flow)) => self.release_at_end(flow, flags),
            _ => {}
        }
    }

    fn release_at_end(&mut self, flow: FlowId, flags: u16) {
        if self.config.creation == Creation::OnSyn && flags & (tcp_flags::FIN | tcp_flags::RST) != 0
        {
            self.table.release(flow);
            self.counters.flows_released += 1;
        }
    }

    fn pass<F: FnMut(Packet<B>, Exit)>(
        &mut self,
        packet: Packet<B>,
        refusal: Refusal,
        out: &mut F,
    ) -> Verdict {
        self.counters.refused.count(refusal);
        self.counters.sent(packet.bytes().len());
        self.counters.passed += 1;
        out(packet, Exit::Passed(refusal));
        Verdict::Passed(refusal)
    }

    /// Merges a candidate into its flow's held data, or holds it as the first of new data.
    fn admit<F: FnMut(Packet<B>, Exit)>(
        &mut self,
        packet: Packet<B>,
        candidate: &Candidate,
        out: &mut F,
    ) -> Verdict {
        let Some(key) = FlowKey::of(&packet, &self.hasher) else {
            return self.pass(packet, Refusal::Malformed, out);
        };
        let Some(flow) = self.flow_of(key, candidate, out) else {
            return self.pass(packet, Refusal::NoFlow, out);
        };
        let verdict = match self.fits(flow, &packet, candidate) {
            Some(Ok(step)) => self.merge(flow, packet, candidate, &step, out),
            Some(Err(refusal)) => {
                self.counters.refused.count(refusal);
                self.flush(flow, flush_of(refusal), out);
                self.open(flow, packet, candidate, Some(refusal), out)
            }
            None => self.open(flow, packet, candidate, None, out),
        };
        self.release_at_end(flow, candidate.flags);
        verdict
    }

    /// The flow's place, made if that is allowed; its clock is kept.
    fn flow_of<F: FnMut(Packet<B>, Exit)>(
        &mut self,
        key: FlowKey,
        candidate: &Candidate,
        out: &mut F,
    ) -> Option<FlowId> {
        let hash = self.hasher.flow(&key);
        if let Some(flow) = self.table.find(hash, &key) {
            self.table.arrived(flow, self.now);
            return Some(flow);
        }
        if self.config.creation == Creation::OnSyn && candidate.kind == LayerKind::Tcp {
            if candidate.flags & tcp_flags::SYN == 0 {
                return None;
            }
            self.counters.flows_on_syn += 1;
        } else {
            self.counters.flows_on_data += 1;
        }
        Some(self.create(hash, key, out))
    }

    fn create<F: FnMut(Packet<B>, Exit)>(
        &mut self,
        hash: u64,
        key: FlowKey,
        out: &mut F,
    ) -> FlowId {
        let flow = match self.table.place(hash) {
            Place::Free(flow) => flow,
            Place::Occupied(flow) => {
                self.flush(flow, Flush::TableFull, out);
                self.counters.flows_evicted += 1;
                flow
            }
        };
        self.table.occupy(flow, hash, key, self.now);
        flow
    }

    /// Whether `packet` continues what its flow holds; none when it holds nothing.
    fn fits(
        &self,
        flow: FlowId,
        packet: &Packet<B>,
        candidate: &Candidate,
    ) -> Option<Result<Step, Refusal>> {
        let aggregate = self.table.get(flow).aggregate.as_ref()?;
        let first = self.held.get(aggregate.first)?;
        Some(aggregate.fits(first, packet, candidate, &self.config))
    }

    fn open<F: FnMut(Packet<B>, Exit)>(
        &mut self,
        flow: FlowId,
        packet: Packet<B>,
        candidate: &Candidate,
        refusal: Option<Refusal>,
        out: &mut F,
    ) -> Verdict {
        self.make_room(&packet, None, out);
        let now = self.now;
        let hash = self.hasher.ends(&self.table.get(flow).key);
        let mut aggregate = Aggregate::open(&packet, candidate, now);
        self.held_bytes += packet.bytes().len();
        let slot = self.held.insert(packet);
        (aggregate.first, aggregate.last) = (slot, slot);
        self.table.get_mut(flow).aggregate = Some(aggregate);
        self.ends.insert(hash as usize & self.ends_mask, flow);
        self.arm(flow);
        if candidate.ends() {
            self.flush(flow, Flush::EndFlag, out);
        }
        Verdict::Opened(refusal)
    }

    fn merge<F: FnMut(Packet<B>, Exit)>(
        &mut self,
        flow: FlowId,
        packet: Packet<B>,
        candidate: &Candidate,
        step: &Step,
        out: &mut F,
    ) -> Verdict {
        if self.make_room(&packet, Some(flow), out) {
            return self.open(flow, packet, candidate, None, out);
        }
        let Some(aggregate) = self.table.get_mut(flow).aggregate.as_mut() else {
            return self.open(flow, packet, candidate, None, out);
        };
        let ended = aggregate.append(&packet, candidate, step);
        self.held_bytes += packet.bytes().len();
        let slot = self.held.insert(packet);
        self.held.link(aggregate.last, slot);
        aggregate.last = slot;
        match ended {
            Some(reason) => self.flush(flow, reason, out),
            None => self.arm(flow),
        }
        Verdict::Merged
    }

    /// Lets go what is nearest its deadline until one more packet may be held; tells whether
    /// `flow` itself was let go.
    fn make_room<F: FnMut(Packet<B>, Exit)>(
        &mut self,
        packet: &Packet<B>,
        flow: Option<FlowId>,
        out: &mut F,
    ) -> bool {
        let limit = self.config.max_held_bytes.saturating_sub(packet.bytes().len());
        let mut hit = false;
        while self.held.is_full() || (self.held_bytes > limit && self.held.held() > 0) {
            let Some(nearest) = self.wheel.nearest() else { break };
            hit |= Some(nearest) == flow;
            self.flush(nearest, Flush::HeldLimit, out);
        }
        hit
    }

    /// Sets the timer: paused, or the budget used up, whichever comes first.
    fn arm(&mut self, flow: FlowId) {
        let state = self.table.get(flow);
        let Some(aggregate) = &state.aggregate else { return };
        let budget = aggregate.opened.plus(self.config.hold_budget);
        let idle = state.idle_at(self.now, self.config.idle_floor);
        self.wheel.arm(flow, idle.min(budget));
    }

    /// Lets go what a flow holds.
    fn flush<F: FnMut(Packet<B>, Exit)>(&mut self, flow: FlowId, reason: Flush, out: &mut F) {
        let Some(aggregate) = self.table.get_mut(flow).aggregate.take() else { return };
        self.wheel.disarm(flow);
        self.ends.remove(flow);
        let Some((mut packet, next)) = self.held.take(aggregate.first) else { return };
        if aggregate.count > 1 {
            let spare = self.chains.pop();
            let mut chain = spare.unwrap_or_else(|| Vec::with_capacity(aggregate.count.into()));
            self.collect(next, aggregate.count - 1, &mut chain);
            packet.set_chain(chain);
            aggregate.patch(&mut packet);
        }
        self.held_bytes -= aggregate.bytes;
        let held_ns = self.now.ns_since(aggregate.opened);
        self.counters.flushed(reason, aggregate.count, held_ns);
        self.counters
            .sent(packet.bytes().len() + packet.chain().iter().map(Piece::len).sum::<usize>());
        out(packet, Exit::Flushed(reason));
    }

    /// Moves `count` packets chained from `slot` on into the list of a merged packet.
    fn collect(&mut self, mut slot: SlotId, count: u16, chain: &mut Vec<Piece<B>>) {
        for _ in 0..count {
            let Some((packet, next)) = self.held.take(slot) else { return };
            chain.push(packet.into_piece());
            slot = next;
        }
    }
}

/// Whether a packet refused for this reason has the headers of its flow, so that the flow is
/// found by its key. Others may belong to any flow between the two ends.
fn shows_its_flow(refusal: Refusal) -> bool {
    !matches!(refusal, Refusal::IpOptions | Refusal::HeaderTooLong)
}

/// Whether TCP or UDP may lie behind this protocol number: ICMP need not wait for data.
fn may_belong_to_a_flow(number: u8) -> bool {
    use protocol::{DESTINATION, FRAGMENT, HOP_BY_HOP, ROUTING, TCP, UDP};
    matches!(number, TCP | UDP | HOP_BY_HOP | ROUTING | FRAGMENT | DESTINATION)
}

fn flush_of(refusal: Refusal) -> Flush {
    match refusal {
        Refusal::SizeLimit | Refusal::SegmentLimit => Flush::Size,
        _ => Flush::Displaced,
    }
}

fn tcp_flags_of<B: AsRef<[u8]>>(packet: &Packet<B>) -> Option<u16> {
    let layout = packet.layout();
    let transport = layout.transport().filter(|layer| layer.kind == LayerKind::Tcp)?;
    let whole = layout.form() == Form::Datagram;
    whole.then(|| header::at::<Tcp>(packet.bytes(), transport.offset.into()).offset_flags.get())
}
