//! Jobs by name, and the reports that they give.

use crate::detached::{Stop, detached};
use crate::failure::{refused, usage};
use crate::figure::{Parts as FigureParts, figure_of, parts_of};
use crate::values::{object_of, value_of};
use linecard_app::{Arguments, Finished};
use linecard_report::{Page, Target};
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyIterator, PyMapping};
use serde_json::Value;
use std::path::PathBuf;

/// Makes a notebook's frame as high as the page in it, also when the page changes. Where no script runs, the height
/// stays that of the frame's style.
const FIT: &str = "try{const f=this,d=f.contentDocument.documentElement,\
    fit=()=>{f.style.height=Math.ceil(d.getBoundingClientRect().height)+2+'px'};\
    fit();new f.contentWindow.ResizeObserver(fit).observe(d)}catch(e){}";

/// The outcome of a job: sections of named values.
///
/// ``str()`` gives the command's text; it is a mapping of the command's JSON, which ``to_dict()`` gives as a
/// dictionary; notebooks show it as a page. Can be pickled.
#[pyclass(module = "linecard", frozen, mapping)]
pub struct Report {
    job: String,
    notes: Vec<String>,
    sections: Vec<String>,
    text: String,
    value: Value,
    page: Shown,
}

/// A page, or the texts of one that has come from another process.
enum Shown {
    Page(Page),
    Texts { html: String, json: String, figures: Vec<FigureParts> },
}

/// Runs a job by the name of its function; arguments have their values beside them, and ``set`` has values of the
/// scenario's parameters that take precedence.
///
/// Its errors are exceptions; a job that fails at its end raises with the report as ``report``. ``progress`` is called
/// with the work done and all work, in units of the job. ``stop`` ends it from another thread.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "they are keywords of Python")]
#[pyo3(signature = (name, values, *, scenario=None, text=None, set=Vec::new(), progress=None, stop=None))]
pub fn job(
    py: Python<'_>,
    name: &str,
    values: Vec<(String, Bound<'_, PyAny>)>,
    scenario: Option<PathBuf>,
    text: Option<String>,
    set: Vec<(String, Bound<'_, PyAny>)>,
    progress: Option<&Bound<'_, PyAny>>,
    stop: Option<&Bound<'_, Stop>>,
) -> PyResult<Report> {
    let function = linecard_app::function(name);
    let function = function.ok_or_else(|| PyKeyError::new_err(name.to_owned()))?;
    let typed = |given: Vec<(String, Bound<'_, PyAny>)>, before: &str| {
        let value = |(name, value): (String, Bound<'_, PyAny>)| {
            let value = value_of(&value, &format!("{before}{name}"))?;
            Ok((name, value))
        };
        given.into_iter().map(value).collect::<PyResult<Vec<_>>>()
    };
    let arguments =
        Arguments { scenario, text, set: typed(set, "set: ")?, values: typed(values, "")? };
    let stop = stop.map(|stop| stop.get().clone()).unwrap_or_default();
    let run = move |watch: &_| function.run(&arguments, watch);
    let done = detached(py, Some(&stop), progress, run)?;
    let Finished { report, page, failure, .. } = done.map_err(|why| refused(py, &why))?;
    if let (Some(progress), (_, all)) = (progress, stop.0.counts())
        && all > 0
    {
        progress.call1((all, all))?;
    }
    let report = Report {
        job: report.job().to_owned(),
        notes: report.notes().to_vec(),
        sections: report.sections().iter().map(|section| section.key().to_owned()).collect(),
        text: report.to_string(),
        // Maps have keys that are text, so it cannot fail.
        value: serde_json::to_value(&report).unwrap_or_default(),
        page: Shown::Page(page),
    };
    let Some(why) = failure else { return Ok(report) };
    let exception = refused(py, &why);
    exception.value(py).setattr("report", report)?;
    Err(exception)
}

/// Parts of a report: job, notes, sections, text, values, and the page as another process has it.
type Parts<'py> = (String, Vec<String>, Vec<String>, String, Bound<'py, PyDict>, PageParts);

/// HTML, JSON and charts of a page.
type PageParts = (String, String, Vec<FigureParts>);

impl Shown {
    fn json(&self) -> String {
        match self {
            Self::Page(page) => page.json(),
            Self::Texts { json, .. } => json.clone(),
        }
    }

    fn figures(&self) -> Vec<FigureParts> {
        match self {
            Self::Page(page) => page.charts().map(parts_of).collect(),
            Self::Texts { figures, .. } => figures.clone(),
        }
    }
}

#[pymethods]
impl Report {
    /// Reports go to other processes.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Parts<'py>)> {
        let report = slf.get();
        let parts = (
            report.job.clone(),
            report.notes.clone(),
            report.sections.clone(),
            report.text.clone(),
            report.to_dict(slf.py())?,
            (report.to_html(), report.page.json(), report.page.figures()),
        );
        Ok((slf.get_type().getattr("_of")?, parts))
    }

    #[staticmethod]
    fn _of(
        job: String,
        notes: Vec<String>,
        sections: Vec<String>,
        text: String,
        values: &Bound<'_, PyAny>,
        page: PageParts,
    ) -> PyResult<Self> {
        let (html, json, figures) = page;
        let page = Shown::Texts { html, json, figures };
        Ok(Self { job, notes, sections, text, value: value_of(values, "values")?, page })
    }

    /// Name of the job.
    #[getter]
    fn job(&self) -> &str {
        &self.job
    }

    /// Sentences for people.
    #[getter]
    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }

    /// All values, under the keys and in the units of the command's ``--json``.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        Ok(object_of(py, &self.value)?.cast_into()?)
    }

    /// The same as JSON.
    fn to_json(&self) -> String {
        self.value.to_string()
    }

    /// The charts of the page by their keys, each as :class:`Figure`.
    #[getter]
    fn figures<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let figures = PyDict::new(py);
        for parts in self.page.figures() {
            figures.set_item(parts.0.clone(), figure_of(py, parts)?)?;
        }
        Ok(figures)
    }

    /// A page for a browser, which needs no network.
    fn to_html(&self) -> String {
        match &self.page {
            Shown::Page(page) => page.html(),
            Shown::Texts { html, .. } => html.clone(),
        }
    }

    /// The page inside of a notebook's, where neither's styles nor scripts meet the other's.
    fn _repr_html_(&self) -> String {
        let page = self.to_html().replace('&', "&amp;").replace('"', "&quot;");
        format!(
            "<iframe srcdoc=\"{page}\" onload=\"{FIT}\" style=\"width:100%;height:48em;border:0\"></iframe>"
        )
    }

    /// Writes the page, and its figures as JSON beside it: ``path`` ends in ``.html``.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let written = Target::new(&path).and_then(|target| match &self.page {
            Shown::Page(page) => target.write(page),
            Shown::Texts { html, json, .. } => target.write_texts(html, json),
        });
        written.map_err(|error| usage(py, &error.to_string()))
    }

    fn __getitem__<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.to_dict(py)?.as_any().get_item(key)
    }

    /// The value of a key, or ``default`` where the key does not exist.
    #[pyo3(signature = (key, default=None, /))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        Ok(self.to_dict(py)?.get_item(key)?.or(default))
    }

    /// The keys of ``to_dict()``.
    fn keys<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.to_dict(py)?.call_method0("keys")
    }

    /// The values of ``to_dict()``.
    fn values<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.to_dict(py)?.call_method0("values")
    }

    /// The keys and values of ``to_dict()``.
    fn items<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.to_dict(py)?.call_method0("items")
    }

    fn __contains__(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        self.to_dict(py)?.contains(key)
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        self.to_dict(py)?.try_iter()
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.to_dict(py)?.len())
    }

    /// Equal to a mapping with the same keys and values.
    fn __eq__<'py>(&self, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = other.py();
        let Ok(other) = other.cast::<PyMapping>() else {
            return Ok(py.NotImplemented().into_bound(py));
        };
        let other = PyDict::from_sequence(other.items()?.as_any())?;
        Ok(PyBool::new(py, self.to_dict(py)?.eq(other)?).to_owned().into_any())
    }

    fn __str__(&self) -> &str {
        &self.text
    }

    fn __repr__(&self) -> String {
        format!("<linecard.Report {}: {}>", self.job, self.sections.join(", "))
    }
}
