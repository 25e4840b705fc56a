//! A busy loop that receives nothing: what this host does to a program on a core.

use super::distribution::Distributions;
use super::figures::{Spikes, Thread, Times, sorted};
use super::placement::{Placement, refused};
use crate::{Context, Error, Failure, Job};
use garde::Validate;
use linecard_config::{Count, Duration, Switch};
use linecard_jitter::linux::dummy::{DummyConfig, DummyError, MAX_LAPS, Pace};
use linecard_report::Page;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;

/// The job.
#[derive(Debug)]
pub struct Dummy;

/// A busy loop.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("x-flags" = true))]
pub struct Config {
    /// period of a lap
    #[default(Duration::from_ns(7_410))]
    #[garde(range(min = Duration::from_ps(1), max = Duration::from_secs(3_600)))]
    pub period: Duration,
    /// laps
    #[default(Count::new(1_000_000))]
    #[garde(range(min = Count::new(2), max = Count::new(MAX_LAPS)))]
    pub count: Count,
    /// each lap is timed from the previous one, as in the paper's loop: pauses move the schedule,
    /// and nothing is ever late
    #[garde(skip)]
    pub relative: Switch,
    /// Where the loop runs.
    #[garde(dive)]
    pub placement: Placement,
}

/// How long laps took, and how late they were.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct DummyOutcome {
    /// Gaps between laps
    pub gaps: Times,
    /// Spikes (gaps of more than two periods)
    pub spikes: Spikes,
    /// Lateness of laps
    pub lateness: Times,
    /// The measuring thread
    pub thread: Thread,
    #[serde(skip)]
    is_relative: bool,
    #[serde(skip)]
    distributions: Distributions,
    #[serde(skip)]
    notes: Vec<String>,
}

impl Job for Dummy {
    const NAME: &'static str = "dummy";
    const COMMAND: &'static str = "jitter dummy";
    type Config = Config;
    type Outcome = DummyOutcome;

    fn title(_: &Config) -> String {
        "A busy loop on this host".to_owned()
    }

    fn draw(outcome: &DummyOutcome, page: &mut Page) {
        outcome.distributions.draw(page);
    }

    fn run(config: &Config, context: &Context<'_>) -> Result<DummyOutcome, Error> {
        let dummy = DummyConfig {
            period_ps: config.period.as_ps(),
            count: config.count.get(),
            pace: if config.relative.0 { Pace::Relative } else { Pace::Absolute },
            placement: config.placement.placement(),
        };
        let laps = dummy.run(context.progress.stop_flag()).map_err(|error| match error {
            DummyError::Placement(error) => refused(error),
            _ => Failure::Usage.with(error),
        })?;
        let seconds = laps.gaps_ns().map(|ns| ns as f64).sum::<f64>() / 1e9;
        // Of the most laps that there can be, each takes 800 MB: only one at a time.
        let gaps = sorted(laps.gaps_ns());
        let spikes = Spikes::of(&gaps, laps.schedule.period_ps, seconds);
        let mut distributions = Distributions::new("laps");
        distributions.add_gaps("laps", &gaps);
        let gaps = Times::of(&gaps);
        let few = "Stopped before the second lap: there is no gap.";
        let few = (laps.at_ns.len() < 2).then(|| few.to_owned());
        let late = sorted(laps.lateness_ns());
        distributions.add_lateness("laps", &late);
        Ok(DummyOutcome {
            gaps,
            spikes,
            lateness: Times::of(&late),
            thread: Thread { stolen_ticks: laps.stolen_ticks, ..Thread::new(laps.switches) },
            is_relative: config.relative.0,
            distributions,
            notes: few.into_iter().chain(config.placement.note(seconds)).collect(),
        })
    }
}

impl linecard_report::Outcome for DummyOutcome {
    fn title(&self, section: &str) -> Option<String> {
        let title = "Drift of the schedule, which moves with every pause";
        (section == "lateness" && self.is_relative).then(|| title.to_owned())
    }

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
