//! Reordering: TCP data of a flow is given on in the order of its sequence numbers, within a bounded
//! window, so that the coalescer behind it merges what took different paths.
//!
//! [`Resequencer`] follows papers/lro-npu.txt (IV.C, Algorithms 1 to 3; timeouts IV.E). Data that is
//! expected goes straight through, and what follows it with it; data ahead of a gap is held, sorted
//! from the end of what is held. **What leaves is what came**: no packet is changed, and none is
//! lost, except duplicates when that is asked for.
//!
//! | packet | what becomes of it |
//! |---|---|
//! | the first data of a flow | passes; what lies behind it is expected |
//! | expected data | passes at once, then what is held behind it |
//! | data that starts before that | passes at once, as "old": late, a retransmission, a duplicate |
//! | data ahead | held: until the gap is filled, its time is up, or a bound is reached |
//! | the same data twice | both are held, and leave one behind the other |
//! | data from outside the window | passes behind what is held; a second one that continues it says where the flow is now |
//! | SYN, FIN, RST, urgent data | passes behind what is held, and says what is expected |
//! | acknowledgments, wrong checksums | pass behind what is held, and say nothing |
//! | what shows no ports | passes behind what is held between its two ends |
//!
//! So **nothing of a flow overtakes held data of that flow** but data that belongs before it. Only
//! packets whose checksums are right, or vouched for, move what is expected.
//!
//! **Time.** A gap is waited for ten times the flow's average interval, from the arrival of the
//! packet that has waited longest, at least [`Config::gap_floor`] and at most
//! [`Config::hold_budget`]. (The paper waits ten intervals from the last arrival on: in a steady flow
//! that never comes, and one lost packet holds all data up.) A sender whose packet is lost learns of
//! it that much later.
//!
//! **Price.** A packet in order costs a hash, a lookup and a comparison; its checksum is computed
//! here and not again behind. A held packet costs as many steps as it is packets late, at most
//! [`Config::max_flow_packets`].
//!
//! Not supported: sequences of tunnels or of other transports; captures that cut packets short show
//! no flows, so that nothing of them is held.

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

/// What became of a packet given to [`Resequencer::push`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It went out as it was.
    Passed(Pass),
    /// It is held.
    Held,
    /// It is a duplicate, and those are to be dropped.
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

/// Gives TCP data on in sequence; see the [module](self).
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
    /// Flows that hold something, in the order in which they began to: one queue.
    ages: Lists,
    ends: Ends,
    now: Instant,
    counters: Counters,
}

impl<B: AsRef<[u8]>> Resequencer<B> {
    /// Takes the memory it will need, buffers of packets aside.
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

    /// The configuration as it holds: bounds that are too small or too large have been moved.
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

    /// When [`Resequencer::advance`] wants to be called next: the earliest deadline of what is held.
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
        self.counters.received(frame_len(&packet));
        self.take(packet, out)
    }
}
