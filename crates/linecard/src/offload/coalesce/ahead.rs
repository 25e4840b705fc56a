//! Prefetches the data that a batch's packets need, for flow counts beyond the nearest caches, and finds which packets
//! are of one flow: the flow table is read once for all of them, and a packet that the next one shows to stay alone
//! takes no place in it.

use super::arrivals::Arrivals;
use super::candidate::{Candidate, MIN_FRAME, ends};
use super::ids::{FlowId, SlotId};
use super::reason::Flush;
use super::successor::Successor;
use super::{Coalescer, Exit, admit, merge};
use crate::packet::{BATCH, Packet, is_apart, prefetch_header, prefetch_value};
use core::hint::select_unpredictable;

/// With more flows than this, a batch's table entries are prefetched before it is processed: with few in every second
/// secret of a debug build, so that twins and fuzzing compare both ways.
pub(super) const fn few_flows(secret: u64) -> usize {
    if cfg!(debug_assertions) && secret & 1 == 1 { 3 } else { 512 }
}

/// Places for the last packet seen of a flow: so many that few flows of a batch share one.
const LINKS: usize = 512;

const _: () = assert!(BATCH <= u64::BITS as usize && BATCH <= u8::MAX as usize);

/// Findings about a packet's flow.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Known {
    pub(super) hash: Option<u64>,
    /// The flow's place at that time, and the place of what it held.
    pub(super) flow: Option<FlowId>,
    pub(super) held: Option<SlotId>,
    /// It passes whatever its flow holds, because it carries no data.
    pub(super) is_empty: bool,
    /// The next packet of its flow, if it is known, and no packet whose flow is not visible lies between; else 0.
    pub(super) next: u8,
}

/// Findings about the flows of a batch's packets.
#[derive(Debug)]
pub(super) struct Ahead {
    known: [Known; BATCH],
    /// The earliest packet so far of each flow, by its hash, as the batch is walked from its end; 0 for none.
    links: [u8; LINKS],
}

impl Ahead {
    pub(super) fn new() -> Self {
        let known = Known { hash: None, flow: None, held: None, is_empty: false, next: 0 };
        Self { known: [known; BATCH], links: [0; LINKS] }
    }

    /// The finding about a packet.
    #[inline(always)]
    pub(super) fn of(&self, index: usize) -> Known {
        self.known.get(index).copied().unwrap_or_default()
    }

    /// Tells the next packet of a flow, if it is known, where the flow is and what it holds. Otherwise `next` is 0: that
    /// entry is of the first packet, and is not read again.
    #[inline(always)]
    pub(super) fn tell_next(&mut self, known: Known, held: Option<SlotId>) {
        let next = &mut self.known[usize::from(known.next) % BATCH];
        (next.flow, next.held) = (known.flow, held);
    }
}

impl<B: AsRef<[u8]> + AsMut<[u8]>> Coalescer<B> {
    /// Prefetches what the packets of a batch need, all at once: their flows' places, then the data
    /// held there, then its headers. Returns whether there are enough flows for it to be of use.
    #[inline(always)]
    pub(super) fn look_ahead<A: Arrivals<B>>(&mut self, arrivals: &mut A) -> bool {
        let many = self.table.used() > self.few_flows;
        // Frames close behind each other are prefetched by the hardware.
        let pair = arrivals.bytes(0).zip(arrivals.bytes(1));
        if many || pair.is_some_and(|(first, second)| is_apart(first, second)) {
            for index in 0..arrivals.len().min(BATCH) {
                arrivals.bytes(index).into_iter().for_each(prefetch_header);
            }
        }
        if many {
            self.fetch_ahead(arrivals);
        }
        many
    }

    #[inline(never)]
    fn fetch_ahead<A: Arrivals<B>>(&mut self, arrivals: &mut A) {
        let Self { ahead, table, held, hasher, recent, .. } = self;
        let Ahead { known: all, links } = &mut **ahead;
        links.fill(0);
        let count = arrivals.len().min(BATCH);
        // Packets that no other one is before; and the first of those looked at whose flow is not known.
        let (mut firsts, mut barrier) = (0_u64, BATCH);
        let shown = |arrivals: &A, index: usize| {
            let bytes = arrivals.bytes(index).unwrap_or_default();
            (bytes.len() as u64) << 32 | u64::from(recent.ports_of(bytes).unwrap_or_default())
        };
        let mut this = shown(arrivals, count.saturating_sub(1));
        for index in (0..count).rev() {
            let before = if index == 0 { 0 } else { shown(arrivals, index - 1) };
            let goes_on = (this == before) & (this >> 32 > MIN_FRAME as u64);
            this = before;
            let known = &mut all[index];
            *known = Known::default();
            if !goes_on {
                (known.hash, known.is_empty) = arrivals.flow(index, hasher);
            }
            // Of the same ports and length, it usually continues the one before, which takes no hash.
            let Some(hash) = known.hash else {
                barrier = index;
                continue;
            };
            let link = &mut links[hash as usize % LINKS];
            let next = core::mem::replace(link, index as u8);
            // Without a branch, which could hardly be predicted.
            let other = all[usize::from(next) % BATCH].hash.unwrap_or(!hash);
            let is_next = (next != 0) & (usize::from(next) < barrier) & (other == hash);
            all[index].next = select_unpredictable(is_next, next, 0);
            firsts = (firsts | 1 << index) & !(u64::from(is_next) << (next % 64));
            table.prefetch(hash);
        }
        let mut left = firsts;
        while left != 0 {
            let known = &mut all[left.trailing_zeros() as usize % BATCH];
            left &= left - 1;
            known.flow = known.hash.and_then(|hash| table.find(hash));
            known.held = known.flow.and_then(|flow| table.held(flow));
            known.held.iter().for_each(|slot| prefetch_value(held.get(*slot)));
        }
        while firsts != 0 {
            let known = &all[firsts.trailing_zeros() as usize % BATCH];
            firsts &= firsts - 1;
            let packet = known.held.and_then(|slot| held.get(slot).packet.as_ref());
            packet.iter().for_each(|packet| Packet::prefetch_to_grow(packet));
        }
    }

    /// Lets the first packet leave if its flow, whose place is known, holds nothing, and the next packet of the flow, so many
    /// behind, does not join it: so it takes no place. False if more has to be known.
    #[inline(never)]
    pub(super) fn leave_before<A: Arrivals<B>, F: FnMut(Packet<B>, Exit)>(
        &mut self,
        (known, behind): (&mut Known, usize),
        arrivals: &mut A,
        out: &mut F,
    ) -> bool {
        let holds = known.flow.is_some_and(|flow| self.table.held(flow).is_some());
        if holds || self.examines_at_once() || !self.patient {
            return false;
        }
        let Some(packet) = arrivals.view(0).filter(|packet| self.may_merge(packet)) else {
            return false;
        };
        let reason = if ends(packet.bytes(), packet.layout()) {
            Flush::EndFlag
        } else if self.ahead.of(known.next.into()).is_empty {
            Flush::Bypass
        } else {
            let successor = Successor::of((packet.layout(), packet.bytes()));
            let Some(next) = arrivals.view(behind) else { return false };
            let is_longer = next.layout().payload_len() > packet.layout().payload_len();
            if successor.may_be(next.bytes()) && !is_longer || !self.may_merge(&next) {
                return false;
            }
            let first = (&packet, successor.sequence());
            let Some(refusal) = merge::obstacle(&mut self.hasher, first, &next) else {
                return false;
            };
            self.counters.refused.count(refusal);
            admit::flush_of(refusal)
        };
        let hash = known.hash.unwrap_or_default();
        known.flow = self.flow_of((hash, known.flow), None, out);
        let Some(packet) = arrivals.take() else { return false };
        let len = packet.bytes().len();
        self.counters.received(len);
        self.counters.flushed(reason, 1, 0);
        self.counters.sent(len);
        out(packet, Exit::Flushed(reason));
        true
    }

    /// Whether a packet may merge as far as it shows without its checksums.
    #[inline(always)]
    fn may_merge<T: AsRef<[u8]>>(&self, packet: &Packet<T>) -> bool {
        self.large.has(packet.layout()) && Candidate::look(packet, &self.config).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::super::Config;
    use super::super::arrivals::Packets;
    use super::super::steady::tests::{Traffic, each_traffic};
    use super::*;
    use crate::rng::Rng;
    use crate::time::Instant;
    use alloc::vec;
    use alloc::vec::Vec;

    /// The first packet of a flow that differs from others by its port.
    fn first(port: u16) -> Packet<Vec<u8>> {
        let traffic = each_traffic().next().expect("one");
        Traffic { ports: (port, 9), len: 100, ..traffic }.packet(0, 1)
    }

    /// A coalescer that holds the first packets of these flows.
    fn holding(max_flows: usize, ports: impl Iterator<Item = u16>) -> Coalescer<Vec<u8>> {
        let config = Config { max_flows, secret: 1, ..Config::default() };
        let mut coalescer = Coalescer::new(config);
        for port in ports {
            coalescer.push(first(port), Instant::ZERO, &mut |_, _| ());
        }
        coalescer
    }

    #[test]
    fn only_many_flows_are_looked_up_ahead() {
        let few = if cfg!(debug_assertions) { 3 } else { 512 };
        assert_eq!([0, 1, 2, 3].map(few_flows), [512, few, 512, few]);
        for flows in 0..6 {
            let mut coalescer = holding(64, 0..flows);
            coalescer.few_flows = 3;
            let mut list: Vec<_> = [0, 1].map(first).into();
            assert_eq!(coalescer.look_ahead(&mut Packets(list.drain(..))), flows > 3);
            assert_eq!(coalescer.ahead.of(0).hash.is_some(), flows > 3);
        }
    }

    #[test]
    fn the_next_packet_of_a_flow_is_told_what_it_holds() {
        let mut ahead = Ahead::new();
        ahead.tell_next(Known { flow: Some(3), next: 5, ..Known::default() }, Some(9));
        let told = |index| (ahead.of(index).flow, ahead.of(index).held);
        assert_eq!(told(5), (Some(3), Some(9)));
        (0..5).chain(6..BATCH + 1).for_each(|index| assert_eq!(told(index), (None, None)));
    }

    /// The packet behind a short one that ends the data held is told that its flow holds nothing any more.
    #[test]
    fn what_ends_a_run_tells_the_next_packet() {
        let mut coalescer = holding(64, 0..5);
        coalescer.few_flows = 3;
        let traffic = Traffic { ports: (2, 9), len: 100, ..each_traffic().next().expect("one") };
        let of = |index, len| Traffic { len, ..traffic }.packet(index, 1);
        let mut list =
            vec![of(1, 100), Traffic { len: 99, ..traffic }.packet(2, 1), first(7), of(3, 98)];
        let place = coalescer.hasher.flow(&list[0]).and_then(|hash| coalescer.table.find(hash));
        assert!(place.is_some());
        let mut left = Vec::new();
        coalescer.push_batch(&mut list, Instant::ZERO, &mut |packet, _| left.push(packet));
        assert_eq!(left.iter().map(|packet| packet.chain().len()).collect::<Vec<_>>(), [2]);
        assert_eq!((coalescer.ahead.of(1).next, coalescer.ahead.of(3).flow), (3, place));
    }

    /// The reason for which the first packet leaves at once because of the next one of its flow.
    fn left_before(packet: Packet<Vec<u8>>, next: Packet<Vec<u8>>) -> Option<Flush> {
        let mut coalescer = holding(64, 0..5);
        let mut list = vec![packet, first(91), next];
        let mut arrivals = Packets(list.drain(..));
        coalescer.fetch_ahead(&mut arrivals);
        let mut known = coalescer.ahead.of(0);
        assert_eq!(known.next, 2);
        let mut reason = None;
        let out = &mut |_, exit| match exit {
            Exit::Flushed(flush) => reason = Some(flush),
            Exit::Passed(_) => {}
        };
        let leaves = coalescer.leave_before((&mut known, 2), &mut arrivals, out);
        assert_eq!((arrivals.0.len(), reason.is_some()), (3 - usize::from(leaves), leaves));
        reason
    }

    #[test]
    fn a_packet_leaves_at_once_if_the_next_one_shows_that_none_joins() {
        let all = || each_traffic().filter(|traffic| !traffic.v6 && traffic.tags == 0);
        let udp = all().find(|traffic| !traffic.tcp).expect("one");
        let tcp = all().find(|traffic| traffic.tcp).expect("one");
        let of = |traffic, len, sequence| {
            let traffic = Traffic { len, ports: (90, 9), sequence, ..traffic };
            let packet = traffic.packet(0, 1);
            let mut bytes = packet.bytes().to_vec();
            bytes.resize(bytes.len().max(MIN_FRAME), 0);
            Packet::new(bytes, packet.link(), packet.meta)
        };
        let first = || of(tcp, 100, 0);
        let marked = |mut packet: Packet<Vec<u8>>| {
            packet.meta.mark = crate::packet::Meta::NEVER;
            packet
        };
        for (first, next, reason) in [
            (first(), of(tcp, 99, 100), None),
            (first(), of(tcp, 101, 100), Some(Flush::Displaced)),
            (first(), of(tcp, 100, 101), Some(Flush::Displaced)),
            (first(), of(tcp, 0, 100), Some(Flush::Bypass)),
            (first(), marked(of(tcp, 100, 101)), None),
            (marked(first()), of(tcp, 101, 100), None),
            // Of the same length with their padding.
            (of(udp, 5, 0), of(udp, 4, 0), None),
            (of(udp, 5, 0), of(udp, 6, 0), Some(Flush::Displaced)),
        ] {
            assert_eq!(left_before(first, next), reason);
        }
    }

    /// Packets of a few flows, of which some come in runs, some carry little or nothing, and some show no flow.
    fn mixed(rng: &mut Rng) -> Vec<Packet<Vec<u8>>> {
        let base = each_traffic().next().expect("one");
        let mut packets = Vec::new();
        while packets.len() < BATCH {
            let port = rng.below(40) as u16;
            let len = [0, 1, 18, 19, 100, 100][rng.below(6) as usize];
            let traffic = Traffic { ports: (port, 9), len, tcp: false, ..base };
            for index in 0..1 + rng.below(3) as usize {
                let packet = traffic.packet(index, 1);
                let mut bytes = packet.bytes().to_vec();
                if rng.chance(0.05) {
                    // A fragment.
                    bytes[20] |= 0x20;
                }
                packets.push(Packet::new(bytes, packet.link(), packet.meta));
            }
        }
        packets.truncate(BATCH);
        packets
    }

    /// The hash of a packet's flow, the next packet of it, whether it carries no data, and where flow and held data are.
    type Found = (Option<u64>, u8, bool, Option<FlowId>, Option<SlotId>);

    /// Each packet's flow but of those that seem to go on after the one before, the next packet of the flow, and of the
    /// first one the place and what that holds.
    fn expected(coalescer: &mut Coalescer<Vec<u8>>, packets: &[Packet<Vec<u8>>]) -> Vec<Found> {
        let mut list = packets.to_vec();
        let mut arrivals = Packets(list.drain(..));
        let shown = |packet: &Packet<Vec<u8>>| {
            (packet.bytes().len(), packet.bytes().get(34..38).map(<[u8]>::to_vec))
        };
        let goes_on = |index: usize| {
            let this = shown(&packets[index]);
            index > 0 && this.0 > MIN_FRAME && this == shown(&packets[index - 1])
        };
        let flows: Vec<_> = (0..packets.len())
            .map(|index| match goes_on(index) {
                true => (None, false),
                false => arrivals.flow(index, &mut coalescer.hasher),
            })
            .collect();
        let next = |index: usize| {
            let hash = flows[index].0?;
            let behind = index + 1..packets.len();
            let hidden = behind.clone().find(|at| flows[*at].0.is_none());
            // Flows that share a place in the list hide each other.
            let place = |hash: u64| hash as usize % LINKS;
            let next = { behind }
                .find(|at| flows[*at].0.is_some_and(|other| place(other) == place(hash)))?;
            let is_near = hidden.is_none_or(|hidden| next < hidden);
            (is_near && flows[next].0 == Some(hash)).then_some(next)
        };
        let all: Vec<_> = (0..packets.len()).map(next).collect();
        let of = |index: usize| {
            let (hash, is_empty) = flows[index];
            let is_first = !all.contains(&Some(index));
            let flow = hash.filter(|_| is_first).and_then(|hash| coalescer.table.find(hash));
            let held = flow.and_then(|flow| coalescer.table.held(flow));
            (hash, all[index].unwrap_or(0) as u8, is_empty, flow, held)
        };
        (0..packets.len()).map(of).collect()
    }

    #[test]
    fn the_flows_of_a_batch_are_found_as_one_by_one() {
        let rng = &mut Rng::new(7);
        for max_flows in [8, 64, 512] {
            let mut coalescer = holding(max_flows, 0..20);
            let (mut found, mut followed) = (0, 0);
            for _ in 0..12 {
                let packets = mixed(rng);
                let expected = expected(&mut coalescer, &packets);
                let mut list = packets.clone();
                coalescer.fetch_ahead(&mut Packets(list.drain(..)));
                for (index, expected) in expected.into_iter().enumerate() {
                    let Known { hash, next, is_empty, flow, held } = coalescer.ahead.of(index);
                    assert_eq!((hash, next, is_empty, flow, held), expected, "{index}");
                    found += usize::from(held.is_some());
                    followed += usize::from(next > 0);
                }
            }
            assert!(found > 20 && followed > 100, "{found} {followed}");
        }
    }
}
