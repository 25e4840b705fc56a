//! The receiving host's TCP: accepts data in order and acknowledges it.
//!
//! Every packet with data, SYN or FIN is acknowledged at once. Data after a gap is kept if it lies
//! in the window. Not modelled: delayed acknowledgments, options, sending.

use super::frame::{SegmentHeader, read};
use super::stream::{Digest, MAX_RUN, Stream};
use crate::Ps;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use linecard::packet::checksum::Sum;
use linecard::packet::header::tcp_flags::{ACK, FIN, SYN};
use linecard::packet::{ChecksumState, Packet};

/// Fate of the bytes that reached the host, and the host's counters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Figures {
    /// Packets from the unit, merged ones counted once: each raises an interrupt.
    pub interrupts: u64,
    /// Bytes of payload in them: the six below.
    pub bytes: u64,
    /// Bytes in order, all of them compared with what was sent.
    pub accepted: u64,
    /// Bytes that had come before.
    pub duplicate: u64,
    /// Bytes kept at the end, behind a gap.
    pub kept: u64,
    /// Bytes of no connection.
    pub stray: u64,
    /// Bytes for which there was no room: more was promised for the host than it had.
    pub overrun: u64,
    /// Bytes in packets with a wrong checksum, which the unit verifies only when it merges or
    /// acknowledges.
    pub corrupt: u64,
    /// Accepted bytes that were not what was sent: there are none.
    pub wrong: u64,
    /// Connections whose handshake is complete.
    pub connections: u64,
    /// Connections whose FIN was reached.
    pub finished: u64,
}

/// State of a connection.
#[derive(Debug, Default)]
pub(super) struct Receiver {
    is_known: bool,
    is_made: bool,
    has_ended: bool,
    /// Sequence numbers: the host's first one, and that of the first byte.
    own_first: u32,
    peer_first: u32,
    /// Bytes taken in order.
    next: u64,
    /// Data behind a gap by its offset: within the window, and so bounded.
    later: BTreeMap<u64, Vec<u8>>,
    unread: u64,
    read_at: Ps,
    /// Set while a window update is scheduled.
    pub(super) is_waiting: bool,
}

/// State shared by the connections of a host.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) stream: Stream,
    pub(super) digest: Digest,
    pub(super) figures: Figures,
    pub(super) receive_buffer: u64,
    pub(super) read_bits_per_second: Option<u64>,
}

impl Receiver {
    pub(super) fn new(own_first: u32) -> Self {
        Self { own_first, ..Self::default() }
    }

    /// Processes a packet of connection `number`; returns the reply.
    pub(super) fn take(
        &mut self,
        (number, packet): (usize, &Packet<Vec<u8>>),
        now: Ps,
        shared: &mut Shared,
    ) -> Option<SegmentHeader> {
        let (_, said) = read(packet.bytes())?;
        let len = packet.payload_len() as u64;
        shared.figures.bytes += len;
        if !is_intact(packet) {
            shared.figures.corrupt += len;
            return None;
        }
        if said.flags & SYN != 0 {
            (self.is_known, self.peer_first) = (true, said.sequence.wrapping_add(1));
            let window = self.window(now, shared);
            let acknowledgment = self.peer_first;
            return Some(SegmentHeader {
                sequence: self.own_first,
                acknowledgment,
                flags: SYN | ACK,
                window,
            });
        }
        if !self.is_known {
            shared.figures.stray += len;
            return None;
        }
        let answers = said.acknowledgment == self.own_first.wrapping_add(1);
        if answers && !core::mem::replace(&mut self.is_made, true) {
            shared.figures.connections += 1;
        }
        self.accept((number, packet), said.sequence, now, shared);
        let ends = said.flags & FIN != 0;
        let end = said.sequence.wrapping_add(len as u32);
        if ends && end == self.expected() && !core::mem::replace(&mut self.has_ended, true) {
            shared.figures.finished += 1;
        }
        (len > 0 || ends).then(|| self.header(now, shared))
    }

    fn expected(&self) -> u32 {
        self.peer_first.wrapping_add(self.next as u32)
    }

    /// The current acknowledgment.
    pub(super) fn header(&mut self, now: Ps, shared: &Shared) -> SegmentHeader {
        let window = self.window(now, shared);
        let acknowledgment = self.expected().wrapping_add(self.has_ended.into());
        SegmentHeader {
            sequence: self.own_first.wrapping_add(1),
            acknowledgment,
            flags: ACK,
            window,
        }
    }

    /// Accepts payload that is next, as far as there is room, or keeps later data.
    fn accept(
        &mut self,
        (number, packet): (usize, &Packet<Vec<u8>>),
        sequence: u32,
        now: Ps,
        shared: &mut Shared,
    ) {
        let len = packet.payload_len() as u64;
        let ahead = i64::from(sequence.wrapping_sub(self.expected()) as i32);
        let room = u64::from(self.window(now, shared));
        if ahead > 0 {
            self.keep(packet, ahead.unsigned_abs(), room, shared);
            return;
        }
        let old = ahead.unsigned_abs().min(len);
        let taken = (len - old).min(room);
        shared.figures.duplicate += old;
        shared.figures.overrun += len - old - taken;
        let before = self.next;
        let (mut skip, mut left) = (old as usize, taken as usize);
        for slice in packet.payload() {
            let start = skip.min(slice.len());
            let part = &slice[start..][..left.min(slice.len() - start)];
            (skip, left) = (skip - start, left - part.len());
            self.read_in(number, part, shared);
        }
        self.fill_gap(number, shared);
        self.unread += self.next - before;
    }

    /// Keeps data that lies `ahead` bytes ahead, if it is in the window.
    fn keep(&mut self, packet: &Packet<Vec<u8>>, ahead: u64, room: u64, shared: &mut Shared) {
        let len = packet.payload_len() as u64;
        let figures = &mut shared.figures;
        if ahead + len > room {
            figures.overrun += len;
            return;
        }
        figures.kept += len;
        let bytes: Vec<u8> = packet.payload().flatten().copied().collect();
        let old = self.later.insert(self.next + ahead, bytes).map_or(0, |old| old.len() as u64);
        (figures.kept, figures.duplicate) = (figures.kept - old, figures.duplicate + old);
    }

    /// Accepts kept data that is next now.
    fn fill_gap(&mut self, number: usize, shared: &mut Shared) {
        while let Some(first) = self.later.first_entry().filter(|first| *first.key() <= self.next) {
            let (offset, bytes) = first.remove_entry();
            let old = (self.next - offset).min(bytes.len() as u64);
            shared.figures.kept -= bytes.len() as u64;
            shared.figures.duplicate += old;
            for part in bytes[old as usize..].chunks(MAX_RUN) {
                self.read_in(number, part, shared);
            }
        }
    }

    /// Compares accepted bytes with what was sent.
    fn read_in(&mut self, number: usize, part: &[u8], shared: &mut Shared) {
        let same = part == shared.stream.bytes(number, self.next, part.len());
        shared.figures.wrong += if same { 0 } else { part.len() as u64 };
        shared.figures.accepted += part.len() as u64;
        shared.digest.bytes(part);
        self.next += part.len() as u64;
    }

    /// The free buffer space, after what the application has read by now.
    fn window(&mut self, now: Ps, shared: &Shared) -> u16 {
        let read = match shared.read_bits_per_second {
            None => self.unread,
            Some(rate) => {
                let span = u128::from(now.since(self.read_at).0);
                let bytes = span * u128::from(rate) / (8 * u128::from(Ps::SECOND.0));
                u64::try_from(bytes).unwrap_or(u64::MAX)
            }
        };
        // If less than a byte has been read, the time continues to accumulate.
        if read > 0 || self.unread == 0 {
            self.unread -= read.min(self.unread);
            self.read_at = now;
        }
        // The buffer has at most 65,535 bytes.
        (shared.receive_buffer - self.unread.min(shared.receive_buffer)) as u16
    }

    /// When half of the buffer will be free again, if less is free now.
    pub(super) fn opens_at(&self, now: Ps, shared: &Shared) -> Option<Ps> {
        let rate = shared.read_bits_per_second?;
        let surplus = self.unread.saturating_sub(shared.receive_buffer / 2);
        (surplus > 0).then(|| now + Ps::of_bits(8 * (surplus + 1), rate))
    }
}

/// Whether the checksum was verified, or is valid.
fn is_intact(packet: &Packet<Vec<u8>>) -> bool {
    let (layout, bytes) = (packet.layout(), packet.bytes());
    packet.meta.checksum == ChecksumState::Valid
        || layout.transport().zip(layout.pseudo_sum(bytes, packet.payload_len())).is_some_and(
            |(transport, pseudo)| {
                Sum::of(&bytes[transport.at()..layout.end()]).plus(pseudo).is_valid()
            },
        )
}
