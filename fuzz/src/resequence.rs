//! Reordered traffic: the output equals that of the naive twin, nothing is lost, and nothing
//! overtakes what it must not.

use crate::draw::Draw;
use crate::traffic::arrivals;
use core::time::Duration;
use linecard::offload::resequence::Config;
use linecard_testkit::packets::plain::view;
use linecard_testkit::packets::sequencing::{by_flow, check, run};
use linecard_testkit::packets::traffic::Arrival;
use std::collections::BTreeSet;

/// Input: limits, then traffic.
pub fn resequence(data: &[u8]) {
    let draw = &mut Draw::new(data);
    let (mode, choice) = (draw.byte(), draw.byte());
    let limit = |bit: u8, small: usize, large: usize| if choice & bit != 0 { small } else { large };
    let config = Config {
        drop_duplicates: choice & 1 != 0,
        hold_budget: Duration::from_nanos(limit(2, 5_000, 250_000) as u64),
        gap_floor: Duration::from_nanos(limit(4, 0, 50_000) as u64),
        max_flow_packets: limit(8, 2, 128),
        max_flow_bytes: limit(16, 700, 256 << 10),
        max_held_packets: limit(32, 4, 64),
        max_held_bytes: limit(64, 900, 8 << 20),
        max_flows: 256,
        ..Config::default()
    };
    let arrivals = arrivals(draw);
    // The twin looks at the checksum of the innermost header only.
    let tunnelled = |arrival: &Arrival| view(arrival.link, &arrival.bytes).layers.len() > 2;
    let comparable = !arrivals.iter().any(tunnelled);
    let (run, twin) = run(&config, &arrivals, comparable && mode & 1 != 0);
    let real = run.numbers();
    let gone: BTreeSet<usize> = real.iter().map(|(number, _)| *number).collect();
    assert_eq!(gone.len(), real.len(), "a packet left twice");
    let dropped: BTreeSet<usize> = (0..arrivals.len()).filter(|n| !gone.contains(n)).collect();
    if comparable {
        assert_eq!(by_flow(&real, &arrivals), by_flow(&twin.out, &arrivals));
        assert_eq!(dropped, twin.dropped.iter().copied().collect());
    }
    check(&run, &arrivals, &config);
}
