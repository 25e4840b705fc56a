//! `linecard jitter sink`: when packets came, and which did not.

use super::placement::{PlacementArguments, refused};
use super::{figures, rows};
use crate::account;
use crate::failure::{EXIT_CODES, Failure};
use crate::signals::signals;
use crate::units;
use clap::Args;
use clap::builder::{PathBufValueParser, TypedValueParser};
use linecard_jitter::linux::sink::{
    DEFAULT_CAPACITY, Received, Sink, SinkConfig, SinkError, SinkMode,
};
use linecard_jitter::stats::summary::Sorted;
use linecard_jitter::stream::Schedule;
use linecard_report::{Report, Section, Value};
use std::net::SocketAddr;
use std::path::PathBuf;

/// Times that are so close to what the sender wrote are on the sender's clock.
const SAME_CLOCK_NS: u64 = 1_000_000_000;

#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct SinkArguments {
    /// Where to receive [default: 0.0.0.0:5004].
    #[arg(value_name = "ADDRESS:PORT")]
    address: Option<SocketAddr>,
    /// How to receive: poll, block, busy-poll, epoll, recvmmsg, io-uring, af-xdp
    /// [default: poll].
    #[arg(long, value_name = "MODE", value_parser = mode)]
    mode: Option<SinkMode>,
    /// Interface that packets come by, for af-xdp, which takes those of this port past the kernel.
    #[arg(long, value_name = "IF")]
    interface: Option<String>,
    /// End after so many packets [default: none].
    #[arg(long, value_name = "N", value_parser = units::many)]
    expect: Option<u64>,
    #[command(flatten)]
    placement: PlacementArguments,
    /// Write each packet's number and when it came, in the order in which they came, as CSV; `-` is
    /// stdout.
    #[arg(long, value_name = "FILE", value_parser = PathBufValueParser::new().map(units::output))]
    output: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// A mode by its name.
pub(super) fn mode(name: &str) -> Result<SinkMode, String> {
    let wanted = name.replace('_', "-");
    SinkMode::ALL.into_iter().find(|mode| mode.name() == wanted).ok_or_else(|| {
        let names = SinkMode::ALL.map(SinkMode::name).join(", ");
        format!("\"{name}\" is no way to receive: take one of {names}")
    })
}

/// Runs the command.
pub(crate) fn command(arguments: &SinkArguments) -> Result<(), Failure> {
    let address = arguments.address.unwrap_or_else(|| ([0, 0, 0, 0], 5004).into());
    let mut config = SinkConfig::new(address);
    config.mode = arguments.mode.unwrap_or_default();
    config.interface.clone_from(&arguments.interface);
    config.placement = arguments.placement.placement();
    config.capacity = match arguments.expect {
        Some(expect) => usize::try_from(expect).unwrap_or(usize::MAX),
        None => DEFAULT_CAPACITY,
    };
    let sink = Sink::open(config).map_err(|error| failure(&error))?;
    let received = sink.run(&*signals()?, arguments.expect).map_err(|error| failure(&error))?;
    if let Some(path) = &arguments.output {
        let lines = received.arrivals.iter().map(|arrival| [arrival.sequence, arrival.at_ns]);
        rows::write(path, "sequence,at_ns", lines)?;
    }
    let report = report(&received, arguments);
    account::print(&report, arguments.json, arguments.output.as_deref())
}

fn failure(error: &SinkError) -> Failure {
    match error {
        SinkError::Placement(error) => refused(error),
        SinkError::Capacity(_) | SinkError::Room(_) | SinkError::BusyPollTime(_) => {
            Failure::Usage(error.to_string())
        }
        SinkError::NoInterface => Failure::Usage(format!("{error} by --interface")),
        _ => Failure::Attach(error.to_string()),
    }
}

fn report(received: &Received, arguments: &SinkArguments) -> Report {
    let mut report = Report::new("jitter sink");
    report.push(packets(received, arguments.expect));
    let times = || received.arrivals.iter().map(|arrival| arrival.at_ns);
    let seconds = times().next().zip(times().next_back());
    let seconds = seconds.map_or(0.0, |(first, last)| last.saturating_sub(first) as f64 / 1e9);
    let gaps = figures::gaps(times());
    report.push(figures::quantiles("gaps", "Gaps between packets", &gaps));
    if let Some(schedule) = received.schedule() {
        let (late, is_same_clock) = lateness(received, schedule);
        let title = "Lateness: from when packets were due to the application";
        report.push(figures::quantiles("lateness", title, &late));
        report.push(figures::spikes(&gaps, schedule.period_ps, seconds));
        if !is_same_clock {
            report.note(
                "The sender's clock is another one: lateness counts from the packet that was fastest.",
            );
        }
    } else {
        report.note("Fewer than two packets came in order: there is no schedule to compare with.");
    }
    report.push(figures::host(received.switches));
    if received.busy_polled == Some(false) {
        report.note(
            "The packets came through nothing that the kernel can poll (loopback, plain veth, or a \
             driver without NAPI): busy-poll was as good as block.",
        );
    }
    arguments.placement.warn(&mut report, seconds);
    report
}

/// What came, and what did not.
fn packets(received: &Received, expect: Option<u64>) -> Section {
    let mut section = Section::new("packets", "Packets");
    let order = Order::of(received, expect);
    section.add("received", "received", Value::Count(received.arrivals.len() as u64));
    section.add("lost", "lost", Value::Count(order.lost));
    section.add("overflowed", "dropped for want of room", Value::Count(received.overflowed));
    section.add("reordered", "out of order", Value::Count(order.reordered));
    section.add("duplicates", "came again", Value::Count(order.duplicates));
    section.add("unrecorded", "beyond the room for times", Value::Count(received.unrecorded));
    section.add("foreign", "no packets of ours", Value::Count(received.foreign));
    section.add("cut", "cut", Value::Count(received.cut));
    section.add("calls", "system calls", Value::Count(received.calls));
    section.add("empty_calls", "calls that gave none", Value::Count(received.empty_calls));
    section
}

/// How numbers follow each other.
#[derive(Debug, PartialEq, Eq)]
struct Order {
    lost: u64,
    reordered: u64,
    duplicates: u64,
}

impl Order {
    /// Without a number that is expected, what is missing between the smallest and the largest that came
    /// is lost; packets beyond the room for times are taken for the next ones.
    fn of(received: &Received, expect: Option<u64>) -> Self {
        let mut numbers: Vec<u64> = Vec::with_capacity(received.arrivals.len());
        let (mut reordered, mut highest) = (0, 0);
        for arrival in &received.arrivals {
            reordered += u64::from(arrival.sequence < highest);
            highest = highest.max(arrival.sequence);
            numbers.push(arrival.sequence);
        }
        numbers.sort_unstable();
        numbers.dedup();
        let different = numbers.len() as u64;
        let span = numbers
            .first()
            .zip(numbers.last())
            .map_or(0, |(first, last)| last.saturating_sub(*first).saturating_add(1));
        let wanted = expect.map_or(span, |expect| expect.saturating_sub(received.unrecorded));
        Self {
            lost: wanted.saturating_sub(different),
            reordered,
            duplicates: received.arrivals.len() as u64 - different,
        }
    }
}

/// How late packets were, and whether that is by one clock: else from the packet that was fastest.
fn lateness(received: &Received, schedule: Schedule) -> (Sorted, bool) {
    let after = |at_ns: u64, sequence: u64| {
        let after_ns = i128::from(at_ns) - i128::from(schedule.due_ns(sequence));
        after_ns.clamp(i64::MIN.into(), i64::MAX.into()) as i64
    };
    let arrivals = received.arrivals.iter();
    let mut late: Vec<i64> = arrivals.map(|one| after(one.at_ns, one.sequence)).collect();
    let travelled = received.first.zip(received.arrivals.first());
    let is_same_clock = travelled.is_some_and(|(probe, arrival)| {
        arrival.at_ns.checked_sub(probe.sent_ns).is_some_and(|ns| ns < SAME_CLOCK_NS)
    });
    if !is_same_clock && let Some(fastest) = late.iter().min().copied() {
        late.iter_mut().for_each(|ns| *ns = ns.saturating_sub(fastest));
    }
    (Sorted::new(late), is_same_clock)
}

#[cfg(test)]
mod tests {
    use super::*;
    use linecard_jitter::stream::Arrival;
    use linecard_jitter::stream::probe::Probe;

    fn received(sequences: &[u64]) -> Received {
        let arrival = |&sequence: &u64| Arrival { sequence, at_ns: sequence.saturating_add(1_000) };
        let probe = |&sequence: &u64| Probe { sequence, due_ns: sequence, sent_ns: sequence };
        Received {
            arrivals: sequences.iter().map(arrival).collect(),
            first: sequences.first().map(probe),
            last: sequences.last().map(probe),
            ..Received::default()
        }
    }

    #[test]
    fn numbers_say_what_happened() {
        let order = |sequences: &[u64], expect| {
            let Order { lost, reordered, duplicates } = Order::of(&received(sequences), expect);
            [lost, reordered, duplicates]
        };
        assert_eq!(order(&[], None), [0; 3]);
        assert_eq!(order(&[], Some(7)), [7, 0, 0]);
        assert_eq!(order(&[3, 4, 5], None), [0; 3]);
        assert_eq!(order(&[3, 6, 4, 4], None), [1, 2, 1]);
        assert_eq!(order(&[0, 1], Some(5)), [3, 0, 0]);
        assert_eq!(order(&[0, u64::MAX], None), [u64::MAX - 2, 0, 0]);
    }

    #[test]
    fn lateness_is_by_one_clock_or_from_the_fastest() {
        let mut one = received(&[0, 1, 2]);
        let schedule = Schedule { start_ns: 0, period_ps: 1_000 };
        let (late, same) = lateness(&one, schedule);
        assert_eq!((late.samples(), same), (&[1_000; 3][..], true));
        one.first = Some(Probe { sequence: 0, due_ns: 0, sent_ns: u64::MAX });
        one.arrivals[1].at_ns += 5;
        let (late, same) = lateness(&one, schedule);
        assert_eq!((late.samples(), same), (&[0, 0, 5][..], false));
        let extreme = Schedule { start_ns: u64::MAX, period_ps: u64::MAX };
        assert_eq!(lateness(&one, extreme).0.n(), 3);
    }

    #[test]
    fn modes_have_two_spellings() {
        assert_eq!(mode("io_uring"), Ok(SinkMode::IoUring));
        assert_eq!(mode("busy-poll"), Ok(SinkMode::BusyPoll));
        assert!(mode("smell").unwrap_err().contains("recvmmsg"));
    }
}
