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
use linecard::plan;
use linecard_report::Report;
use std::path::Path;

/// Plans what a scenario asks for, with costs of `calibration` for stages that have none in the scenario; without such a
/// file, of the one that [`crate::calibrate`] keeps. With `measures`, the stages are run on the engine too.
///
/// # Errors
///
/// A scenario or a calibration that cannot be read or is wrong, and stages that the engine does not have.
pub fn plan(
    scenario: &Path,
    calibration: Option<&Path>,
    measures: bool,
) -> Result<Finished, Error> {
    let asked = settings::read(scenario, calibration)?;
    let question = &asked.question;
    let answer = plan::plan(question).map_err(|error| asked.refuse(&error))?;
    let mut text = report::asked(&asked);
    match &answer {
        Ok(plan) => report::add_plan(&mut text, question, plan),
        Err(why) => report::add_infeasible(&mut text, question, why),
    }
    if measures {
        measured::add(&mut text, &asked, answer.as_ref().ok())?;
    }
    let page = report::page(&text, question);
    let failure = answer.err().map(|why| Error::Infeasible(why.text));
    Ok(Finished { page, failure, ..Finished::of_report("", text) })
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
    match what {
        Only::Offload => measured::verify(rounds, context),
        Only::Transfer => transfers::verify(rounds, payload, context),
    }
}
