//! Choices drawn from the fuzzer's bytes, one after the other. Behind the last byte all are 0, so
//! that every input is a valid one and a longer input only adds to a shorter one.

use linecard::packet::LinkType;

pub(crate) const LINKS: [LinkType; 6] = [
    LinkType::Ethernet,
    LinkType::Raw,
    LinkType::LinuxSll,
    LinkType::LinuxSll2,
    LinkType::Loopback,
    LinkType::Other,
];

pub(crate) struct Draw<'a> {
    rest: &'a [u8],
}

impl<'a> Draw<'a> {
    pub(crate) fn new(rest: &'a [u8]) -> Self {
        Self { rest }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) fn byte(&mut self) -> u8 {
        let Some((byte, rest)) = self.rest.split_first() else { return 0 };
        self.rest = rest;
        *byte
    }

    pub(crate) fn word(&mut self) -> u16 {
        u16::from_be_bytes([self.byte(), self.byte()])
    }

    /// A number below `count`, which is at most 256.
    pub(crate) fn below(&mut self, count: usize) -> usize {
        usize::from(self.byte()) % count
    }

    pub(crate) fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }

    /// Up to `len` bytes as they are.
    pub(crate) fn take(&mut self, len: usize) -> Vec<u8> {
        let (bytes, rest) = self.rest.split_at(len.min(self.rest.len()));
        self.rest = rest;
        bytes.to_vec()
    }

    pub(crate) fn rest(&mut self) -> &'a [u8] {
        core::mem::take(&mut self.rest)
    }
}
