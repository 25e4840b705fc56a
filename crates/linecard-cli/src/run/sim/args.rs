//! What `--lanes sim` takes, and what it does not.

use super::spec::{MAX_PACKETS, Spec};
use super::uncut;
use crate::args::RunArguments;
use crate::failure::Failure;
use crate::mode::ModeName;
use crate::run::settings::{lane_count, within};
use crate::units;
use clap::Args;
use linecard_transfer::fec::Scheme;
use linecard_transfer::receive::MAX_WINDOW;
use linecard_transfer::send::Mode;
use linecard_transfer::sim::Faults;
use std::time::Duration;

/// The options of lanes in virtual time; without further ones they are those of a published
/// experiment, 8 lanes of 10-Gbit/s Ethernet (see `linecard reproduce end2end100`).
#[derive(Debug, Args)]
#[command(next_help_heading = "Transfer over lanes in virtual time (--lanes sim)")]
pub(crate) struct SimArguments {
    /// Of each lane in bit/s, framing included, 1M to 1T [default: 10G].
    #[arg(long, value_name = "RATE", value_parser = units::bit_rate)]
    rate: Option<u64>,
    /// How chunks are spread [default: stable].
    #[arg(long, value_name = "MODE")]
    mode: Option<ModeName>,
    /// What repairs lost packets: none, xor:K, rs:K,M or duplicate [default: none].
    #[arg(long, value_name = "SCHEME", value_parser = scheme)]
    fec: Option<Scheme>,
    /// Chunks to send, 1 to 100000 [default: 32].
    #[arg(long, value_name = "N", value_parser = units::count)]
    chunks: Option<u64>,
    /// Chunks under way at once, 1 to 64 [default: as many as the receiver has room for]. With 1, each
    /// waits for the news that the one before is whole, as in the published low-latency mode.
    #[arg(long, value_name = "N", value_parser = units::count)]
    under_way: Option<u64>,
    /// Bytes of a chunk, 1 to 1G [default: 16M].
    #[arg(long, value_name = "BYTES", value_parser = units::bytes)]
    chunk: Option<usize>,
    /// Bytes of data in a packet, 64 to 65000 [default: 4096]. Header and seal are 40 more.
    #[arg(long, value_name = "BYTES", value_parser = units::bytes)]
    payload: Option<usize>,
    /// Bytes on the line around a packet, 0 to 1000 [default: 38, bare Ethernet]; UDP over IPv4
    /// has 66.
    #[arg(long, value_name = "BYTES", value_parser = units::bytes)]
    framing: Option<usize>,
    /// Of a lane, one way, up to 100ms [default: 5us].
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    delay: Option<Duration>,
    /// What it costs a host to begin a chunk on a lane, up to 1s [default: 26us].
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    begin: Option<Duration>,
}

impl SimArguments {
    /// Refuses what lanes in memory do not have.
    pub(in crate::run) fn refuse(&self) -> Result<(), Failure> {
        let given = [
            ("--rate", self.rate.is_some()),
            ("--mode", self.mode.is_some()),
            ("--fec", self.fec.is_some()),
            ("--chunks", self.chunks.is_some()),
            ("--chunk", self.chunk.is_some()),
            ("--payload", self.payload.is_some()),
            ("--framing", self.framing.is_some()),
            ("--under-way", self.under_way.is_some()),
            ("--delay", self.delay.is_some()),
            ("--begin", self.begin.is_some()),
        ];
        none_of(&given, "is for lanes in virtual time: add --lanes sim")
    }
}

/// The run that the command line asks for.
pub(super) fn spec(arguments: &RunArguments, lanes: Option<u64>) -> Result<Spec, Failure> {
    let other = [
        ("a scenario", arguments.scenario.is_some()),
        ("--flows", arguments.flows.is_some()),
        ("--mtu", arguments.mtu.is_some()),
        ("--size", arguments.size.is_some()),
        ("--seconds", arguments.seconds.is_some()),
    ];
    none_of(&other, "is for lanes in memory: leave it away with --lanes sim")?;
    let (given, or) = (&arguments.sim, Spec::default());
    let spec = Spec {
        lanes: check("--lanes", lanes, or.lanes, lane_count)?,
        rate_bps: check("--rate", given.rate, or.rate_bps, |rate| {
            within(rate, [1_000_000, 1_000_000_000_000])
        })?,
        mode: given.mode.map_or(or.mode, Mode::from),
        fec: given.fec.unwrap_or(or.fec),
        chunks: check("--chunks", given.chunks, or.chunks, |count| within(count, [1, 100_000]))?,
        under_way: check("--under-way", given.under_way, or.under_way.into(), |count| {
            within(count, [1, MAX_WINDOW.into()])
        })? as u32,
        chunk_bytes: bytes("--chunk", given.chunk, or.chunk_bytes, [1, 1 << 30])?,
        payload_bytes: bytes("--payload", given.payload, or.payload_bytes, [64, 65_000])?,
        framing_bytes: bytes("--framing", given.framing, or.framing_bytes, [0, 1_000])?,
        delay_ns: time("--delay", given.delay, or.delay_ns, Duration::from_millis(100))?,
        begin_ns: time("--begin", given.begin, or.begin_ns, Duration::from_secs(1))?,
        faults: Faults {
            loss: arguments.loss.unwrap_or(0.0),
            reorder: arguments.reorder.unwrap_or(0.0),
            ..Faults::default()
        },
        seed: arguments.seed.unwrap_or(or.seed),
    };
    packets_are_few(&spec).map(|()| spec)
}

fn none_of(options: &[(&str, bool)], what: &str) -> Result<(), Failure> {
    match options.iter().find(|(_, is_given)| *is_given) {
        Some((option, _)) => Err(Failure::Usage(format!("{option} {what}"))),
        None => Ok(()),
    }
}

fn packets_are_few(spec: &Spec) -> Result<(), Failure> {
    let packets = spec.packets().map_err(uncut)?;
    if packets <= MAX_PACKETS {
        return Ok(());
    }
    let what = format!("--chunks: {packets} packets in all: choose up to {MAX_PACKETS}");
    Err(Failure::Usage(what))
}

fn check(
    option: &str,
    given: Option<u64>,
    default: u64,
    check: impl Fn(&u64) -> Result<(), String>,
) -> Result<u64, Failure> {
    let value = given.unwrap_or(default);
    check(&value).map_err(|what| Failure::Usage(format!("{option}: {what}"))).map(|()| value)
}

fn bytes(
    option: &str,
    given: Option<usize>,
    default: u32,
    [low, high]: [u64; 2],
) -> Result<u32, Failure> {
    let given = given.map(|bytes| bytes as u64);
    let value = check(option, given, default.into(), |value| within(value, [low, high]))?;
    Ok(value as u32)
}

fn time(
    option: &str,
    given: Option<Duration>,
    default_ns: u64,
    most: Duration,
) -> Result<u64, Failure> {
    match given {
        None => Ok(default_ns),
        Some(time) if time <= most => Ok(time.as_nanos() as u64),
        Some(time) => {
            let what = format!("{option}: {time:?} is out of range: choose 0ns to {most:?}");
            Err(Failure::Usage(what))
        }
    }
}

fn scheme(text: &str) -> Result<Scheme, String> {
    text.parse().map_err(|error: linecard_transfer::fec::SchemeError| error.to_string())
}
