//! Receives a stream of [`super::send`]: arrival times, and missing packets.

use super::distribution::Distributions;
use super::error::JitterError;
use super::figures::{Spikes, Thread, Times, gaps};
use super::placement::{Placement, refused};
use super::rows;
use crate::{Context, Error, Failure, Job};
use garde::Validate;
use linecard_config::{Count, Duration, Parsed};
use linecard_jitter::linux::sink::{
    DEFAULT_CAPACITY, Received, Sink as Receiver, SinkConfig, SinkError, SinkMode,
};
use linecard_jitter::stats::sorted::Sorted;
use linecard_jitter::stream::Schedule;
use linecard_report::Page;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;
use std::net::SocketAddr;

/// Times that are so close to what the sender wrote are on the sender's clock.
const SAME_CLOCK_NS: u64 = 1_000_000_000;

/// The job.
#[derive(Debug)]
pub struct Sink;

/// Where and how to receive.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("x-flags" = true))]
#[garde(allow_unvalidated)]
pub struct Config {
    /// where to receive
    #[default(Parsed(SocketAddr::from(([0, 0, 0, 0], 5004))))]
    #[schemars(extend("x-argument" = "ADDRESS:PORT"))]
    pub address: Parsed<SocketAddr>,
    /// how to receive: poll, block, busy-poll, epoll, recvmmsg, io-uring, af-xdp
    pub mode: Parsed<SinkMode>,
    /// interface that packets arrive on, for af-xdp, which takes packets to this port before the
    /// kernel does
    pub interface: Option<String>,
    /// end after this many packets
    pub expect: Option<Count>,
    /// end after a pause of this length, once the first packet has come
    #[default(Duration::from_ms(500))]
    #[garde(range(min = Duration::from_ms(1), max = Duration::from_secs(86_400)))]
    pub idle: Duration,
    /// Where the receiver runs.
    #[garde(dive)]
    pub placement: Placement,
    /// file for each packet's number and arrival time, in order of arrival, as CSV; `-` is stdout
    #[schemars(extend("x-value" = "FILE"))]
    pub output: Option<String>,
}

/// When packets came, and which did not.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct SinkOutcome {
    /// Packets
    pub packets: Packets,
    /// Gaps between packets
    pub gaps: Times,
    /// Lateness: from when packets were due to the application
    pub lateness: Option<Times>,
    /// Spikes (gaps of more than two periods)
    pub spikes: Option<Spikes>,
    /// The measuring thread
    pub thread: Thread,
    #[serde(skip)]
    distributions: Distributions,
    #[serde(skip)]
    notes: Vec<String>,
}

/// Packets that arrived, and packets that did not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Packets {
    /// received
    pub received: u64,
    /// lost
    pub lost: u64,
    /// dropped for want of room
    pub overflowed: u64,
    /// out of order
    pub reordered: u64,
    /// came again
    pub duplicates: u64,
    /// beyond the room for times
    pub unrecorded: u64,
    /// no packets of ours
    pub foreign: u64,
    /// cut
    pub cut: u64,
    /// system calls
    pub calls: u64,
    /// calls that gave none
    pub empty_calls: u64,
}

impl Job for Sink {
    const NAME: &'static str = "sink";
    const COMMAND: &'static str = "jitter sink";
    type Config = Config;
    type Outcome = SinkOutcome;

    fn title(config: &Config) -> String {
        format!("A stream received at {}", config.address.0)
    }

    fn draw(outcome: &SinkOutcome, page: &mut Page) {
        outcome.distributions.draw(page);
    }

    fn run(config: &Config, context: &Context<'_>) -> Result<SinkOutcome, Error> {
        let expect = config.expect.map(Count::get);
        let mut sink = SinkConfig::new(config.address.0);
        sink.mode = config.mode.0;
        sink.interface.clone_from(&config.interface);
        sink.idle = Some(config.idle.into());
        sink.placement = config.placement.placement();
        sink.capacity = match expect {
            Some(expect) => usize::try_from(expect).unwrap_or(usize::MAX),
            None => DEFAULT_CAPACITY,
        };
        let sink = Receiver::open(sink).map_err(failure)?;
        let received = sink.run(context.progress.stop_flag(), expect).map_err(failure)?;
        if let Some(output) = &config.output {
            let lines = received.arrivals.iter().map(|arrival| [arrival.sequence, arrival.at_ns]);
            rows::write(&context.path_of("output", output), "sequence,at_ns", lines)?;
        }
        Ok(SinkOutcome::new(&received, config))
    }
}

fn failure(error: SinkError) -> Error {
    match error {
        SinkError::Placement(error) => refused(error),
        SinkError::Capacity(_) | SinkError::Room(_) | SinkError::BusyPollTime(_) => {
            Failure::Usage.with(error)
        }
        SinkError::NoInterface => JitterError::NoSinkInterface(error).into(),
        _ => Failure::Attach.with(error),
    }
}

impl SinkOutcome {
    fn new(received: &Received, config: &Config) -> Self {
        let times = || received.arrivals.iter().map(|arrival| arrival.at_ns);
        let seconds = times().next().zip(times().next_back());
        let seconds = seconds.map_or(0.0, |(first, last)| last.saturating_sub(first) as f64 / 1e9);
        let gaps = gaps(times());
        let schedule = received.schedule();
        let late = schedule.map(|schedule| lateness(received, schedule));
        let clock = match &late {
            Some((_, true)) => None,
            Some((_, false)) => Some(
                "The sender's clock is another one: lateness counts from the packet that was fastest.",
            ),
            None => Some(
                "Fewer than two packets arrived in order: there is no schedule to compare \
                     with.",
            ),
        };
        let polled = (received.busy_polled == Some(false)).then_some(
            "The packets arrived through no interface that the kernel can poll (loopback, plain \
             veth, or a \
             driver without NAPI): busy-poll was as good as block.",
        );
        let notes = clock.into_iter().chain(polled).map(str::to_owned);
        let mut distributions = Distributions::new("packets");
        distributions.add_gaps("received", &gaps);
        if let Some((late, _)) = &late {
            distributions.add_lateness("received", late);
        }
        Self {
            packets: Packets::new(received, config.expect.map(Count::get)),
            spikes: schedule.map(|schedule| Spikes::of(&gaps, schedule.period_ps, seconds)),
            gaps: Times::of(&gaps),
            lateness: late.map(|(late, _)| Times::of(&late)),
            thread: Thread::new(received.switches),
            distributions,
            notes: notes.chain(config.placement.note(seconds)).collect(),
        }
    }
}

impl Packets {
    fn new(received: &Received, expect: Option<u64>) -> Self {
        let Order { lost, reordered, duplicates } = Order::of(received, expect);
        Self {
            received: received.arrivals.len() as u64,
            lost,
            overflowed: received.overflowed,
            reordered,
            duplicates,
            unrecorded: received.unrecorded,
            foreign: received.foreign,
            cut: received.cut,
            calls: received.calls,
            empty_calls: received.empty_calls,
        }
    }
}

impl linecard_report::Outcome for SinkOutcome {
    fn text(&self, section: &str, key: &str) -> Option<String> {
        match section {
            "gaps" => self.gaps.text(key),
            "lateness" => self.lateness?.text(key),
            _ => self.spikes?.text(),
        }
    }

    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }
}

/// How numbers follow each other.
#[derive(Debug, PartialEq, Eq)]
struct Order {
    lost: u64,
    reordered: u64,
    duplicates: u64,
}

impl Order {
    /// Without an expected number, packets that are missing between the smallest and the largest number
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
}
