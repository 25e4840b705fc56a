//! Traffic to the filter of acknowledgments: packets leave unchanged and in order, and of each
//! that is dropped a newer one of its flow leaves.

use crate::draw::Draw;
use crate::traffic::arrivals;
use linecard::offload::ack_filter::{AckFilter, Config, Exit};
use linecard::offload::coalesce::ChecksumPolicy;
use linecard_testkit::packets::plain;
use linecard_testkit::packets::runner::{Buffer, packet};
use linecard_testkit::packets::traffic::Arrival;
use std::collections::HashMap;

/// Input: limits, then traffic.
pub fn ack_filter(data: &[u8]) {
    let draw = &mut Draw::new(data);
    let choice = draw.byte();
    let trust = choice & 1 != 0;
    let config = Config {
        checksum: if trust { ChecksumPolicy::Trust } else { ChecksumPolicy::Verify },
        max_run: [8, 0, 1, 3][usize::from(choice >> 1 & 3)],
        max_flows: if choice & 8 != 0 { 8 } else { 64 },
        ..Config::default()
    };
    let arrivals = arrivals(draw);
    let mut filter: AckFilter<Buffer> = AckFilter::new(config);
    let mut out: Vec<(usize, Exit)> = Vec::new();
    for (number, arrival) in arrivals.iter().enumerate() {
        filter.push(packet(number, arrival), arrival.now, &mut |packet, exit| {
            let number = packet.buffer().number;
            assert!(packet.bytes() == arrivals[number].bytes, "packet {number} changed");
            out.push((number, exit));
        });
    }
    filter.flush_all(&mut |packet, exit| out.push((packet.buffer().number, exit)));
    let counters = filter.counters();
    assert_eq!((filter.held(), counters.packets_in), (0, arrivals.len() as u64));
    assert_eq!(counters.packets_out, out.len() as u64);
    assert_eq!(counters.packets_in, counters.packets_out + counters.dropped);
    assert_eq!(counters.packets_out, counters.passed.total() + counters.kept.total());
    check(&arrivals, &out);
}

fn check(arrivals: &[Arrival], out: &[(usize, Exit)]) {
    let views: Vec<_> = arrivals.iter().map(|a| plain::view(a.link, &a.bytes)).collect();
    let key = |n: usize| plain::flow_key(&arrivals[n].bytes, &views[n], arrivals[n].meta.lane);
    let mut left = vec![false; arrivals.len()];
    let mut flows: HashMap<Vec<u8>, usize> = HashMap::new();
    for (number, _) in out {
        assert!(!core::mem::replace(&mut left[*number], true), "packet {number} left twice");
        let Some(key) = key(*number) else { continue };
        let before = flows.insert(key, *number);
        assert!(before.is_none_or(|before| before < *number), "{number} came after {before:?}");
    }
    for number in (0..arrivals.len()).filter(|number| !left[*number]) {
        let (flow, view) = (key(number), &views[number]);
        assert!(view.is_tcp() && view.payload_len() == 0, "data is lost: packet {number}");
        let newer = |later: usize| {
            let (old, new) = (acknowledged(arrivals, number, view.transport), later);
            let new = acknowledged(arrivals, new, views[new].transport);
            (new.wrapping_sub(old) as i32) > 0
        };
        let kept = out.iter().any(|(later, exit)| {
            let stands = matches!(exit, Exit::Kept(_)) && *later > number;
            stands && key(*later) == flow && newer(*later)
        });
        assert!(kept, "nothing newer stands for packet {number}");
    }
}

fn acknowledged(arrivals: &[Arrival], number: usize, transport: usize) -> u32 {
    linecard_testkit::packets::frame::be32(&arrivals[number].bytes, transport + 8)
}
