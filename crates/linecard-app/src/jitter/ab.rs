//! The effect of a setting on packets, and its significance: randomised runs with and without it.

use super::error::JitterError;
use super::lab::Stream;
use super::recovery;
use crate::{Context, Error, Failure, Job};
use garde::Validate;
use linecard_config::ConfigError;
use linecard_io::placement::Placement;
use linecard_jitter::linux::ab::{self, AbError, Design, Observation, Run, ToggleOutcome, verdict};
use linecard_jitter::linux::journal::Store;
use linecard_jitter::linux::session::{
    Conditions, Receive, SessionError, TestNetwork, measure_as_it_is,
};
use linecard_jitter::linux::setting::Namespace;
use linecard_jitter::linux::sink::SinkMode;
use linecard_jitter::linux::toggle::{self, SinkChange, Target, Toggle, ToggleError};
use linecard_jitter::stats::effect::Effect;
use linecard_jitter::verdict::Analysis;
use linecard_report::{Axis, Effects, Item, Named, Page, Unit};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Packets of one run: three tenths of a second.
const RUN: u64 = 40_000;
/// The result of each run; the first one decides.
const FIGURES: [&str; 4] = [
    "transit, 99 %, µs",
    "transit, half, µs",
    "transit, most, µs",
    "spikes beyond two periods per second",
];

/// The job. Settings of the host are restored before it ends.
#[derive(Debug)]
pub struct Ab;

/// The settings to compare, and the number of runs.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("x-flags" = true))]
#[garde(allow_unvalidated)]
pub struct Config {
    /// settings to switch
    #[schemars(extend("x-argument" = "TOGGLE"))]
    pub toggles: Vec<String>,
    /// blocks of four runs (ABBA or BAAB, at random); six can show an effect of one toggle at 5 %, seven of two or three
    #[default(8)]
    #[garde(range(min = 6, max = 64))]
    pub blocks: usize,
    /// decides the order of runs
    #[default(1)]
    pub seed: u64,
    /// The stream of each run.
    #[garde(dive)]
    pub stream: Stream,
}

/// Effects of toggles. `effects` is what [`super::audit`] takes.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct AbOutcome {
    /// Effects, of each toggle against the host as found
    pub effects: Vec<ToggleEffect>,
    /// Verdicts, by the first figure
    pub verdicts: Named<String>,
    #[serde(skip)]
    notes: Vec<String>,
    #[serde(skip)]
    charts: Vec<Effects>,
    /// Toggles whose first figure decides nothing: which, the verdicts say why.
    #[serde(skip)]
    withheld: Vec<&'static str>,
}

/// The effect of a toggle on one figure.
pub type ToggleEffect = Item<EffectFigures>;

/// An effect.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct EffectFigures {
    /// The toggle.
    pub toggle: String,
    /// The figure, with its unit.
    pub figure: String,
    /// Its mean without the toggle.
    pub without: f64,
    /// Its mean with it.
    pub with: f64,
    /// The difference of the two.
    pub difference: f64,
    /// The lower bound of the difference.
    pub lower: f64,
    /// Its upper bound.
    pub upper: f64,
    /// The chance of such a difference if the toggle does nothing; of the first figure after Holm's correction.
    pub p: f64,
    /// Blocks of four runs.
    pub blocks: u64,
    /// Whether the toggle did what it is to do.
    pub took_effect: bool,
    /// Whether the toggle is the thing itself, or emulates it.
    pub tag: String,
    #[serde(skip)]
    relative: Option<f64>,
}

/// Why a run has no figures.
#[derive(Debug, thiserror::Error)]
enum RunError {
    #[error(transparent)]
    Session(#[from] SessionError),
    #[error("stopped")]
    Stopped,
}

impl Job for Ab {
    const NAME: &'static str = "ab";
    const COMMAND: &'static str = "jitter ab";
    type Config = Config;
    type Outcome = AbOutcome;

    fn title(_: &Config) -> String {
        "What a change does to packets".to_owned()
    }

    fn run(config: &Config, context: &Context<'_>) -> Result<AbOutcome, Error> {
        let toggles = config.toggles()?;
        let (place, why) = config.stream.place(context)?;
        let mut base = config.stream.base(RUN, &place);
        // The host as found: only the sender is preferred, whose lateness is not measured.
        (base.sink_fifo, base.is_awake, base.is_polled) = (None, false, true);
        base.receive = Receive::Sender;
        let is_remote = matches!(place, TestNetwork::Remote(_));
        let is_preferred = is_remote || may_take_precedence(base.sender_fifo);
        if !is_preferred {
            base.sender_fifo = None;
        }
        let failed = |error: SessionError| Failure::Attach.with(error);
        place.prepare(&base).map_err(failed)?;
        let mut target = Target::new(base.cores.sink.into());
        if let Some((interface, namespace)) = place.interface() {
            let namespace = namespace.map(Namespace::at).transpose();
            let namespace = namespace.map_err(|error| Failure::Attach.with(error))?;
            target = target.by(interface, namespace);
        }
        let mut design = Design::of(FIGURES.map(str::to_owned).into());
        (design.blocks, design.seed) = (config.blocks, config.seed);
        context.progress.expect(design.runs(toggles.len()));
        let disturbed = AtomicUsize::new(0);
        let measure = |run: &Run<'_>| {
            let observation = observe((&place, &base), run, &disturbed, context);
            context.progress.advance(1);
            observation
        };
        let finished = ab::measure((&toggles, &target), &design, &Store::of_user(), measure);
        let finished = finished.map_err(|error| Failure::Attach.with(error))?;
        let elsewhere = recovery::end(finished.restorations)?;
        let outcomes = finished.outcomes.map_err(|error| failure(error, why.clone()))?;
        let mut outcome = AbOutcome::new(&outcomes, &design);
        outcome.notes.extend(elsewhere.into_iter().chain(why));
        let disturbed = disturbed.into_inner();
        if disturbed > 0 {
            outcome.notes.push(format!(
                "In {disturbed} of {} runs a gate did not hold (packets missing, a trace with \
                 losses): the effect of chance is larger then.",
                design.runs(outcomes.len())
            ));
        }
        if !is_preferred {
            let note = "The sender has no real-time priority (SCHED_FIFO), which needs root: it \
                 is late more often.";
            outcome.notes.push(note.to_owned());
        }
        Ok(outcome)
    }

    fn draw(outcome: &AbOutcome, page: &mut Page) {
        for chart in &outcome.charts {
            page.chart(chart.clone());
        }
    }

    fn check(outcome: &AbOutcome) -> Result<(), Error> {
        if outcome.withheld.is_empty() {
            return Ok(());
        }
        Err(JitterError::NoEffect { toggles: outcome.withheld.clone() }.into())
    }
}

impl Config {
    fn toggles(&self) -> Result<Vec<&'static Toggle>, ConfigError> {
        let refuse = |error: ToggleError| ConfigError::of_parameter("toggles", error);
        self.toggles.iter().map(|name| toggle::named(name).map_err(refuse)).collect()
    }
}

/// Whether a thread of this process may run in that class.
fn may_take_precedence(fifo: Option<u8>) -> bool {
    let placement = Placement { fifo, ..Placement::default() };
    thread::spawn(move || placement.enter(true).is_ok()).join().unwrap_or(false)
}

/// The cause, with the reason why there is no cable if that is the cause.
fn failure(error: AbError<RunError>, no_cable: Option<String>) -> Error {
    match error {
        AbError::Toggle { toggle, source: ToggleError::Interface } => {
            JitterError::NoToggledInterface { toggle, no_cable }.into()
        }
        AbError::Run(RunError::Stopped) => JitterError::NotComplete.into(),
        error @ (AbError::Design { .. } | AbError::TooFewBlocks { .. }) => {
            Failure::Usage.with(error)
        }
        error => Failure::Attach.with(error),
    }
}

/// One run of one arm.
fn observe(
    (place, base): (&TestNetwork, &Conditions),
    run: &Run<'_>,
    disturbed: &AtomicUsize,
    context: &Context<'_>,
) -> Result<Observation, RunError> {
    if context.progress.is_stopped() {
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
    let outcome = measure_as_it_is(place, &conditions, context.progress.stop_flag())?;
    if context.progress.is_stopped() {
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

impl AbOutcome {
    fn new(outcomes: &[ToggleOutcome], design: &Design) -> Self {
        let effects = outcomes.iter().flat_map(|outcome| {
            let effects = design.figures.iter().zip(&outcome.effects);
            effects.filter_map(move |(figure, effect)| {
                let value = EffectFigures::new(outcome, figure, effect.as_ref().ok()?);
                Some(ToggleEffect { label: outcome.toggle.name.to_owned(), value })
            })
        });
        let verdicts =
            outcomes.iter().map(|outcome| (outcome.toggle.name.to_owned(), verdict(outcome)));
        let is_measured = |outcome: &&ToggleOutcome| {
            outcome.manipulation.holds && outcome.effects.first().is_some_and(Result::is_ok)
        };
        let withheld = outcomes.iter().filter(|outcome| !is_measured(outcome));
        let correction = match outcomes.len() {
            ..=1 => String::new(),
            several => format!(", after Holm's correction over {several} toggles"),
        };
        let note = format!(
            "{} blocks of four runs for each toggle, in random order (seed {}); intervals of {:.0} %; \
             p-values by sign flips{correction}.",
            design.blocks,
            design.seed,
            design.confidence * 100.0,
        );
        Self {
            effects: effects.collect(),
            verdicts: Named(verdicts.collect()),
            notes: vec![note],
            charts: charts(outcomes, design),
            withheld: withheld.map(|outcome| outcome.toggle.name).collect(),
        }
    }
}

/// The effects as pictures, each figure in its unit.
fn charts(outcomes: &[ToggleOutcome], design: &Design) -> Vec<Effects> {
    let chart = |(index, figure): (usize, &String)| {
        let unit = if figure.ends_with(", µs") { Unit::Plain("µs") } else { Unit::Plain("/s") };
        let axis = Axis::new("difference of arm B", unit);
        let mut chart =
            Effects::new("effects", figure.trim_end_matches(", µs"), axis, design.confidence);
        for outcome in outcomes {
            let Some(Ok(effect)) = outcome.effects.get(index) else { continue };
            let interval = [effect.interval.lower, effect.interval.upper];
            chart.effect(outcome.toggle.name, effect.difference, interval, effect.p);
        }
        chart
    };
    design.figures.iter().enumerate().map(chart).collect()
}

impl EffectFigures {
    fn new(outcome: &ToggleOutcome, figure: &str, effect: &Effect) -> Self {
        // Only the first figure is corrected: the others are there to look at.
        let is_first = outcome
            .effects
            .first()
            .is_some_and(|first| first.as_ref().is_ok_and(|first| first == effect));
        Self {
            toggle: outcome.toggle.name.to_owned(),
            figure: figure.to_owned(),
            without: effect.mean_a,
            with: effect.mean_b,
            difference: effect.difference,
            lower: effect.interval.lower,
            upper: effect.interval.upper,
            p: outcome.p.filter(|_| is_first).unwrap_or(effect.p),
            blocks: effect.blocks as u64,
            took_effect: outcome.manipulation.holds,
            tag: outcome.toggle.tag.name().to_owned(),
            relative: effect.relative.map(|relative| relative.share),
        }
    }
}

impl linecard_report::Outcome for AbOutcome {
    fn item(&self, _: &str, index: usize) -> Option<String> {
        let EffectFigures { figure, without, with, difference, lower, upper, p, relative, .. } =
            &self.effects.get(index)?.value;
        let percent = relative.map_or(String::new(), |share| format!("{:+.1} %, ", share * 100.0));
        Some(format!(
            "{figure}: {without:.3} to {with:.3} ({difference:+.3}, {percent}{lower:+.3} to {upper:+.3}), \
             p {p:.4}"
        ))
    }

    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linecard::rng::Rng;
    use linecard_jitter::linux::ab::Manipulation;
    use linecard_jitter::stats::arms::Arm;
    use linecard_jitter::stats::effect::Block;

    #[test]
    fn an_outcome_is_in_the_text_and_under_stable_keys() {
        let toggle = toggle::named("aa").expect("a toggle");
        let block = |index: u32| -> Block {
            let [a, b] = [10.0, 6.0].map(|late| late + f64::from(index));
            [(Arm::A, a), (Arm::B, b), (Arm::B, b), (Arm::A, a)]
        };
        let blocks: Vec<Block> = (0..6).map(block).collect();
        let effect = Effect::of(&blocks, 0.95, &mut Rng::new(1)).expect("blocks");
        let manipulation = Manipulation { counts: None, disturbed: 0, holds: true };
        let p = Some(effect.p);
        let outcome = ToggleOutcome { toggle, effects: vec![Ok(effect)], p, manipulation };
        let outcome = AbOutcome::new(&[outcome], &Design::of(vec!["late, µs".to_owned()]));
        let report = linecard_report::report_of(Ab::COMMAND, &outcome);
        let json = serde_json::to_value(&report).expect("a report is JSON");
        assert_eq!(json["effects"][0]["value"]["toggle"], "aa");
        assert_eq!(json["effects"][0]["value"]["p"], 0.03125);
        assert!(report.to_string().contains("aa  less"), "{report}");
    }
}
