//! ACK coalescing: of consecutive acknowledgments of a flow the newest is kept, and older ones are
//! dropped (RFC 3449, section 5.2.1, names it ACK filtering).
//!
//! An acknowledgment is cumulative (RFC 9293, section 3.4): a newer one supersedes an older one
//! unless either carries other information. So [`AckFilter`] holds an acknowledgment for a short
//! time, and a newer one replaces it if all of these conditions hold:
//!
//! - both have no payload, no flag but ACK, and no options but timestamps: selective
//!   acknowledgments (RFC 2018), congestion echoes (ECE, CWR, AE), PSH and everything else pass;
//! - the newer one acknowledges more: a repeated number is a duplicate acknowledgment, by which a
//!   sender detects losses (RFC 5681, section 2), or a window update, and passes at once;
//! - its window is not smaller, and neither window is zero;
//! - its timestamps are not older (RFC 7323, section 4.3), and it has timestamps if the older one
//!   has;
//! - sequence number, traffic class, lane and mark are equal, and no header is marked "congestion
//!   experienced".
//!
//! **No packet of a flow overtakes a held acknowledgment of that flow**: a packet that cannot
//! replace it passes after it. A corrupt acknowledgment is never held and never replaces another.
//!
//! **Cost.** A sender that counts acknowledgments instead of bytes grows its window more slowly
//! (RFC 3465 counts bytes), and a sender clocked by acknowledgments sends bursts up to
//! [`Config::max_run`] times as large (RFC 3449, section 5.2.1). Its round-trip times grow by up to
//! [`Config::hold_budget`]. Each packet costs a hash and a lookup.

mod ack;
mod config;
mod counters;
mod reason;

pub use config::Config;
pub use counters::Counters;
pub use reason::{Pass, Passes, Release, Releases};

use super::coalesce::{has_ip_options, may_belong_to_a_flow};
use super::ends::Ends;
use super::flows::{FlowId, Flows, Placement};
use super::lists::Lists;
use super::tcp::{Segment, distance, vouch};
use crate::packet::header::tcp_flags;
use crate::packet::{Batch, FlowHasher, LayerKind, Packet, same_ends};
use crate::time::Instant;
use ack::{Ack, Held};
use alloc::boxed::Box;

/// The result of [`AckFilter::push`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It went out as it was.
    Passed(Pass),
    /// It is held, and may have replaced an older one.
    Held {
        /// Whether an older one was dropped for it.
        dropped: bool,
    },
}

/// Why a packet leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// It was never held.
    Passed(Pass),
    /// It was held, and replaces those dropped before it.
    Kept(Release),
}

/// State of a flow.
#[derive(Debug, Clone, Copy, Default)]
struct Flow {
    /// The highest number acknowledged so far.
    newest: u32,
    last_arrival: Instant,
}

/// Keeps the newest of consecutive acknowledgments; see the [module](self).
///
/// ```
/// use linecard::offload::ack_filter::{AckFilter, Config, Exit, Pass, Release};
/// use linecard::offload::coalesce::ChecksumPolicy;
/// use linecard::packet::{LinkType, Meta, Packet};
/// use linecard::time::Instant;
///
/// // An acknowledgment of this number; the TCP checksum is not looked at.
/// let ack = |number: u8| {
///     let mut bytes = vec![0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
///     let checksum = linecard::packet::checksum::Sum::of(&bytes).checksum();
///     bytes[10..12].copy_from_slice(&checksum.to_be_bytes());
///     bytes.extend([0, 7, 0, 9, 0, 0, 0, 1, 0, 0, 0, number, 0x50, 0x10, 1, 0, 0, 0, 0, 0]);
///     Packet::new(bytes, LinkType::Raw, Meta::default())
/// };
/// let config = Config { checksum: ChecksumPolicy::Trust, ..Config::default() };
/// let mut filter = AckFilter::new(config);
/// let mut out = Vec::new();
/// // The last is a duplicate, which passes after the held one.
/// for number in [1, 2, 3, 4, 4] {
///     let mut give = |packet: Packet<Vec<u8>>, exit| out.push((packet.bytes()[31], exit));
///     filter.push(ack(number), Instant::ZERO, &mut give);
/// }
/// assert_eq!(out, [
///     (1, Exit::Passed(Pass::First)),
///     (4, Exit::Kept(Release::Bypass)),
///     (4, Exit::Passed(Pass::Repeated)),
/// ]);
/// assert_eq!(filter.counters().dropped, 2);
/// ```
#[derive(Debug)]
pub struct AckFilter<B> {
    config: Config,
    hasher: FlowHasher,
    flows: Flows<Flow>,
    held: Box<[Option<Held<B>>]>,
    /// Flows that hold an acknowledgment, by deadline: a queue, because the budget is the same for
    /// all.
    ages: Lists,
    ends: Ends,
    holding: usize,
    now: Instant,
    counters: Counters,
}

impl<B: AsRef<[u8]>> AckFilter<B> {
    /// Allocates all memory but packet buffers.
    #[must_use]
    pub fn new(config: Config) -> Self {
        let flows = Flows::new(config.max_flows);
        let places = flows.capacity();
        Self {
            hasher: FlowHasher::new(config.secret),
            held: (0..places).map(|_| None).collect(),
            ages: Lists::new(1, places),
            ends: Ends::new(places),
            holding: 0,
            now: Instant::ZERO,
            counters: Counters::default(),
            flows,
            config,
        }
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

    /// Acknowledgments held now.
    #[must_use]
    pub fn held(&self) -> usize {
        self.holding
    }

    /// Flows in the table now.
    #[must_use]
    pub fn flows(&self) -> usize {
        self.flows.used()
    }

    /// When [`AckFilter::advance`] has to be called next: the earliest deadline of a held
    /// acknowledgment.
    #[must_use]
    pub fn next_wakeup(&self) -> Option<Instant> {
        Some(self.deadline(self.ages.first(0)?))
    }

    /// Processes all packets of a batch. Packets that leave go to `out`, each with its reason.
    pub fn push_batch<F: FnMut(Packet<B>, Exit)>(
        &mut self,
        batch: &mut Batch<B>,
        now: Instant,
        out: &mut F,
    ) {
        for packet in batch.drain() {
            self.push(packet, now, out);
        }
    }

    /// Processes a packet that arrived at `now`, after flushing due packets. If `now` lies before
    /// the latest time given, that latest time is used.
    pub fn push<F: FnMut(Packet<B>, Exit)>(
        &mut self,
        mut packet: Packet<B>,
        now: Instant,
        out: &mut F,
    ) -> Verdict {
        self.advance(now, out);
        self.counters.packets_in += 1;
        let hash =
            self.hasher.flow(&packet).filter(|_| !has_ip_options(packet.bytes(), packet.layout()));
        let Some(hash) = hash else {
            if may_belong_to_a_flow(packet.layout().protocol()) {
                self.release_ends(&packet, out);
            }
            return self.pass(packet, Pass::NoFlow, out);
        };
        if packet.layout().transport().is_none_or(|layer| layer.kind != LayerKind::Tcp) {
            return self.pass(packet, Pass::NotTcp, out);
        }
        let segment = Segment::read(&packet).filter(|_| vouch(&mut packet, self.config.checksum));
        let Some(segment) = segment else {
            if let Some(id) = self.flows.find(hash) {
                self.release(id, Release::Bypass, out);
            }
            return self.pass(packet, Pass::Checksum, out);
        };
        self.follow(hash, packet, &segment, out)
    }

    /// Flushes packets that are due at `now`.
    pub fn advance<F: FnMut(Packet<B>, Exit)>(&mut self, now: Instant, out: &mut F) {
        self.now = self.now.max(now);
        while let Some(id) = self.ages.first(0).filter(|id| self.deadline(*id) <= self.now) {
            self.release(id, Release::Budget, out);
        }
    }

    /// Flushes everything, in the order of deadlines.
    pub fn flush_all<F: FnMut(Packet<B>, Exit)>(&mut self, out: &mut F) {
        while let Some(id) = self.ages.first(0) {
            self.release(id, Release::Stop, out);
        }
    }

    /// Starts a new timeline, for captures whose clock was set back: flushes everything, after
    /// which `now` may lie before earlier times.
    pub fn restart_clock<F: FnMut(Packet<B>, Exit)>(&mut self, now: Instant, out: &mut F) {
        self.flush_all(out);
        self.flows.states_mut().for_each(|flow| flow.last_arrival = now);
        self.now = now;
    }

    /// Updates a flow's state with a packet of it; the packet is held, or passes after the held
    /// one.
    fn follow<F: FnMut(Packet<B>, Exit)>(
        &mut self,
        hash: u64,
        packet: Packet<B>,
        segment: &Segment,
        out: &mut F,
    ) -> Verdict {
        let examined = Ack::examine(&packet, segment);
        let found = self.flows.find(hash);
        let acknowledges = segment.has(tcp_flags::ACK);
        let Some(id) = found else {
            // Without an acknowledgment number there is nothing to record.
            if acknowledges && !segment.has(tcp_flags::RST | tcp_flags::FIN) {
                let id = self.make(hash, out);
                let newest = segment.acknowledgment;
                *self.flows.get_mut(id) = Flow { newest, last_arrival: self.now };
            }
            return self.pass(packet, examined.err().unwrap_or(Pass::First), out);
        };
        let flow = self.flows.get_mut(id);
        flow.last_arrival = self.now;
        let step = distance(flow.newest, segment.acknowledgment);
        let starts = segment.has(tcp_flags::SYN);
        if acknowledges && (step > 0 || starts) {
            flow.newest = segment.acknowledgment;
        }
        let pass = match examined {
            Ok(ack) if step > 0 => return self.hold(id, packet, ack, out),
            Ok(_) if step == 0 => Pass::Repeated,
            Ok(_) => Pass::Old,
            Err(pass) => pass,
        };
        self.release(id, Release::Bypass, out);
        // The connection ends, or a new one begins whose numbers are not known yet.
        let ends = segment.has(tcp_flags::RST | tcp_flags::FIN);
        if ends || starts && !acknowledges {
            self.flows.release(id);
        }
        self.pass(packet, pass, out)
    }

    /// Holds an acknowledgment that is newer than all before; it replaces the held one if it
    /// supersedes it.
    fn hold<F: FnMut(Packet<B>, Exit)>(
        &mut self,
        id: FlowId,
        packet: Packet<B>,
        ack: Ack,
        out: &mut F,
    ) -> Verdict {
        let held = self.held[id as usize].as_mut();
        let dropped = match held.filter(|held| held.may_give_way(&packet, &ack)) {
            Some(held) => {
                (held.packet, held.ack) = (packet, ack);
                held.run += 1;
                self.counters.dropped += 1;
                true
            }
            None => {
                self.release(id, Release::Differs, out);
                self.ends.enter(&self.hasher, &packet, id);
                self.ages.insert(0, id);
                self.held[id as usize] = Some(Held { packet, ack, run: 1, since: self.now });
                self.holding += 1;
                false
            }
        };
        let run = self.held[id as usize].as_ref().map_or(0, |held| held.run);
        if run >= self.config.max_run {
            self.release(id, Release::Run, out);
        }
        Verdict::Held { dropped }
    }

    /// Flushes the acknowledgment that a flow holds, if any.
    fn release<F: FnMut(Packet<B>, Exit)>(&mut self, id: FlowId, why: Release, out: &mut F) {
        let Some(held) = self.held[id as usize].take() else { return };
        self.ages.remove(id);
        self.ends.leave(id);
        self.holding -= 1;
        self.counters.kept(why, held.run, self.now.ns_since(held.since));
        out(held.packet, Exit::Kept(why));
    }

    /// A place for a new flow; if none is free, evicts the flow that holds nothing and has been
    /// idle longest, or else the one that has held longest.
    fn make<F: FnMut(Packet<B>, Exit)>(&mut self, hash: u64, out: &mut F) -> FlowId {
        let held = &self.held;
        let worth = |id: FlowId, flow: &Flow| match &held[id as usize] {
            None => (false, flow.last_arrival),
            Some(held) => (true, held.since),
        };
        let id = match self.flows.place(hash, worth) {
            Placement::Free(id) => id,
            Placement::Occupied(id) => {
                self.release(id, Release::TableFull, out);
                self.counters.flows_evicted += 1;
                id
            }
        };
        self.flows.occupy(id, hash, Flow::default());
        self.counters.flows_made += 1;
        id
    }

    /// Flushes everything held between the addresses of a packet.
    fn release_ends<F: FnMut(Packet<B>, Exit)>(&mut self, packet: &Packet<B>, out: &mut F) {
        let holds = |held: &[Option<Held<B>>], id: u32| {
            held[id as usize].as_ref().is_some_and(|held| same_ends(&held.packet, packet))
        };
        while let Some(id) = self.ends.find(&self.hasher, packet, |id| holds(&self.held, id)) {
            self.release(id, Release::Bypass, out);
        }
    }

    fn deadline(&self, id: FlowId) -> Instant {
        let since = self.held[id as usize].as_ref().map(|held| held.since);
        since.map_or(Instant::NEVER, |since| since.plus(self.config.hold_budget))
    }

    fn pass<F: FnMut(Packet<B>, Exit)>(
        &mut self,
        packet: Packet<B>,
        why: Pass,
        out: &mut F,
    ) -> Verdict {
        self.counters.passed.count(why);
        self.counters.packets_out += 1;
        out(packet, Exit::Passed(why));
        Verdict::Passed(why)
    }
}
