//! Published values beside ours.
//!
//! The values of a publication, and the job that answers each of them, are data:
//! `papers/NAME.toml`. This runs the jobs, compares, and counts agreement only of values that the
//! models were not given.

mod comparison;
mod expression;
mod figure;
mod jobs;
#[cfg(target_os = "linux")]
pub mod live;
mod lso;
mod lso_receive;
mod measure;
mod paper;

use crate::model::Scenario;
use crate::{Context, Error, Failure};
use comparison::{Comparison, add_all, agreed};
use expression::{Query, fill};
use jobs::Runs;
use linecard_config::Document;
use linecard_report::{Curves, Page, Report, Section, Table, Value};
use paper::Paper;
use serde_json::json;
use std::path::Path;

/// Outcome of a reproduction.
#[derive(Debug)]
pub struct Reproduced {
    /// Published values and ours.
    pub report: Report,
    /// Values that differ without a reason, or beyond its limit.
    pub unexplained: usize,
    /// The publication's figures.
    pub figures: Vec<Curves>,
    /// Published tables beside ours, which a page has as tables in place of the report's sections.
    comparisons: Vec<Comparison>,
    /// Keys of the report's sections that are curves.
    curves: Vec<String>,
    /// Authors and title.
    pub source: String,
    /// Values that the models were not given: how many agree, and how many there are.
    pub agreed: (usize, usize),
}

impl Reproduced {
    /// A sentence about what agrees.
    #[must_use]
    pub fn headline(&self) -> String {
        headline(self.agreed, self.unexplained)
    }

    /// The part of a page that is about this: figures, then all values.
    pub fn add_to(&self, page: &mut Page) {
        page.note(&self.source);
        self.figures.iter().for_each(|figure| _ = page.chart(figure.clone()));
        self.comparisons.iter().for_each(|one| _ = page.table(one.table()));
        let mut rest = Report::new(self.report.job());
        for section in self.report.sections() {
            if self.curves.iter().any(|key| key == section.key()) {
                page.table(folded(section));
            } else if !self.comparisons.iter().any(|one| one.key() == section.key()) {
                rest.push(section.clone());
            }
        }
        self.report.notes().iter().for_each(|note| rest.note(note));
        page.summary(&rest);
    }

    /// The error, if values differ without a reason.
    #[must_use]
    pub fn failure(&self) -> Option<Error> {
        failure(self.unexplained)
    }
}

/// An error, if this many values differ without a reason.
#[must_use]
pub fn failure(count: usize) -> Option<Error> {
    let what = format!("{count} figures differ without a reason, or beyond its limit: see DIFFERS");
    (count > 0).then_some(Failure::Unexplained.with(what))
}

/// A page about reproductions.
#[must_use]
pub fn page(title: impl Into<String>, all: &[Reproduced]) -> Page {
    let mut page = Page::new(title);
    let sum = |of: &dyn Fn(&Reproduced) -> usize| all.iter().map(of).sum();
    let agreed = (sum(&|one| one.agreed.0), sum(&|one| one.agreed.1));
    page.headline(headline(agreed, sum(&|one| one.unexplained)));
    for one in all {
        if all.len() > 1 {
            page.heading(one.report.job().trim_start_matches("reproduce "));
            page.note(one.headline());
        }
        one.add_to(&mut page);
    }
    page
}

/// A section of our values as a table that is opened when it is wanted.
fn folded(section: &Section) -> Table {
    let mut table = Table::new(section.key(), section.title());
    table.columns([("what", "at"), ("ours", "ours")]).folded();
    for row in section.rows() {
        let text = Value::Text(row.value().to_string());
        table.row(vec![Value::Text(row.label().to_owned()), text]);
    }
    table
}

fn headline((agree, all): (usize, usize), unexplained: usize) -> String {
    let differ = match unexplained {
        0 => "each of the others has a reason with a limit".to_owned(),
        count => format!("{count} values differ without a reason, or beyond its limit"),
    };
    match all {
        0 => "No value here tests a model: all are arithmetic, or fitted.".to_owned(),
        _ => format!("{agree} of {all} values that the models were not given agree; {differ}."),
    }
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
    let wrong = |what| Failure::Usage.with(format!("papers, {name}: {what}"));
    let reproduction = paper.reproduction(name)?;
    let mut runs = Runs::new(&paper, (&files, hardware), &reproduction.jobs, context)?;
    let curves = reproduction.curve.iter().map(|curve| runs.curve(curve));
    let curves = curves.collect::<Result<Vec<_>, String>>().map_err(wrong)?;
    let lookup = |query: &Query| runs.numbers(query);
    let tables = reproduction.table.iter().map(|table| table.compare(&lookup));
    let tables = tables.collect::<Result<Vec<_>, String>>().map_err(wrong)?;
    let figures = reproduction.figure.iter().map(|figure| figure.draw(&lookup));
    let figures = figures.collect::<Result<Vec<_>, String>>().map_err(wrong)?;
    let mut report = Report::new(job);
    report.add_config(&json!({ "jobs": runs.configs }));
    let unexplained = add_all(&tables, &reproduction.free, &mut report);
    let curve_keys = curves.iter().map(|curve| curve.key().to_owned()).collect();
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
    let agreed = agreed(&tables);
    Ok(Reproduced {
        report,
        unexplained,
        figures,
        comparisons: tables,
        curves: curve_keys,
        source: paper.source.clone(),
        agreed,
    })
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
    let refuse = |what| Failure::Usage.with(format!("{}: {what}", path.display()));
    paper.overlay(own.read_as()?).map_err(refuse)?;
    files.push(own);
    Ok(None)
}
