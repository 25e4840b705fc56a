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

#[cfg(test)]
pub(super) mod tests {
    use super::super::arrivals::Packets;
    use super::super::config::Config;
    use super::super::predict::Head;
    use super::*;
    use crate::packet::checksum::Sum;
    use crate::packet::{ChecksumState, FlowHasher, LinkType, Meta, Packet};
    use alloc::vec;
    use alloc::vec::Vec;

    /// Packets of a flow.
    #[derive(Debug, Clone, Copy)]
    pub(in super::super) struct Traffic {
        pub(in super::super) v6: bool,
        pub(in super::super) tcp: bool,
        pub(in super::super) tags: usize,
        pub(in super::super) len: usize,
        /// The first identification, and the step to the next one.
        pub(in super::super) ids: (u16, u16),
        pub(in super::super) sequence: u32,
        /// The ports of both ends.
        pub(in super::super) ports: (u16, u16),
    }

    impl Traffic {
        /// The `index`th packet, with bytes of this value.
        pub(in super::super) fn packet(self, index: usize, value: u8) -> Packet<Vec<u8>> {
            let Self { v6, tcp, tags, len, ids, sequence, ports } = self;
            let header = if tcp { Tcp::LEN } else { Udp::LEN };
            let size = (header + len) as u16;
            let mut bytes = vec![2; 12];
            (0..tags).for_each(|tag| bytes.extend([0x81, 0, 0, tag as u8]));
            bytes.extend(if v6 { [0x86, 0xDD] } else { [8, 0] });
            let ip = bytes.len();
            let number = if tcp { 6 } else { 17 };
            if v6 {
                let [high, low] = size.to_be_bytes();
                bytes.extend([0x60, 0, 0, 5, high, low, number, 64]);
                bytes.extend([7; 32]);
            } else {
                let [high, low] = (size + 20).to_be_bytes();
                let [first, second] = ids.0.wrapping_add(ids.1 * index as u16).to_be_bytes();
                bytes.extend([0x45, 0, high, low, first, second, 0x40, 0, 64, number, 0, 0]);
                bytes.extend([10, 0, 0, 1, 10, 0, 0, 2]);
                let checksum = Sum::of(&bytes[ip..]).checksum();
                bytes[ip + 10..ip + 12].copy_from_slice(&checksum.to_be_bytes());
            }
            let at = bytes.len();
            bytes.extend([ports.0, ports.1].map(u16::to_be_bytes).as_flattened());
            if tcp {
                bytes.extend(sequence.wrapping_add((index * len) as u32).to_be_bytes());
                bytes.extend([0, 0, 0, 3, 0x50, 0x10, 1, 0, 0, 0, 0, 0]);
            } else {
                bytes.extend(size.to_be_bytes());
                bytes.extend([0, 0]);
            }
            bytes.extend((0..len).map(|at| value.wrapping_add(at as u8)));
            let addresses = &bytes[if v6 { at - 32 } else { at - 8 }..at];
            let pseudo =
                Sum::of(addresses).plus(Sum::from_fields(u64::from(size) + u64::from(number)));
            let checksum = Sum::of(&bytes[at..]).plus(pseudo).checksum();
            let place = at + if tcp { Tcp::CHECKSUM } else { Udp::CHECKSUM };
            bytes[place..place + 2].copy_from_slice(&checksum.to_be_bytes());
            Packet::new(bytes, LinkType::Ethernet, Meta::default())
        }
    }

    /// How many of `packets` join the first one by [`follow`] and by [`Expected::run`], and what they add up to. The
    /// fields of checksums are sums of 16 bits, modulo 65,535, and of flags PSH and FIN are carried.
    fn both(packets: &[Packet<Vec<u8>>], limits: &Limits) -> [(usize, Aggregate); 2] {
        let config = Config::default();
        let (first, rest) = packets.split_first().expect("one at least");
        [true, false].map(|steadily| {
            let mut hasher = FlowHasher::new(1);
            let head = (first.bytes(), first.layout());
            let usual = Aggregate::open_usual(head, &first.meta, &config);
            let mut aggregate = usual.expect("it is usual");
            assert_eq!(Aggregate::examine(first, &config), Ok(aggregate));
            let mut rest = rest.to_vec();
            let mut arrivals = Packets(rest.drain(..));
            let shape = hasher.shape(first.layout()).expect("visible ports");
            let head = Head::of(first, &config);
            let expected = Expected::after(head, &aggregate, shape, &arrivals);
            let count = if steadily {
                follow(&arrivals, &expected, &mut aggregate, limits)
            } else {
                let mut chain = Vec::new();
                expected.run(&mut aggregate, limits, (&mut arrivals, &mut chain)).packets
            };
            let folded =
                aggregate.grown.fields.map(|fields| Sum::from_fields(fields).fold().into());
            aggregate.grown.fields = folded;
            aggregate.grown.last_flags &= tcp_flags::PSH | tcp_flags::FIN;
            (count, aggregate)
        })
    }

    const UNLIMITED: Limits = Limits { packets: usize::MAX, bytes: usize::MAX };

    pub(in super::super) fn each_traffic() -> impl Iterator<Item = Traffic> {
        (0..64).map(|bits: usize| Traffic {
            v6: bits & 1 != 0,
            tcp: bits & 2 != 0,
            tags: bits >> 2 & 1,
            len: if bits & 8 == 0 { 100 } else { 1_448 },
            ids: (0x12F7, u16::from(bits & 16 == 0)),
            sequence: if bits & 32 == 0 { 0xFFFF_FF00 } else { 5 },
            ports: (7, 9),
        })
    }

    /// Checksums add up on the fast path as on the general one, and it takes all of a run.
    #[test]
    fn a_steady_run_is_taken_at_once() {
        for traffic in each_traffic() {
            for checksum in [ChecksumState::Valid, ChecksumState::Unknown] {
                let mut packets: Vec<_> =
                    (0..20).map(|index| traffic.packet(index, 3 * index as u8)).collect();
                packets.iter_mut().for_each(|packet| packet.meta.checksum = checksum);
                let [steady, general] = both(&packets, &UNLIMITED);
                assert_eq!((steady.0, general.0), (19, 19), "{traffic:?}");
                assert_eq!(steady.1, general.1, "{traffic:?}");
            }
        }
    }

    #[test]
    fn a_steady_run_ends_at_its_limits() {
        for traffic in each_traffic() {
            let packets: Vec<_> = (0..6).map(|index| traffic.packet(index, 9)).collect();
            let len = packets[0].bytes().len();
            for count in 0..6 {
                for (packets_left, bytes) in
                    [(count, usize::MAX), (9, count * len), (9, (count + 1) * len - 1)]
                {
                    let limits = Limits { packets: packets_left, bytes };
                    let [steady, general] = both(&packets, &limits);
                    assert_eq!((steady.0, general.0), (count.min(5), count.min(5)));
                    assert_eq!(steady.1, general.1);
                }
            }
        }
    }
    /// A header checksum of 0 is a sender's; 0xFFFF, the same number, is not.
    #[test]
    fn header_checksums_go_on_behind_0() {
        for traffic in each_traffic().filter(|traffic| !traffic.v6) {
            let at = 14 + 4 * traffic.tags + Ipv4::CHECKSUM;
            let checksum = |traffic: Traffic| be16_at(traffic.packet(0, 0).bytes(), at);
            let traffic = Traffic { ids: (0, 1), ..traffic };
            // The checksum decreases by as much.
            let traffic = Traffic { ids: (checksum(traffic) - 3, 1), ..traffic };
            assert_eq!(checksum(traffic), 3);
            let packets: Vec<_> = (0..8).map(|index| traffic.packet(index, 0)).collect();
            let [steady, general] = both(&packets, &UNLIMITED);
            assert_eq!((steady.0, general.0), (7, 7), "{traffic:?}");
            assert_eq!(steady.1, general.1, "{traffic:?}");
        }
    }

    /// Whether the fast path takes a packet whose transport header begins so far behind IPv6.
    fn is_near(between: usize) -> bool {
        let traffic = each_traffic().find(|traffic| traffic.v6 && traffic.tcp).expect("one");
        let packet = |index| {
            let mut bytes = traffic.packet(index, 1).bytes()[14..].to_vec();
            let len = be16_at(&bytes, 4) + between as u16;
            bytes[4..6].copy_from_slice(&len.to_be_bytes());
            if between > 0 {
                // Options for the destination: nothing but padding.
                bytes[6] = 60;
                let options = [6, (between / 8 - 1) as u8, 1, (between - 4) as u8];
                let zeros = core::iter::repeat_n(0, between - options.len());
                bytes.splice(40..40, options.into_iter().chain(zeros));
            }
            let meta = Meta { checksum: ChecksumState::Valid, ..Meta::default() };
            Packet::new(bytes, LinkType::Raw, meta)
        };
        let (first, config) = (packet(0), Config::default());
        let aggregate = Aggregate::examine(&first, &config).expect("it may merge");
        let mut rest = vec![packet(1)];
        let arrivals = Packets(rest.drain(..));
        let mut hasher = FlowHasher::new(1);
        let shape = hasher.shape(first.layout()).expect("visible ports");
        assert_eq!(shape.transport().at(), 40 + between);
        let expected = Expected::after(Head::of(&first, &config), &aggregate, shape, &arrivals);
        let next = arrivals.bytes(0).expect("one");
        Steady::before(next, &expected, &aggregate.grown).is_some()
    }

    #[test]
    fn headers_that_begin_far_behind_are_left_to_the_general_way() {
        assert_eq!([0, 8, 16, 24, 32].map(is_near), [true, true, true, false, false]);
    }
}
