//! Published values beside ours.
//!
//! What a publication says, and which job answers each of its values, is data: `papers/NAME.toml`. This runs the jobs,
//! compares, and counts agreement only of values that the models were not given.

mod comparison;
mod expression;
mod jobs;
#[cfg(target_os = "linux")]
pub mod live;
mod lso;
mod lso_receive;
mod measure;
mod paper;

use crate::model::Scenario;
use crate::{Context, Error};
use comparison::add_all;
use expression::{Query, fill};
use jobs::Runs;
use linecard_config::Document;
use linecard_report::Report;
use paper::Paper;
use serde_json::json;
use std::path::Path;

/// What a reproduction came to.
#[derive(Debug)]
pub struct Reproduced {
    /// Published values and ours.
    pub report: Report,
    /// Values that differ without a reason, or beyond its limit.
    pub unexplained: usize,
}

impl Reproduced {
    /// What is wrong, if values differ without a reason.
    #[must_use]
    pub fn failure(&self) -> Option<Error> {
        failure(self.unexplained)
    }
}

/// What is wrong, if so many values differ without a reason.
#[must_use]
pub fn failure(count: usize) -> Option<Error> {
    let what = format!("{count} figures differ without a reason, or beyond its limit: see DIFFERS");
    (count > 0).then_some(Error::Unexplained(what))
}

/// Runs a reproduction. `own` takes precedence over what comes with the project: a file in the form of `papers/NAME.toml`, or a
/// scenario with the hardware of the reproduction, if it has some.
///
/// # Errors
///
/// A file that cannot be read or has wrong values, and what the jobs refuse.
pub fn reproduce(
    name: &str,
    own: Option<&Path>,
    context: &Context<'_>,
) -> Result<Reproduced, Error> {
    let (built_in, job) = Paper::built_in(name)?;
    let mut paper: Paper = built_in.read_as()?;
    let mut files = vec![built_in];
    let hardware = match own {
        Some(path) => add(path, name, (&mut paper, &mut files))?,
        None => None,
    };
    let wrong = |what| Error::Usage(format!("papers, {name}: {what}"));
    let reproduction = paper.reproduction(name)?;
    let mut runs = Runs::new(&paper, (&files, hardware), &reproduction.jobs, context)?;
    let curves = reproduction.curve.iter().map(|curve| runs.curve(curve));
    let curves = curves.collect::<Result<Vec<_>, String>>().map_err(wrong)?;
    let lookup = |query: &Query| runs.numbers(query);
    let tables = reproduction.table.iter().map(|table| table.compare(&lookup));
    let tables = tables.collect::<Result<Vec<_>, String>>().map_err(wrong)?;
    let mut report = Report::new(job);
    report.add_config(&json!({ "jobs": runs.configs }));
    let unexplained = add_all(&tables, &reproduction.free, &mut report);
    curves.into_iter().for_each(|curve| report.push(curve));
    let counts = |query: &Query| match tables.iter().find_map(|table| table.same(query)) {
        Some(counts) => Ok(counts),
        None => runs.numbers(query),
    };
    for note in &reproduction.notes {
        report.note(fill(note, &counts).map_err(wrong)?);
    }
    runs.warnings.iter().for_each(|warning| report.note(warning));
    report.add_config(&json!({ "scenario": own }));
    Ok(Reproduced { report, unexplained })
}

/// Takes what a file says: as one more of the paper's files, or as a scenario, by the job that it is for.
fn add(
    path: &Path,
    name: &str,
    (paper, files): (&mut Paper, &mut Vec<Document>),
) -> Result<Option<(String, Document)>, Error> {
    let own = Document::read(path)?;
    if own.find("model").is_some()
        && let Some(hardware) = &paper.reproduction(name)?.hardware
    {
        let scenario = Scenario::read(path, &[])?;
        return Ok(Some((hardware.job.clone(), scenario.only_named(&hardware.model)?)));
    }
    let refuse = |what| Error::Usage(format!("{}: {what}", path.display()));
    paper.overlay(own.read_as()?).map_err(refuse)?;
    files.push(own);
    Ok(None)
}
