//! The regularity of a captured stream and the buffers that it needs; with two captures, the delay between them.

mod capture;
mod charts;
mod compare;
mod error;
mod media;
mod notes;
mod outcome;

pub use media::{Channels, CountRange, Levels, Media, Offset, Picture, Sampling, TimeSpread};
pub use outcome::{
    AnalyzeOutcome, Bounded, Buffers, CountPair, Drift, Join, Limits, ListedFlow, Mean, Occupancy,
    Period, Range, Rtp, Samples, Schedule, SideBySide, Sound, SpikeRate, Steps, StreamFigures,
    TimePair, Timing,
};

use crate::{Context, Error, Job};
use capture::{Candidate, Captured};
use error::AnalyzeError;
use garde::Validate;
use linecard_config::{ConfigError, Parsed};
use linecard_jitter::media::figures::Figures;
use linecard_jitter::media::flow::Kind;
use linecard_jitter::media::number::NumberField;
use linecard_jitter::media::st2022_6::Format;
use linecard_jitter::media::st2110;
use linecard_report::Page;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;
use std::path::Path;

/// The job.
#[derive(Debug)]
pub struct Analyze;

/// The stream to analyse.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("x-flags" = true))]
#[garde(allow_unvalidated)]
pub struct Config {
    /// capture to read, pcap or pcapng; - is stdin
    #[schemars(extend("x-argument" = "INPUT"))]
    pub input: String,
    /// a second capture of the same stream, from nearer to the application
    #[schemars(extend("x-argument" = "SECOND"))]
    pub second: Option<String>,
    /// the flow to take: its number in the list of flows, or its destination, as 239.0.1.2:50000; without it, the one
    /// with the most packets, streams first
    #[schemars(extend("x-value" = "N|ADDR:PORT"))]
    pub flow: Option<String>,
    /// where the packets of other protocols have a number that increases by one: offset and octets (1, 2 or 4) in the UDP
    /// payload, as 4:2, with :le behind if the least octet comes first; packets of all flows are read so
    #[schemars(extend("x-flag" = "number", "x-value" = "OFFSET:OCTETS"))]
    pub number: Option<Parsed<NumberField>>,
    /// the SDI format of an ST 2022-6 stream, as 1080i59.94; auto derives it from the payload header, or else from the
    /// period
    #[default("auto".to_owned())]
    pub format: String,
    /// sender type of ST 2110-21
    pub sender: Sender,
}

/// Sender type.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema, Validate,
)]
#[serde(rename_all = "lowercase")]
#[garde(allow_unvalidated)]
pub enum Sender {
    /// not known: figures are compared with both limits
    #[default]
    Unknown,
    /// type N or NL: as a device in hardware does
    Narrow,
    /// type W: as software does
    Wide,
}

impl Job for Analyze {
    const NAME: &'static str = "analyze";
    const COMMAND: &'static str = "jitter analyze";
    type Config = Config;
    type Outcome = AnalyzeOutcome;

    fn title(config: &Config) -> String {
        format!("A stream in {}", config.input)
    }

    fn run(config: &Config, context: &Context<'_>) -> Result<AnalyzeOutcome, Error> {
        let format = config.format()?;
        let path = context.path_of("input", &config.input);
        let number = config.number.map(|Parsed(field)| field);
        let first = capture::read(&path, number, context)?;
        let chosen = choose(&first, config, &path)?;
        let figures = figures(chosen, format, &path)?;
        let mut outcome = AnalyzeOutcome::new(config, &first, chosen, &figures);
        outcome.add_charts(
            if config.second.is_some() { "first" } else { "stream" },
            chosen,
            &figures,
        );
        if let Some(second) = &config.second {
            let path = context.path_of("second", second);
            let captured = capture::read(&path, number, context)?;
            let other = compare::counterpart(chosen, &captured, &path)?;
            let theirs = self::figures(other, format, &path)?;
            compare::add(&mut outcome, (chosen, &figures), (other, &theirs), &path)?;
            outcome.add_charts("second", other, &theirs);
            outcome.damage = outcome.damage.or(captured.damage);
        }
        Ok(outcome)
    }

    fn draw(outcome: &AnalyzeOutcome, page: &mut Page) {
        outcome.draw(page);
    }

    fn check(outcome: &AnalyzeOutcome) -> Result<(), Error> {
        match outcome.damage.clone() {
            Some((input, damage)) => Err(Error::Damaged { input, damage }),
            None => Ok(()),
        }
    }
}

impl Config {
    fn format(&self) -> Result<Option<Format>, ConfigError> {
        match self.format.as_str() {
            "auto" => Ok(None),
            name => Format::by_name(name)
                .map(Some)
                .map_err(|error| ConfigError::of_parameter("format", AnalyzeError::Format(error))),
        }
    }

    /// The limits that figures are compared with.
    fn limits(&self) -> &'static [st2110::Sender] {
        match self.sender {
            Sender::Unknown => &[st2110::Sender::Narrow, st2110::Sender::Wide],
            Sender::Narrow => &[st2110::Sender::Narrow],
            Sender::Wide => &[st2110::Sender::Wide],
        }
    }
}

/// The given flow, or the one with the most packets, streams first.
fn choose<'a>(
    capture: &'a Captured,
    config: &Config,
    input: &Path,
) -> Result<&'a Candidate, Error> {
    let Some(wanted) = &config.flow else {
        return capture.flows.first().ok_or_else(|| capture.nothing_found(input));
    };
    let by_number = wanted.parse::<usize>().ok().and_then(|n| capture.flows.get(n.checked_sub(1)?));
    let is_it = |found: &&Candidate| found.ends.1.to_string() == *wanted;
    by_number.or_else(|| capture.flows.iter().find(is_it)).ok_or_else(|| {
        let first = capture.flows.iter().take(5).map(|found| found.ends.1).collect();
        let (input, flows) = (input.to_owned(), capture.flows.len());
        let error = AnalyzeError::NoFlow { input, flows, first };
        ConfigError::of_parameter("flow", error).into()
    })
}

fn figures(found: &Candidate, format: Option<Format>, input: &Path) -> Result<Figures, Error> {
    let ((from, to), packets) = (found.ends, found.flow.len());
    let input = input.to_owned();
    let Some(figures) = Figures::of(&found.flow, format) else {
        return Err(AnalyzeError::FewPackets { input, from, to, packets }.into());
    };
    if figures.kind != Kind::Udp || figures.lateness.is_some() {
        return Ok(figures);
    }
    let others = found.flow.other_sources();
    if 2 * others > packets {
        return Err(AnalyzeError::ManySources { input, from, to, packets, others }.into());
    }
    Err(AnalyzeError::NoSchedule { input, from, to, packets }.into())
}
