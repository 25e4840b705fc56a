//! Traffic to the coalescer: the output equals that of the naive twin, everything comes back
//! byte for byte, and batches make no difference.

use crate::draw::Draw;
use crate::traffic::{MOST, arrivals};
use core::time::Duration;
use linecard::offload::coalesce::{ChecksumPolicy, Config, Creation, Flush};
use linecard::packet::Batch;
use linecard_testkit::packets::runner::{self, Real, check_counters, check_round_trip, packet};
use linecard_testkit::packets::traffic::{Arrival, Scenario};

/// Input: limits and policies, size of batches, then traffic.
pub fn coalesce(data: &[u8]) {
    let draw = &mut Draw::new(data);
    let mode = draw.byte();
    let mut config = config(draw, mode);
    let batch = 1 + draw.below(64);
    let arrivals = arrivals(draw);
    if mode & 1 != 0 {
        // The twin knows no tables that are full, and trusts only what deserves it.
        let scenario = Scenario { config, arrivals, punctual: mode & 2 != 0 };
        let (real, twin) = runner::run(&scenario);
        runner::same_outs(&scenario.config, &scenario.arrivals, &real.outs(), &twin.out);
        check(&real, &scenario.arrivals);
        return;
    }
    if mode & 2 != 0 {
        config.checksum = ChecksumPolicy::Trust;
    }
    if mode & 4 != 0 {
        config.max_flows = 8;
        config.max_held_packets = 1 + usize::from(mode >> 5);
        config.max_held_bytes = 1_500;
    }
    let single = in_groups(&config, &arrivals, batch, false);
    let batched = in_groups(&config, &arrivals, batch, true);
    check(&single, &arrivals);
    check(&batched, &arrivals);
    // Flows that are due at the same time leave in any order.
    runner::same_outs(&config, &arrivals, &batched.outs(), &single.outs());
}

fn config(draw: &mut Draw<'_>, mode: u8) -> Config {
    let choice = draw.byte();
    let budgets = [1_000_000, 0, 5_000, 100_000];
    Config {
        creation: if choice & 1 != 0 { Creation::OnSyn } else { Creation::OnData },
        flush_at_batch_end: choice & 2 != 0,
        // Packets that come one by one leave unchanged.
        restore_order: mode & 1 != 0,
        verify_alone: mode & 32 != 0,
        hold_budget: Duration::from_nanos(budgets[usize::from(choice >> 2 & 3)]),
        idle_floor: Duration::from_nanos(if choice & 16 != 0 { 0 } else { 20_000 }),
        max_segments: [1_024, 1, 2, 17][usize::from(choice >> 5 & 3)],
        max_datagrams: [64, 2][usize::from(choice >> 7)],
        max_bytes: [65_535, 100, 700, usize::MAX][usize::from(mode >> 3 & 3)],
        max_tunnels: draw.below(4),
        // Room for everything, and no more: memory that is taken has to be filled.
        max_flows: 256,
        max_held_packets: MOST + 32,
        ..Config::default()
    }
}

/// All at the time of the first of their group, one by one or as batches.
fn in_groups(config: &Config, arrivals: &[Arrival], size: usize, batched: bool) -> Real {
    let mut real = Real::new(config.clone());
    for (group, members) in arrivals.chunks(size).enumerate() {
        let now = members[0].now;
        let mut batch = Batch::new();
        for (index, arrival) in members.iter().enumerate() {
            let number = group * size + index;
            if batched {
                batch.push(packet(number, arrival)).expect("at most 64");
            } else {
                real.push(number, &Arrival { now, ..arrival.clone() });
            }
        }
        if batched {
            real.push_batch(&mut batch, now);
        } else if config.flush_at_batch_end {
            let out = &mut real.out;
            real.coalescer.flush_all(Flush::BatchEnd, &mut |p, e| out.push((p, e)));
        }
    }
    real.stop();
    real
}

fn check(real: &Real, arrivals: &[Arrival]) {
    assert_eq!(real.coalescer.held(), 0);
    check_counters(real, arrivals);
    // A wrong checksum that is trusted does not come back.
    if real.coalescer.config().checksum == ChecksumPolicy::Verify {
        check_round_trip(real, arrivals);
    }
    let mut numbers: Vec<usize> = real.outs().into_iter().flat_map(|out| out.packets).collect();
    numbers.sort_unstable();
    assert!(numbers.iter().copied().eq(0..arrivals.len()), "lost or doubled: {numbers:?}");
}
