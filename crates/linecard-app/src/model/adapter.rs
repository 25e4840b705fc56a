//! An adapter whose device fetches payload from host memory, or one that stores it first:
//! [`linecard_model::adapter`].

use super::account::{Conserved, draw_busy, limit, ratio, word};
use super::error::ModelError;
use crate::{Context, Error, Job};
use linecard_config::{ConfigError, Rate};
use linecard_model::adapter::{
    AdapterError, AdapterResults, Config, HEADERS, Mismatch, segments, simulate,
};
use linecard_report::{BitRate, ByteCount, Nanoseconds, Page, Share};
use schemars::JsonSchema;
use serde::Serialize;

/// Preamble, CRC and gap.
const WIRE_BYTES: u64 = 24;

/// The job.
#[derive(Debug)]
pub struct AdapterModel;

/// The outcome of a run.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct AdapterOutcome {
    /// Frames and bytes
    pub account: Account,
    /// Rates
    pub rates: Rates,
    /// Utilisation, as a share of the time
    pub busy: Busy,
    #[serde(skip)]
    title: String,
    #[serde(skip)]
    is_part: bool,
    #[serde(skip)]
    mismatch: Option<Mismatch>,
}

/// Frames: in is out, dropped and held together; and bytes by where they went.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Account {
    /// In, out, dropped and held.
    #[serde(flatten)]
    pub conserved: Conserved,
    /// accesses outside both windows
    pub faults: u64,
    /// payload, out
    pub payload_out: ByteCount,
    /// over the host bus
    pub host_bus_bytes: ByteCount,
    /// through embedded memory
    pub embedded_bytes: ByteCount,
    /// payload among them
    pub embedded_payload_bytes: ByteCount,
    /// virtual time
    pub ns: Nanoseconds,
}

/// Rates.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Rates {
    /// payload
    pub bits_per_second: BitRate,
    /// until the first frame has left
    pub first_frame_ns: Nanoseconds,
}

/// Shares of the time: bytes and frames times what each takes.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Busy {
    /// Ethernet
    pub wire_busy: Share,
    /// host bus
    pub host_bus_busy: Share,
    /// embedded memory
    pub embedded_busy: Share,
    /// firmware's core
    pub core_busy: Share,
    /// bottleneck
    pub limit: String,
}

impl Job for AdapterModel {
    const NAME: &'static str = "adapter";
    const COMMAND: &'static str = super::COMMAND;
    type Config = Config;
    type Outcome = AdapterOutcome;

    fn title(_: &Config) -> String {
        super::title(Self::NAME)
    }

    fn draw(outcome: &AdapterOutcome, page: &mut Page) {
        draw_busy(outcome, &outcome.busy.limit, page);
    }

    fn run(config: &Config, _: &Context<'_>) -> Result<AdapterOutcome, Error> {
        linecard_config::check(config)?;
        let messages = config.load.all();
        let expected = segments(&messages, config.adapter.mtu).map_err(ModelError::Segment)?;
        let outcome = simulate(config, &messages).map_err(|error| match error {
            AdapterError::Config(error) => error,
            error => ConfigError::of_parameter("load.size", error),
        })?;
        Ok(AdapterOutcome {
            account: Account::new(&outcome, expected.len() as u64),
            rates: Rates {
                bits_per_second: BitRate(outcome.bps()),
                first_frame_ns: Nanoseconds(outcome.first.0 as f64 / 1e3),
            },
            busy: Busy::new(config, &outcome),
            title: format!(
                "{}, {} messages, MTU {}",
                word(config.adapter.kind),
                config.load.messages,
                config.adapter.mtu
            ),
            is_part: is_part(&outcome.frames, &expected),
            mismatch: outcome.mismatch,
        })
    }

    fn check(outcome: &AdapterOutcome) -> Result<(), Error> {
        if let Some(mismatch) = outcome.mismatch {
            return Err(ModelError::Frame(mismatch).into());
        }
        outcome.account.conserved.check(outcome.is_part)
    }
}

impl linecard_report::Outcome for AdapterOutcome {
    fn title(&self, section: &str) -> Option<String> {
        (section == "account").then(|| self.title.clone())
    }

    fn label(&self, section: &str, key: &str) -> Option<String> {
        Conserved::frames(section, key)
    }

    fn notes(&self) -> Vec<String> {
        let note = "Every frame that left equals the output of this project's offload.";
        AdapterModel::check(self).ok().map(|()| note.to_owned()).into_iter().collect()
    }
}

/// Whether all of `sent` are in `expected`, in this order.
fn is_part(sent: &[Vec<u8>], expected: &[Vec<u8>]) -> bool {
    let mut left = expected.iter();
    sent.iter().all(|frame| left.any(|other| other == frame))
}

impl Account {
    fn new(outcome: &AdapterResults, expected: u64) -> Self {
        let sent = outcome.frames.len() as u64;
        // A message that cannot be fetched is one drop, of all its frames.
        let dropped = if outcome.dropped > 0 { expected.saturating_sub(sent) } else { 0 };
        Self {
            conserved: Conserved { came: expected, went: sent, dropped, held: 0 },
            faults: outcome.faults,
            payload_out: ByteCount(outcome.payload_bytes),
            host_bus_bytes: ByteCount(outcome.host_bus_bytes),
            embedded_bytes: ByteCount(outcome.embedded_bytes),
            embedded_payload_bytes: ByteCount(outcome.embedded_payload_bytes),
            ns: Nanoseconds(outcome.last.0 as f64 / 1e3),
        }
    }
}

impl Busy {
    fn new(config: &Config, outcome: &AdapterResults) -> Self {
        let seconds = outcome.last.as_secs_f64();
        let share = |bytes: u64, rate: Rate| {
            ratio(bytes as f64 * 8.0 / rate.bits_per_second() as f64, seconds)
        };
        let frames = outcome.frames.len() as u64;
        let bytes = outcome.payload_bytes + frames * (HEADERS as u64 + WIRE_BYTES);
        let wire = share(bytes, config.adapter.wire);
        let host_bus = share(outcome.host_bus_bytes, config.host.bus);
        let embedded = share(outcome.embedded_bytes, config.adapter.embedded);
        let core = ratio(outcome.core_cycles as f64 / config.firmware.mhz.hz() as f64, seconds);
        Self {
            wire_busy: Share(wire),
            host_bus_busy: Share(host_bus),
            embedded_busy: Share(embedded),
            core_busy: Share(core),
            limit: limit(&[
                ("Ethernet", wire),
                ("host bus", host_bus),
                ("embedded memory", embedded),
                ("firmware's core", core),
            ]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linecard::progress::Progress;
    use std::sync::Arc;

    #[test]
    fn a_wrong_answer_of_the_firmware_ends_the_run() {
        let progress = Arc::new(Progress::new());
        let context = Context { progress: &progress, document: None };
        let found = AdapterModel::run(&Config::default(), &context);
        let mut outcome = found.unwrap_or_else(|why| panic!("{why}"));
        assert!(AdapterModel::check(&outcome).is_ok());
        let wrong = Mismatch { frame: 3, field: "deliveries", expected: 1, got: 0 };
        outcome.mismatch = Some(wrong);
        let said = AdapterModel::check(&outcome).expect_err("wrong firmware").to_string();
        assert_eq!(said, "the firmware is wrong: frame 3: deliveries: expected 1, got 0");
    }
}
