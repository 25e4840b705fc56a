//! Packets that leave the model beside those that this project's own offload makes of the message.

use super::line::finish;
use super::message::Message;
use crate::packet::header::{self, Ipv4};
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// Checks packets in the order in which they leave.
#[derive(Debug)]
pub(super) struct Verifier {
    mtu: u16,
    /// Messages given out and not yet over, the one that is being sent first.
    messages: VecDeque<Message>,
    /// Packets that the first of them has to become.
    expected: VecDeque<Vec<u8>>,
    /// Its number.
    turn: u64,
    begun: bool,
    /// Packets that were right.
    pub(super) right: u64,
    /// Packets that were not, and packets that never came.
    pub(super) wrong: u64,
}

impl Verifier {
    pub(super) fn new(mtu: u16) -> Self {
        Self {
            mtu,
            messages: VecDeque::new(),
            expected: VecDeque::new(),
            turn: 0,
            begun: false,
            right: 0,
            wrong: 0,
        }
    }

    /// A message was given to a core.
    pub(super) fn expect(&mut self, message: Message) {
        self.messages.push_back(message);
    }

    /// A packet of message `number` has left.
    pub(super) fn check(&mut self, number: u64, packet: &[u8]) {
        while self.turn < number {
            self.next_message();
        }
        if !self.begun {
            self.begin(false);
        }
        let same = |expected: Option<&Vec<u8>>| expected.is_some_and(|bytes| bytes == packet);
        if !same(self.expected.front()) && self.keeps_id(packet) {
            let done = self.expected.len();
            self.begin(true);
            let skip = self.expected.len().saturating_sub(done);
            self.expected.drain(..skip);
        }
        let right = same(self.expected.pop_front().as_ref());
        self.right += u64::from(right);
        self.wrong += u64::from(!right);
    }

    /// All packets have left: what is still expected never comes.
    pub(super) fn end(&mut self) {
        while !self.messages.is_empty() {
            self.next_message();
        }
    }

    fn next_message(&mut self) {
        if !self.begun {
            self.begin(false);
        }
        self.wrong += self.expected.len() as u64;
        self.expected.clear();
        self.messages.pop_front();
        self.turn += 1;
        self.begun = false;
    }

    /// What the first message has to become.
    fn begin(&mut self, fixed_ids: bool) {
        self.begun = true;
        self.expected.clear();
        let Some(message) = self.messages.front() else { return };
        if message.bytes().len() <= usize::from(self.mtu) {
            // It stays as it is, but for the checksums that the host left to the line interface.
            let mut whole = message.bytes().to_vec();
            finish(&mut whole);
            self.expected.push_back(whole);
            return;
        }
        let Ok(mut segments) = message.expected(self.mtu, fixed_ids) else { return };
        let mut room = alloc::vec![0; segments.max_len()];
        while let Ok(Some(written)) = segments.write_next(&mut room) {
            self.expected.push_back(room[..written.len].to_vec());
        }
    }

    /// Whether the packet carries its message's identification, and may.
    fn keeps_id(&self, packet: &[u8]) -> bool {
        let id = |bytes: &[u8]| header::be16_at(bytes, Ipv4::ID);
        self.messages.front().is_some_and(|message| {
            message.may_not_be_fragmented()
                && packet.len() >= Ipv4::LEN
                && id(message.bytes()) == id(packet)
        })
    }
}
