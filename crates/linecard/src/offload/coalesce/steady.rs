//! The fastest path: consecutive full-size segments outside of tunnels. The fields that differ
//! change by a constant step, so each packet is checked with a few comparisons of whole words.

use super::aggregate::{Aggregate, Grown};
use super::arrivals::{Trust, Upcoming};
use super::predict::{Expected, Limits};
use crate::packet::checksum::Sum;
use crate::packet::header::{Ipv4, Tcp, Udp, be16, be16_at, tcp_flags};
use crate::packet::{LayerKind, PATTERN};

/// Headers start before this offset: those of IPv6 and TCP behind Ethernet with two tags do.
const NEAR: usize = 64;

/// Expected fields of the next packet. IPv4 and IPv6, TCP and UDP differ only in steps and masks.
struct Steady {
    /// Bytes of the frame.
    len: usize,
    network: usize,
    transport: usize,
    /// The first eight bytes of the IP header, with length and identification.
    start: u64,
    id_step: u16,
    /// IPv4's header checksum: it decreases by as much as the identification increases.
    ip_checksum: u16,
    /// Bytes 4 to 8 of the transport header: TCP's sequence number, or UDP's length and checksum.
    middle: u32,
    middle_step: u32,
    middle_mask: u32,
    /// Offset of the transport checksum, and the value that is not accepted.
    checksum: usize,
    not: u16,
    /// Flags that must not be set.
    flags: u8,
    /// Sum of the differing fields of the packets added.
    sum: u64,
}

/// Adds full-size segments as long as each is the next one, where each begins at an even offset of
/// the whole; returns their number. A separate function, so that its state stays in registers.
#[inline(never)]
pub(super) fn follow<A: Upcoming>(
    arrivals: &A,
    expected: &Expected<'_>,
    aggregate: &mut Aggregate,
    limits: &Limits,
) -> usize {
    let steady = Some(&aggregate.grown).filter(|_| aggregate.size.is_multiple_of(2));
    let steady = steady.and_then(|grown| Steady::before(arrivals.bytes(0)?, expected, grown));
    let (Some((mut steady, most)), Some(pattern)) =
        (steady, expected.shape.pattern(expected.bytes))
    else {
        return 0;
    };
    let room = limits.packets.min(limits.bytes / steady.len).min(aggregate.full_packets_left());
    let room = room.min(most).min(arrivals.len());
    let mut count = 0;
    while count < room {
        let Some(trust) = arrivals.trust(count, &expected.source) else { break };
        let Some(bytes) = arrivals.bytes(count) else { break };
        let Some(header) = pattern.find(bytes).filter(|_| bytes.len() == steady.len) else { break };
        let Some(checksum) = steady.next(header) else { break };
        if trust == Trust::Verify && !expected.is_intact(bytes, arrivals.bytes(count + 2)) {
            break;
        }
        steady.advance(checksum);
        count += 1;
    }
    if count > 0 {
        let (fields, fixed) = steady.fields(expected, count);
        // At most as many as a packet may have segments.
        aggregate.grown.take_steady(count as u16, aggregate.size, fields, fixed);
        aggregate.bytes += count * steady.len;
    }
    count
}

impl Steady {
    /// The state before `next`, and the most packets for which it is valid.
    #[inline(always)]
    fn before(next: &[u8], expected: &Expected<'_>, grown: &Grown) -> Option<(Self, usize)> {
        let (network, transport) = expected.shape.plain()?;
        let (first, at) = (expected.bytes, network.at());
        let header = first.first_chunk().filter(|_| transport.at() < NEAR)?;
        let mut start = u64::from_be_bytes(word(header, at, 0));
        let mut ip_checksum = u16::from_be_bytes(word(header, at, Ipv4::CHECKSUM));
        let (mut id_step, mut most) = (0, usize::MAX);
        if network.kind == LayerKind::Ipv4 {
            let id = be16(next, at + Ipv4::ID)?;
            id_step = grown.id_step(id)?;
            start = start & !(0xFFFF << 16) | u64::from(id) << 16;
            // The identification must not wrap within the run.
            most = usize::from(u16::MAX - id);
            // The three words sum up to what the first packet's did; a sender writes 0 for that.
            let length = be16_at(first, at + Ipv4::TOTAL_LEN);
            let others = Sum::word(!length).add(Sum::word(!id));
            ip_checksum = others.add(Sum::word(expected.ipv4_fields)).fold() % u16::MAX;
        }
        let tcp = transport.kind == LayerKind::Tcp;
        let length = (first.len() - transport.at()) as u32;
        let steady = Self {
            len: first.len(),
            network: at,
            transport: transport.at(),
            start,
            id_step,
            ip_checksum,
            middle: if tcp { grown.next_sequence } else { length << 16 },
            middle_step: if tcp { (first.len() - expected.header_len) as u32 } else { 0 },
            middle_mask: if tcp { u32::MAX } else { 0xFFFF << 16 },
            checksum: if tcp { Tcp::CHECKSUM } else { Udp::CHECKSUM },
            not: if tcp { u16::MAX } else { 0 },
            flags: if tcp { (tcp_flags::PSH | tcp_flags::FIN) as u8 } else { 0 },
            sum: 0,
        };
        Some((steady, most))
    }

    /// The checksum of a packet if it is the next one: its header is otherwise the expected one.
    #[inline(always)]
    fn next(&self, header: &[u8; PATTERN]) -> Option<u16> {
        let (network, transport) = (self.network, self.transport);
        let checksum = u16::from_be_bytes(word(header, transport, self.checksum));
        let [flags] = word(header, transport, Tcp::FLAGS);
        let is_next = u64::from_be_bytes(word(header, network, 0)) == self.start
            && u16::from_be_bytes(word(header, network, Ipv4::CHECKSUM)) == self.ip_checksum
            && u32::from_be_bytes(word(header, transport, 4)) & self.middle_mask == self.middle
            && flags & self.flags == 0
            && checksum != self.not;
        is_next.then_some(checksum)
    }

    /// Adds the next packet, which has this checksum.
    #[inline(always)]
    fn advance(&mut self, checksum: u16) {
        self.sum += u64::from(self.middle) + u64::from(checksum);
        self.start = self.start.wrapping_add(u64::from(self.id_step) << 16);
        let borrow = u16::from(self.ip_checksum < self.id_step);
        self.ip_checksum = self.ip_checksum.wrapping_sub(self.id_step).wrapping_sub(borrow);
        self.middle = self.middle.wrapping_add(self.middle_step);
    }

    /// The sum of the differing fields of the packets added (see [`super::candidate::Derived`]),
    /// and whether IPv4 identifications are constant.
    #[inline(always)]
    fn fields(&self, expected: &Expected<'_>, packets: usize) -> (u64, bool) {
        // In each: the length of the pseudo header, and TCP's flag word, which equals the first
        // one's.
        let length = self.len - self.transport;
        let word = match expected.transport.kind {
            LayerKind::Tcp => be16_at(expected.bytes, self.transport + Tcp::FLAGS - 1),
            _ => 0,
        };
        let each = length as u64 + u64::from(word);
        let ipv4 = expected.shape.plain().is_some_and(|(ip, _)| ip.kind == LayerKind::Ipv4);
        (self.sum + each * packets as u64, ipv4 && self.id_step == 0)
    }
}

/// The bytes at `offset` of a header that starts before [`NEAR`]; the explicit bound lets the
/// compiler omit bounds checks.
#[inline(always)]
fn word<const N: usize>(header: &[u8; PATTERN], start: usize, offset: usize) -> [u8; N] {
    let mut word = [0; N];
    word.copy_from_slice(&header[start % NEAR + offset % Tcp::LEN.next_power_of_two()..][..N]);
    word
}
