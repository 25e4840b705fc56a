//! `linecard jitter trace`: one stream under given conditions, with all that the kernel did meanwhile;
//! or what tracing costs.

use super::lab::{ShownArguments, StreamArguments, stream_record};
use super::sink::mode;
use crate::account;
use crate::failure::{EXIT_CODES, Failure};
use crate::signals::signals;
use crate::units;
use clap::Args;
use linecard_jitter::linux::session::{Conditions, Receive};
use linecard_jitter::linux::sink::SinkMode;
use linecard_jitter::linux::trace::cost::{Costs, measure};
use linecard_report::{Report, Section, Value};
use std::time::Duration;

/// Packets without arguments: a second and a half.
const PACKETS: u64 = 200_000;

#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct TraceArguments {
    /// Measure what it costs to record one event, by each means, on the sink's core, and end.
    #[arg(long)]
    cost: bool,
    /// How the sink receives: poll, block, busy-poll, epoll, recvmmsg, io-uring [default: poll].
    #[arg(long, value_name = "MODE", value_parser = mode)]
    mode: Option<SinkMode>,
    /// Where packets come up: sender, on its core; sink, on its core; thread:CORE, in a thread of the
    /// kernel's there [default: sink].
    #[arg(long, value_name = "WHERE", value_parser = receive)]
    receive: Option<Receive>,
    /// Put polls off until a timer of this period.
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    defer: Option<Duration>,
    /// Priority of sender and sink in the real-time class FIFO, 1 to 99, or none [default: 50].
    #[arg(long, value_name = "N", value_parser = fifo)]
    fifo: Option<Fifo>,
    /// Whether all cores are kept awake: yes or no [default: yes].
    #[arg(long, value_name = "YES|NO", value_parser = yes_no)]
    awake: Option<bool>,
    #[command(flatten)]
    stream: StreamArguments,
    #[command(flatten)]
    shown: ShownArguments,
}

/// A priority, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Fifo(Option<u8>);

fn fifo(text: &str) -> Result<Fifo, String> {
    if text == "none" {
        return Ok(Fifo(None));
    }
    let priority = text.parse().ok().filter(|priority| (1..=99).contains(priority));
    priority
        .map(|priority| Fifo(Some(priority)))
        .ok_or_else(|| format!("\"{text}\" is no priority: take one from 1 to 99, or none"))
}

fn receive(text: &str) -> Result<Receive, String> {
    match (text, text.strip_prefix("thread:")) {
        ("sender", _) => Ok(Receive::Sender),
        ("sink", _) => Ok(Receive::Sink),
        (_, Some(core)) => {
            let core = core.parse().map_err(|_| format!("\"{core}\" is no core's number"))?;
            Ok(Receive::Thread { core })
        }
        _ => Err(format!("packets cannot come up at \"{text}\": take sender, sink or thread:CORE")),
    }
}

fn yes_no(text: &str) -> Result<bool, String> {
    match text {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err(format!("\"{text}\" is neither yes nor no")),
    }
}

/// Runs the command.
pub(crate) fn command(arguments: &TraceArguments) -> Result<(), Failure> {
    let base = arguments.stream.base(PACKETS)?;
    if arguments.cost {
        let costs = measure(base.seats.sink).map_err(|error| Failure::Attach(error.to_string()))?;
        return account::print(&report(&costs), arguments.shown.is_json(), None);
    }
    let target = arguments.shown.target()?;
    let conditions = arguments.conditions(&base);
    let (place, why) = arguments.stream.place();
    let stop = signals()?;
    let mut record = stream_record(&place, &conditions, &stop)?;
    "one stream".clone_into(&mut record.title);
    record.remarks.extend(why);
    drop(place);
    arguments.shown.show("A stream on this host, traced", record, target)
}

impl TraceArguments {
    fn conditions(&self, base: &Conditions) -> Conditions {
        let fifo = |base: Option<u8>| self.fifo.map_or(base, |Fifo(fifo)| fifo);
        Conditions {
            mode: self.mode.unwrap_or(base.mode),
            receive: self.receive.unwrap_or(base.receive),
            deferral: self.defer.or(base.deferral),
            sender_fifo: fifo(base.sender_fifo),
            sink_fifo: fifo(base.sink_fifo),
            is_awake: self.awake.unwrap_or(base.is_awake),
            is_counted: true,
            ..base.clone()
        }
    }
}

fn report(costs: &Costs) -> Report {
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
    report
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_read() {
        assert_eq!(receive("thread:3"), Ok(Receive::Thread { core: 3 }));
        assert!(receive("thread:x").is_err() && receive("nowhere").is_err());
        assert_eq!(fifo("none"), Ok(Fifo(None)));
        assert_eq!(fifo("99"), Ok(Fifo(Some(99))));
        assert!(fifo("0").is_err() && fifo("100").is_err() && yes_no("maybe").is_err());
    }
}
