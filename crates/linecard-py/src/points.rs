//! Points of a sweep.

use crate::detached::{Stop, detached};
use crate::failure::{raise, refused};
use linecard_cli::jobs;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use serde_json::Value;
use std::path::PathBuf;
use std::sync::Arc;

/// A model's scenario, and the keys of it that points have values for; for :func:`linecard.sweep`.
#[pyclass(module = "linecard", frozen)]
pub struct Points {
    points: Arc<jobs::Points>,
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
        let points = jobs::Points::new(&path, text, sets, keys, predict);
        let points = points.map_err(|why| refused(py, &why))?.into();
        Ok(Self { points })
    }

    /// What each point came to: a dictionary, or why it could not be run.
    #[pyo3(signature = (points, threads, stop=None))]
    fn run<'py>(
        &self,
        py: Python<'py>,
        points: Vec<Vec<String>>,
        threads: usize,
        stop: Option<&Bound<'py, Stop>>,
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        if !(1..=256).contains(&threads) {
            return Err(raise(py, &format!("threads {threads}: choose 1 to 256"), 2));
        }
        let ours = Arc::clone(&self.points);
        let rows = detached(py, stop.map(Bound::get), None, move |watch| {
            ours.run(&points, threads, watch)
        })?;
        let rows = rows.map_err(|why| refused(py, &why))?;
        rows.iter().map(|row| as_python(py, row)).collect()
    }
}

fn as_python<'py>(py: Python<'py>, row: &Result<jobs::Row, String>) -> PyResult<Bound<'py, PyAny>> {
    match row {
        Err(why) => Ok(PyString::new(py, why).into_any()),
        Ok(row) => {
            let values = PyDict::new(py);
            for (name, value) in row {
                values.set_item(name, value_of(py, value)?)?;
            }
            Ok(values.into_any())
        }
    }
}

fn value_of<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Value::Bool(value) => value.into_pyobject(py)?.to_owned().into_any(),
        Value::Number(number) => match (number.as_u64(), number.as_i64()) {
            (Some(whole), _) => whole.into_pyobject(py)?.into_any(),
            (None, Some(whole)) => whole.into_pyobject(py)?.into_any(),
            _ => number.as_f64().into_pyobject(py)?.into_any(),
        },
        Value::String(text) => PyString::new(py, text).into_any(),
        _ => py.None().into_bound(py),
    })
}
