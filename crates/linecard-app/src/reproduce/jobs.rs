//! Runs the jobs of a paper, and finds values in their outcomes.

use super::check::at;
use super::error::{ExpressionError, Refused, ReproduceError};
use super::expression::{Lookup, Parsed, Query, evaluate, fill};
use super::measure;
use super::outcome;
use super::paper::{Curve, Paper};
use crate::model::{named, parallel};
use crate::{Context, Error};
use linecard::progress::Progress;
use linecard_config::{ConfigError, Document};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Keys of a job that are not parameters.
const KEYS: [&str; 4] = ["model", "base", "vary", "label"];

/// A paper with the outcomes of its jobs.
#[derive(Debug)]
pub(super) struct Runs<'p> {
    paper: &'p Paper,
    jobs: BTreeMap<&'p str, Vec<Point>>,
    /// Descriptions of the jobs in the files, for reports.
    pub(super) configs: Map<String, Value>,
    /// Columns of curves.
    curves: BTreeMap<&'p str, BTreeMap<&'p str, Vec<f64>>>,
    /// Each once: values that are given by a parameter's former name.
    pub(super) warnings: BTreeSet<String>,
}

/// A run: its settings, and its outcome.
#[derive(Debug)]
struct Point {
    settings: Value,
    outcome: Value,
}

/// The value of `it` in the expressions of a curve.
#[derive(Debug)]
enum It<'r> {
    Points(Vec<&'r Point>),
    Number(f64),
}

impl<'p> Runs<'p> {
    /// Runs jobs, as many points at a time as there are processors. Of several files, values of the later ones take
    /// precedence, and of a job those of the scenario for it.
    pub(super) fn new(
        paper: &'p Paper,
        (files, hardware): (&[Document], Option<(String, Document)>),
        names: &'p [String],
        context: &Context<'_>,
    ) -> Result<Self, Error> {
        let (mut tasks, mut warnings) = (Vec::new(), BTreeSet::new());
        let mut configs = Map::new();
        for name in names {
            let job = Job::find(paper, (files, hardware.as_ref()), name)?;
            let points = job.points()?;
            configs.insert(name.clone(), job.config()?);
            // Errors are reported before anything runs.
            for (model, at) in points.iter().filter_map(|at| Some((named(job.model)?, at))) {
                model.config(at)?;
                warnings.extend(model.former_names(at));
            }
            tasks.extend(points.into_iter().map(|point| (name, job.model, point)));
        }
        context.progress.expect(tasks.len());
        let run = |(_, model, document): &(_, &str, Document)| {
            context.go_on()?;
            let outcome = run(model, document)?;
            context.progress.advance(1);
            Ok::<Point, Error>(Point { settings: document.read_as()?, outcome })
        };
        let points = parallel::map(&tasks, parallel::threads(), run);
        let mut jobs: BTreeMap<&str, Vec<Point>> = BTreeMap::new();
        for ((name, ..), point) in tasks.iter().zip(points) {
            jobs.entry(name.as_str()).or_default().push(point?);
        }
        Ok(Self { paper, jobs, configs, curves: BTreeMap::new(), warnings })
    }

    /// The values that an expression names.
    pub(super) fn numbers(&self, query: &Query) -> Parsed {
        self.of(None, query)
    }

    fn of(&self, it: Option<&It<'_>>, query: &Query) -> Parsed {
        let root = query.root.as_str();
        if let Some(points) = self.jobs.get(root) {
            return select(&mut points.iter(), query);
        }
        match (it, self.paper.value.get(root), self.curves.get(root), &query.keys[..]) {
            (Some(It::Points(points)), ..) if root == "it" => {
                select(&mut points.iter().copied(), query)
            }
            (Some(It::Number(number)), ..) if root == "it" => Ok(vec![*number]),
            (_, Some(text), ..) => Ok(evaluate(text, &|query: &Query| self.of(it, query))?.values),
            (_, _, Some(columns), [column]) if columns.contains_key(column.as_str()) => {
                Ok(columns[column.as_str()].clone())
            }
            _ => Err(ExpressionError::NoValue(query.clone())),
        }
    }

    /// A line for each point of a curve.
    pub(super) fn curve(&mut self, curve: &'p Curve) -> Result<outcome::Curve, Refused> {
        let title =
            fill(&curve.title, &|query: &Query| self.numbers(query)).map_err(at("title"))?;
        let mut points = Vec::new();
        let mut columns: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        for (job, it) in self.lines(curve).map_err(at("each"))? {
            let lookup: &Lookup<'_> = &|query: &Query| self.of(Some(&it), query);
            let mut value = Map::new();
            for (key, expression) in &curve.fields {
                let found = evaluate(expression, lookup).map_err(at(&format!("fields.{key}")))?;
                let values = found.values.iter().map(|value| match found.is_truth {
                    true => json!(*value == 1.0),
                    false if value.fract() == 0.0 => json!(*value as i64),
                    false => json!(value),
                });
                let mut values: Vec<Value> = values.collect();
                let one = if values.len() == 1 { values.remove(0) } else { Value::Array(values) };
                value.insert(key.clone(), one);
                columns.entry(key).or_default().extend(found.values);
            }
            if curve.title.is_empty() {
                continue;
            }
            let label = fill(&curve.label.replace("{job}", job), lookup).map_err(at("label"))?;
            let text = fill(&curve.text, lookup).map_err(at("text"))?;
            points.push(outcome::Point { label, value, text });
        }
        self.curves.insert(&curve.key, columns);
        Ok(outcome::Curve { key: curve.key.clone(), title, points })
    }

    /// Points that make one line each, with the label of their job.
    fn lines(&self, curve: &Curve) -> Result<Vec<(&str, It<'_>)>, ExpressionError> {
        if let Some(each) = &curve.each {
            let numbers = evaluate(each, &|query: &Query| self.numbers(query))?;
            return Ok(numbers.values.into_iter().map(|number| ("", It::Number(number))).collect());
        }
        let mut lines = Vec::new();
        for name in &curve.jobs {
            let label = self.paper.label(name);
            let mut groups: Vec<(Option<&Value>, Vec<&Point>)> = Vec::new();
            for point in self.jobs.get(name.as_str()).into_iter().flatten() {
                let key = curve.over.as_ref().and_then(|key| setting(&point.settings, key));
                match groups.iter_mut().find(|(other, _)| key.is_some() && *other == key) {
                    Some((_, points)) => points.push(point),
                    None => groups.push((key, vec![point])),
                }
            }
            lines.extend(groups.into_iter().map(|(_, points)| (label, It::Points(points))));
        }
        Ok(lines)
    }
}

/// A job as all files together say it.
struct Job<'p> {
    model: &'p str,
    document: Document,
    vary: &'p [BTreeMap<String, Vec<Value>>],
    /// Where that stands.
    varied_in: Option<Document>,
}

impl<'p> Job<'p> {
    fn find(
        paper: &'p Paper,
        (files, hardware): (&[Document], Option<&(String, Document)>),
        name: &str,
    ) -> Result<Self, Error> {
        let chain = paper.chain(name)?;
        let path = files.last().map(Document::path).unwrap_or_else(|| "".as_ref());
        let mut document = Document::of_text(path, "")?;
        let mut varied_in = None;
        for (name, _) in chain.iter().rev() {
            let path = format!("job.{name}");
            for file in files {
                document.overlay(&file.section(&path, &KEYS))?;
                let section = file.section(&path, &[]);
                varied_in = section.find("vary").map(|_| section).or(varied_in);
            }
            if let Some((_, scenario)) = hardware.filter(|(job, _)| job == name) {
                document.overlay(scenario)?;
            }
        }
        let model = chain.iter().find_map(|(_, job)| job.model.as_deref());
        let model = model.ok_or_else(|| ReproduceError::NoModel { job: name.to_owned() })?;
        let vary = chain.iter().find_map(|(_, job)| job.vary.as_deref()).unwrap_or_default();
        Ok(Self { model, document, vary, varied_in })
    }

    /// Its model, its parameters as the files have them, and its axes.
    fn config(&self) -> Result<Value, ConfigError> {
        let mut config: Map<String, Value> = self.document.read_as()?;
        config.insert("model".to_owned(), self.model.into());
        if !self.vary.is_empty() {
            config.insert("vary".to_owned(), json!(self.vary));
        }
        Ok(config.into())
    }

    /// A document for each point.
    fn points(&self) -> Result<Vec<Document>, ConfigError> {
        let mut points = vec![self.document.clone()];
        for axis in self.vary {
            let refuse = |what: &str| match &self.varied_in {
                Some(section) => section.refuse("vary", what),
                None => ConfigError::of_parameter("vary", what),
            };
            let count = axis.values().map(Vec::len).next().filter(|count| *count > 0);
            let count =
                count.ok_or_else(|| refuse("the list is empty: give at least one value"))?;
            if axis.values().any(|values| values.len() != count) {
                return Err(refuse("parameters that go together need as many values each"));
            }
            let place = self.varied_in.as_ref().and_then(|section| section.find("vary"));
            let mut varied = Vec::new();
            for point in &points {
                for index in 0..count {
                    let mut point = point.clone();
                    for (key, values) in axis {
                        let place = place.clone().ok_or_else(|| refuse("is not in a file"))?;
                        point.set_at(place, key, &values[index])?;
                    }
                    varied.push(point);
                }
            }
            points = varied;
        }
        Ok(points)
    }
}

/// The outcome of a model, or of a measurement of a paper's own.
fn run(model: &str, document: &Document) -> Result<Value, Error> {
    let progress = Arc::new(Progress::new());
    if let Some(job) = named(model) {
        let finished = job.run(document, &progress)?;
        return finished.failure.map_or(Ok(finished.value), Err);
    }
    let measure = measure::named(model);
    let measure = measure.ok_or_else(|| ReproduceError::UnknownModel { name: model.to_owned() })?;
    measure(document, &Context { progress: &progress, document: Some(document) })
}

/// Values of some points.
fn select(points: &mut dyn Iterator<Item = &Point>, query: &Query) -> Parsed {
    let mut found = Vec::new();
    for point in points {
        let number = |key: &String| setting(&point.settings, key).and_then(Value::as_f64);
        let is_chosen = |(key, sign, bound): &(String, super::expression::Comparison, f64)| {
            let value = number(key).ok_or_else(|| ExpressionError::NotSet { key: key.clone() })?;
            Ok::<bool, ExpressionError>(sign.holds(value, *bound))
        };
        let chosen = query.filters.iter().map(is_chosen).collect::<Result<Vec<_>, _>>()?;
        if chosen.contains(&false) {
            continue;
        }
        let value = match query.keys.split_first() {
            Some((first, keys)) if first == "config" => setting(&point.settings, &keys.join(".")),
            _ => setting(&point.outcome, &query.keys.join(".")),
        };
        let added = value.and_then(|value| add_numbers(value, &mut found));
        added.ok_or_else(|| ExpressionError::NoNumber(query.clone()))?;
    }
    Ok(found)
}

fn setting<'v>(values: &'v Value, path: &str) -> Option<&'v Value> {
    path.split('.').try_fold(values, |value, key| value.get(key))
}

fn add_numbers(value: &Value, found: &mut Vec<f64>) -> Option<()> {
    match value {
        Value::Array(values) => values.iter().try_for_each(|value| add_numbers(value, found))?,
        // Values missing from an outcome: no comparison holds for it.
        Value::Null => found.push(f64::NAN),
        Value::Bool(flag) => found.push(f64::from(u8::from(*flag))),
        value => found.push(value.as_f64()?),
    }
    Some(())
}
