//! A stream of constant rate, sent on an absolute schedule.

use super::distribution::Distributions;
use super::error::JitterError;
use super::figures::{Spikes, Thread, Times, gaps, sorted};
use super::placement::{Placement, refused};
use super::rows;
use crate::{Context, Error, Failure, Job};
use garde::Validate;
use linecard_config::{Bytes, ConfigError, Count, Duration, Parsed, Switch};
use linecard_jitter::linux::clock::Wait;
use linecard_jitter::linux::generator::{
    Departures, Gap, Generator, GeneratorConfig, GeneratorError, MAX_COUNT, MAX_PAYLOAD, Quality,
};
use linecard_jitter::linux::preset::{PRESETS, Preset};
use linecard_jitter::stream::probe::MIN_LEN;
use linecard_report::{Nanoseconds, Page, Seconds};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;
use std::net::SocketAddr;

/// The job.
#[derive(Debug)]
pub struct Send;

/// A stream of constant rate.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("x-flags" = true))]
#[garde(allow_unvalidated)]
pub struct Config {
    /// destination, as `192.0.2.1:5004` or `[2001:db8::1]:5004`
    #[schemars(extend("x-argument" = "ADDRESS:PORT"))]
    pub target: String,
    /// the known format of the stream; an unknown name lists all
    #[default(PRESETS[0].name.to_owned())]
    pub format: String,
    /// time from packet to packet, in place of the format's
    #[garde(range(min = Duration::from_ps(1), max = Duration::from_secs(3_600)))]
    pub period: Option<Duration>,
    /// bytes of UDP payload, in place of the format's
    #[garde(range(min = Bytes::new(MIN_LEN as u64), max = Bytes::new(MAX_PAYLOAD as u64)))]
    pub payload: Option<Bytes>,
    /// packets
    #[default(Count::new(1_000_000))]
    #[garde(range(min = Count::new(1), max = Count::new(MAX_COUNT)))]
    pub count: Count,
    /// how long to send, in place of a number of packets
    #[schemars(extend("x-conflicts" = ["count"]))]
    pub duration: Option<Duration>,
    /// local address and port
    #[schemars(extend("x-value" = "ADDRESS:PORT", "x-default" = "any address and port"))]
    pub bind: Option<Parsed<SocketAddr>>,
    /// sleep until shortly before each packet; without it, the sender reads the clock all the time
    pub sleep: Switch,
    /// Where the sender runs.
    #[garde(dive)]
    pub placement: Placement,
    /// file for each packet's number, due time and send time (0: refused), as CSV; `-` is stdout
    #[schemars(extend("x-value" = "FILE"))]
    pub output: Option<String>,
}

/// How well the schedule was kept.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct SendOutcome {
    /// Stream
    pub stream: Stream,
    /// Lateness of packets
    pub lateness: Times,
    /// Gaps between packets
    pub gaps: Times,
    /// Spikes (gaps of more than two periods)
    pub spikes: Spikes,
    /// Whether the stream is good enough to judge a receiver by
    pub gate: Gate,
    /// The measuring thread
    pub thread: Thread,
    #[serde(skip)]
    distributions: Distributions,
    #[serde(skip)]
    notes: Vec<String>,
}

/// Packets of the stream.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Stream {
    /// packets sent
    pub packets: u64,
    /// refused by the kernel
    pub refused: u64,
    /// in
    pub seconds: Seconds,
}

/// Limits of the stream, and whether it keeps them.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Gate {
    /// p99.9 of lateness
    pub lateness_p999_ns: Nanoseconds,
    /// which may be
    pub lateness_limit_ns: Nanoseconds,
    /// fullest bucket, packets (2110-21 style)
    pub burst: f64,
    /// which may be (wide)
    pub burst_limit: f64,
    /// good enough
    pub passes: bool,
}

impl Job for Send {
    const NAME: &'static str = "send";
    const COMMAND: &'static str = "jitter send";
    type Config = Config;
    type Outcome = SendOutcome;

    fn title(config: &Config) -> String {
        format!("A stream to {}", config.target)
    }

    fn draw(outcome: &SendOutcome, page: &mut Page) {
        outcome.distributions.draw(page);
    }

    fn run(config: &Config, context: &Context<'_>) -> Result<SendOutcome, Error> {
        let generator = Generator::open(config.generator()?).map_err(failure)?;
        let departures = generator.run(context.progress.stop_flag()).map_err(failure)?;
        if let Some(output) = &config.output {
            let numbered = (0_u64..).zip(&departures.sent_ns);
            let lines = numbered.map(|(n, sent_ns)| [n, departures.due_ns(n), *sent_ns]);
            rows::write(&context.path_of("output", output), "sequence,due_ns,sent_ns", lines)?;
        }
        Ok(SendOutcome::new(&departures, config.placement))
    }
}

impl Config {
    fn generator(&self) -> Result<GeneratorConfig, ConfigError> {
        let refuse = |parameter, error| Err(ConfigError::of_parameter(parameter, error));
        let Ok(target) = self.target.parse() else {
            return refuse("target", JitterError::NoTarget);
        };
        let Some(preset) = Preset::named(&self.format) else {
            return refuse("format", JitterError::NoFormat { name: self.format.clone() });
        };
        let mut config = GeneratorConfig::new(target).like(preset);
        if let Some(period) = self.period {
            (config.period_ps, config.gap) = (period.as_ps(), Gap::NONE);
        }
        if let Some(payload) = self.payload {
            config.payload_len = payload.get() as usize;
        }
        config.bind = self.bind.map(|Parsed(address)| address);
        config.wait = if self.sleep.0 { Wait::Sleep } else { Wait::Spin };
        config.placement = self.placement.placement();
        let count = self.duration.map(|duration| config.packets_in(duration.into()));
        config.count = count.unwrap_or_else(|| self.count.get());
        Ok(config)
    }
}

fn failure(error: GeneratorError) -> Error {
    match error {
        GeneratorError::Placement(error) => refused(error),
        GeneratorError::Bind { .. } | GeneratorError::Connect { .. } => Failure::Attach.with(error),
        _ => Failure::Usage.with(error),
    }
}

impl SendOutcome {
    fn new(departures: &Departures, placement: Placement) -> Self {
        let sent: Vec<u64> = departures.sent_ns.iter().copied().filter(|ns| *ns > 0).collect();
        let seconds = sent.first().zip(sent.last());
        let seconds = seconds.map_or(0.0, |(first, last)| last.saturating_sub(*first) as f64 / 1e9);
        let packets = sent.len() as u64;
        let gaps = gaps(sent.into_iter());
        let refused = departures.last_error.map(|error| {
            let error = std::io::Error::from_raw_os_error(error);
            format!("The kernel refused packets; the last error was: {error}.")
        });
        let late = sorted(departures.lateness_ns());
        let mut distributions = Distributions::new("packets");
        distributions.add_gaps("sent", &gaps);
        distributions.add_lateness("sent", &late);
        Self {
            stream: Stream { packets, refused: departures.refused, seconds: Seconds(seconds) },
            lateness: Times::of(&late),
            spikes: Spikes::of(&gaps, departures.schedule.period_ps, seconds),
            gaps: Times::of(&gaps),
            gate: Gate::new(&departures.quality(None)),
            thread: Thread::new(departures.switches),
            distributions,
            notes: refused.into_iter().chain(placement.note(seconds)).collect(),
        }
    }
}

impl Gate {
    fn new(quality: &Quality) -> Self {
        Self {
            lateness_p999_ns: Nanoseconds(quality.lateness_p999_ns as f64),
            lateness_limit_ns: Nanoseconds(quality.limits.lateness_ns as f64),
            burst: quality.burst,
            burst_limit: quality.limits.burst,
            passes: quality.passes,
        }
    }
}

impl linecard_report::Outcome for SendOutcome {
    fn text(&self, section: &str, key: &str) -> Option<String> {
        match section {
            "gaps" => self.gaps.text(key),
            "lateness" => self.lateness.text(key),
            _ => self.spikes.text(),
        }
    }

    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }
}
