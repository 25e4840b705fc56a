//! The line interface: packets arrive, and wait in the receive buffer (RBI) for the core.
//!
//! A packet is in the buffer once its last bit has arrived, if there is room then; otherwise it is
//! lost and counted. A line without a rate waits for room.

use super::design::Design;
use super::packet::is_sound;
use crate::Ps;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// A packet on the line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arrival {
    /// The IP packet.
    pub bytes: Vec<u8>,
    /// The earliest arrival of its first bit, counted from when the core is ready for packets.
    pub ready: Ps,
}

/// Counters of packets before the core.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LineCounters {
    /// Packets that arrived.
    pub arrived: u64,
    /// Lost: not whole IPv4 without options, or longer than a buffer of the host.
    pub refused: u64,
    /// Lost: no room in the receive buffer.
    pub overflowed: u64,
    /// Bytes of those that found room.
    pub bytes: u64,
}

/// A packet in the buffer, or arriving.
#[derive(Debug)]
pub(super) struct Packet {
    pub(super) number: u64,
    /// When its last bit arrives or has arrived.
    pub(super) at: Ps,
    pub(super) bytes: Vec<u8>,
}

pub(super) struct Line<'a> {
    source: &'a mut dyn Iterator<Item = Arrival>,
    bits_per_second: Option<u64>,
    overhead_bytes: u64,
    longest: usize,
    room: usize,
    /// Bytes in the buffer, including the packet that is being moved.
    used: usize,
    /// The line is occupied until then.
    busy_until: Ps,
    /// When buffer space was last freed.
    room_from: Ps,
    next: Option<Packet>,
    waiting: VecDeque<Packet>,
    pub(super) counters: LineCounters,
}

impl<'a> Line<'a> {
    pub(super) fn new(design: &Design, source: &'a mut dyn Iterator<Item = Arrival>) -> Self {
        Self {
            source,
            bits_per_second: design.line_bits_per_second,
            overhead_bytes: design.wire_overhead_bytes,
            longest: design.buffer_bytes,
            room: design.rbi_bytes,
            used: 0,
            busy_until: Ps::ZERO,
            room_from: Ps::ZERO,
            next: None,
            waiting: VecDeque::new(),
            counters: LineCounters::default(),
        }
    }

    /// The core is ready: packets come from `at` on.
    pub(super) fn open(&mut self, at: Ps) {
        self.busy_until = at;
    }

    /// The packet at the head of the buffer, if it is there at `now`.
    pub(super) fn head(&self, now: Ps) -> Option<&Packet> {
        self.waiting.front().filter(|packet| packet.at <= now)
    }

    /// When the packet at the head arrived, or the next one will; `None` if no more arrive.
    pub(super) fn next_at(&mut self, now: Ps) -> Option<Ps> {
        self.admit(now);
        // Each turn takes a packet: with none waiting there is room, as the buffer holds two.
        while self.waiting.is_empty() {
            let at = self.peek()?;
            self.admit(at);
        }
        self.waiting.front().map(|packet| packet.at)
    }

    /// Removes the packet at the head; its space stays occupied until [`Line::release`].
    pub(super) fn take(&mut self) -> Option<Packet> {
        self.waiting.pop_front()
    }

    /// A packet of `len` bytes has left the buffer at `at`.
    pub(super) fn release(&mut self, at: Ps, len: usize) {
        self.admit(at);
        self.used -= len;
        self.room_from = self.room_from.max(at);
    }

    /// Adds or drops packets that arrive up to `now`.
    fn admit(&mut self, now: Ps) {
        while self.peek().is_some_and(|at| at <= now) {
            let len = self.next.as_ref().map_or(0, |packet| packet.bytes.len());
            let fits = self.used + len <= self.room;
            if !fits && self.bits_per_second.is_none() {
                return;
            }
            let Some(mut packet) = self.next.take() else { return };
            if !fits {
                self.counters.overflowed += 1;
                continue;
            }
            if self.bits_per_second.is_none() {
                packet.at = packet.at.max(self.room_from);
            }
            self.used += len;
            self.counters.bytes += len as u64;
            self.waiting.push_back(packet);
        }
    }

    /// When the next packet's last bit comes.
    fn peek(&mut self) -> Option<Ps> {
        while self.next.is_none() {
            let Arrival { bytes, ready } = self.source.next()?;
            let number = self.counters.arrived;
            self.counters.arrived += 1;
            let bits = (bytes.len() as u64 + self.overhead_bytes) * 8;
            let time = self.bits_per_second.map_or(Ps::ZERO, |rate| Ps::of_bits(bits, rate));
            let at = self.busy_until.max(ready) + time;
            if self.bits_per_second.is_some() {
                self.busy_until = at;
            }
            if bytes.len() > self.longest || !is_sound(&bytes) {
                self.counters.refused += 1;
            } else {
                self.next = Some(Packet { number, at, bytes });
            }
        }
        self.next.as_ref().map(|packet| packet.at)
    }
}
