//! A receive thread: its queue, and the offloads that it runs, which are those of a live engine.

use super::config::Config;
use crate::Ps;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::time::Duration;
use linecard::offload::active_ack::{self, ActiveAck, Mode, Reply};
use linecard::offload::coalesce::{self, Coalescer, Creation};
use linecard::offload::resequence::{self, Exit, Pass, Resequencer, Verdict};
use linecard::packet::{LinkType, Packet};
use linecard::time::Instant;

/// The most packets that a thread holds: the queue's bound is of the same order.
const MAX_HELD: usize = 4_096;

/// A receive thread.
#[derive(Debug)]
pub(super) struct Thread {
    pub(super) queue: VecDeque<Packet<Vec<u8>>>,
    /// Whether it is at work, and whether on the first packet of the queue.
    pub(super) is_busy: bool,
    pub(super) has_packet: bool,
    /// When it took up its task.
    pub(super) began: Ps,
    /// Timeout messages received.
    pub(super) timeouts: u64,
    /// When the timeout thread will check it next.
    pub(super) watched_at: Ps,
    /// Descriptors left in its Rx ring.
    pub(super) ring: u64,
    pub(super) offloads: Offloads,
}

/// The offloads of a thread.
#[derive(Debug)]
pub(super) struct Offloads {
    resequencer: Option<Resequencer<Vec<u8>>>,
    active: Option<ActiveAck>,
    coalescer: Option<Coalescer<Vec<u8>>>,
    /// Payload in held packets.
    held_bytes: u64,
}

/// The output of a thread.
#[derive(Debug, Default)]
pub(super) struct Output {
    pub(super) packets: Vec<Packet<Vec<u8>>>,
    pub(super) replies: Vec<Reply>,
    /// Packets that were discarded: duplicates, and those with a wrong checksum; and their payload.
    pub(super) duplicates: u64,
    pub(super) corrupt: u64,
    pub(super) discarded_bytes: u64,
}

impl Output {
    /// Payload in all that came out.
    fn bytes(&self) -> u64 {
        let given = self.packets.iter().map(|packet| packet.payload_len() as u64);
        given.sum::<u64>() + self.discarded_bytes
    }
}

impl Thread {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            queue: VecDeque::new(),
            is_busy: false,
            has_packet: false,
            began: Ps::ZERO,
            timeouts: 0,
            watched_at: Ps::NEVER,
            ring: config.npu.ring,
            offloads: Offloads::new(config),
        }
    }
}

/// Virtual time as the offloads count it.
pub(super) fn instant(now: Ps) -> Instant {
    Instant::from_ns(now.as_ns())
}

impl Offloads {
    pub(super) fn new(config: &Config) -> Self {
        let npu = &config.npu;
        let hold_budget = Duration::from_nanos(npu.hold_budget_ns);
        let idle_floor = Duration::from_nanos(npu.idle_floor_ns);
        let offloads = npu.merges();
        let resequencer = resequence::Config {
            // Algorithm 1: what lies before the expected byte is dropped.
            drop_duplicates: true,
            hold_budget,
            gap_floor: idle_floor,
            max_held_packets: MAX_HELD.min(npu.queue),
            max_flows: npu.descriptors,
            ..resequence::Config::default()
        };
        let coalescer = coalesce::Config {
            creation: Creation::OnSyn,
            hold_budget,
            idle_floor,
            max_bytes: npu.max_bytes,
            max_flows: npu.descriptors,
            max_held_packets: MAX_HELD,
            ..coalesce::Config::default()
        };
        let active = |mode| active_ack::Config {
            mode,
            every: 1,
            // The paper bounds it only by what the sender may have in flight.
            max_ahead: if mode == Mode::Paper { 1 << 30 } else { 128 << 10 },
            max_connections: npu.descriptors,
            ..active_ack::Config::default()
        };
        Self {
            resequencer: offloads.then(|| Resequencer::new(resequencer)),
            active: npu
                .active_ack
                .mode()
                .map(|mode| ActiveAck::new(LinkType::Ethernet, active(mode))),
            coalescer: npu.merge.0.then(|| Coalescer::new(coalescer)),
            held_bytes: 0,
        }
    }

    /// Filters, reorders, acknowledges and merges a packet (IV.B to IV.D, V.C). `out` has to be
    /// empty, here and for [`Offloads::advance`].
    pub(super) fn take(&mut self, packet: Packet<Vec<u8>>, now: Ps, out: &mut Output) {
        let now = instant(now);
        let Self { resequencer, active, coalescer, .. } = self;
        let Some(resequencer) = resequencer else {
            out.packets.push(packet);
            return;
        };
        let bytes = packet.payload_len() as u64;
        let verdict = resequencer.push(packet, now, &mut |packet, exit| {
            pass((active, coalescer), (packet, exit), now, out);
        });
        if verdict == Verdict::Dropped {
            out.duplicates += 1;
            out.discarded_bytes += bytes;
        }
        self.held_bytes = self.held_bytes + bytes - out.bytes();
    }

    /// Flushes packets whose timeout has expired (IV.E).
    pub(super) fn advance(&mut self, now: Ps, out: &mut Output) {
        let now = instant(now);
        let Self { resequencer, active, coalescer, .. } = self;
        if let Some(resequencer) = resequencer {
            resequencer.advance(now, &mut |packet, exit| {
                pass((active, coalescer), (packet, exit), now, out);
            });
        }
        if let Some(coalescer) = coalescer {
            coalescer.advance(now, &mut |packet, _| out.packets.push(packet));
        }
        self.held_bytes -= out.bytes();
    }

    /// Processes a packet of the host on its way to the client; returns whether it is to be sent.
    pub(super) fn answer(&mut self, packet: &mut Packet<Vec<u8>>) -> bool {
        let answer = self.active.as_mut().map(|active| active.answer(packet));
        answer != Some(active_ack::Answer::Suppressed)
    }

    /// When the next timeout may expire.
    pub(super) fn next_wakeup(&self) -> Option<Ps> {
        let resequencer = self.resequencer.as_ref().and_then(Resequencer::next_wakeup);
        let coalescer = self.coalescer.as_ref().and_then(Coalescer::next_wakeup);
        let earliest = [resequencer, coalescer].into_iter().flatten().min()?;
        Some(Ps::from_ns(earliest.as_ns()))
    }

    /// Packets held.
    pub(super) fn held(&self) -> u64 {
        let resequencer = self.resequencer.as_ref().map_or(0, Resequencer::held);
        (resequencer + self.coalescer.as_ref().map_or(0, Coalescer::held)) as u64
    }

    /// Payload in them.
    pub(super) fn held_bytes(&self) -> u64 {
        self.held_bytes
    }

    /// Acknowledgments sent for the host.
    pub(super) fn acknowledged(&self) -> u64 {
        self.active.as_ref().map_or(0, |active| active.counters().sent)
    }

    /// Counters of the coalescer.
    pub(super) fn merging(&self) -> Option<&coalesce::Counters> {
        self.coalescer.as_ref().map(Coalescer::counters)
    }
}

/// Processes packets after resequencing.
fn pass(
    (active, coalescer): (&mut Option<ActiveAck>, &mut Option<Coalescer<Vec<u8>>>),
    (mut packet, exit): (Packet<Vec<u8>>, Exit),
    now: Instant,
    out: &mut Output,
) {
    // "Packets with wrong checksum are discarded" (II, III).
    if exit == Exit::Passed(Pass::Checksum) {
        out.corrupt += 1;
        out.discarded_bytes += packet.payload_len() as u64;
        return;
    }
    if let Some(active) = active {
        out.replies.extend(active.data(&mut packet, true));
    }
    match coalescer {
        None => out.packets.push(packet),
        Some(coalescer) => {
            coalescer.push(packet, now, &mut |packet, _| out.packets.push(packet));
        }
    }
}
