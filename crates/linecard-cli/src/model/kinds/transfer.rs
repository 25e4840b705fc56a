//! A transfer over many lanes, by both of its real ends: what `linecard run --lanes sim` runs.

use super::super::key::{Key, Kind};
use super::super::scenario::Scenario;
use super::super::values::{within, word};
use super::{Model, Ran, number, put_bytes, put_rate, put_time};
use crate::failure::Failure;
use crate::mode;
use crate::run::sim::{self, MAX_PACKETS, Spec};
use crate::units;
use linecard_model::Ps;
use linecard_transfer::fec::SchemeError;

/// All that there is to decide.
#[derive(Debug, Clone, Default)]
pub(super) struct Settings {
    of: Spec,
}

impl Kind for Settings {
    const NAME: &'static str = "transfer";
    const KEYS: &'static [Key<Self>] = &[
        number!("lanes.count", of.lanes, 1 to 64, 8, "lanes"),
        Key {
            name: "lanes.rate",
            what: "bits per second of each, framing included, \"1M\" to \"1T\" [10G]",
            set: |to, text| {
                put_rate(text, &mut to.of.rate_bps)?;
                let low_enough = within(to.of.rate_bps, 1_000_000..=1_000_000_000_000);
                low_enough.map(drop).map_err(|_| format!("{text}: choose 1M to 1T"))
            },
        },
        Key {
            name: "lanes.delay",
            what: "of a lane, one way, \"0us\" to \"100ms\" [5us]",
            set: |to, text| put_ns(text, "100ms", &mut to.of.delay_ns),
        },
        number!("lanes.framing", of.framing_bytes, 0 to 1000, 38,
            "bytes on the line beside data, header and seal"),
        Key {
            name: "lanes.loss",
            what: "share of packets that a lane loses, as 0.01 or \"1%\" [0]",
            set: |to, text| put_share(text, &mut to.of.faults.loss),
        },
        Key {
            name: "lanes.duplicate",
            what: "share that comes twice [0]",
            set: |to, text| put_share(text, &mut to.of.faults.duplicate),
        },
        Key {
            name: "lanes.reorder",
            what: "share that others overtake [0]",
            set: |to, text| put_share(text, &mut to.of.faults.reorder),
        },
        Key {
            name: "lanes.corrupt",
            what: "share that is refused, as a bit of it has changed [0]",
            set: |to, text| put_share(text, &mut to.of.faults.corrupt),
        },
        number!("chunk.count", of.chunks, 1 to 100000, 32, "chunks to send"),
        number!("chunk.under_way", of.under_way, 1 to 64, 64,
            "of them at once, if the receiver has room"),
        Key {
            name: "chunk.bytes",
            what: "bytes of a chunk, 1 to 1G [16M]",
            set: |to, text| put_bytes(text, (1, 1 << 30), &mut to.of.chunk_bytes),
        },
        Key {
            name: "chunk.begin",
            what: "what a host loses for a chunk that begins on a lane, \"0us\" to \"1s\" [26us]",
            set: |to, text| put_ns(text, "1s", &mut to.of.begin_ns),
        },
        number!("packet.bytes", of.payload_bytes, 64 to 65000, 4096, "bytes of data in a packet"),
        Key {
            name: "transfer.mode",
            what: "each chunk whole on one lane (\"stable\"), over all lanes (\"low-latency\"), or by how \
                   many there are (\"auto\") [stable]",
            set: |to, text| word(text, &mode::names()).map(|mode| to.of.mode = mode),
        },
        Key {
            name: "transfer.fec",
            what: "what repairs lost packets: \"none\", \"xor:K\", \"rs:K,M\" or \"duplicate\" [none]",
            set: |to, text| {
                let scheme = text.parse().map_err(|error: SchemeError| error.to_string());
                scheme.map(|scheme| to.of.fec = scheme)
            },
        },
        number!("run.seed", of.seed, 0 to 18446744073709551615, 1, "of everything that is random"),
    ];
}

/// A share of packets.
fn put_share(text: &str, to: &mut f64) -> Result<(), String> {
    *to = units::probability(text)?;
    Ok(())
}

/// A time up to `most`, in whole nanoseconds.
fn put_ns(text: &str, most: &str, to: &mut u64) -> Result<(), String> {
    let mut time = Ps::ZERO;
    put_time(text, ("0us", most), &mut time)?;
    *to = time.as_ns();
    Ok(())
}

impl Model for Settings {
    fn run(scenario: &Scenario<Self>) -> Result<Ran, Failure> {
        let spec = &scenario.settings.of;
        let refuse = |what: String| scenario.refuse("chunk.count", &what);
        let packets = spec.packets().map_err(|error| refuse(error.to_string()))?;
        if packets > MAX_PACKETS {
            return Err(refuse(format!("{packets} packets in all: choose up to {MAX_PACKETS}")));
        }
        Ok(Ran { report: sim::found("model", spec)?.report, wrong: None })
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_default_that_is_told_is_the_default() {
        crate::model::key::check_defaults::<super::Settings>();
    }
}
