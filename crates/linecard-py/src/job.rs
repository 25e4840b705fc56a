//! Jobs of the command, and the reports that they give.

use crate::detached::detached;
use crate::failure::refused;
use linecard_cli::jobs::{self, Done};
use pyo3::prelude::*;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

/// What a job has found: sections of named values.
///
/// ``str()`` gives the command's text, ``to_dict()`` and ``[...]`` its JSON; notebooks show it as a page.
#[pyclass(module = "linecard", frozen)]
pub struct Report {
    done: Done,
}

/// Runs a job of the command, as ``["model", "solve", "--rate", "100G"]``.
///
/// What it refuses is an exception; a job that fails at its end raises with the report as ``report``.
#[pyfunction]
pub fn job(py: Python<'_>, arguments: Vec<OsString>) -> PyResult<Report> {
    let done = detached(py, None, move |stop| jobs::job(arguments, Arc::clone(stop)))?;
    let done = done.map_err(|why| refused(py, &why))?;
    let Some(why) = done.refused.clone() else { return Ok(Report { done }) };
    let exception = refused(py, &why);
    exception.value(py).setattr("report", Report { done })?;
    Err(exception)
}

#[pymethods]
impl Report {
    /// Name of the job.
    #[getter]
    fn job(&self) -> &str {
        self.done.report.job()
    }

    /// Sentences for people.
    #[getter]
    fn notes(&self) -> Vec<String> {
        self.done.report.notes().to_vec()
    }

    /// All values, under the keys and in the units of the command's ``--json``.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        py.import("json")?.call_method1("loads", (self.to_json(),))
    }

    /// The same as JSON.
    fn to_json(&self) -> String {
        // Maps have keys that are text, so it cannot fail.
        serde_json::to_string(&self.done.report).unwrap_or_default()
    }

    /// A page for a browser, which needs no network.
    fn to_html(&self) -> String {
        self.done.page.html()
    }

    /// The page inside of a notebook's, where neither's styles nor scripts meet the other's.
    fn _repr_html_(&self) -> String {
        let page = self.to_html().replace('&', "&amp;").replace('"', "&quot;");
        format!("<iframe srcdoc=\"{page}\" style=\"width:100%;height:32em;border:0\"></iframe>")
    }

    /// Writes the page, and its figures as JSON beside it: ``path`` ends in ``.html``.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let written = self.done.page.write(&path);
        written.map_err(|error| crate::failure::usage(py, &error.to_string()))
    }

    fn __getitem__<'py>(&self, py: Python<'py>, key: &str) -> PyResult<Bound<'py, PyAny>> {
        self.to_dict(py)?.get_item(key)
    }

    fn __str__(&self) -> String {
        self.done.report.to_string()
    }

    fn __repr__(&self) -> String {
        let keys: Vec<&str> = self.done.report.sections().iter().map(|s| s.key()).collect();
        format!("<linecard.Report {}: {}>", self.done.report.job(), keys.join(", "))
    }
}
