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

mod admit;
mod aggregate;
mod bypass;
mod candidate;
mod config;
mod counters;
mod merge;
mod predict;
mod reason;
mod release;
mod slab;
mod table;

pub(super) use bypass::{has_ip_options, may_belong_to_a_flow};
pub(crate) use candidate::MIN_FRAME;
pub use config::{ChecksumPolicy, Config, Creation};
pub use counters::Counters;
pub use reason::{Flush, Flushes, Refusal, Refusals};

use crate::offload::lists::Lists;
use crate::offload::timer::Wheel;
use crate::packet::{Batch, Cache, FlowHasher, Packet, Piece, prefetch, prefetch_line};
use crate::time::Instant;
use alloc::vec::Vec;
use candidate::{Candidate, MAX_NESTED};
use slab::{Slab, SlotId};
use table::Table;

/// Emptied lists of pieces kept for the next merged packets, and the room of a new one: most
/// merged packets have fewer pieces.
const SPARE_CHAINS: usize = 256;
const CHAIN_ROOM: usize = 16;
/// With more flows than this, what a batch will touch is fetched for the whole batch first: their
/// places no longer lie in the nearest caches.
const FEW_FLOWS: usize = 512;

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
    held_packets: usize,
    held_bytes: usize,
    /// The last packet's place, if it is held: the next packet's is most often the same.
    current: Option<SlotId>,
    wheel: Wheel,
    /// What is held, in the order in which it was opened: one queue.
    ages: Lists,
    /// Held packets by the hashes of their ends, for packets that show no ports: a member for
    /// each IP header.
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
        let places = table.capacity().min(config.max_held_packets.max(1));
        let ends = places.next_power_of_two();
        Self {
            hasher: FlowHasher::new(config.secret),
            held: Slab::new(places),
            held_packets: 0,
            held_bytes: 0,
            current: None,
            wheel: Wheel::new(config.hold_budget, places),
            ages: Lists::new(1, places),
            ends: Lists::new(ends, places * MAX_NESTED),
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
        self.held_packets
    }

    /// Flows in the table now, with or without held packets.
    #[must_use]
    pub fn flows(&self) -> usize {
        self.table.used()
    }

    /// When [`Coalescer::advance`] wants to be called next: not later than the earliest deadline
    /// of held data.
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
        self.advance(now, out);
        if self.table.used() > FEW_FLOWS {
            self.fetch_ahead(batch);
        }
        // Two packets ahead: a packet's checksum takes half as long as a later one's lines need.
        batch.drain_looking(2, |packet, ahead| {
            self.take(packet, ahead.map_or(&[][..], |packet| packet.bytes()), out);
        });
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
        self.take(packet, &[], out)
    }

    #[inline(always)]
    fn take<F: FnMut(Packet<B>, Exit)>(
        &mut self,
        packet: Packet<B>,
        ahead: &[u8],
        out: &mut F,
    ) -> Verdict {
        if self.wheel.may_be_due(self.now) {
            self.advance(self.now, out);
        }
        self.counters.received(packet.bytes().len());
        if let Some((slot, candidate)) = self.predicted(&packet, ahead) {
            self.table.arrived(self.held.get(slot).aggregate.flow, self.now);
            return self.merge(slot, packet, &candidate, out);
        }
        match Candidate::examine(&packet, &self.config, ahead) {
            Err(refusal) => self.bypass(packet, refusal, out),
            Ok(candidate) => self.admit(packet, &candidate, out),
        }
    }

    /// Fetches what the packets of a batch will need of tables into the cache, all at once: their
    /// flows' places, then what those hold, then its headers.
    fn fetch_ahead(&mut self, batch: &Batch<B>) {
        let mut flows = [None; crate::packet::BATCH];
        for (packet, flow) in batch.iter().zip(&mut flows) {
            *flow = self.hasher.flow(packet);
            flow.iter().for_each(|hash| self.table.prefetch(*hash));
        }
        let held = flows.map(|hash| self.table.held(self.table.find(hash?)?));
        let held = || held.iter().flatten().map(|slot| self.held.get(*slot));
        held().for_each(prefetch_line);
        let firsts = held().flat_map(|held| &held.packet);
        firsts.for_each(|packet| prefetch(packet.header(), Cache::L1));
    }

    /// Gives the list of a merged packet back for reuse, so that no memory is taken per packet.
    pub fn recycle(&mut self, mut chain: Vec<Piece<B>>) {
        if chain.capacity() > 0 && self.chains.len() < SPARE_CHAINS {
            chain.clear();
            self.chains.push(chain);
        }
    }
}
