//! Ports, sequence number and length of a packet: they show whether it may be the next one of its flow.

use crate::packet::Layout;

/// The next packet that may join a first one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Successor {
    /// Its ports, and its sequence number; of UDP, the ports only.
    start: u64,
    /// Bytes of its frame at least: it has the same headers and data.
    least: u32,
    /// Bytes of its frame at most, beyond the least: it is not longer than the first one.
    slack: u32,
    /// Offset of the transport header.
    transport: u16,
    is_tcp: bool,
}

impl Successor {
    pub(super) const NONE: Self =
        Self { start: 0, least: 0, slack: 0, transport: 0, is_tcp: false };

    /// Of a packet whose ports are visible.
    #[inline(always)]
    pub(super) fn of((layout, bytes): (&Layout, &[u8])) -> Self {
        let (at, is_tcp) = layout.ports();
        let start = start_of(bytes, at).unwrap_or_default();
        let least = layout.header_len() as u32 + 1;
        let slack = (bytes.len() as u32).saturating_sub(least);
        let mut successor = Self { start, least, slack, transport: at as u16, is_tcp };
        successor.expect((start as u32).wrapping_add(layout.payload_len()));
        successor
    }

    /// Its sequence number is this one.
    #[inline(always)]
    pub(super) fn expect(&mut self, sequence: u32) {
        self.start = self.start >> 32 << 32 | u64::from(sequence);
    }

    /// Its sequence number; none of UDP.
    #[inline(always)]
    pub(super) fn sequence(&self) -> Option<u32> {
        self.is_tcp.then_some(self.start as u32)
    }

    /// Offset of the ports.
    #[inline(always)]
    pub(super) fn ports(&self) -> usize {
        self.transport.into()
    }

    /// Whether a packet with these bytes may be it.
    #[inline(always)]
    pub(super) fn may_be(&self, next: &[u8]) -> bool {
        let fits = next.len().wrapping_sub(self.least as usize) <= self.slack as usize;
        let ignored = if self.is_tcp { 0 } else { 32 };
        fits && start_of(next, self.transport.into())
            .is_some_and(|start| (start ^ self.start) >> ignored == 0)
    }
}

/// The ports, and the bytes after them.
#[inline(always)]
pub(super) fn start_of(bytes: &[u8], transport: usize) -> Option<u64> {
    bytes.get(transport..)?.first_chunk().map(|start| u64::from_be_bytes(*start))
}

#[cfg(test)]
mod tests {
    use super::super::steady::tests::{Traffic, each_traffic};
    use super::*;

    #[test]
    fn it_carries_data_and_no_more_than_the_first() {
        for traffic in each_traffic() {
            let first = traffic.packet(0, 1);
            let successor = Successor::of((first.layout(), first.bytes()));
            assert_eq!(successor.ports(), first.layout().ports().0);
            assert_eq!(successor.sequence().is_some(), traffic.tcp);
            let next = traffic.packet(1, 1);
            let (mut bytes, header_len) = (next.bytes().to_vec(), next.layout().header_len());
            bytes.push(0);
            for len in 0..=bytes.len() {
                let may_be = (header_len + 1..bytes.len()).contains(&len);
                assert_eq!(successor.may_be(&bytes[..len]), may_be, "{traffic:?} {len}");
            }
            let other = Traffic { ports: (8, 9), ..traffic }.packet(1, 1);
            assert!(!successor.may_be(other.bytes()));
        }
    }
}
