//! The file of a publication, `papers/NAME.toml`: its values, the jobs that answer them, and how they are compared.
//! docs/design/reproduce.md has the format.

use super::check::{self, at, check, within};
use super::comparison::{Class, Comparison, Printed, Row};
use super::error::{ExpressionError, PaperError, Refused, ReproduceError};
use super::expression::{Lookup, evaluate, fill};
use super::figure::Figure;
use super::knob::Knob;
use crate::Error;
use linecard_config::{ConfigError, Document};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;

/// The files that come with the project: path, text, and the jobs of reports, by which reproductions are chosen.
const PAPERS: [(&str, &str, &[&str]); 7] = [
    (
        "papers/lso.toml",
        include_str!("../../../../papers/lso.toml"),
        &[
            "reproduce lso-table1",
            "reproduce lso-table2",
            "reproduce lso-table3",
            "reproduce lso-clock",
        ],
    ),
    (
        "papers/lso-receive.toml",
        include_str!("../../../../papers/lso-receive.toml"),
        &["reproduce lso-receive"],
    ),
    (
        "papers/gigabit.toml",
        include_str!("../../../../papers/gigabit.toml"),
        &["reproduce gigabit-throughput", "reproduce gigabit-overhead", "reproduce gigabit-bus"],
    ),
    (
        "papers/zero-copy.toml",
        include_str!("../../../../papers/zero-copy.toml"),
        &["reproduce zero-copy"],
    ),
    (
        "papers/lro-npu.toml",
        include_str!("../../../../papers/lro-npu.toml"),
        &["reproduce lro-npu"],
    ),
    (
        "papers/linux-jitter.toml",
        include_str!("../../../../papers/linux-jitter.toml"),
        &["reproduce linux-jitter"],
    ),
    (
        "papers/end2end100.toml",
        include_str!("../../../../papers/end2end100.toml"),
        &["reproduce end2end100"],
    ),
];

/// A file.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Paper {
    /// Authors, title, year.
    pub(super) source: String,
    /// Expressions by name.
    pub(super) value: BTreeMap<String, String>,
    /// The job, by name.
    pub(super) job: BTreeMap<String, JobEntry>,
    reproduction: Vec<Reproduction>,
    /// Parameters of measurements on this host.
    #[serde(rename = "live")]
    _live: Value,
}

/// A job; all keys beside these are parameters of its configuration.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct JobEntry {
    /// Its name in curves.
    label: Option<String>,
    /// The model, or a measurement of [`super::measure`].
    pub(super) model: Option<String>,
    /// The job whose parameters and points this one has, but for those that it gives itself.
    pub(super) base: Option<String>,
    /// Axes of its points, the last the fastest: of each axis, values by parameter, which go together.
    pub(super) vary: Option<Vec<BTreeMap<String, Vec<Value>>>>,
}

/// The reproduction that `linecard reproduce NAME` runs.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Reproduction {
    name: String,
    /// Jobs that it needs.
    #[serde(default)]
    pub(super) jobs: Vec<String>,
    /// Parameters that were chosen.
    #[serde(default)]
    pub(super) free: Vec<Free>,
    /// The job whose parameters a scenario may give in place of the paper's.
    pub(super) hardware: Option<Hardware>,
    /// Sentences under the figures, with expressions in braces.
    #[serde(default)]
    pub(super) notes: Vec<String>,
    #[serde(default)]
    pub(super) table: Vec<Table>,
    #[serde(default)]
    pub(super) curve: Vec<Curve>,
    #[serde(default)]
    pub(super) figure: Vec<Figure>,
}

/// Parameters that were chosen together, each one more that is free.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Free {
    /// Their names, as the jobs have them.
    pub(super) keys: Vec<String>,
    /// By what, or after which value of the paper.
    why: String,
}

impl Free {
    pub(super) fn keys(&self) -> impl Iterator<Item = &str> {
        self.keys.iter().map(String::as_str)
    }
}

impl fmt::Display for Free {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.keys[..] {
            [most @ .., last] if !most.is_empty() => {
                write!(f, "{} and {last}, {}", most.join(", "), self.why)
            }
            keys => write!(f, "{}, {}", keys.join(", "), self.why),
        }
    }
}

/// A job that scenarios of a model may be for.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Hardware {
    pub(super) job: String,
    pub(super) model: String,
}

/// Published values that belong together.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Table {
    pub(super) key: String,
    pub(super) title: String,
    /// Where it is in the paper.
    #[serde(rename = "place")]
    _place: String,
    pub(super) rows: Vec<Published>,
}

/// A published value, or a statement about a curve.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Published {
    pub(super) what: String,
    /// Where it is in the paper, if the table does not say it; of a value that the paper does not print, from which it is
    /// derived.
    #[serde(default)]
    place: String,
    /// A number as it was printed, with its unit; or the statement.
    pub(super) paper: String,
    /// The expression that answers; for a statement a text with expressions.
    pub(super) ours: String,
    /// Of a statement: whether it holds for ours.
    pub(super) holds: Option<String>,
    pub(super) class: Class,
    /// The parameter that was fitted.
    pub(super) parameter: Option<String>,
    /// Per cent that ours may be off.
    pub(super) within: Option<f64>,
    /// From what `within`, numbers in `holds`, or the limit of the reason follow: something known before our value.
    pub(super) ground: Option<String>,
    /// Why it may differ.
    #[serde(default)]
    pub(super) reason: Option<Reason>,
}

/// The first word of the place of a value that the paper does not print.
const DERIVED: &str = "derived";

/// Why a value may differ, and how far.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Reason {
    pub(super) text: String,
    /// Expressions: the range of what it explains. Of what cannot be had there is none.
    pub(super) from: Option<Value>,
    pub(super) to: Option<Value>,
    /// The value that has to be in the range, if it is not ours, and its unit.
    pub(super) measured: Option<String>,
    #[serde(default)]
    unit: String,
    /// An expression: if it is false, the reason does not hold.
    pub(super) when: Option<String>,
    /// A parameter that the reason is about, and the result of the row if it is changed.
    #[serde(default)]
    pub(super) knob: Option<Knob>,
}

/// Figures of ours beside the paper's: one line for each point.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Curve {
    pub(super) key: String,
    /// Empty where the curve is only for rows.
    #[serde(default)]
    pub(super) title: String,
    /// Jobs whose points these are.
    #[serde(default)]
    pub(super) jobs: Vec<String>,
    /// An expression instead: its numbers are the points.
    pub(super) each: Option<String>,
    /// A parameter: points that have the same value of it make one line.
    pub(super) over: Option<String>,
    /// Of a line; `{job}` is the label of its job.
    #[serde(default)]
    pub(super) label: String,
    #[serde(default)]
    pub(super) text: String,
    /// Expressions by key, in JSON and for rows: `CURVE.KEY`.
    pub(super) fields: BTreeMap<String, String>,
}

impl Paper {
    /// A file that stands by itself, checked.
    pub(super) fn read(file: &Document) -> Result<Self, Error> {
        let paper: Self = file.read_as()?;
        check(file, &paper)?;
        Ok(paper)
    }

    /// The file in which a reproduction is, as a document, and the job of its report.
    pub(super) fn built_in(name: &str) -> Result<(Document, &'static str), Error> {
        let is_named = |job: &&&str| job.strip_prefix("reproduce ") == Some(name);
        let found = PAPERS.iter().find_map(|(path, text, jobs)| {
            jobs.iter().find(is_named).map(|job| (*path, *text, *job))
        });
        let (path, text, job) = found.ok_or_else(|| unknown(name))?;
        Ok((Document::of_text(path, text)?, job))
    }

    /// Takes what another file, `file`, says in place of this one.
    pub(super) fn overlay(&mut self, other: Self, file: &Document) -> Result<(), ConfigError> {
        let refuse = |kind: &'static str, name: &str, known: Vec<&String>| {
            let what = check::unknown(kind, name, known.into_iter());
            file.refuse(&format!("{kind}.{name}"), what)
        };
        for (name, own) in other.job {
            let known = self.job.keys().collect();
            let what = refuse("job", &name, known);
            let job = self.job.get_mut(&name).ok_or(what)?;
            job.model = own.model.or(job.model.take());
            job.base = own.base.or(job.base.take());
            job.vary = own.vary.or(job.vary.take());
        }
        for (name, own) in other.value {
            let what = refuse("value", &name, self.value.keys().collect());
            *self.value.get_mut(&name).ok_or(what)? = own;
        }
        if !other.reproduction.is_empty() {
            self.reproduction = other.reproduction;
        }
        Ok(())
    }

    /// Names of its reproductions.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.reproduction.iter().map(|one| one.name.as_str())
    }

    pub(super) fn reproductions(&self) -> &[Reproduction] {
        &self.reproduction
    }

    pub(super) fn reproduction(&self, name: &str) -> Result<&Reproduction, Error> {
        self.reproduction.iter().find(|one| one.name == name).ok_or_else(|| unknown(name))
    }
}

/// Jobs that are each based on the one before.
const MAX_BASES: usize = 8;

impl Paper {
    /// A job, then the job that it is based on, and so on.
    pub(super) fn chain(&self, name: &str) -> Result<Vec<(&str, &JobEntry)>, Error> {
        let mut chain = Vec::new();
        let mut next = Some(name);
        while let Some(name) = next {
            let job = self.job.get_key_value(name).filter(|_| chain.len() < MAX_BASES);
            let (name, job) = job.ok_or_else(|| ReproduceError::NoJob { name: name.to_owned() })?;
            chain.push((name.as_str(), job));
            next = job.base.as_deref();
        }
        Ok(chain)
    }

    /// Name of a job in curves.
    pub(super) fn label(&self, name: &str) -> &str {
        let chain = self.chain(name).unwrap_or_default();
        chain.iter().find_map(|(_, job)| job.label.as_deref()).unwrap_or_default()
    }
}

fn unknown(name: &str) -> Error {
    ReproduceError::None { name: name.to_owned() }.into()
}

impl Table {
    /// Compares all values.
    pub(super) fn compare(&self, lookup: &Lookup<'_>) -> Result<Comparison, Refused> {
        let title = fill(&self.title, lookup).map_err(at("title"))?;
        let mut comparison = Comparison::new(&self.key, title);
        for (index, value) in self.rows.iter().enumerate() {
            let row = value.row(lookup).map_err(within(&format!("rows[{index}]")));
            comparison.add(row.map_err(|refused| refused.of_row(&value.what))?);
        }
        Ok(comparison)
    }
}

impl Published {
    /// The knob of its reason.
    pub(super) fn knob(&self) -> Option<&Knob> {
        self.reason.as_ref()?.knob.as_ref()
    }

    /// Whether the paper does not print the value.
    pub(super) fn is_derived(&self) -> bool {
        self.place.to_ascii_lowercase().starts_with(DERIVED)
    }

    pub(super) fn row(&self, lookup: &Lookup<'_>) -> Result<Row, Refused> {
        let text = |key: &str, text: &str| fill(text, lookup).map_err(at(key));
        let what = text("what", &self.what)?;
        let words = || Ok::<_, Refused>((text("paper", &self.paper)?, text("ours", &self.ours)?));
        let mut row = match &self.holds {
            Some(holds) => {
                let (paper, ours) = words()?;
                let holds = evaluate(holds, lookup).map_err(at("holds"))?.holds();
                Row::shape(what, paper, ours, holds)
            }
            None if self.class == Class::Cannot => {
                let (paper, ours) = words()?;
                Row::shape(what, paper, ours, false)
            }
            None => {
                let (printed, unit) = printed(&self.paper).map_err(at("paper"))?;
                let ours = evaluate(&self.ours, lookup).and_then(|ours| ours.single());
                Row::number(what, printed, ours.map_err(at("ours"))?).unit(unit)
            }
        };
        row = row.class(self.class).fitted_by(self.parameter.clone().unwrap_or_default());
        row = row.grounded(text("ground", self.ground.as_deref().unwrap_or_default())?);
        if self.is_derived() {
            row = row.derived(&self.place);
        }
        if let Some(percent) = self.within {
            row = row.within(percent);
        }
        match &self.reason {
            Some(reason) => reason.add_to(row, lookup),
            None => Ok(row),
        }
    }
}

impl Reason {
    fn add_to(&self, row: Row, lookup: &Lookup<'_>) -> Result<Row, Refused> {
        let number = |key: &str, text: &String| {
            evaluate(text, lookup).and_then(|found| found.single()).map_err(at(key))
        };
        if let Some(when) = &self.when
            && !evaluate(when, lookup).map_err(at("reason.when"))?.holds()
        {
            return Ok(row);
        }
        let bound = |key: &str, bound: &Option<Value>| match bound {
            None => Ok(f64::NAN),
            Some(Value::String(text)) => number(key, text),
            Some(bound) => {
                bound.as_f64().ok_or_else(|| at(key)(PaperError::NotLimit { bound: bound.clone() }))
            }
        };
        let text = fill(&self.text, lookup).map_err(at("reason.text"))?;
        let (from, to) = (bound("reason.from", &self.from)?, bound("reason.to", &self.to)?);
        check::within_order(from, to)?;
        let limit = from..=to;
        Ok(match &self.measured {
            Some(measured) => {
                let value = number("reason.measured", measured)?;
                row.because_measured(text, (value, &self.unit), limit)
            }
            None => row.because(text, limit),
        })
    }
}

/// A number with as many decimals as were printed, and its unit.
pub(super) fn printed(text: &str) -> Result<(Printed, &str), ExpressionError> {
    let (number, unit) = text.split_once(' ').unwrap_or((text, ""));
    let decimals = number.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    let value: f64 =
        number.parse().map_err(|_| ExpressionError::NotNumber { text: number.to_owned() })?;
    Ok(((value, decimals).into(), unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Papers whose every reason has a knob; those of others are also of cells that contradict each other.
    const WITH_KNOBS: [&str; 3] =
        ["papers/lro-npu.toml", "papers/gigabit.toml", "papers/linux-jitter.toml"];

    /// Files of the project pass the checks that a file of one's own has to pass.
    #[test]
    fn papers_have_what_their_classes_need() {
        for (path, text, _) in PAPERS {
            let document = Document::of_text(path, text).expect("TOML");
            let paper = Paper::read(&document).expect(path);
            let tables = paper.reproduction.iter().flat_map(|one| &one.table);
            let differing = tables
                .flat_map(|table| &table.rows)
                .filter(|row| row.class == Class::Differs && WITH_KNOBS.contains(&path));
            assert!(differing.into_iter().all(|row| row.knob().is_some()), "{path}");
        }
    }

    #[test]
    fn numbers_are_taken_as_printed() {
        let (number, unit) = printed("19.40 µs").expect("a number");
        assert_eq!((number, unit), ((19.4, 2).into(), "µs"));
        assert!(printed("about 3").is_err() && printed("84").is_ok());
    }
}
