//! The workloads once more, few packets of each, for a counter of instructions: what it counts lies
//! in two functions with names of their own. `scripts/count-instructions.sh` runs this.

use super::measure::{Account, Bench, CacheState, Clock, Receive};
use super::receive::Coalesce;
use super::send::{Form, LOADS, Load, Segmenter, Send, arena};
use super::trace::Trace;
use super::traffic::{self, Kind};
use super::{Slot, stride};
use core::hint::black_box;
use core::time::Duration;
use linecard::offload::coalesce::Config;
use linecard::packet::{ChecksumState, Meta};
use linecard::time::Instant;

/// Packets of a workload: some hundred bursts.
const PACKETS: usize = 6_400;
const SLOTS: usize = 1 << 14;
/// Large packets cut in a workload.
const SOURCES: usize = 64;

/// Runs all workloads, and prints the name of each and the packets that were counted.
pub(crate) fn all(clock: Clock) {
    for (trace, config) in traces() {
        let vouched = Meta { checksum: ChecksumState::Valid, ..Meta::default() };
        for (name, meta) in [("trusted", vouched), ("verified", Meta::default())] {
            let packets = receive(clock, &trace, meta, config.clone());
            println!("receive {name}, {}\t{packets}", trace.name);
        }
    }
    for load in &LOADS {
        for (name, form) in [("headers", Form::Headers), ("copied", Form::Contiguous)] {
            let segments = send(load, &mut Segmenter { form });
            println!("send {name}, {}\t{segments}", load.name);
        }
    }
}

fn traces() -> Vec<(Trace, Config)> {
    let let_go = Config { flush_at_batch_end: true, ..Config::default() };
    let held = Config::default();
    // As in the benchmark: a table for all flows, and room for all packets in flight.
    let many = Config {
        hold_budget: Duration::from_millis(10),
        max_flows: 1 << 18,
        max_held_packets: 1 << 15,
        max_held_bytes: 1 << 30,
        ..Config::default()
    };
    let runs = |name, kind, flows, size| traffic::runs(name, kind, flows, (size, PACKETS));
    vec![
        (runs("bulk", Kind::Tcp4, (1, 64), 1448), let_go.clone()),
        (runs("64 flows", Kind::Tcp4, (64, 16), 1448), let_go.clone()),
        (runs("IPv6", Kind::Tcp6, (8, 32), 1428), let_go.clone()),
        (runs("jumbo", Kind::Tcp4, (4, 7), 8948), let_go.clone()),
        (runs("UDP", Kind::Udp4, (4, 16), 1472), let_go.clone()),
        (runs("interleaved", Kind::Tcp4, (16, 1), 1448), let_go.clone()),
        (runs("VXLAN", Kind::Vxlan, (4, 16), 1398), let_go.clone()),
        (traffic::imix(PACKETS), let_go.clone()),
        (traffic::web(PACKETS), let_go.clone()),
        (traffic::spread("many flows, let go", 8_000, 4_096, 4), let_go.clone()),
        (traffic::hostile((50, PACKETS), PACKETS), let_go),
        (traffic::imix(PACKETS).renamed("IMIX, held"), held.clone()),
        (traffic::web(PACKETS).renamed("web, held"), held.clone()),
        (traffic::hostile((50, PACKETS), PACKETS).renamed("50 % hostile, held"), held.clone()),
        (traffic::hostile((100, PACKETS), PACKETS).renamed("each alone, held"), held),
        // Less than a hundred thousand and a million, and as far apart.
        (traffic::spread("16 of many flows", 2_000, 16, 4), many.clone()),
        (traffic::spread("many flows", 8_000, 4_096, 4), many),
    ]
}

fn receive(clock: Clock, trace: &Trace, meta: Meta, config: Config) -> usize {
    let stride = stride(trace.max_len());
    let mut arena = vec![0; SLOTS * stride];
    let mut bench = Bench::new(clock, Slot::divide(&mut arena, stride));
    let coalesce = Coalesce::new(trace.link, meta, config);
    let mut receiver = Counted { coalesce, warm: false };
    // The first round takes memory for lists, which is not counted.
    bench.round(trace, &mut receiver, CacheState::Hot, Account::default());
    receiver.warm = true;
    counted(&mut || {
        bench.round(trace, &mut receiver, CacheState::Hot, Account::default());
    });
    trace.len()
}

fn send(load: &Load, segmenter: &mut Segmenter) -> usize {
    let mut sources = load.sources(SOURCES);
    let mut arena = arena(load);
    let mut slots = Slot::divide(&mut arena, stride(load.frame_len()));
    let mut segments = 0;
    counted(&mut || {
        for source in &mut sources {
            segments += collected_send(segmenter, source, load.size, &mut slots);
        }
    });
    segments
}

/// A receiver whose bursts are counted once it is warm.
struct Counted<'a> {
    coalesce: Coalesce<'a>,
    warm: bool,
}

impl<'a> Receive<'a> for Counted<'a> {
    fn burst(&mut self, burst: &mut Vec<Slot<'a>>, now: Instant) {
        if self.warm {
            collected_receive(&mut self.coalesce, burst, now);
            // So that it is a call, which returns here: QEMU's counter knows it by that.
            black_box(());
        } else {
            self.coalesce.burst(burst, now);
        }
    }

    fn settle(&mut self, burst: &mut Vec<Slot<'a>>, free: &mut Vec<Slot<'a>>, out: &mut Account) {
        self.coalesce.settle(burst, free, out);
    }

    fn finish(&mut self) {
        self.coalesce.finish();
    }
}

/// A workload, behind which the counts so far are written down. The script knows the names of this
/// function and of the next two, in which alone is counted.
#[inline(never)]
fn counted(work: &mut dyn FnMut()) {
    work();
}

#[inline(never)]
fn collected_receive<'a>(to: &mut Coalesce<'a>, burst: &mut Vec<Slot<'a>>, now: Instant) {
    to.burst(burst, now);
}

#[inline(never)]
fn collected_send(
    segmenter: &mut Segmenter,
    source: &mut [u8],
    size: usize,
    slots: &mut [Slot<'_>],
) -> usize {
    segmenter.cut(source, size, slots)
}
