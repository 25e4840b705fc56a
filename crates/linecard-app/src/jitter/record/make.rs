//! Records of measurements.

use super::{
    Buckets, CauseRecord, GateRecord, LAPS, POINTS, QuantileRecord, Record, SeriesRecord,
    SpikeRecord, SummaryRecord, TracedRecord, VERSION, WORST,
};
use linecard::stats::Histogram;
use linecard_jitter::ledger::{Cause, Ledger, Spike};
use linecard_jitter::linux::session::{
    Conditions, CoreAssignment, Receive, SessionOutcome, TestNetwork, booted,
};
use linecard_jitter::stats::quantile::Bounds;
use linecard_jitter::stats::summary::Summary;
use linecard_jitter::stream::clocks::{ClockLine, MAX_PPM};
use linecard_jitter::stream::{Arrival, Schedule};
use linecard_jitter::trace::{Names, Stage, Trace};
use linecard_jitter::verdict::{Analysis, Gate, Series, Traced, remedy};
use linecard_report::kept;

/// Meaning of times between hosts.
const OWN_CLOCK: &str = "The sender has a clock of its own: times from it to this host are those beyond the fastest \
     packets, and what was late before it reached this host is charged to \"before this host\".";

/// The record of a stream.
pub(in crate::jitter) fn of_outcome(place: &TestNetwork, outcome: &SessionOutcome) -> Record {
    let measured = &outcome.measured;
    let trace = outcome.trace.as_ref();
    let mut analysis = Analysis::of(measured, trace.ok());
    let quality = outcome.departures.quality(None);
    let found = format!(
        "its lateness is {:.1} µs at 99.9 % (limit {:.1} µs), its bursts {:.1} packets (limit {:.0})",
        quality.lateness_p999_ns as f64 / 1e3,
        quality.limits.lateness_ns as f64 / 1e3,
        quality.burst,
        quality.limits.burst
    );
    analysis.gates.0.insert(0, Gate::new("generator", quality.passes, found));
    if outcome.has_own_clock {
        // Packets cannot arrive before they were sent by a clock that was set by their arrivals.
        analysis.gates.0.retain(|gate| gate.name != "clock");
        analysis.gates.0.push(clock(outcome.line));
    }
    analysis
        .gates
        .0
        .extend(trace.ok().and_then(|trace| received_there(&outcome.conditions, trace)));
    let traced = analysis.traced.as_ref().zip(trace.ok());
    let sent: Vec<Arrival> = (0..)
        .zip(&measured.sent_ns)
        .filter(|(_, at_ns)| **at_ns > 0)
        .map(|(sequence, at_ns)| Arrival { sequence, at_ns: *at_ns })
        .collect();
    let schedule = measured.schedule;
    Record {
        version: VERSION,
        place: place.name().into_owned(),
        conditions: conditions(outcome),
        remarks: outcome.line.map(|_| OWN_CLOCK.to_owned()).into_iter().collect(),
        // As it was asked for, by whichever clock.
        period_ns: (outcome.conditions.period_ps + 500) / 1_000,
        sent: sent.len() as u64,
        arrived: measured.arrivals.len() as u64,
        gates: analysis.gates.0.iter().map(gate).collect(),
        sender: analysis.sender.as_ref().map(series),
        sink: analysis.sink.as_ref().map(series),
        transit: analysis.transit.as_ref().map(summary),
        traced: traced.map(|(traced, trace)| {
            let cores = outcome.conditions.cores;
            let absent = outcome.absent.iter().map(|name| (*name).to_owned()).collect();
            TracedRecord {
                absent,
                cost_ns_per_event: outcome.cost_ns,
                means: outcome.means.unwrap_or_default().to_owned(),
                counted: outcome.counted,
                ..traced_record(traced, trace, cores)
            }
        }),
        untraced: trace.err().map(ToString::to_string),
        gaps: kept(&gaps(schedule, &measured.arrivals), POINTS),
        lateness: kept(&lateness(schedule, &measured.arrivals), POINTS),
        histograms: vec![
            ("sender".to_owned(), histogram(&sent)),
            ("application".to_owned(), histogram(&measured.arrivals)),
        ],
        ..Record::default()
    }
}

/// The record of what cannot be measured there.
pub(in crate::jitter) fn not_measured(place: &TestNetwork, why: &str) -> Record {
    let gate = GateRecord { name: "testable".to_owned(), passes: false, found: why.to_owned() };
    Record {
        version: VERSION,
        place: place.name().into_owned(),
        gates: vec![gate],
        ..Record::default()
    }
}

/// The record of a busy loop: when it looked at the clock, and when it should have.
pub(in crate::jitter) fn of_dummy(
    schedule: Schedule,
    times_ns: &[u64],
    conditions: Vec<(String, String)>,
) -> Record {
    let arrivals: Vec<Arrival> =
        (0..).zip(times_ns).map(|(sequence, at_ns)| Arrival { sequence, at_ns: *at_ns }).collect();
    let sink = Series::of(schedule, &arrivals);
    Record {
        version: VERSION,
        place: "this host, without a network".to_owned(),
        conditions,
        period_ns: schedule.period_ns(),
        sent: times_ns.len() as u64,
        arrived: times_ns.len() as u64,
        sink: sink.as_ref().map(series),
        gaps: kept(&gaps(schedule, &arrivals), POINTS),
        lateness: kept(&lateness(schedule, &arrivals), POINTS),
        histograms: vec![(LAPS.to_owned(), histogram(&arrivals))],
        ..Record::default()
    }
}

/// Share of the packets that are received on the core that the conditions choose.
const RECEIVED_THERE: f64 = 0.95;

/// Whether packets were received on the core that the conditions choose; nothing if they choose none.
fn received_there(conditions: &Conditions, trace: &Trace) -> Option<Gate> {
    let core = match conditions.receive {
        Receive::Sender => return None,
        Receive::Sink => conditions.cores.sink,
        Receive::Thread { core } | Receive::Interrupt { core } => core,
    };
    let received = trace.received_on();
    let (all, there) = (received.values().sum::<u64>(), received.get(&core).copied().unwrap_or(0));
    let found = format!("{there} of {all} packets were received on core {core}");
    Some(Gate::new("place", there as f64 >= all as f64 * RECEIVED_THERE, found))
}

/// Whether the sender's clock can be compared with this host's.
fn clock(line: Option<ClockLine>) -> Gate {
    let found = match line {
        Some(line) => format!(
            "this host's clock goes {:+.1} ppm faster than the sender's (limit {MAX_PPM:.0})",
            line.ppm()
        ),
        None => "too few packets came to compare the sender's clock with this host's".to_owned(),
    };
    Gate::new("clock", line.is_some_and(|line| line.ppm().abs() <= MAX_PPM), found)
}

fn conditions(outcome: &SessionOutcome) -> Vec<(String, String)> {
    let conditions = &outcome.conditions;
    let is_local = !conditions.is_sender_remote;
    let yes_no = |so: bool| if so { "yes" } else { "no" }.to_owned();
    let receive = match conditions.receive {
        Receive::Sender if is_local => {
            format!("on the sender's core {}", conditions.cores.generator)
        }
        Receive::Sender => "where the interface has them".to_owned(),
        Receive::Interrupt { core } => format!("in the interface's interrupts on core {core}"),
        Receive::Sink if !is_local => {
            format!("handed to the sink's core {} (RPS)", conditions.cores.sink)
        }
        Receive::Sink => {
            format!("on the sink's core {}, by an interrupt (RPS)", conditions.cores.sink)
        }
        Receive::Thread { core } => format!("in a thread on core {core} (threaded NAPI)"),
    };
    let class = |fifo: Option<u8>| fifo.map_or("normal".to_owned(), |n| format!("SCHED_FIFO {n}"));
    let deferral = conditions.deferral.map_or("no".to_owned(), |time| format!("{time:?}"));
    let spinner = conditions.spinner.map_or("none".to_owned(), |core| format!("on core {core}"));
    [
        ("period", format!("{} ns", conditions.period_ps as f64 / 1e3)),
        ("packets", conditions.count.to_string()),
        ("UDP payload", format!("{} B", conditions.payload_len)),
        ("sink", conditions.mode.name().to_owned()),
        ("sender's core", conditions.cores.generator.to_string()),
        ("sink's core", conditions.cores.sink.to_string()),
        ("sender's class", class(conditions.sender_fifo)),
        ("sink's class", class(conditions.sink_fifo)),
        ("packets come up", receive),
        ("polls deferred", deferral),
        ("cores kept awake", yes_no(conditions.is_awake)),
        ("busy thread", spinner),
    ]
    .into_iter()
    .chain(booted(conditions.cores.sink))
    .map(|(name, value)| (name.to_owned(), value))
    .collect()
}

fn gate(gate: &Gate) -> GateRecord {
    GateRecord { name: gate.name.to_owned(), passes: gate.passes, found: gate.found.to_string() }
}

fn series(series: &Series) -> SeriesRecord {
    let spikes = &series.spikes;
    SeriesRecord {
        gaps: series.gaps.as_ref().map(summary),
        lateness: series.lateness.as_ref().map(summary),
        spikes: spikes.count,
        spikes_per_second: spikes.per_second,
        spikes_per_second_95: (spikes.bounds.lower, spikes.bounds.upper),
    }
}

fn summary(summary: &Summary) -> SummaryRecord {
    let quantiles = summary.quantiles.iter().map(|quantile| {
        let (interval_ns, needed) = match quantile.bounds {
            Bounds::Between { lower_ns, upper_ns } => (Some((lower_ns, upper_ns)), None),
            Bounds::TooFew { needed, .. } => (None, Some(needed)),
        };
        QuantileRecord { q: quantile.q, value_ns: quantile.value_ns, interval_ns, needed }
    });
    SummaryRecord {
        n: summary.n,
        min_ns: summary.min_ns,
        max_ns: summary.max_ns,
        mean_ns: summary.mean_ns,
        deviation_ns: summary.deviation_ns,
        quantiles: quantiles.collect(),
    }
}

fn traced_record(traced: &Traced, trace: &Trace, cores: CoreAssignment) -> TracedRecord {
    let ledger = &traced.ledger;
    let stage_ledger = ledger.stages.iter();
    TracedRecord {
        events: traced.events,
        lost: traced.counts.lost,
        breaks: traced.breaks,
        joined: traced.counts.joined,
        cost_ns_per_event: None,
        means: String::new(),
        counted: None,
        absent: Vec::new(),
        stages: traced
            .stages
            .iter()
            .map(|(stage, s)| (stage.name().to_owned(), summary(s)))
            .collect(),
        points: traced.points.iter().map(|(name, s)| ((*name).to_owned(), summary(s))).collect(),
        excess_ns: ledger.excess_ns,
        spikes: ledger.spikes.len() as u64,
        named_share: ledger.named_share(),
        causes: causes(ledger, &trace.names, cores),
        stage_ledger: stage_ledger
            .map(|(stage, entry)| (stage.name().to_owned(), entry.spikes, entry.ns))
            .collect(),
        worst: worst(ledger, trace),
        mean_batch: traced.counts.mean_batch(),
    }
}

/// Causes, the longest first; those of one program's threads together.
fn causes(ledger: &Ledger, names: &Names, cores: CoreAssignment) -> Vec<CauseRecord> {
    let mut causes: Vec<CauseRecord> = Vec::new();
    for (cause, entry) in ledger.by_time() {
        let name = cause.group(names);
        match causes.iter_mut().find(|known| known.name == name) {
            Some(known) => {
                known.spikes = known.spikes.saturating_add(entry.spikes);
                known.ns = known.ns.saturating_add(entry.ns);
            }
            None => causes.push(CauseRecord {
                kind: cause.kind().to_owned(),
                name,
                spikes: entry.spikes,
                ns: entry.ns,
                remedy: remedy(cause, core_of(cause, ledger, cores)),
            }),
        }
    }
    causes.sort_by_key(|cause| std::cmp::Reverse(cause.ns));
    causes
}

/// The core on which a cause took most time: the sink's, but for what kept the sender.
fn core_of(cause: Cause, ledger: &Ledger, cores: CoreAssignment) -> u16 {
    let charges = ledger.spikes.iter().flat_map(|spike| &spike.charges);
    let (mut sender_ns, mut other_ns) = (0_u64, 0_u64);
    for charge in charges.filter(|charge| charge.cause == cause) {
        let is_sender = matches!(charge.stage, Stage::Generator | Stage::Send);
        let sum = if is_sender { &mut sender_ns } else { &mut other_ns };
        *sum = sum.saturating_add(charge.ns);
    }
    if sender_ns > other_ns { cores.generator } else { cores.sink }
}

fn worst(ledger: &Ledger, trace: &Trace) -> Vec<SpikeRecord> {
    let mut spikes: Vec<&Spike> = ledger.spikes.iter().collect();
    spikes.sort_by_key(|spike| std::cmp::Reverse(spike.excess_ns));
    let begin = trace.events.first().map_or(0, |event| event.at_ns);
    let charge = |charge: &linecard_jitter::ledger::Charge| {
        (charge.stage.name().to_owned(), charge.cause.describe(&trace.names), charge.ns)
    };
    let record = |spike: &Spike| SpikeRecord {
        sequence: spike.sequence,
        at_seconds: spike.arrived_ns.saturating_sub(begin) as f64 / 1e9,
        gap_ns: spike.gap_ns,
        excess_ns: spike.excess_ns,
        charges: spike.charges.iter().map(charge).collect(),
    };
    spikes.into_iter().take(WORST).map(record).collect()
}

fn gaps(schedule: Schedule, arrivals: &[Arrival]) -> Vec<(f64, f64)> {
    let pairs = arrivals.windows(2);
    pairs
        .map(|pair| {
            let at_seconds = pair[1].at_ns.saturating_sub(schedule.start_ns) as f64 / 1e9;
            (at_seconds, pair[1].at_ns.saturating_sub(pair[0].at_ns) as f64)
        })
        .collect()
}

fn lateness(schedule: Schedule, arrivals: &[Arrival]) -> Vec<(f64, f64)> {
    let point = |arrival: &Arrival| {
        let at_seconds = arrival.at_ns.saturating_sub(schedule.start_ns) as f64 / 1e9;
        (at_seconds, arrival.at_ns as f64 - schedule.due_ns(arrival.sequence) as f64)
    };
    arrivals.iter().map(point).collect()
}

fn histogram(arrivals: &[Arrival]) -> Buckets {
    let mut counted = Histogram::default();
    for pair in arrivals.windows(2) {
        counted.record(pair[1].at_ns.saturating_sub(pair[0].at_ns));
    }
    let buckets = counted.buckets();
    buckets.map(|(from, to, n)| (from as f64, to.saturating_add(1) as f64, n)).collect()
}
