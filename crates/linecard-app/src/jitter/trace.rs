//! One stream under given conditions, with the kernel's activity meanwhile; and the cost of tracing.

use super::lab::{self, Stream, make_folder, stream_record};
use super::record::Record;
use crate::{Context, Error, Failure};
use garde::Validate;
use linecard_config::{Duration, Maybe, Parsed, Switch};
use linecard_jitter::linux::session::{Conditions, Receive, TestNetwork};
use linecard_jitter::linux::sink::SinkMode;
use linecard_jitter::linux::trace::cost::measure;
use linecard_report::{Report, Section, Value};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;

/// Packets without arguments: a second and a half.
const PACKETS: u64 = 200_000;

/// The conditions of the stream.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("x-flags" = true))]
#[garde(allow_unvalidated)]
pub struct Config {
    /// measure the cost of recording one event, with each facility, on the sink's core, and end
    pub cost: Switch,
    /// how the sink receives: poll, block, busy-poll, epoll, recvmmsg, io-uring
    pub mode: Parsed<SinkMode>,
    /// where the kernel processes received packets: sender, on its core (of a remote sender, where the interface does);
    /// sink, on its core; thread:CORE, in a kernel thread on that core; interrupt:CORE, in the interface's interrupts there
    #[default(Parsed(Receive::Sender))]
    pub receive: Parsed<Receive>,
    /// put polls off until a timer of this period
    pub defer: Option<Duration>,
    /// priority of sender and sink in the real-time class FIFO
    #[garde(range(min = 1, max = 99))]
    #[schemars(extend("x-value" = "N", "x-default" = "50 where both have a core of their own"))]
    pub fifo: Option<Maybe<u8>>,
    /// whether all cores are kept awake
    pub awake: Awake,
    /// The stream.
    #[garde(dive)]
    pub stream: Stream,
    /// keep the result in this folder, for `linecard jitter report`
    #[schemars(extend("x-value" = "DIR"))]
    pub output: Option<String>,
}

/// Whether cores are kept awake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Awake {
    /// they do not sleep
    #[default]
    Yes,
    /// they sleep as they do otherwise
    No,
}

/// Measures the stream once.
///
/// # Errors
///
/// Sockets that cannot be opened; a folder that cannot be written.
pub fn run(config: &Config, context: &Context<'_>) -> Result<Record, Error> {
    let folder = config.output.as_ref().map(|folder| context.path_of("output", folder));
    if let Some(folder) = &folder {
        make_folder(folder)?;
    }
    let (place, why) = config.stream.place(context)?;
    let conditions = config.conditions(&place);
    let mut record = stream_record(&place, &conditions, context)?;
    "one stream".clone_into(&mut record.title);
    record.remarks.extend(lab::restored(&place)?.into_iter().chain(why));
    if let Some(folder) = &folder {
        lab::keep(folder, &record)?;
    }
    Ok(record)
}

impl Config {
    fn conditions(&self, place: &TestNetwork) -> Conditions {
        let base = self.stream.base(PACKETS, place);
        let fifo = |base: Option<u8>| self.fifo.map_or(base, |Maybe(fifo)| fifo);
        Conditions {
            mode: self.mode.0,
            receive: self.receive.0,
            deferral: self.defer.map(std::time::Duration::from),
            sender_fifo: fifo(base.sender_fifo),
            sink_fifo: fifo(base.sink_fifo),
            is_awake: self.awake == Awake::Yes,
            is_counted: true,
            ..base
        }
    }
}

/// Cost of recording one event with each facility, on the core of the stream's sink.
///
/// # Errors
///
/// A kernel whose time cannot be measured so.
pub fn cost(config: &Config) -> Result<Report, Error> {
    let core = config.stream.base(PACKETS, &TestNetwork::Loopback).cores.sink;
    let costs = measure(core).map_err(|error| Failure::Attach.with(error))?;
    let mut report = Report::new("jitter trace");
    let mut conditions = Section::new("measured", "Cost of recording an event");
    conditions.add("core", "on core", Value::Count(costs.core.into()));
    conditions.add("rounds", "rounds", Value::Count(costs.rounds as u64));
    conditions.add("calls", "calls of a round", Value::Count(costs.calls as u64));
    conditions.add("call_ns", "a call without recording", Value::Ns(costs.call_ns));
    report.push(conditions);
    let mut section = Section::new("cost_ns", "More for each event, median of rounds");
    for (recording, cost) in &costs.of {
        let value = match cost {
            Ok(ns) => Value::Ns(*ns),
            Err(error) => Value::Text(error.to_string()),
        };
        section.add(recording.name(), recording.title(), value);
    }
    report.push(section);
    Ok(report)
}
