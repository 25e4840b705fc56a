//! Published values beside ours.
//!
//! The values of a publication, and the job that answers each of them, are data:
//! `papers/NAME.toml`. This runs the jobs, compares, and counts agreement only of values that the
//! models were not given.

mod check;
mod comparison;
mod error;
mod expression;
mod figure;
mod jobs;
mod knob;
#[cfg(target_os = "linux")]
pub mod live;
mod lso;
mod lso_receive;
mod measure;
mod outcome;
mod paper;

use crate::model::Scenario;
use crate::{Context, Error, Finished};
pub use knob::{Turned, turn_knobs};
pub use outcome::{Agreed, Agreement, Replaced, ReproduceOutcome, Verdicts};

use check::at;
use error::{Refused, ReproduceError};
use expression::{Query, fill};
use garde::Validate;
use jobs::Runs;
use linecard::progress::Progress;
use linecard_config::Document;
use linecard_report::{Chart, Page, Report, Section, Table, Value, report_of};
use paper::Paper;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};
use smart_default::SmartDefault;
use std::path::Path;
use std::sync::Arc;

/// A reproduction that was run.
#[derive(Debug)]
pub struct Reproduced {
    /// The reproduction's name.
    pub name: String,
    /// Published values and ours.
    pub outcome: ReproduceOutcome,
    /// Its report, to which measurements of this host can be added.
    pub report: Report,
}

impl Reproduced {
    /// Its figures as SVG, each with the name of a file, after the reproduction and the figure.
    ///
    /// # Errors
    ///
    /// [`Failure::Usage`](crate::Failure::Usage) if those names would lead to another folder: a file from elsewhere may give them.
    pub fn pictures(&self) -> Result<Vec<(String, String)>, Error> {
        let picture = |figure: Chart| {
            let (name, key) = (&self.name, figure.key().replace('_', "-"));
            let file = format!("{name}-{key}.svg");
            if Path::new(&file).file_name() != Some(file.as_ref()) {
                let name = name.clone();
                return Some(Err(ReproduceError::FileName { name, key }.into()));
            }
            figure.svg().map(|svg| Ok((file, svg)))
        };
        self.outcome.figures.iter().cloned().map(Chart::from).filter_map(picture).collect()
    }

    /// The part of a page that is about this: figures, then all values.
    fn add_to(&self, page: &mut Page) {
        let outcome = &self.outcome;
        page.note(&outcome.source);
        outcome.figures.iter().for_each(|figure| _ = page.chart(figure.clone()));
        outcome.tables.iter().for_each(|table| _ = page.table(table.table()));
        let mut rest = Report::new(self.report.job());
        for section in self.report.sections() {
            if outcome.curve(section.key()).is_some() {
                page.table(folded(section));
            } else if outcome.table(section.key()).is_none() {
                rest.push(section.clone());
            }
        }
        self.report.notes().iter().for_each(|note| rest.note(note));
        page.summary(&rest);
    }
}

/// The error, if values differ without a reason.
///
/// # Errors
///
/// [`Failure::Unexplained`](crate::Failure::Unexplained).
pub fn check(all: &[Reproduced]) -> Result<(), Error> {
    let count: usize = all.iter().map(|one| one.outcome.verdicts.unexplained).sum();
    if count == 0 { Ok(()) } else { Err(ReproduceError::Unexplained { count }.into()) }
}

/// All values of several reproductions together, by class.
#[must_use]
pub fn total(all: &[Reproduced]) -> Report {
    let mut report = Report::new("reproduce");
    let mut by_name = Section::new("reproductions", "Together, by reproduction");
    for one in all {
        let Agreement { predicted, fitted, arithmetic, cannot, .. } = &one.outcome.agreement;
        let Agreed { agree, of, explained, differs, .. } = predicted;
        let text = format!(
            "{agree} of {of} agree, {explained} differ within a limit, {differs} with no limit known; not counted: {fitted} fitted, {arithmetic} arithmetic, {cannot} cannot be had here"
        );
        by_name.add(one.name.clone(), one.name.clone(), Value::Text(text));
    }
    report.push(by_name);
    let sum = Agreement::sum(all.iter().map(|one| &one.outcome.agreement));
    let Agreed { agree, of, exact, explained, differs } = sum.predicted;
    let mut by_class = Section::new("classes", "Together, by class");
    for (key, label, count) in [
        ("exact", "exact", exact),
        ("predicted", "predicted", agree - exact),
        ("explained", "differ, within a limit", explained),
        ("differs", "differ, no limit known", differs),
        ("unexplained", "DIFFER without a reason", of - agree - explained - differs),
        ("fitted", "fitted", sum.fitted),
        ("arithmetic", "arithmetic", sum.arithmetic),
        ("cannot", "cannot be had here", sum.cannot),
    ] {
        by_class.add(key, label, Value::Count(count as u64));
    }
    let share = |all: usize| {
        let share = agree as f64 / all.max(1) as f64;
        Value::Text(format!("{agree} of {all}, {}", Value::Share(share)))
    };
    by_class.add("share", "agree, of values that models were not given", share(of));
    by_class.add("share_of_all", "agree, of all", share(sum.values()));
    report.push(by_class);
    report
}

/// A page about reproductions.
#[must_use]
pub fn page(title: impl Into<String>, all: &[Reproduced]) -> Page {
    let mut page = Page::new(title);
    page.headline(headline(all));
    if all.len() > 1 {
        page.summary(&total(all));
    }
    for one in all {
        if all.len() > 1 {
            page.heading(&one.name);
            page.note(headline(std::slice::from_ref(one)));
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

/// A sentence about what agrees.
fn headline(all: &[Reproduced]) -> String {
    let unexplained: usize = all.iter().map(|one| one.outcome.verdicts.unexplained).sum();
    let sum = Agreement::sum(all.iter().map(|one| &one.outcome.agreement)).predicted;
    let Agreed { agree, explained, differs, of, .. } = sum;
    let differ = format!(
        "{explained} differ within a limit that was known before, {differs} with no limit known"
    );
    let wrong = match unexplained {
        0 => String::new(),
        count => format!(" {count} values differ without a reason, or beyond its limit."),
    };
    let replaced = all.iter().find_map(|one| one.outcome.replaced.as_ref());
    let replaced = replaced
        .map(|one| format!("With --scenario {}: not the paper's configuration. ", one.file));
    let agreement = match of {
        0 => "No value here tests a model: all are arithmetic, or fitted.".to_owned(),
        all => format!("{agree} of {all} values that the models were not given agree; {differ}."),
    };
    format!("{}{agreement}{wrong}", replaced.unwrap_or_default())
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
    let mut paper = Paper::read(&built_in)?;
    let mut files = vec![built_in];
    let (hardware, replaced) = match own {
        Some(path) => add(path, name, (&mut paper, &mut files))?,
        None => (None, None),
    };
    let mut found = compare(&paper, (&files, hardware, replaced), (name, job), context)?;
    found.report.add_config(&json!({ "scenario": own }));
    Ok(found)
}

/// Runs all reproductions of a file in the form of `papers/NAME.toml`.
///
/// # Errors
///
/// As [`reproduce`]; a file without a reproduction.
pub fn reproduce_file(path: &Path, context: &Context<'_>) -> Result<Vec<Reproduced>, Error> {
    reproduce_in(path, None, context)
}

/// The same, or only the reproduction of this name.
fn reproduce_in(
    path: &Path,
    only: Option<&str>,
    context: &Context<'_>,
) -> Result<Vec<Reproduced>, Error> {
    let document = Document::read(path)?;
    let paper = Paper::read(&document)?;
    let files = [document];
    let names = paper.names().filter(|name| only.is_none_or(|only| only == *name));
    let found = names.map(|name| {
        let mut found = compare(&paper, (&files, None, None), (name, "reproduce"), context)?;
        found.report.add_config(&json!({ "file": path, "reproduction": name }));
        Ok(found)
    });
    let found = found.collect::<Result<Vec<_>, Error>>()?;
    if found.is_empty() {
        let name = only.map(str::to_owned);
        return Err(ReproduceError::NoneInFile { path: path.to_owned(), name }.into());
    }
    Ok(found)
}

/// Arguments of a program that asks for a reproduction.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(default, deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct Config {
    /// the reproduction, as `linecard reproduce` names it, or as the file does
    #[schemars(extend("x-flag" = "name", "x-value" = "NAME", "x-required" = true))]
    pub name: String,
}

/// Runs a reproduction for a program, with models only: one that comes with the project, as [`reproduce`], or one of the
/// file `own`.
///
/// # Errors
///
/// As those. Values that differ without a reason are part of the outcome.
pub fn finish(name: &str, own: Option<&Path>, progress: &Arc<Progress>) -> Result<Finished, Error> {
    let context = Context::new(progress);
    let found = match own {
        Some(path) if Paper::built_in(name).is_err() => reproduce_in(path, Some(name), &context)?,
        _ => vec![reproduce(name, own, &context)?],
    };
    let page = page(format!("{name}, reproduced"), &found);
    let failure = check(&found).err();
    let report = found.into_iter().next().map(|one| one.report);
    let report = report.unwrap_or_else(|| Report::new("reproduce"));
    Ok(Finished { page, failure, ..Finished::of_report(name, report) })
}

/// Runs the jobs of a reproduction, and compares.
fn compare(
    paper: &Paper,
    (files, hardware, replaced): (&[Document], Option<Hardware>, Option<Replaced>),
    (name, job): (&str, &'static str),
    context: &Context<'_>,
) -> Result<Reproduced, Error> {
    let position = Position::of(paper, files, name);
    let reproduction = paper.reproduction(name)?;
    let mut runs = Runs::new(paper, (files, hardware), &reproduction.jobs, context)?;
    let curves = position.each("curve", &reproduction.curve, |curve| runs.curve(curve))?;
    let lookup = |query: &Query| runs.numbers(query);
    let tables = position.each("table", &reproduction.table, |table| table.compare(&lookup))?;
    let figures = position.each("figure", &reproduction.figure, |figure| figure.draw(&lookup))?;
    let mut outcome = ReproduceOutcome::new(tables, &reproduction.free);
    let counts =
        |query: &Query| match outcome.table(&query.root).and_then(|table| table.same(query)) {
            Some(counts) => Ok(counts),
            None => runs.numbers(query),
        };
    let note = |note: &String| fill(note, &counts).map_err(at("text"));
    let mut notes = position.each("notes", &reproduction.notes, note)?;
    notes.extend(runs.warnings);
    let source = paper.source.clone();
    outcome = ReproduceOutcome { replaced, curves, figures, notes, source, ..outcome };
    let mut report = report_of(job, &outcome);
    report.add_config(&json!({ "jobs": runs.configs }));
    Ok(Reproduced { name: name.to_owned(), outcome, report })
}

/// A reproduction in its file, for errors that show once there are outcomes.
struct Position<'f> {
    file: &'f Document,
    path: String,
}

impl<'f> Position<'f> {
    /// Of several files the last one that has reproductions counts.
    fn of(paper: &Paper, files: &'f [Document], name: &str) -> Self {
        let index = paper.names().position(|one| one == name).unwrap_or_default();
        let has_it = |file: &&Document| file.find("reproduction").is_some();
        let file = files.iter().rev().find(has_it).unwrap_or(&files[0]);
        Self { file, path: format!("reproduction[{index}]") }
    }

    /// Makes something of each part of a kind.
    fn each<'p, T, R>(
        &self,
        kind: &str,
        parts: &'p [T],
        made: impl FnMut(&'p T) -> Result<R, Refused>,
    ) -> Result<Vec<R>, Error> {
        let refuse = |(index, found): (usize, Result<R, Refused>)| {
            let part = format!("{}.{kind}[{index}]", self.path);
            found.map_err(|refused| check::refuse(self.file, &part, refused))
        };
        parts.iter().map(made).enumerate().map(refuse).collect()
    }
}

/// A scenario, by the job that it is for.
type Hardware = (String, Document);

/// Takes what a file says: as one more of the paper's files, or as a scenario, by the job that it is for.
fn add(
    path: &Path,
    name: &str,
    (paper, files): (&mut Paper, &mut Vec<Document>),
) -> Result<(Option<Hardware>, Option<Replaced>), Error> {
    let own = Document::read(path)?;
    let replaced = |document: &Document, part: &str| {
        let values = values_of(&document.read_as()?, part).join(", ");
        Ok::<_, Error>(Some(Replaced { file: path.display().to_string(), values }))
    };
    if own.find("model").is_some()
        && let Some(hardware) = &paper.reproduction(name)?.hardware
    {
        let scenario = Scenario::read(path, &[])?.only_named(&hardware.model)?;
        let replaced = replaced(&scenario, &format!("job.{}", hardware.job))?;
        return Ok((Some((hardware.job.clone(), scenario)), replaced));
    }
    paper.overlay(own.read_as()?, &own)?;
    check::check(&own, paper)?;
    let replaced = replaced(&own, "")?;
    files.push(own);
    Ok((None, replaced))
}

/// Values of a file with their keys, of reproductions only that there are some.
fn values_of(values: &Json, path: &str) -> Vec<String> {
    match values {
        Json::Object(values) => {
            let inside = |(key, value): (&String, &Json)| {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                values_of(value, &path)
            };
            values.iter().flat_map(inside).collect()
        }
        _ if path == "reproduction" => vec![path.to_owned()],
        value => vec![format!("{path} = {value}")],
    }
}
