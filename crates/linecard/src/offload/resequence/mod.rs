//! Reordering: TCP data of a flow leaves in the order of its sequence numbers, within a bounded
//! window, so that the coalescer behind it can merge data that took different paths.
//!
//! [`Resequencer`] follows Li, Chen, Su (IV.C, Algorithms 1 to 3; timeouts IV.E). Expected
//! data passes at once, together with held data that follows it; data after a gap is held, sorted
//! from the end of the held data. **Packets leave unchanged**, and none is lost, except duplicates
//! if that is configured.
//!
//! | packet | treatment |
//! |---|---|
//! | the first data of a flow | passes; the data after it is expected next |
//! | expected data | passes at once, then the held data that follows it |
//! | data that starts before that | passes at once, as "old": late, retransmitted or duplicate |
//! | data ahead | is held until the gap is filled, its timeout expires, or a bound is reached |
//! | the same data twice | both are held, and leave one after the other |
//! | data outside the window | passes after the held data; if a second packet continues it, its end is expected next |
//! | SYN, FIN, RST, urgent data | passes after the held data, and sets the expected sequence number |
//! | acknowledgments, wrong checksums | pass after the held data, without effect on the sequence |
//! | packets without visible ports | pass after all data held between their addresses |
//!
//! So **no packet overtakes held data of its flow** except data that belongs before it. Only
//! packets with valid checksums move the expected sequence number.
//!
//! **Timeouts.** A gap is waited for ten times the flow's average interval, counted from the
//! arrival of the packet that has waited longest, at least [`Config::gap_floor`] and at most
//! [`Config::hold_budget`]. (The paper counts ten intervals from the last arrival: in a steady flow
//! that timeout never expires, and one lost packet holds all data up.) A sender whose packet is
//! lost learns of it that much later.
//!
//! **Cost.** A packet in order costs a hash, a lookup and a comparison; its checksum is verified
//! here and not again later. A held packet costs as many steps as packets have overtaken it, at
//! most [`Config::max_flow_packets`].
//!
//! Not supported: sequences of tunnels or of other transports. In captures with truncated packets
//! flows are not visible, so nothing is held.

mod admit;
mod config;
mod counters;
mod flow;
mod held;
mod reason;
mod release;

pub use config::Config;
pub use counters::Counters;
pub use reason::{Pass, Passes, Release, Releases};

use super::ends::Ends;
use super::flows::Flows;
use super::lists::Lists;
use super::tcp::frame_len;
use super::timer::Wheel;
use crate::packet::{Batch, FlowHasher, Packet};
use crate::time::Instant;
use flow::Flow;
use held::Store;

/// The result of [`Resequencer::push`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It passed unchanged.
    Passed(Pass),
    /// It is held.
    Held,
    /// It is a duplicate and was dropped.
    Dropped,
}

/// Why a packet leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// It was never held.
    Passed(Pass),
    /// It was held.
    Released(Release),
}

/// Emits TCP data in sequence; see the [module](self).
///
/// ```
/// use linecard::offload::coalesce::ChecksumPolicy;
/// use linecard::offload::resequence::{Config, Exit, Pass, Release, Resequencer};
/// use linecard::packet::{LinkType, Meta, Packet};
/// use linecard::time::Instant;
///
/// // Five bytes of TCP data from `sequence` on; the checksum is not looked at.
/// let data = |sequence: u8| {
///     let mut bytes = vec![0x45, 0, 0, 45, 0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
///     let checksum = linecard::packet::checksum::Sum::of(&bytes).checksum();
///     bytes[10..12].copy_from_slice(&checksum.to_be_bytes());
///     bytes.extend([0, 7, 0, 9, 0, 0, 0, sequence, 0, 0, 0, 1, 0x50, 0x10, 1, 0, 0, 0, 0, 0]);
///     bytes.extend(b"bytes");
///     Packet::new(bytes, LinkType::Raw, Meta::default())
/// };
/// let config = Config { checksum: ChecksumPolicy::Trust, ..Config::default() };
/// let mut resequencer = Resequencer::new(config);
/// let mut out = Vec::new();
/// for sequence in [0, 10, 5, 15] {
///     let mut give = |packet: Packet<Vec<u8>>, exit| out.push((packet.bytes()[27], exit));
///     resequencer.push(data(sequence), Instant::ZERO, &mut give);
/// }
/// assert_eq!(out, [
///     (0, Exit::Passed(Pass::First)),
///     (5, Exit::Passed(Pass::InOrder)),
///     (10, Exit::Released(Release::Filled)),
///     (15, Exit::Passed(Pass::InOrder)),
/// ]);
/// ```
#[derive(Debug)]
pub struct Resequencer<B> {
    config: Config,
    hasher: FlowHasher,
    flows: Flows<Flow>,
    held: Store<B>,
    wheel: Wheel,
    /// Flows that hold data, in the order in which they began to: a queue.
    ages: Lists,
    ends: Ends,
    now: Instant,
    counters: Counters,
}

impl<B: AsRef<[u8]>> Resequencer<B> {
    /// Allocates all memory but packet buffers.
    #[must_use]
    pub fn new(config: Config) -> Self {
        let config = config.bounded();
        let flows = Flows::new(config.max_flows);
        let places = flows.capacity();
        Self {
            hasher: FlowHasher::new(config.secret),
            held: Store::new(config.max_held_packets, places),
            wheel: Wheel::new(config.hold_budget, places),
            ages: Lists::new(1, places),
            ends: Ends::new(places),
            now: Instant::ZERO,
            counters: Counters::default(),
            flows,
            config,
        }
    }

    /// The configuration in effect, with bounds moved into their range.
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
        self.held.len()
    }

    /// Bytes of frames held now.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.held.bytes()
    }

    /// Flows in the table now, with or without held packets.
    #[must_use]
    pub fn flows(&self) -> usize {
        self.flows.used()
    }

    /// When [`Resequencer::advance`] has to be called next: the earliest deadline of held data.
    #[must_use]
    pub fn next_wakeup(&self) -> Option<Instant> {
        self.wheel.next_deadline()
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

    /// Processes a packet that arrived at `now`, after releasing due packets. If `now` lies before
    /// the latest time given, that latest time is used.
    pub fn push<F: FnMut(Packet<B>, Exit)>(
        &mut self,
        packet: Packet<B>,
        now: Instant,
        out: &mut F,
    ) -> Verdict {
        self.advance(now, out);
        self.counters.received(frame_len(&packet));
        self.take(packet, out)
    }
}
