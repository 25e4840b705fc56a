//! Real lanes: eight of 200 Mbit/s between two hosts in namespaces, beside the plain way to do it.
//!
//! Chunks are of 16 MiB. The plain way, *TCP split*, cuts a chunk into equal parts, one for each of as
//! many connections, and waits for all of them. Both are given the same lanes, one after the other.

mod split;
mod transfer;

use super::iperf3::{self, Test};
use crate::{Error, Failure};
use linecard_io::lab::{Cable, Host, Lab};
use linecard_report::{Report, Section, Value};
use linecard_transfer::control::Mode;
use transfer::{Event, Moved, Order};

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
    report.push(stable(&equal)?);
    report.push(low_latency("live_equal", "Low latency, 8 equal lanes", &equal)?);
    report.push(low_latency("live_unequal", "Low latency, one lane at 50 Mbit/s", &unequal)?);
    report.push(death("live_death_repaired", "A lane cut in mid-chunk, rs:28,4", "rs:28,4")?);
    report.push(death("live_death", "A lane cut in mid-chunk, no repair", "none")?);
    report.note(
        "Real lanes: veth pairs between two network namespaces of this machine, each shaped to its rate \
         by a token bucket of 16 KB. Data are encrypted and come from memory, without files and hashes. They share this machine's cores \
         with everything else on it.",
    );
    Ok(())
}

fn lab(rates_bps: &[u64]) -> Result<Lab, Error> {
    let lab = Lab::new(Cable::default()).map_err(|error| Failure::Storage.with(error))?;
    lab.add_lanes(rates_bps).map_err(|error| Failure::Storage.with(error))?;
    Ok(lab)
}

fn order(rates_bps: &[u64], mode: Mode, chunks: u64) -> Order<'_> {
    Order { rates_bps, mode, fec: "none", chunks, event: None }
}

/// Data rate that the lanes could carry, in bit/s.
fn bound_bps(rates_bps: &[u64]) -> f64 {
    rates_bps.iter().sum::<u64>() as f64 * PAYLOAD / ON_LANE
}

/// The time of a chunk if nothing were lost anywhere, in ns.
fn ideal_ns(rates_bps: &[u64]) -> f64 {
    CHUNK as f64 * 8e9 / bound_bps(rates_bps)
}

fn stable(rates_bps: &[u64]) -> Result<Section, Error> {
    let lab = lab(rates_bps)?;
    let moved = transfer::run(&lab, &order(rates_bps, Mode::Stable, STABLE_CHUNKS))?;
    let part = (STABLE_CHUNKS * CHUNK) as usize / rates_bps.len();
    let split_ns = split::run(&lab, rates_bps.len(), part, 1)?;
    let mut section = Section::new("live_stable", "Real lanes: stable, 8 of 200 Mbit/s");
    section.add("goodput_bits_per_second", "goodput", Value::BitRate(moved.goodput_bps()));
    let share = moved.goodput_bps() / bound_bps(rates_bps);
    section.add("of_bound", "of what framing leaves", Value::Share(share));
    section.add("resent", "packets sent again", Value::Count(moved.sent.counters.resent));
    let split_bps = (STABLE_CHUNKS * CHUNK * 8) as f64 * 1e9 / split_ns as f64;
    section.add(
        "split_bits_per_second",
        "goodput of as many TCP connections",
        Value::BitRate(split_bps),
    );
    let bound_of_tcp = rates_bps.iter().sum::<u64>() as f64 * TCP_SHARE;
    let share = split_bps / bound_of_tcp;
    section.add("split_of_bound", "of what its framing leaves", Value::Share(share));
    if iperf3::missing().is_none() {
        let iperf_bps = by_iperf3(&lab, rates_bps.len())?;
        section.add(
            "iperf3_bits_per_second",
            "received by iperf3, one for each lane",
            Value::BitRate(iperf_bps),
        );
        let share = iperf_bps / bound_of_tcp;
        section.add("iperf3_of_bound", "of what its framing leaves", Value::Share(share));
    }
    Ok(section)
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

fn low_latency(
    key: &'static str,
    title: &'static str,
    rates_bps: &[u64],
) -> Result<Section, Error> {
    let lab = lab(rates_bps)?;
    let moved = transfer::run(&lab, &order(rates_bps, Mode::LowLatency, 16))?;
    let split = split::run(&lab, rates_bps.len(), CHUNK as usize / rates_bps.len(), 8)?;
    let mut section = Section::new(key, format!("Real lanes: {title}"));
    let ideal_ns = ideal_ns(rates_bps);
    add_latency(&mut section, &moved, ideal_ns);
    section.add("split_ns", "chunk by TCP split, p50", Value::Ns(split as f64));
    let share = split as f64 / ideal_ns;
    section.add("split_over_ideal", "of the ideal, by TCP split", Value::Number(share));
    Ok(section)
}

fn add_latency(section: &mut Section, moved: &Moved, ideal_ns: f64) {
    let median = moved.quantile_ns(50);
    section.add("p50_ns", "chunk, p50", Value::Ns(median as f64));
    section.add("ideal_ns", "ideal: all lanes full", Value::Ns(ideal_ns));
    section.add("over_ideal", "of the ideal", Value::Number(median as f64 / ideal_ns));
    section.add("most_ns", "chunk, most", Value::Ns(moved.quantile_ns(100) as f64));
    section.add("resent", "packets sent again", Value::Count(moved.sent.counters.resent));
    section.add("twice", "packets sent twice", Value::Count(moved.sent.counters.duplicates));
}

/// Lane 2 is cut for 400 ms while the fifth chunk or so is under way.
fn death(key: &'static str, title: &'static str, fec: &'static str) -> Result<Section, Error> {
    let rates_bps = [RATE_BPS; LANES];
    let event = Some(Event { lane: 2, after_ms: 450, for_ms: 400 });
    let base = order(&rates_bps, Mode::LowLatency, 24);
    let lab = lab(&rates_bps)?;
    let quiet = transfer::run(&lab, &Order { fec, ..base })?;
    let moved = transfer::run(&lab, &Order { fec, event, ..base })?;
    let mut section = Section::new(key, format!("Real lanes: {title}"));
    let median = quiet.quantile_ns(50);
    section.add("quiet_ns", "chunk without that, p50", Value::Ns(median as f64));
    section.add(
        "cut_ns",
        "the chunk in which it was \
         disconnected",
        Value::Ns(moved.cut_ns() as f64),
    );
    let slower = moved.cut_ns() as f64 / median as f64;
    section.add("slower", "of that p50", Value::Number(slower));
    section.add(
        "most_ns",
        "chunk over the other seven, most",
        Value::Ns(moved.quantile_ns(100) as f64),
    );
    section.add("resent", "packets sent again", Value::Count(moved.sent.counters.resent));
    let lane = moved.sent.lanes.get(2).map(|lane| lane.counters).unwrap_or_default();
    section.add("deaths", "times the lane was given up", Value::Count(lane.deaths));
    section.add("rejoins", "times it recovered", Value::Count(lane.rejoins));
    section.add("back_ns", "until it carried data again", Value::Ns(moved.back_ns as f64));
    Ok(section)
}
