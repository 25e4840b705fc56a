//! Points of a sweep.

use crate::detached::{Stop, detached};
use crate::failure::{raise, refused};
use crate::values::{object_of, value_of};
use linecard_app::model::Scenario;
use linecard_app::model::sweep::{self, Row};
use pyo3::exceptions::PyUserWarning;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde_json::Value;
use std::ffi::CString;
use std::path::PathBuf;
use std::sync::Arc;

/// Frames from here to the caller of `linecard.sweep`.
const CALLER: i32 = 3;

/// A model's scenario, and the keys of it that points have values for; for :func:`linecard.sweep`.
#[pyclass(module = "linecard", frozen)]
pub struct Points {
    points: Arc<sweep::Points>,
}

#[pymethods]
impl Points {
    /// ``text`` is that of a file which would be at ``path``; ``sets`` are ``KEY=VALUE`` for all points.
    #[new]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        text: &str,
        sets: Vec<String>,
        keys: Vec<String>,
        predict: bool,
    ) -> PyResult<Self> {
        let scenario = Scenario::of_text(&path, text, &sets);
        let points = scenario.and_then(|scenario| sweep::Points::new(&scenario, &keys, predict));
        let points = points.map_err(|why| refused(py, &why))?;
        for warning in points.warnings() {
            let text = CString::new(warning.as_str())?;
            PyErr::warn(py, &py.get_type::<PyUserWarning>(), &text, CALLER)?;
        }
        Ok(Self { points: points.into() })
    }

    /// Results of points, by name, None where a point has no such value; and of each point why it
    /// could not be run, or None. Names are in the order in which they first occur.
    #[pyo3(signature = (points, threads, stop=None))]
    fn run<'py>(
        &self,
        py: Python<'py>,
        points: Vec<Vec<Bound<'py, PyAny>>>,
        threads: usize,
        stop: Option<&Bound<'py, Stop>>,
    ) -> PyResult<(Bound<'py, PyDict>, Vec<Option<String>>)> {
        if !(1..=256).contains(&threads) {
            return Err(raise(py, &format!("threads {threads}: choose 1 to 256"), 2));
        }
        let points = points.iter().map(|point| point.iter().map(point_value).collect());
        let points = points.collect::<PyResult<Vec<Vec<Value>>>>()?;
        let ours = Arc::clone(&self.points);
        let work = move |watch: &_| ours.run(&points, threads, watch);
        let rows = detached(py, stop.map(Bound::get), None, work)?;
        let rows = rows.map_err(|why| refused(py, &why))?;
        let columns = PyDict::new(py);
        for (name, values) in columns_of(&rows) {
            let values = values.into_iter().map(|value| value.map(|value| object_of(py, value)));
            let values: Vec<_> = values.map(Option::transpose).collect::<PyResult<_>>()?;
            columns.set_item(name, values)?;
        }
        Ok((columns, rows.into_iter().map(Result::err).collect()))
    }
}

/// A number that no parameter can have, as one of more than 64 bits, is a text: it is refused with its point.
fn point_value(value: &Bound<'_, PyAny>) -> PyResult<Value> {
    value_of(value, "points").or_else(|_| Ok(value.str()?.to_string().into()))
}

/// Values by name, one for each row.
type Columns<'r> = Vec<(&'r str, Vec<Option<&'r Value>>)>;

fn columns_of(rows: &[Result<Row, String>]) -> Columns<'_> {
    let mut columns = Columns::new();
    for (number, row) in rows.iter().enumerate() {
        for (position, (name, value)) in row.iter().flatten().enumerate() {
            // Most rows have the same names at the same places.
            let here = columns.get(position).is_some_and(|(known, _)| known == name);
            let at =
                if here { Some(position) } else { columns.iter().position(|(n, _)| n == name) };
            let at = at.unwrap_or_else(|| {
                columns.push((name, Vec::with_capacity(rows.len())));
                columns.len() - 1
            });
            let values = &mut columns[at].1;
            values.resize(number, None);
            values.push(Some(value));
        }
    }
    columns.iter_mut().for_each(|(_, values)| values.resize(rows.len(), None));
    columns
}
