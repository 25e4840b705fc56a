//! From what is asked to what runs where.

mod lanes;
mod measured;
mod report;
mod scenario;
mod settings;
mod transfers;

pub use crate::calibrate::Only;
pub use crate::calibrate::lines::PAYLOADS;

use crate::{Context, Error, Finished};
use garde::Validate;
use linecard_report::Report;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::path::Path;

/// What is asked beside the scenario.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("x-flags" = true))]
#[garde(allow_unvalidated)]
pub struct Options {
    /// costs measured by `linecard calibrate`, for stages that have none in the scenario
    #[schemars(extend("x-value" = "FILE", "x-default" = "where that command keeps them"))]
    pub calibration: Option<String>,
    /// run the stages on the engine too, on as many cores as planned, and put what they do beside what was predicted; stages
    /// of the offloads only
    pub measure: bool,
}

/// Plans what a scenario asks for.
///
/// # Errors
///
/// A scenario or a calibration that cannot be read or is wrong, and stages that the engine does not have.
pub fn plan(scenario: &Path, options: &Options) -> Result<Finished, Error> {
    let asked = settings::read(scenario, options.calibration.as_deref().map(Path::new))?;
    let question = &asked.question;
    let answer = linecard_plan::plan(question).map_err(|error| asked.refuse(&error))?;
    let mut text = report::asked(&asked);
    match &answer {
        Ok(plan) => report::add_plan(&mut text, question, plan),
        Err(why) => report::add_infeasible(&mut text, question, why),
    }
    if options.measure {
        measured::add(&mut text, &asked, answer.as_ref().ok())?;
    }
    let page = report::page(&text, question);
    let failure = answer.err().map(|why| Error::Infeasible(why.text));
    let finished = Finished { page, failure, ..Finished::of_report("", text) };
    Ok(finished.with_config(&asked.scenario()?).of_config(options, None))
}

/// Calibrates and measures many configurations in turn, in so many rounds: predicted and measured rates in a table. Of
/// transfers, those with `payload` bytes in a packet, or all.
///
/// # Errors
///
/// Stages and transfers that do not run, and cancellation.
pub fn verify(
    what: Only,
    rounds: u64,
    payload: Option<u32>,
    context: &Context<'_>,
) -> Result<Report, Error> {
    let mut report = match what {
        Only::Offload => measured::verify(rounds, context)?,
        Only::Transfer => transfers::verify(rounds, payload, context)?,
    };
    report.add_config(&json!({ "verify": what, "rounds": rounds, "payload": payload }));
    Ok(report)
}
