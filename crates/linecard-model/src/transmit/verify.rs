//! Compares the packets that the model sends with those that this project's own offload makes of
//! the message.

use super::line::finish;
use super::message::Message;
use super::mismatch::{Difference, Mismatch};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use linecard::packet::header::{self, Ipv4};

/// Checks packets in the order in which they are sent.
#[derive(Debug, Default)]
pub(super) struct Verifier {
    mtu: u16,
    /// Messages assigned but not completely sent, the current one first.
    messages: VecDeque<Message>,
    /// Packets expected of the first: lengths of header and payload.
    expected: VecDeque<(usize, usize)>,
    /// Their headers, contiguous; used ones are not removed.
    headers: Vec<u8>,
    /// Offsets of the next packet's bytes in those, and in the message.
    header_at: usize,
    payload_at: usize,
    /// Its number.
    turn: u64,
    begun: bool,
    /// Packets that were right.
    pub(super) right: u64,
    /// Packets that were not, and packets that never came.
    pub(super) wrong: u64,
    /// The first of those.
    pub(super) first: Option<Mismatch>,
    /// Packets that were checked.
    checked: u64,
}

impl Verifier {
    pub(super) fn new(mtu: u16) -> Self {
        Self { mtu, ..Self::default() }
    }

    /// Adds a message that was assigned to a core.
    pub(super) fn expect(&mut self, message: Message) {
        self.messages.push_back(message);
    }

    /// Checks a packet of message `number`.
    pub(super) fn check(&mut self, number: u64, packet: &[u8]) {
        while self.turn < number {
            self.next_message();
        }
        if !self.begun {
            self.begin(false);
        }
        if !self.is_next(packet) && self.keeps_id(packet) {
            let (left, at) = (self.expected.len(), (self.header_at, self.payload_at));
            self.begin(true);
            let skip = self.expected.len().saturating_sub(left);
            self.expected.drain(..skip);
            (self.header_at, self.payload_at) = at;
        }
        let right = self.is_next(packet);
        if !right {
            let what = self.difference(packet);
            self.note(what);
        }
        self.checked += 1;
        if let Some((header, payload)) = self.expected.pop_front() {
            self.header_at += header;
            self.payload_at += payload;
        }
        self.right += u64::from(right);
        self.wrong += u64::from(!right);
    }

    /// Whether a packet is the one expected next.
    fn is_next(&self, packet: &[u8]) -> bool {
        let (Some((header, payload)), Some(message)) =
            (self.expected.front(), self.messages.front())
        else {
            return false;
        };
        let header = self.headers.get(self.header_at..self.header_at + header);
        let payload = message.bytes().get(self.payload_at..self.payload_at + payload);
        header.zip(payload).is_some_and(|(header, payload)| {
            packet.split_at_checked(header.len()) == Some((header, payload))
        })
    }

    /// The difference of a packet from the one expected next.
    fn difference(&self, packet: &[u8]) -> Difference {
        let next = self.expected.front().zip(self.messages.front());
        let Some(((header, payload), message)) = next else { return Difference::Unexpected };
        let header = self.headers.get(self.header_at..self.header_at + header);
        let payload = message.bytes().get(self.payload_at..self.payload_at + payload);
        Difference::between(header.unwrap_or_default(), payload.unwrap_or_default(), packet)
    }

    /// Stores the first mismatch.
    fn note(&mut self, what: Difference) {
        let (packet, message) = (self.checked, self.turn);
        self.first.get_or_insert(Mismatch { packet, message, what });
    }

    /// Called after the last packet: packets that are still expected are missing.
    pub(super) fn end(&mut self) {
        while !self.messages.is_empty() {
            self.next_message();
        }
    }

    fn next_message(&mut self) {
        if !self.begun {
            self.begin(false);
        }
        let missing = self.expected.len() as u64;
        if missing > 0 {
            self.note(Difference::Missing(missing));
        }
        self.wrong += missing;
        self.expected.clear();
        self.messages.pop_front();
        self.turn += 1;
        self.begun = false;
    }

    /// Computes the packets expected of the first message.
    fn begin(&mut self, fixed_ids: bool) {
        self.begun = true;
        self.expected.clear();
        self.headers.clear();
        let Some(message) = self.messages.front() else { return };
        (self.header_at, self.payload_at) = (0, message.header_len());
        if message.bytes().len() <= usize::from(self.mtu) {
            // It stays unchanged, except for checksums that the host left to the line interface.
            self.headers.extend_from_slice(message.bytes());
            finish(&mut self.headers);
            self.headers.truncate(self.payload_at);
            self.expected.push_back((self.payload_at, message.bytes().len() - self.payload_at));
            return;
        }
        let Ok(mut segments) = message.expected(self.mtu, fixed_ids) else { return };
        while let Some(segment) = segments.next_segment() {
            self.headers.extend_from_slice(segment.header);
            let payload = segment.payload.map(<[u8]>::len).sum();
            self.expected.push_back((segment.header.len(), payload));
        }
    }

    /// Whether the packet carries its message's identification, and may.
    fn keeps_id(&self, packet: &[u8]) -> bool {
        let id = |bytes: &[u8]| header::at::<Ipv4>(bytes, 0).id;
        self.messages.front().is_some_and(|message| {
            message.may_not_be_fragmented()
                && packet.len() >= Ipv4::LEN
                && id(message.bytes()) == id(packet)
        })
    }
}
