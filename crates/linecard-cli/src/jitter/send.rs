//! `linecard jitter send`: a stream of constant rate.

use super::placement::{PlacementArguments, refused};
use super::{figures, rows};
use crate::account;
use crate::failure::{EXIT_CODES, Failure};
use crate::signals::signals;
use crate::units;
use clap::Args;
use clap::builder::{PathBufValueParser, TypedValueParser};
use linecard_jitter::linux::clock::Wait;
use linecard_jitter::linux::generator::{
    Departures, Gap, Generator, GeneratorConfig, GeneratorError, Quality,
};
use linecard_jitter::linux::preset::{PRESETS, Preset};
use linecard_report::{Report, Section, Value};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct SendArguments {
    /// Where to: `192.0.2.1:5004`, `[2001:db8::1]:5004`.
    #[arg(value_name = "ADDRESS:PORT")]
    target: SocketAddr,
    /// Known stream to be like, as `st2022-6:1080i59.94`; a wrong one lists all
    /// [default: st2022-6:1080i59.94].
    #[arg(long, value_name = "NAME", value_parser = preset)]
    format: Option<&'static Preset>,
    /// Time from packet to packet, 1ps to 1h, in place of the format's.
    #[arg(long, value_name = "TIME", value_parser = units::period_ps)]
    period: Option<u64>,
    /// Bytes of UDP payload, 48 to 65507, in place of the format's.
    #[arg(long, value_name = "BYTES", value_parser = units::bytes)]
    payload: Option<usize>,
    /// Packets, 1 to 100M [default: 1M].
    #[arg(long, value_name = "N", value_parser = units::many, conflicts_with = "duration")]
    count: Option<u64>,
    /// How long to send, in place of a number of packets.
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    duration: Option<Duration>,
    /// Where from [default: any address and port].
    #[arg(long, value_name = "ADDRESS:PORT")]
    bind: Option<SocketAddr>,
    /// Sleep until shortly before each packet; without it, the sender reads the clock all the time.
    #[arg(long)]
    sleep: bool,
    #[command(flatten)]
    placement: PlacementArguments,
    /// Write each packet's number, when it was due and when it was sent (0: refused), as CSV; `-` is
    /// stdout.
    #[arg(long, value_name = "FILE", value_parser = PathBufValueParser::new().map(units::output))]
    output: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// A format by its name.
fn preset(name: &str) -> Result<&'static Preset, String> {
    Preset::named(name).ok_or_else(|| {
        let names: Vec<&str> = PRESETS.iter().map(|preset| preset.name).collect();
        format!("\"{name}\" is no format: take one of {}", names.join(", "))
    })
}

/// Runs the command.
pub(crate) fn command(arguments: &SendArguments) -> Result<(), Failure> {
    let generator = Generator::open(arguments.config()).map_err(|error| failure(&error))?;
    let departures = generator.run(&*signals()?).map_err(|error| failure(&error))?;
    if let Some(path) = &arguments.output {
        let numbered = (0_u64..).zip(&departures.sent_ns);
        let lines = numbered.map(|(n, sent_ns)| [n, departures.due_ns(n), *sent_ns]);
        rows::write(path, "sequence,due_ns,sent_ns", lines)?;
    }
    let report = report(&departures, &arguments.placement);
    account::print(&report, arguments.json, arguments.output.as_deref())
}

impl SendArguments {
    fn config(&self) -> GeneratorConfig {
        let mut config = GeneratorConfig::new(self.target);
        if let Some(preset) = self.format {
            config = config.like(preset);
        }
        if let Some(period_ps) = self.period {
            (config.period_ps, config.gap) = (period_ps, Gap::NONE);
        }
        config.payload_len = self.payload.unwrap_or(config.payload_len);
        config.bind = self.bind;
        config.wait = if self.sleep { Wait::Sleep } else { Wait::Spin };
        config.placement = self.placement.placement();
        let count = self.duration.map(|duration| config.packets_in(duration));
        config.count = self.count.or(count).unwrap_or(config.count);
        config
    }
}

fn failure(error: &GeneratorError) -> Failure {
    match error {
        GeneratorError::Placement(error) => refused(error),
        GeneratorError::Bind { .. } | GeneratorError::Connect { .. } => {
            Failure::Attach(error.to_string())
        }
        _ => Failure::Usage(error.to_string()),
    }
}

fn report(departures: &Departures, placement: &PlacementArguments) -> Report {
    let mut report = Report::new("jitter send");
    let sent: Vec<u64> = departures.sent_ns.iter().copied().filter(|ns| *ns > 0).collect();
    let seconds = sent.first().zip(sent.last());
    let seconds = seconds.map_or(0.0, |(first, last)| last.saturating_sub(*first) as f64 / 1e9);
    let mut stream = Section::new("stream", "Stream");
    stream.add("packets", "packets sent", Value::Count(sent.len() as u64));
    stream.add("refused", "refused by the kernel", Value::Count(departures.refused));
    stream.add("seconds", "in", Value::Seconds(seconds));
    report.push(stream);
    let late = figures::sorted(departures.lateness_ns());
    report.push(figures::quantiles("lateness", "Lateness of packets", &late));
    let gaps = figures::gaps(sent.into_iter());
    report.push(figures::quantiles("gaps", "Gaps between packets", &gaps));
    report.push(figures::spikes(&gaps, departures.schedule.period_ps, seconds));
    report.push(gate(&departures.quality(None)));
    report.push(figures::host(departures.switches));
    if let Some(error) = departures.last_error {
        let error = std::io::Error::from_raw_os_error(error);
        report.note(format!("The kernel refused packets; the last time it said: {error}."));
    }
    placement.warn(&mut report, seconds);
    report
}

fn gate(quality: &Quality) -> Section {
    let mut gate = Section::new("gate", "Whether the stream is good enough to judge a receiver by");
    let (late, limit) = (quality.lateness_p999_ns as f64, quality.limits.lateness_ns as f64);
    gate.add("lateness_p999_ns", "p99.9 of lateness", Value::Ns(late));
    gate.add("lateness_limit_ns", "which may be", Value::Ns(limit));
    gate.add("burst", "fullest bucket, packets (2110-21 style)", Value::Number(quality.burst));
    gate.add("burst_limit", "which may be (wide)", Value::Number(quality.limits.burst));
    gate.add("passes", "good enough", Value::Flag(quality.passes));
    gate
}
