//! Real lanes: eight of 200 Mbit/s between two hosts in namespaces, beside the plain way to do it.
//!
//! Chunks are of 16 MiB. The plain way, *TCP split*, divides a chunk into equal parts, one for each of as
//! many connections, and waits for all of them. Both are given the same lanes, one after the other.

mod split;
mod transfer;

use super::iperf3::{self, Test};
use crate::{Error, Failure};
use linecard_io::lab::{Cable, Host, Lab};
use linecard_report::{BitRate, Nanoseconds, Report, Share, section_of};
use linecard_transfer::control::Mode;
use schemars::JsonSchema;
use serde::Serialize;
use transfer::{Event, Order};

/// Lanes, and the rate of each.
const LANES: usize = 8;
const RATE_BPS: u64 = 200_000_000;
/// The rate of the slow one.
const SLOW_BPS: u64 = 50_000_000;
/// Bytes of a chunk.
const CHUNK: u64 = 16 << 20;
/// Data of a packet, and its bytes on a lane: header, tag, UDP, IPv4 and Ethernet.
const PAYLOAD: f64 = 1_408.0;
const ON_LANE: f64 = PAYLOAD + 40.0 + 42.0;
/// Payload share of Ethernet frames of 1,514 bytes with TCP timestamps.
const TCP_SHARE: f64 = 1_448.0 / 1_514.0;
/// How long `iperf3` sends.
const IPERF3_SECONDS: u64 = 4;
/// Chunks of a stable transfer.
const STABLE_CHUNKS: u64 = 64;

/// Adds what real lanes give, if this process may make them.
pub(super) fn add(say: super::Say<'_>, report: &mut Report) -> Result<(), Error> {
    if let Err(why) = Lab::new(Cable::default()).and_then(|lab| lab.add_lanes(&[RATE_BPS])) {
        say(&format!("real lanes are left out: {why}"));
        report.note(format!("Real lanes were left out: {why}"));
        return Ok(());
    }
    let equal = [RATE_BPS; LANES];
    let mut unequal = equal;
    unequal[LANES - 1] = SLOW_BPS;
    let title = |title: &str| format!("Real lanes: {title}");
    let stable_title = title("stable, 8 of 200 Mbit/s");
    report.push(section_of("live_stable", stable_title, &stable(&equal)?));
    for (key, name, rates_bits_per_second) in [
        ("live_equal", "Low latency, 8 equal lanes", &equal),
        ("live_unequal", "Low latency, one lane at 50 Mbit/s", &unequal),
    ] {
        report.push(section_of(key, title(name), &low_latency(rates_bits_per_second)?));
    }
    for (key, name, fec) in [
        ("live_death_repaired", "A lane cut in mid-chunk, rs:28,4", "rs:28,4"),
        ("live_death", "A lane cut in mid-chunk, no repair", "none"),
    ] {
        report.push(section_of(key, title(name), &death(fec)?));
    }
    report.note(
        "Real lanes: veth pairs between two network namespaces of this machine, each shaped to its rate \
         by a token bucket of 16 KB. Data are encrypted and come from memory, without files and hashes. They share this machine's cores \
         with everything else on it.",
    );
    Ok(())
}

fn lab(rates_bits_per_second: &[u64]) -> Result<Lab, Error> {
    let lab = Lab::new(Cable::default()).map_err(|error| Failure::Storage.with(error))?;
    lab.add_lanes(rates_bits_per_second).map_err(|error| Failure::Storage.with(error))?;
    Ok(lab)
}

fn order(rates_bits_per_second: &[u64], mode: Mode, chunks: u64) -> Order<'_> {
    Order { rates_bits_per_second, mode, fec: "none", chunks, event: None }
}

/// Data rate that the lanes could carry, in bit/s.
fn bound_bits_per_second(rates_bits_per_second: &[u64]) -> f64 {
    rates_bits_per_second.iter().sum::<u64>() as f64 * PAYLOAD / ON_LANE
}

/// The time of a chunk if nothing were lost anywhere, in ns.
fn ideal_ns(rates_bits_per_second: &[u64]) -> f64 {
    CHUNK as f64 * 8e9 / bound_bits_per_second(rates_bits_per_second)
}

/// A stable transfer, and as many TCP connections.
#[derive(Serialize, JsonSchema)]
struct Stable {
    /// goodput
    goodput_bits_per_second: BitRate,
    /// of what framing leaves
    of_bound: Share,
    /// packets sent again
    resent: u64,
    /// goodput of as many TCP connections
    split_bits_per_second: BitRate,
    /// of what its framing leaves
    split_of_bound: Share,
    /// received by iperf3, one for each lane
    iperf3_bits_per_second: Option<BitRate>,
    /// of what its framing leaves
    iperf3_of_bound: Option<Share>,
}

/// Chunks of low latency, and those of a TCP split.
#[derive(Serialize, JsonSchema)]
struct LowLatency {
    /// chunk, p50
    p50_ns: Nanoseconds,
    /// ideal: all lanes full
    ideal_ns: Nanoseconds,
    /// of the ideal
    over_ideal: f64,
    /// chunk, most
    most_ns: Nanoseconds,
    /// packets sent again
    resent: u64,
    /// packets sent twice
    twice: u64,
    /// chunk by TCP split, p50
    split_ns: Nanoseconds,
    /// of the ideal, by TCP split
    split_over_ideal: f64,
}

/// A lane that is disconnected while a chunk is in flight.
#[derive(Serialize, JsonSchema)]
struct Death {
    /// chunk without that, p50
    quiet_ns: Nanoseconds,
    /// the chunk in which it was disconnected
    cut_ns: Nanoseconds,
    /// of that p50
    slower: f64,
    /// chunk over the other seven, most
    most_ns: Nanoseconds,
    /// packets sent again
    resent: u64,
    /// times the lane was given up
    deaths: u64,
    /// times it recovered
    rejoins: u64,
    /// until it carried data again
    back_ns: Nanoseconds,
}

fn stable(rates_bits_per_second: &[u64]) -> Result<Stable, Error> {
    let lab = lab(rates_bits_per_second)?;
    let moved = transfer::run(&lab, &order(rates_bits_per_second, Mode::Stable, STABLE_CHUNKS))?;
    let part = (STABLE_CHUNKS * CHUNK) as usize / rates_bits_per_second.len();
    let split_ns = split::run(&lab, rates_bits_per_second.len(), part, 1)?;
    let split_bits_per_second = (STABLE_CHUNKS * CHUNK * 8) as f64 * 1e9 / split_ns as f64;
    let bound_of_tcp = rates_bits_per_second.iter().sum::<u64>() as f64 * TCP_SHARE;
    let is_there = iperf3::missing().is_none();
    let iperf_bits_per_second =
        is_there.then(|| by_iperf3(&lab, rates_bits_per_second.len())).transpose()?;
    Ok(Stable {
        goodput_bits_per_second: BitRate(moved.goodput_bits_per_second()),
        of_bound: Share(
            moved.goodput_bits_per_second() / bound_bits_per_second(rates_bits_per_second),
        ),
        resent: moved.sent.counters.resent,
        split_bits_per_second: BitRate(split_bits_per_second),
        split_of_bound: Share(split_bits_per_second / bound_of_tcp),
        iperf3_bits_per_second: iperf_bits_per_second.map(BitRate),
        iperf3_of_bound: iperf_bits_per_second.map(|bps| Share(bps / bound_of_tcp)),
    })
}

/// Rate of `iperf3` over all lanes together, in bit/s.
fn by_iperf3(lab: &Lab, lanes: usize) -> Result<f64, Error> {
    let begin = |lane| {
        Test::begin(
            lab,
            (Host::Own, Host::Peer),
            Host::Peer.lane_address(lane),
            (1, IPERF3_SECONDS),
        )
    };
    let tests: Vec<Test> = (0..=u8::MAX).take(lanes).map(begin).collect::<Result<_, _>>()?;
    tests.into_iter().map(Test::finish).sum()
}

fn low_latency(rates_bits_per_second: &[u64]) -> Result<LowLatency, Error> {
    let lab = lab(rates_bits_per_second)?;
    let moved = transfer::run(&lab, &order(rates_bits_per_second, Mode::LowLatency, 16))?;
    let split_ns = split::run(
        &lab,
        rates_bits_per_second.len(),
        CHUNK as usize / rates_bits_per_second.len(),
        8,
    )? as f64;
    let (p50_ns, ideal_ns) = (moved.quantile_ns(50) as f64, ideal_ns(rates_bits_per_second));
    Ok(LowLatency {
        p50_ns: Nanoseconds(p50_ns),
        ideal_ns: Nanoseconds(ideal_ns),
        over_ideal: p50_ns / ideal_ns,
        most_ns: Nanoseconds(moved.quantile_ns(100) as f64),
        resent: moved.sent.counters.resent,
        twice: moved.sent.counters.duplicates,
        split_ns: Nanoseconds(split_ns),
        split_over_ideal: split_ns / ideal_ns,
    })
}

/// Lane 2 is disconnected for 400 ms while about the fifth chunk is in flight.
fn death(fec: &'static str) -> Result<Death, Error> {
    let rates_bits_per_second = [RATE_BPS; LANES];
    let event = Some(Event { lane: 2, after_ms: 450, for_ms: 400 });
    let base = order(&rates_bits_per_second, Mode::LowLatency, 24);
    let lab = lab(&rates_bits_per_second)?;
    let quiet = transfer::run(&lab, &Order { fec, ..base })?;
    let moved = transfer::run(&lab, &Order { fec, event, ..base })?;
    let (quiet_ns, cut_ns) = (quiet.quantile_ns(50) as f64, moved.cut_ns() as f64);
    let lane = moved.sent.lanes.get(2).map(|lane| lane.counters).unwrap_or_default();
    Ok(Death {
        quiet_ns: Nanoseconds(quiet_ns),
        cut_ns: Nanoseconds(cut_ns),
        slower: cut_ns / quiet_ns,
        most_ns: Nanoseconds(moved.quantile_ns(100) as f64),
        resent: moved.sent.counters.resent,
        deaths: lane.deaths,
        rejoins: lane.rejoins,
        back_ns: Nanoseconds(moved.back_ns as f64),
    })
}
