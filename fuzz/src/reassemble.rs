//! Fragments in any order, with gaps, overlaps and lies: the output equals that of the naive twin, and nothing is lost.

use crate::draw::{Draw, LINKS};
use crate::traffic::{MOST, damage, disturb, frame};
use core::time::Duration;
use linecard::offload::reassemble::{Config, Exit};
use linecard::packet::{LinkType, Meta};
use linecard::time::Instant;
use linecard_testkit::packets::fragments::{Part, Whole};
use linecard_testkit::packets::plain;
use linecard_testkit::packets::reassembler::{Real, Twin};
use linecard_testkit::packets::runner::numbers;
use linecard_testkit::packets::traffic::Arrival;

/// Input: limits, then datagrams with the parts that are cut of each.
pub fn reassemble(data: &[u8]) {
    let draw = &mut Draw::new(data);
    let mode = draw.byte();
    let (link, config) = (draw.pick(&LINKS[..5]), config(draw));
    // Bytes changed anywhere may make other sources, whose places the twin does not know.
    let damaged = mode & 1 != 0;
    let mut frames = Vec::new();
    while !draw.is_done() && frames.len() < MOST {
        datagram(draw, link, damaged, &mut frames);
    }
    let mut real = Real::new(link, config.clone());
    let mut twin = Twin::new(link, config.clone());
    let mut now = Instant::ZERO;
    let mut arrivals = Vec::new();
    for (step, bytes) in frames {
        now = now.plus_ns(1 + (u64::from(step) << 12));
        let meta = Meta { timestamp: now, ..Meta::default() };
        let arrival = Arrival { link, bytes, meta, now };
        real.push(arrivals.len(), &arrival);
        if !damaged {
            twin.push(arrivals.len(), &arrival);
            assert_eq!(real.reassembler.held(), twin.held());
        }
        arrivals.push(arrival);
    }
    real.stop();
    if !damaged {
        twin.stop();
        assert_eq!(real.left(), twin.left);
    }
    check(&real, &arrivals);
}

fn config(draw: &mut Draw<'_>) -> Config {
    let choice = draw.byte();
    let limit = |bit: u8, small: usize, large: usize| if choice & bit != 0 { small } else { large };
    Config {
        timeout_v4: Duration::from_micros(limit(1, 200, 30_000_000) as u64),
        timeout_v6: Duration::from_micros(limit(1, 200, 60_000_000) as u64),
        drop_duplicates: choice & 2 != 0,
        shares: limit(4, 1, 8),
        max_datagrams: limit(8, 2, 64),
        max_fragments: limit(16, 3, 64) as u16,
        max_held_fragments: limit(32, 5, 512),
        max_held_bytes: limit(64, 2_000, 1 << 20),
        ..Config::default()
    }
}

/// A datagram cut at some places, and lies about it.
fn datagram(draw: &mut Draw<'_>, link: LinkType, damaged: bool, frames: &mut Vec<(u8, Vec<u8>)>) {
    let mut spec = frame(draw, 0);
    spec.link = link;
    spec.source = 1 + draw.byte() % 2;
    spec.id = u16::from(draw.byte() & 3);
    spec.flags_fragment = 0;
    spec.protocol = draw.pick(&[17, 6, 1]);
    spec.payload = (0..draw.word() % 600).map(|at| at as u8).collect();
    if damaged {
        disturb(draw, &mut spec);
    } else {
        spec.tunnel.clear();
    }
    let bytes = spec.bytes();
    let view = plain::view(link, &bytes);
    let plain_ip = view.ip.is_some_and(|ip| ip + 60 < view.end) && spec.extensions.is_empty();
    if !plain_ip {
        frames.push((0, bytes));
        return;
    }
    let whole = Whole::new(link, &bytes, 0, spec.id.into());
    for _ in 0..1 + draw.below(8) {
        let (step, choice) = (draw.byte(), draw.byte());
        let (units, len) = (draw.below(80), draw.below(256));
        let start = (units * 8).min(whole.data.len() / 8 * 8);
        let end = match choice & 3 {
            0 => whole.data.len(),
            _ => (start + len / 8 * 8).min(whole.data.len()),
        };
        let mut part = whole.part(start, end);
        lie(draw, choice, &mut part);
        let mut bytes = whole.fragment(&part);
        if damaged && choice & 0x80 != 0 {
            damage(draw, &mut bytes);
        }
        frames.push((step, bytes));
    }
}

fn lie(draw: &mut Draw<'_>, choice: u8, part: &mut Part) {
    match choice >> 2 & 15 {
        0 => part.more = !part.more,
        1 => part.offset = (8_100 + draw.below(92)) * 8,
        2 => part.data.clear(),
        3 => part.data.truncate(draw.below(64)),
        4 if !part.data.is_empty() => part.data[0] ^= 1,
        _ => {}
    }
}

/// Every packet has left once, and what was given up as it came.
fn check(real: &Real, arrivals: &[Arrival]) {
    let counters = real.reassembler.counters();
    let mut seen = vec![false; arrivals.len()];
    for (packet, exit) in &real.out {
        for number in numbers(packet) {
            assert!(!core::mem::replace(&mut seen[number], true), "{number} left twice");
        }
        if *exit != Exit::Reassembled {
            assert!(packet.bytes() == arrivals[packet.buffer().number].bytes, "changed");
        }
    }
    let missing = seen.iter().filter(|seen| !**seen).count() as u64;
    assert_eq!(missing, counters.dropped, "lost");
    assert_eq!(counters.packets_in, arrivals.len() as u64);
    assert_eq!(counters.packets_out, real.out.len() as u64);
}
