//! `linecard jitter ab`: what a change does to packets, with how sure that is.

mod report;

use super::lab::StreamArguments;
use super::recovery;
use crate::account;
use crate::failure::{EXIT_CODES, Failure};
use crate::signals::signals;
use clap::Args;
use linecard_io::placement::Placement;
use linecard_jitter::linux::ab::{self, AbError, Design, Observation, Outcome, Run};
use linecard_jitter::linux::journal::Store;
use linecard_jitter::linux::session::{Conditions, Place, Receive, SessionError, measure_as_it_is};
use linecard_jitter::linux::setting::Namespace;
use linecard_jitter::linux::sink::SinkMode;
use linecard_jitter::linux::toggle::{self, SinkChange, Target, Toggle, ToggleError};
use linecard_jitter::verdict::Analysis;
use linecard_report::{Axis, Effects, Page, Report, Target as ReportTarget, Unit};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

/// Packets of one run: three tenths of a second.
const RUN: u64 = 40_000;
/// What each run gives; the first one decides.
const FIGURES: [&str; 4] = [
    "transit, 99 %, µs",
    "transit, half, µs",
    "transit, most, µs",
    "spikes beyond two periods per second",
];

#[derive(Debug, Args)]
#[command(after_help = after_help())]
pub(crate) struct AbArguments {
    /// What is switched.
    #[arg(value_name = "TOGGLE", required = true, value_parser = named)]
    toggles: Vec<&'static Toggle>,
    /// Blocks of four runs (ABBA or BAAB by a coin), 5 to 64; six can show an effect at 5 % [default: 8].
    #[arg(long, value_name = "N")]
    blocks: Option<usize>,
    /// Decides the order of runs [default: 1].
    #[arg(long, value_name = "SEED")]
    seed: Option<u64>,
    #[command(flatten)]
    stream: StreamArguments,
    /// Print JSON, which `linecard jitter audit --effects` reads.
    #[arg(long)]
    json: bool,
    /// Write a page of the effects, which opens offline, and all figures as JSON beside it.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

fn named(name: &str) -> Result<&'static Toggle, String> {
    toggle::named(name).map_err(|error| error.to_string())
}

fn after_help() -> String {
    let mut text = "Toggles:\n".to_owned();
    for toggle in &toggle::ALL {
        text += &format!("  {:<16} {}\n", toggle.name, toggle.switches);
    }
    text + "\n" + EXIT_CODES
}

/// Why a run has no figures.
#[derive(Debug, thiserror::Error)]
enum RunError {
    #[error(transparent)]
    Session(#[from] SessionError),
    #[error("stopped")]
    Stopped,
}

/// Runs the command.
pub(crate) fn command(arguments: &AbArguments, store: &Store) -> Result<(), Failure> {
    let report_to = arguments.report.as_deref().map(ReportTarget::new).transpose()?;
    let mut base = arguments.stream.base(RUN)?;
    // The host as found: nobody is preferred but the sender, whose lateness is not the question.
    (base.sink_fifo, base.is_awake, base.is_polled) = (None, false, true);
    base.receive = Receive::Sender;
    // Before there is a cable: one that is stopped removes it.
    let stop = signals()?;
    let (place, why) = arguments.stream.place();
    let is_preferred = may_take_precedence(base.sender_fifo);
    if !is_preferred {
        base.sender_fifo = None;
    }
    let failed = |error: SessionError| Failure::Attach(error.to_string());
    place.prepare(&base).map_err(failed)?;
    let mut target = Target::new(base.seats.sink.into());
    if let Some((interface, namespace)) = place.interface() {
        let namespace =
            Namespace::at(namespace).map_err(|error| Failure::Attach(error.to_string()))?;
        target = target.by(interface, Some(namespace));
    }
    let mut design = Design::of(FIGURES.map(str::to_owned).into());
    design.blocks = arguments.blocks.unwrap_or(design.blocks);
    design.seed = arguments.seed.unwrap_or(design.seed);
    let disturbed = AtomicUsize::new(0);
    let measure = |run: &Run<'_>| observe((&place, &base), run, &disturbed, &stop);
    let finished = ab::measure((&arguments.toggles, &target), &design, store, measure);
    let finished = finished.map_err(|error| Failure::Attach(error.to_string()))?;
    recovery::end(&finished.restorations)?;
    let outcomes = finished.outcomes.map_err(|error| failure(error, why.as_deref()))?;
    drop(place);
    let mut report = report::report(&outcomes, &design);
    if let Some(why) = why {
        report.note(why);
    }
    let disturbed = disturbed.into_inner();
    if disturbed > 0 {
        report.note(format!(
            "In {disturbed} of {} runs a gate did not hold (packets missing, a trace with losses): chance \
             has more of a say then.",
            design.runs(outcomes.len())
        ));
    }
    if !is_preferred {
        report.note(
            "The sender has no precedence (SCHED_FIFO), which needs root: it is late more often.",
        );
    }
    account::print(&report, arguments.json, None)?;
    if let Some(target) = report_to {
        target.write(page(&report, &outcomes, &design).origin(crate::page::origin()))?;
    }
    withheld(&outcomes)
}

/// Toggles whose first figure decides nothing: which, the report says why.
fn withheld(outcomes: &[Outcome]) -> Result<(), Failure> {
    let is_measured = |outcome: &&Outcome| {
        outcome.manipulation.holds && outcome.effects.first().is_some_and(Result::is_ok)
    };
    let none = outcomes.iter().filter(|outcome| !is_measured(outcome));
    let none: Vec<&str> = none.map(|outcome| outcome.toggle.name).collect();
    if none.is_empty() {
        return Ok(());
    }
    Err(Failure::Withheld(format!("no verdict on {}", none.join(", "))))
}

/// Whether a thread of this process may run in that class.
fn may_take_precedence(fifo: Option<u8>) -> bool {
    let placement = Placement { fifo, ..Placement::default() };
    thread::spawn(move || placement.enter(true).is_ok()).join().unwrap_or(false)
}

/// Who is to blame, and why there is no cable, if that is why.
fn failure(error: AbError<RunError>, why: Option<&str>) -> Failure {
    match error {
        AbError::Toggle { toggle, source: ToggleError::Interface } => Failure::Attach(format!(
            "{toggle}: it acts on the cable's interface. {}",
            why.unwrap_or("Leave --loopback out.")
        )),
        AbError::Run(RunError::Stopped) => Failure::Withheld(
            "no verdict: stopped before all runs were made; settings are as before".to_owned(),
        ),
        AbError::Design(what) => Failure::Usage(what),
        error => Failure::Attach(error.to_string()),
    }
}

/// One run of one arm.
fn observe(
    (place, base): (&Place, &Conditions),
    run: &Run<'_>,
    disturbed: &AtomicUsize,
    stop: &AtomicBool,
) -> Result<Observation, RunError> {
    if stop.load(Ordering::Relaxed) {
        return Err(RunError::Stopped);
    }
    let mut conditions = base.clone();
    for change in run.sink {
        match *change {
            SinkChange::Block => conditions.mode = SinkMode::Block,
            SinkChange::BusyPoll { .. } => conditions.mode = SinkMode::BusyPoll,
            SinkChange::Fifo { priority } => conditions.sink_fifo = Some(priority),
        }
    }
    let outcome = measure_as_it_is(place, &conditions, stop)?;
    if stop.load(Ordering::Relaxed) {
        // It is a shorter run than the others.
        return Err(RunError::Stopped);
    }
    let analysis = Analysis::of(&outcome.measured, outcome.trace.as_ref().ok());
    disturbed.fetch_add(usize::from(!analysis.gates.pass()), Ordering::Relaxed);
    let transit = analysis.transit.as_ref();
    let at = |q: f64| {
        let found = transit.and_then(|transit| transit.quantiles.iter().find(|one| one.q == q));
        found.map_or(f64::NAN, |one| one.value_ns as f64 / 1e3)
    };
    let rate = analysis.sink.as_ref().map_or(f64::NAN, |sink| sink.spikes.per_second);
    let most = transit.map_or(f64::NAN, |transit| transit.max_ns as f64 / 1e3);
    let mut counts = vec![("realtime", f64::from(u8::from(conditions.sink_fifo.is_some())))];
    if let Some(switches) = outcome.received.switches {
        counts.push(("voluntary_switches", switches.voluntary as f64));
    }
    if let Some(batch) = analysis.traced.and_then(|traced| traced.counts.mean_batch()) {
        counts.push(("batch", batch));
    }
    Ok(Observation { figures: vec![at(0.99), at(0.5), most, rate], counts })
}

/// The effects as a picture, each in its figure's unit.
fn page(report: &Report, outcomes: &[Outcome], design: &Design) -> Page {
    let mut page = Page::new("What a change does to packets");
    page.summary(report);
    for (index, figure) in design.figures.iter().enumerate() {
        let unit = if figure.ends_with(", µs") { Unit::Plain("µs") } else { Unit::Plain("/s") };
        let axis = Axis::new("difference of arm B", unit);
        let mut chart =
            Effects::new("effects", figure.trim_end_matches(", µs"), axis, design.confidence);
        for outcome in outcomes {
            let Some(Ok(effect)) = outcome.effects.get(index) else { continue };
            let interval = [effect.interval.lower, effect.interval.upper];
            chart.effect(outcome.toggle.name, effect.difference, interval, effect.p);
        }
        page.chart(chart);
    }
    page
}
