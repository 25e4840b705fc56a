//! The traffic: messages by size and share.

use crate::transmit::Kind;
use alloc::vec::Vec;

/// Messages of one kind and size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flow {
    /// TCP segments or fragments.
    pub kind: Kind,
    /// Payload bytes behind the TCP header, or behind the IP header of a datagram.
    pub payload: u64,
    /// The number of these in the mix.
    pub weight: u64,
}

/// A mix of messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Traffic {
    /// The flows of the mix.
    pub flows: Vec<Flow>,
}

/// One packet of a message, by size: how many of such, and their payload.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part {
    /// Its number in the message.
    pub(super) at: u64,
    /// How many there are like it, from `at` on.
    pub(super) count: u64,
    pub(super) payload: u64,
}

impl Traffic {
    /// Messages of one size only: `packets` full packets.
    #[must_use]
    pub fn uniform(kind: Kind, mtu: u16, packets: u64) -> Self {
        let payload = Self::mss(kind, mtu) as u64 * packets;
        Self { flows: alloc::vec![Flow { kind, payload, weight: 1 }] }
    }

    /// An endless stream of full packets: the first and last packet of a message do not count. It
    /// is longer than anything that can be run.
    #[must_use]
    pub fn endless(kind: Kind, mtu: u16) -> Self {
        Self::uniform(kind, mtu, 1 << 32)
    }

    /// Room in which a message waits for its turn while the next one is segmented: two of the longest.
    #[must_use]
    pub fn order_bytes(&self, mtu: u16) -> u64 {
        let bytes = |flow: &Flow| {
            // However long the stream is, no message of it is longer than an IP packet.
            let one = Flow { payload: flow.payload.min(u64::from(u16::MAX)), ..*flow };
            one.payload + one.packets(mtu) * Self::header_len(flow.kind)
        };
        2 * self.flows.iter().map(bytes).max().unwrap_or(0)
    }

    /// Bytes of headers in each packet.
    #[must_use]
    pub fn header_len(kind: Kind) -> u64 {
        if kind == Kind::Tcp { 40 } else { 20 }
    }

    /// Payload of a full packet.
    #[must_use]
    pub fn mss(kind: Kind, mtu: u16) -> usize {
        let room = usize::from(mtu).saturating_sub(if kind == Kind::Tcp { 40 } else { 20 });
        if kind == Kind::Tcp { room } else { room & !7 }
    }
}

impl Flow {
    /// Packets of a message.
    #[must_use]
    pub fn packets(&self, mtu: u16) -> u64 {
        if self.payload + Traffic::header_len(self.kind) <= u64::from(mtu) {
            return 1;
        }
        self.payload.div_ceil((Traffic::mss(self.kind, mtu) as u64).max(1)).max(1)
    }

    /// Its packets, those alike together: first, between, last between, last.
    pub(super) fn parts(&self, mtu: u16) -> impl Iterator<Item = Part> + use<> {
        let packets = self.packets(mtu);
        let mss = if packets == 1 { self.payload } else { Traffic::mss(self.kind, mtu) as u64 };
        let last = self.payload - (packets - 1) * mss;
        let full = |at, count| Part { at, count, payload: mss };
        let middle = packets.saturating_sub(3);
        let before_last = packets.checked_sub(2).filter(|at| *at > 0);
        let first = (packets > 1).then_some(full(0, 1));
        first
            .into_iter()
            .chain((middle > 0).then_some(full(1, middle)))
            .chain(before_last.map(|at| full(at, 1)))
            .chain(Some(Part { at: packets - 1, count: 1, payload: last }))
    }
}
