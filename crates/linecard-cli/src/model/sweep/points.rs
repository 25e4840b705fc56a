//! Points of any kind of scenario, for other faces than the command line.

use super::super::key::Kind;
use super::super::kinds;
use super::super::scenario::{File, Scenario};
use super::super::settings::Settings;
use super::super::{keys, parallel};
use super::point::Runner;
use crate::failure::Failure;
use crate::watch;
use linecard::watch::Watch;
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Names and values of what a point came to, in order.
pub type Row = Vec<(String, Value)>;

/// A scenario and the keys of it that points have values for.
pub(crate) struct Points {
    file: File,
    sets: Vec<String>,
    keys: Vec<String>,
    predict: bool,
}

impl Points {
    /// A scenario in which `sets` count for all points. Wrong keys and values of it are refused here; values of
    /// points with each point.
    pub(crate) fn new(
        file: File,
        sets: Vec<String>,
        keys: Vec<String>,
        predict: bool,
    ) -> Result<Self, Failure> {
        if predict && file.kind() != Settings::NAME {
            let what = format!("only \"{}\" can be computed: run it", Settings::NAME);
            return Err(file.refuse_kind(&what));
        }
        if let Some(at) = (0..keys.len()).find(|at| keys[..*at].contains(&keys[*at])) {
            return Err(Failure::Usage(format!("{}: this key is varied twice", keys[at])));
        }
        kinds::check(&file, &sets, &keys)?;
        Ok(Self { file, sets, keys, predict })
    }

    /// What points came to on so many threads, or why each could not be run; each point has a value for
    /// every key. Those that have not begun when `stop` is set are not run.
    pub(crate) fn run(
        &self,
        points: &[Vec<String>],
        threads: usize,
        watch: &Arc<Watch>,
    ) -> Result<Vec<Result<Row, String>>, Failure> {
        if let Some(point) = points.iter().find(|point| point.len() != self.keys.len()) {
            let (there, keys) = (point.len(), self.keys.len());
            return Err(Failure::Usage(format!("a point has {there} values for {keys} keys")));
        }
        if self.file.kind() != Settings::NAME {
            return Ok(parallel::map(points, threads, |point| {
                watched(watch, || self.other(point))
            }));
        }
        let scenario: Scenario = self.file.clone().scenario(&self.sets)?;
        let firmware = self.keys.iter().position(|key| key == "firmware.image");
        let named: BTreeSet<String> = match firmware {
            Some(at) => points.iter().map(|point| point[at].clone()).collect(),
            None => BTreeSet::new(),
        };
        let runner = Runner::new(&scenario, named, self.predict)?;
        Ok(parallel::map(points, threads, |point| {
            watched(watch, || self.transmit(&scenario, &runner, point))
        }))
    }

    fn transmit(
        &self,
        scenario: &Scenario,
        runner: &Runner,
        point: &[String],
    ) -> Result<Row, String> {
        let mut settings = scenario.settings.clone();
        for (key, value) in self.keys.iter().zip(point) {
            let refuse = |what| format!("{key}={value}: {what}");
            (keys::find(key).map_err(refuse)?.set)(&mut settings, value).map_err(refuse)?;
        }
        let found = runner.run(&settings)?;
        let names = runner.names().into_iter().map(str::to_owned);
        if found.is_right {
            Ok(names.zip(found.values).collect())
        } else {
            Err("the firmware is wrong: packets are not what the offload makes of the messages"
                .into())
        }
    }

    fn other(&self, point: &[String]) -> Result<Row, String> {
        let own = self.keys.iter().zip(point).map(|(key, value)| format!("{key}={value}"));
        let sets: Vec<String> = self.sets.iter().cloned().chain(own).collect();
        let ran = kinds::run(self.file.clone(), &sets).map_err(|failure| failure.to_string())?;
        match ran.wrong {
            Some(wrong) => Err(wrong),
            None => Ok(row(serde_json::to_value(&ran.report).unwrap_or_default())),
        }
    }
}

/// A point under a watch, if it is still to be run; what was ended early has come to nothing.
fn watched(watch: &Arc<Watch>, point: impl FnOnce() -> Result<Row, String>) -> Result<Row, String> {
    watch::during(watch, || {
        let go_on = || watch::go_on().map_err(|failure| failure.to_string());
        go_on()?;
        let row = point()?;
        go_on()?;
        Ok(row)
    })
}

/// The values of a report's sections as `section.name`; lists and words for people are left out.
fn row(report: Value) -> Row {
    let mut row = Row::new();
    let Value::Object(sections) = report else { return row };
    for (key, section) in sections {
        if let Value::Object(values) = section {
            flatten(&key, values, &mut row);
        }
    }
    row
}

fn flatten(before: &str, values: Map<String, Value>, row: &mut Row) {
    for (key, value) in values {
        let name = format!("{before}.{key}");
        match value {
            Value::Object(values) => flatten(&name, values, row),
            Value::Array(_) => {}
            value => row.push((name, value)),
        }
    }
}

impl std::fmt::Debug for Points {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Points").field("keys", &self.keys).finish_non_exhaustive()
    }
}
