//! Bulk data over several lanes: [`linecard_model::lanes`].

use super::super::key::{Key, Kind};
use super::super::scenario::Scenario;
use super::super::values::{rate, word};
use super::{Account, Model, Part, Ran, limits, number, put_bytes, put_rate, ratio, time};
use crate::failure::Failure;
use crate::watch;
use linecard_model::lanes::{Config, ConfigError, Outcome, Spreading, simulate_watched};
use linecard_report::{Report, Section, Value};

const SPREADINGS: [(&str, Spreading); 2] =
    [("chunk-per-lane", Spreading::ChunkPerLane), ("chunk-over-all", Spreading::ChunkOverAll)];
/// Packets of a run, so that it ends in a minute.
const MAX_PACKETS: u64 = 100_000_000;
/// Virtual time of a run, in seconds: far below what a number of picoseconds holds.
const MAX_SECONDS: u64 = 1_000_000;

/// All that there is to decide.
#[derive(Debug, Clone)]
pub(super) struct Settings {
    of: Config,
    chunks: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self { of: Config::default(), chunks: 64 }
    }
}

impl Kind for Settings {
    const NAME: &'static str = "lanes";
    const KEYS: &'static [Key<Self>] = &[
        number!("lanes.count", of.lanes, 1 to 64, 8, "lanes, each with a core"),
        Key {
            name: "lanes.rate",
            what: "bits per second of each, \"1K\" to \"1T\" [10G]",
            set: |to, text| put_rate(text, &mut to.of.lane_bps),
        },
        Key {
            name: "lanes.spreading",
            what: "each lane has chunks of its own (\"chunk-per-lane\"), or all carry one \
                   (\"chunk-over-all\") [chunk-per-lane]",
            set: |to, text| word(text, &SPREADINGS).map(|way| to.of.spreading = way),
        },
        Key {
            name: "chunk.bytes",
            what: "bytes of a chunk, 1 to 4G [16M]",
            set: |to, text| put_bytes(text, (1, 1 << 32), &mut to.of.chunk_bytes),
        },
        time!("chunk.begin", of.per_chunk, "0us" to "1s", "68us",
            "what a lane loses for a chunk that begins"),
        time!("chunk.between", of.between, "0us" to "1s", "34us",
            "what all lanes wait between two chunks that go over all"),
        number!("packet.bytes", of.packet_bytes, 1 to 65536, 4096, "bytes of data in a packet"),
        number!("packet.overhead", of.overhead_bytes, 0 to 65536, 64,
            "bytes on the wire beside it"),
        time!("core.packet", of.core, "0ns" to "1ms", "2500ns", "what a core needs for a packet"),
        Key {
            name: "fec.rate",
            what: "bits per second that the device shared by all lanes passes, \"1K\" to \"100T\", or \
                   \"unlimited\": none is there [unlimited]",
            set: |to, text| rate(text).map(|rate| to.of.fec_bps = rate),
        },
        number!("load.chunks", chunks, 1 to 1000000, 64, "chunks to send"),
    ];
}

impl Model for Settings {
    fn run(scenario: &Scenario<Self>) -> Result<Ran, Failure> {
        let Self { of, chunks } = &scenario.settings;
        let packets = chunks.saturating_mul(of.chunk_bytes.div_ceil(of.packet_bytes));
        if packets > MAX_PACKETS {
            let what = format!("{packets} packets in all: choose up to {MAX_PACKETS}");
            return Err(scenario.refuse("load.chunks", &what));
        }
        let bytes = chunks * of.chunk_bytes + packets * of.overhead_bytes;
        let slowest = of.fec_bps.unwrap_or(u64::MAX).min(of.lane_bps);
        if bytes.saturating_mul(8) / slowest.max(1) > MAX_SECONDS {
            let what = format!("these take more than {MAX_SECONDS} s on a lane: choose less");
            return Err(scenario.refuse("load.chunks", &what));
        }
        let refuse = |error| scenario.refuse(key_of(&error), &error.to_string());
        let outcome = simulate_watched(of, *chunks, &watch::any()).map_err(refuse)?;
        Ok(report(&scenario.settings, &outcome))
    }
}

/// The key whose value an error is about.
fn key_of(error: &ConfigError) -> &'static str {
    match error.name {
        "lanes" => "lanes.count",
        "lane_bps" => "lanes.rate",
        "packet_bytes" => "packet.bytes",
        "chunk_bytes" => "chunk.bytes",
        _ => "fec.rate",
    }
}

fn report(settings: &Settings, outcome: &Outcome) -> Ran {
    let Settings { of, chunks } = settings;
    let title = format!(
        "{} chunks of {} over {} lanes of {}",
        chunks,
        Value::Bytes(of.chunk_bytes),
        of.lanes,
        Value::BitRate(of.lane_bps as f64),
    );
    let parts = [chunks * of.chunk_bytes, outcome.bytes, 0, 0];
    let mut account = Account::new(title, "bytes of data", parts);
    let wrong = account.wrong(true);
    account.section.add("ns", "virtual time", Value::Ns(outcome.time.0 as f64 / 1e3));
    let mut rates = Section::new("rates", "Rates");
    rates.add("bits_per_second", "data", Value::BitRate(outcome.bps()));
    let all = of.lane_bps as f64 * of.lanes as f64;
    rates.add("lanes_share", "share of all lanes", Value::Share(ratio(outcome.bps(), all)));
    let latency = Value::Ns(outcome.chunk_latency.0 as f64 / 1e3);
    rates.add("chunk_latency_ns", "first to last bit of a chunk, on average", latency);
    let mut report = Report::new("model");
    report.push(account.section);
    report.push(rates);
    report.push(busy(settings, outcome));
    Ran { report, wrong }
}

/// Packets times what each takes; what lies between chunks is the wires'.
fn busy(Settings { of, chunks }: &Settings, outcome: &Outcome) -> Section {
    let seconds = outcome.time.as_secs_f64();
    let (lanes, count) = (of.lanes as f64, *chunks as f64);
    let packets = match of.spreading {
        Spreading::ChunkPerLane => chunks * of.chunk_bytes.div_ceil(of.packet_bytes),
        Spreading::ChunkOverAll => {
            let share = of.chunk_bytes.div_ceil(of.lanes as u64);
            chunks * of.lanes as u64 * share.div_ceil(of.packet_bytes)
        }
    } as f64;
    let wire = (outcome.bytes as f64 + packets * of.overhead_bytes as f64) * 8.0;
    let begin = count * of.per_chunk.as_secs_f64() / lanes;
    let between = match of.spreading {
        Spreading::ChunkOverAll if of.lanes > 1 => count * of.between.as_secs_f64(),
        _ => 0.0,
    };
    let core = packets * of.core.as_secs_f64();
    let mut shares: Vec<Part> = vec![
        ("wire_busy", "wires", ratio(wire, of.lane_bps as f64 * lanes * seconds)),
        ("core_busy", "cores", ratio(core, lanes * seconds)),
        ("between_busy", "beginning of chunks", ratio(begin + between, seconds)),
    ];
    if let Some(fec) = of.fec_bps {
        let time = outcome.bytes as f64 * 8.0 / fec as f64;
        shares.push(("fec_busy", "device for error correction", ratio(time, seconds)));
    }
    limits(&shares, &[])
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_default_that_is_told_is_the_default() {
        crate::model::key::check_defaults::<super::Settings>();
    }
}
