//! Linecard beside tun-rs, on the same packets in one run.
//!
//!     peers/run.sh                        # derived traffic, pinned to one core
//!     peers/run.sh bulk.pcap flows.pcap   # real traffic, as peers/capture.sh makes it
//!
//! Both sides get bursts of 64 packets, and let go everything at a burst's end. Both verify every
//! checksum: tun-rs always does. The statistic is the same (see `measure`), the rounds take turns.
//! What is not the same: tun-rs copies the payload of merged packets into the first packet's
//! buffer, which must have room for 64 KiB, and is given bare IP packets; Linecard gives a list of
//! slices and is given Ethernet frames. Figures: docs/benchmarks.md.

#[expect(dead_code, reason = "the project's own benchmark uses more of it")]
#[path = "../../crates/linecard/benches/support/mod.rs"]
mod support;
mod tun;

use linecard::offload::coalesce::Config;
use linecard::packet::Meta;
use std::path::{Path, PathBuf};
use support::measure::{Account, Bench, Place, Receive, Row, heading, show};
use support::receive::Coalesce;
use support::send::{self, Form, LOADS, Load, Segmenter, Send};
use support::trace::Trace;
use support::traffic::{self, Kind};
use support::{Slot, stride};

const ROUNDS: usize = 11;
const PACKETS: usize = 20_000;
/// Buffers of each side, and packets that are cold at once.
const SLOTS: usize = 16_384;
/// Room for a merged packet and its virtio header, which tun-rs needs in every buffer: the crate's
/// users have it too. Linecard gets buffers for a frame each.
const MERGED: usize = 65_536 + 12;
/// Large packets per round of sending: 16 MiB.
const SOURCES: usize = 256;

fn clock() -> std::time::Instant {
    std::time::Instant::now()
}

fn main() {
    let mut rounds = ROUNDS;
    let mut captures: Vec<PathBuf> = Vec::new();
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        if argument == "--rounds" {
            let count = arguments.next().and_then(|text| text.parse::<usize>().ok());
            rounds = count.expect("--rounds takes a number").max(1);
        } else {
            captures.push(argument.into());
        }
    }
    for trace in traces(&captures) {
        receive(&trace, rounds);
    }
    for load in &LOADS {
        send(load, rounds);
    }
}

/// The captures given, or derived traffic.
fn traces(captures: &[PathBuf]) -> Vec<Trace> {
    if captures.is_empty() {
        let runs = |name, kind, mixture, size| traffic::runs(name, kind, mixture, (size, PACKETS));
        return vec![
            runs("bulk, 1 flow", Kind::Tcp4, (1, 64), 1448),
            runs("64 flows, runs of 16", Kind::Tcp4, (64, 16), 1448),
            runs("IPv6, 8 flows", Kind::Tcp6, (8, 32), 1428),
            runs("jumbo 8948 B, 4 flows", Kind::Tcp4, (4, 7), 8948),
            runs("UDP 1472 B, 4 flows", Kind::Udp4, (4, 16), 1472),
        ];
    }
    let read = |path: &PathBuf| match Trace::read(Path::new(path), PACKETS) {
        Ok(trace) => Some(trace),
        Err(error) => {
            eprintln!("skipped: {error}");
            None
        }
    };
    captures.iter().filter_map(read).collect()
}

/// Times both sides on one trace.
fn receive(trace: &Trace, rounds: usize) {
    let config = Config { flush_at_batch_end: true, ..Config::default() };
    let strides = [trace.max_len(), MERGED].map(stride);
    let [mut ours, mut theirs] = strides.map(|stride| vec![0; SLOTS * stride]);
    let [ours, theirs] = [(&mut ours, strides[0]), (&mut theirs, strides[1])]
        .map(|(arena, stride)| Bench::new(clock, Slot::divide(arena, stride)));
    let coalesce = Coalesce::new(trace.link, Meta::default(), config);
    let mut sides: [(&str, Bench<'_>, Box<dyn Receive<'_> + '_>); 2] =
        [("linecard", ours, Box::new(coalesce)), ("tun-rs", theirs, Box::new(tun::Gro::new()))];
    let mut table = vec![(Row::default(), Account::default()); sides.len()];
    for round in 0..=rounds {
        for ((_, bench, side), (row, total)) in sides.iter_mut().zip(&mut table) {
            for (place, times) in Place::ALL.into_iter().zip(row) {
                let (bursts, account) =
                    bench.round(trace, side.as_mut(), place, Account::default());
                // The first round warms up and is not counted.
                if round > 0 {
                    times.get_or_insert_default().record(&bursts, trace.len());
                }
                // Cold rounds end what is held where the buffers are used up.
                if place == Place::Hot {
                    *total = account;
                }
            }
        }
    }
    println!("\nReceive: {}, {} packets, checksums verified", trace.name, trace.len());
    println!("{}", heading("ns per packet"));
    for ((name, ..), (row, account)) in sides.iter().zip(&table) {
        println!("{}", show(name, row, account));
    }
    let payload: Vec<u64> = table.iter().map(|(_, account)| account.payload).collect();
    assert_eq!(payload[0], payload[1], "both sides gave out the same payload");
    ratio([&table[0].0, &table[1].0]);
}

/// Times both sides on one load.
fn send(load: &Load, rounds: usize) {
    let mut sources = load.sources(SOURCES);
    let mut arena = send::arena(load);
    let mut slots = Slot::divide(&mut arena, stride(load.frame_len()));
    let mut sides: [(&str, Box<dyn Send>); 2] = [
        ("linecard", Box::new(Segmenter { form: Form::Contiguous })),
        ("tun-rs", Box::new(tun::Gso::new(load.kind))),
    ];
    let mut table = vec![Row::default(); sides.len()];
    let mut sweep = Vec::new();
    compare_output(load, &mut sources[0], &mut slots, &mut sides);
    for round in 0..=rounds {
        for ((_, side), row) in sides.iter_mut().zip(&mut table) {
            for (cold, times) in [false, true].into_iter().zip(row) {
                let (both, sweep) =
                    ((&mut sources[..], &mut slots[..]), cold.then_some(&mut sweep));
                let (bursts, segments) = send::round(clock, side.as_mut(), load, both, sweep);
                if round > 0 {
                    times.get_or_insert_default().record(&bursts, segments);
                }
            }
        }
    }
    println!("\nSend: {}, {} segments each, copied and summed", load.name, load.segments);
    println!("{}", heading("ns per segment"));
    for ((name, _), row) in sides.iter().zip(&table) {
        println!("{}", show(name, row, &Account::default()));
    }
    ratio([&table[0], &table[1]]);
}

/// Both sides must make as many segments, and the same IP packets.
fn compare_output(
    load: &Load,
    source: &mut [u8],
    slots: &mut [Slot<'_>],
    sides: &mut [(&str, Box<dyn Send>); 2],
) {
    let skip = |name: &str| if name == "linecard" { tun::ETHERNET } else { 0 };
    let made = sides.each_mut().map(|(name, side)| {
        let count = side.cut(source, load.size, slots);
        let segments = slots[..count].iter().map(|slot| slot.as_ref()[skip(name)..].to_vec());
        segments.collect::<Vec<_>>()
    });
    assert_eq!(made[0].len(), load.segments, "{}: segments", load.name);
    if made[0] != made[1] {
        let differ = made[0].iter().zip(&made[1]).filter(|(a, b)| a != b).count();
        println!(
            "\n{}: {differ} of {} segments are not the same on both sides",
            load.name, load.segments
        );
    }
}

/// Quiet estimates, theirs over ours: below 1, tun-rs is faster.
fn ratio([ours, theirs]: [&Row; 2]) {
    let mut line = format!("{:<32}", "tun-rs / linecard, quiet");
    for ((ours, theirs), width) in ours.iter().zip(theirs).zip([11, 12, 17]) {
        match (ours, theirs) {
            (Some(ours), Some(theirs)) => {
                line += &format!(" | {:width$.2} {:6}", theirs.quiet() / ours.quiet(), "");
            }
            _ => line += &format!(" | {:>width$} {:6}", "-", ""),
        }
    }
    println!("{line} |");
}
