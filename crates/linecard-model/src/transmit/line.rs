//! The line interface: completes packets, puts them in order and sends them.
//!
//! Packets of a message are sent in order of arrival; messages in the order in which they were
//! assigned, whichever core processed them. Packets that may not be sent yet stay in their core's
//! buffer (SBI).

use super::design::Design;
use crate::Ps;
use crate::cell::Cell;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use linecard::packet::checksum::Sum;
use linecard::packet::header::{self, Ipv4, Tcp};
use linecard::packet::{LayerKind, Layout, LinkType};

/// A packet that was sent.
#[derive(Debug)]
pub struct Sent {
    /// Number of its message, from 0 in the order given out.
    pub message: u64,
    /// The core that made it.
    pub core: usize,
    /// The IP packet, checksums filled in.
    pub bytes: Vec<u8>,
    /// When its first bit was on the line.
    pub from: Ps,
    /// When its last bit was, and the gap behind it.
    pub to: Ps,
    /// Its cost.
    pub cell: Cell,
    /// Its instructions and waits, since [`Transmit::start_trace`](super::Transmit::start_trace).
    pub trace: Option<Box<PacketTrace>>,
}

/// Instructions of a packet, by their addresses, and waits of its core in the cell's time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PacketTrace {
    /// Where the core slept before the packet, if it did.
    pub asleep_at: Option<u32>,
    /// The packet's first instruction.
    pub begun_at: Option<u32>,
    /// The instruction that started its transfer.
    pub started_at: Option<u32>,
    /// The first 64 waits.
    pub stalls: Vec<Stall>,
}

/// A wait of a core.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stall {
    /// Its begin.
    pub from: Ps,
    /// Its end.
    pub to: Ps,
    /// The instruction that waits.
    pub pc: u32,
}

/// A packet in a line-interface buffer.
#[derive(Debug)]
pub(super) struct Ready {
    pub(super) core: usize,
    pub(super) bytes: Vec<u8>,
    pub(super) cell: Cell,
    pub(super) trace: Option<Box<PacketTrace>>,
}

#[derive(Debug)]
pub(super) struct Line {
    bits_per_second: Option<u64>,
    overhead_bytes: u64,
    sbi_bytes: usize,
    /// The line is occupied until then.
    busy_until: Ps,
    /// The message being sent.
    turn: u64,
    /// Packets of messages behind it, as many as the cores' buffers hold, and messages that are complete.
    waiting: BTreeMap<u64, Vec<Ready>>,
    complete: BTreeMap<u64, ()>,
    sent: VecDeque<Sent>,
    /// Buffers of packets that were sent, for reuse; at most as many as were in flight.
    spare: Vec<Vec<u8>>,
    buffers: Vec<Buffer>,
}

/// The contents of one core's buffer.
#[derive(Debug, Default)]
struct Buffer {
    used: usize,
    /// Packets on their way out: when they are gone, and their bytes.
    leaving: VecDeque<(Ps, usize)>,
}

/// When a packet has room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Room {
    /// From this time on.
    At(Ps),
    /// Once another core's packets were sent, at an unknown time.
    Unknown,
    /// Never: longer than the buffer.
    Never,
}

impl Line {
    pub(super) fn new(design: &Design) -> Self {
        Self {
            bits_per_second: design.line_bits_per_second,
            overhead_bytes: design.wire_overhead_bytes,
            sbi_bytes: design.sbi_bytes,
            busy_until: Ps::ZERO,
            turn: 0,
            waiting: BTreeMap::new(),
            complete: BTreeMap::new(),
            sent: VecDeque::new(),
            spare: Vec::new(),
            buffers: (0..design.cores).map(|_| Buffer::default()).collect(),
        }
    }

    /// When a packet of `len` bytes has room in a core's buffer, `now` or later.
    pub(super) fn room(&mut self, core: usize, len: usize, now: Ps) -> Room {
        let limit = self.sbi_bytes;
        let Some(buffer) = self.buffers.get_mut(core).filter(|_| len <= limit) else {
            return Room::Never;
        };
        while let Some((_, freed)) = buffer.leaving.pop_front_if(|(gone, _)| *gone <= now) {
            buffer.used -= freed;
        }
        let (mut used, mut at) = (buffer.used, now);
        for (gone, freed) in &buffer.leaving {
            if used + len <= limit {
                break;
            }
            (used, at) = (used - freed, *gone);
        }
        if used + len <= limit { Room::At(at) } else { Room::Unknown }
    }

    /// Adds a packet for which there is room.
    pub(super) fn offer(&mut self, message: u64, mut ready: Ready) {
        finish(&mut ready.bytes);
        if let Some(buffer) = self.buffers.get_mut(ready.core) {
            buffer.used += ready.bytes.len();
        }
        if message == self.turn {
            self.send(ready);
        } else {
            self.waiting.entry(message).or_default().push(ready);
        }
    }

    /// Ends a message.
    pub(super) fn complete(&mut self, message: u64) {
        self.complete.insert(message, ());
        while self.complete.remove(&self.turn).is_some() {
            self.turn += 1;
            for ready in self.waiting.remove(&self.turn).unwrap_or_default() {
                self.send(ready);
            }
        }
    }

    /// The next packet that was sent.
    pub(super) fn next_sent(&mut self) -> Option<Sent> {
        self.sent.pop_front()
    }

    /// Takes back the buffer of a packet that was sent.
    pub(super) fn recycle(&mut self, mut buffer: Vec<u8>) {
        buffer.clear();
        self.spare.push(buffer);
    }

    /// An empty buffer.
    pub(super) fn buffer(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_default()
    }

    fn send(&mut self, ready: Ready) {
        let Ready { core, bytes, cell, trace } = ready;
        let bits = (bytes.len() as u64 + self.overhead_bytes) * 8;
        let takes = self.bits_per_second.map_or(Ps::ZERO, |rate| Ps::of_bits(bits, rate));
        let from = self.busy_until.max(cell.moved_to);
        let to = from + takes;
        self.busy_until = to;
        if let Some(buffer) = self.buffers.get_mut(core) {
            buffer.leaving.push_back((to, bytes.len()));
        }
        self.sent.push_back(Sent { message: self.turn, core, bytes, from, to, cell, trace });
    }
}

/// The line interface computes checksums, because it sees every byte. That of UDP over all
/// fragments was computed by the host. An invalid header stays unchanged, and is detected when the
/// packet is verified.
pub(super) fn finish(bytes: &mut [u8]) {
    if bytes.first() != Some(&0x45) || bytes.len() < Ipv4::LEN {
        return;
    }
    header::set_be16(bytes, Ipv4::CHECKSUM, 0);
    let sum = Sum::of(&bytes[..Ipv4::LEN]);
    header::set_be16(bytes, Ipv4::CHECKSUM, sum.checksum());
    let layout = Layout::parse(LinkType::Raw, bytes);
    let Some(tcp) = layout.transport().filter(|layer| layer.kind == LayerKind::Tcp) else {
        return;
    };
    header::set_be16(bytes, tcp.at() + Tcp::CHECKSUM, 0);
    let covered = &bytes[tcp.at()..layout.end()];
    let sum = Sum::of(covered).plus(layout.pseudo_sum_of(bytes, tcp, covered.len()));
    header::set_be16(bytes, tcp.at() + Tcp::CHECKSUM, sum.checksum());
}
