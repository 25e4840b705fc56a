//! Any packets as a flow: no panic, and figures that agree with their definitions.

use crate::draw::Draw;
use linecard_jitter::media::figures::Figures;
use linecard_jitter::media::flow::{Flow, Packet};
use linecard_jitter::media::rtp::Order;
use linecard_jitter::media::st2022_6::FORMATS;
use linecard_jitter::media::st2110::vrx::{Reads, earliest_start};
use linecard_jitter::media::st2110::{Sender, Stream};
use linecard_jitter::stats::quantile::{Bounds, Quantile};
use linecard_jitter::stream::probe::{MIN_LEN, Probe};

/// Packets of one input.
const MAX_PACKETS: usize = 300;
/// Drains that the slow bucket goes through for one packet.
const MAX_DRAINS: u128 = 100_000;

/// Input: a format or none, a kind of flow, then packets: how much later, what kind, what is different in it.
pub fn media(data: &[u8]) {
    let draw = &mut Draw::new(data);
    let format = FORMATS.get(draw.below(FORMATS.len() + 4)).copied();
    let kind = draw.below(6);
    let (mut flow, mut at_ns, mut number) = (Flow::default(), u64::from(draw.word()) << 45, 0_u64);
    while !draw.is_done() && flow.len() < MAX_PACKETS {
        at_ns = match draw.below(16) {
            0 => at_ns.wrapping_sub(u64::from(draw.word())),
            1 => at_ns.wrapping_add(u64::from(draw.word()) << draw.below(48)),
            2 => at_ns,
            _ => at_ns.wrapping_add(u64::from(draw.byte()) * 100),
        };
        // Most packets are of the flow's kind, or no flow would be a stream.
        let kind = if draw.below(64) == 63 { draw.below(6) } else { kind };
        let (payload, len) = packet(draw, kind, number);
        number += 1;
        flow.push(at_ns, &payload, len);
    }
    let Some(figures) = Figures::of(&flow, format) else { return };
    let packets = flow.packets();
    assert_eq!(figures.order, order(&packets));
    for samples in [Some(&figures.gaps), figures.lateness.as_ref()].into_iter().flatten() {
        for q in [0.0, 0.5, 0.99, 1.0] {
            let Some(quantile) = Quantile::of(samples, q, 0.95) else { continue };
            if let Bounds::Between { lower_ns, upper_ns } = quantile.bounds {
                assert!(lower_ns <= quantile.value_ns && quantile.value_ns <= upper_ns);
            }
        }
    }
    if let Some(stream) = figures.stream {
        let (narrow, wide) = (stream.limits(Sender::Narrow), stream.limits(Sender::Wide));
        assert!(narrow.c_max <= wide.c_max && narrow.vrx_full <= wide.vrx_full);
        if let Some(twin) = bucket(stream, &packets) {
            assert_eq!(figures.c_inst, Some(twin));
        }
        buffer(stream, &packets);
    }
}

/// A packet of a kind, with a few octets changed, and how long it says it is.
fn packet(draw: &mut Draw<'_>, kind: usize, number: u64) -> (Vec<u8>, usize) {
    let sequence = number.wrapping_add(u64::from(draw.byte() & 1)) as u16;
    let rtp = |kind: u8, timestamp: u64, payload: &[u8]| {
        let mut bytes = vec![0x80, kind];
        bytes.extend(sequence.to_be_bytes());
        bytes.extend((timestamp as u32).to_be_bytes());
        bytes.extend([0, 0, 0, 7]);
        bytes.extend(payload);
        bytes
    };
    let end = if number % 10 == 9 { 0x80 } else { 0 };
    let field = if number / 10 % 2 == 1 { 0x80 } else { 0 };
    let (mut bytes, len) = match kind {
        0 => (rtp(98 | end, number, &[8, 0, 0, 0, 2, 1, 0x71, 0]), 1_396),
        1 => (rtp(96 | end, number / 10 * 1_501, &[0, 0, 4, 0xB0, field, 1, 0, 0]), 1_220),
        2 => (rtp(97, number * 48, &[]), 204),
        3 => (rtp(100 | end, number, &[0, 0, 0, 32, 1, 0xC0, 0, 0]), 52),
        4 => {
            let mut payload = [0; MIN_LEN];
            payload[0] = 0x80;
            Probe { sequence: number, due_ns: number, sent_ns: number }.write(&mut payload);
            (payload.to_vec(), 1_396)
        }
        _ => {
            let count = draw.below(64);
            let bytes = draw.take(count);
            (bytes.clone(), bytes.len())
        }
    };
    for _ in 0..draw.below(64).saturating_sub(61) {
        let (at, value) = (draw.below(64), draw.byte());
        if let Some(octet) = bytes.get_mut(at) {
            *octet = value;
        }
    }
    (bytes, len)
}

/// Loss and order by their definitions.
fn order(packets: &[Packet]) -> Order {
    let numbers: Vec<i64> = packets.iter().map(|packet| packet.number).collect();
    let mut order = Order { received: numbers.len() as u64, ..Order::default() };
    for (at, number) in numbers.iter().enumerate() {
        let before = &numbers[..at];
        if before.contains(number) {
            order.duplicates += 1;
        } else if before.iter().any(|other| other > number) {
            order.reordered += 1;
        }
    }
    let next = |number: i64| numbers.iter().filter(|other| **other > number).min();
    let mut each = numbers.clone();
    each.sort_unstable();
    each.dedup();
    for &number in &each {
        let missing = next(number).map_or(0, |next| next.abs_diff(number) - 1);
        order.lost = order.lost.saturating_add(missing);
        order.loss_events += u64::from(missing > 0);
    }
    order
}

/// The bucket drained packet by packet; none where that takes too long.
fn bucket(stream: Stream, packets: &[Packet]) -> Option<u64> {
    let drains = u128::from(stream.packets_per_frame) * u128::from(stream.rate.frames) * 11;
    let per_ns = u128::from(stream.rate.seconds) * 10_000_000_000;
    let (mut next, mut now, mut level, mut highest) = (per_ns, 0, 0_u64, 0);
    for packet in packets {
        let since = packet.at_ns.saturating_sub(packets[0].at_ns);
        now = (u128::from(since) * drains).max(now);
        if now.saturating_sub(next) / per_ns > MAX_DRAINS {
            return None;
        }
        while next <= now {
            level = level.saturating_sub(1);
            next += per_ns;
        }
        level += 1;
        highest = highest.max(level);
    }
    Some(highest)
}

/// With the earliest start no packet is read too early, and with no earlier start.
fn buffer(stream: Stream, packets: &[Packet]) {
    let Some(first) = packets.iter().map(|packet| packet.number).min() else { return };
    let arrivals =
        || packets.iter().map(move |packet| (packet.number.abs_diff(first), packet.at_ns));
    let Some(start_ns) = earliest_start(stream, arrivals()) else { return };
    let at = |start_ns| Reads { stream, start_ns }.occupancy(arrivals());
    let Some(found) = at(start_ns) else { return };
    assert!(found.min >= 0 && found.max >= 1, "{found:?}");
    if let Some(earlier) = start_ns.checked_sub(2) {
        assert!(at(earlier).is_some_and(|found| found.min < 0), "{start_ns} is not the earliest");
    }
}
