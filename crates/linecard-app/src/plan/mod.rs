//! From a demand to a mapping of stages to cores.

mod config;
mod error;
mod input;
mod lanes;
mod measured;
mod outcome;
mod time;
mod transfers;
mod verify;

pub use config::{Config, Demand, Keeps, Machine, Preference, Stage, Unit};
pub use outcome::{DemandOutcome, PlanOutcome, Verified};
pub use time::MoveTime;
pub use verify::{Verify, VerifyConfig};

use crate::{Context, Error, Failure, Job};
use linecard_report::{Axis, Ledger, Page, Unit as AxisUnit};

/// The job.
#[derive(Debug)]
pub struct Planning;

impl Job for Planning {
    const NAME: &'static str = "plan";
    type Config = Config;
    type Outcome = PlanOutcome;

    fn title(_: &Config) -> String {
        "Stages, cores, and expected rates".to_owned()
    }

    fn run(config: &Config, context: &Context<'_>) -> Result<PlanOutcome, Error> {
        let query = input::query(config, context)?;
        let answer =
            linecard_plan::plan(&query.input).map_err(|error| input::refused(config, error))?;
        let mut outcome = PlanOutcome::new(&query, &answer, config.demand.bytes);
        if config.measure {
            measured::add(&mut outcome, &query, answer.as_ref().ok())?;
        }
        Ok(outcome)
    }

    fn draw(outcome: &PlanOutcome, page: &mut Page) {
        let axis = Axis::new("share of a core", AxisUnit::Share);
        let mut used = Ledger::new("used", "What each stage needs of a core", axis);
        for ((name, _), share) in outcome.stages.0.iter().zip(&outcome.used) {
            used.cause(name.as_str(), *share, None);
        }
        page.chart(used);
    }

    fn check(outcome: &PlanOutcome) -> Result<(), Error> {
        outcome.infeasible.clone().map_or(Ok(()), |why| Err(Failure::Infeasible.with(why)))
    }
}
