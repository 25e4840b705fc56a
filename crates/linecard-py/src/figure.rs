//! Charts as Python draws and shows them.

use linecard_report::{Axis, Chart, Curves, Page, Unit};
use pyo3::prelude::*;

/// A chart: its key, what it is drawn from as JSON, and its picture (SVG); where only a page's script can draw it, a page
/// (HTML) instead. What `linecard.Figure` is made of.
pub(crate) type Parts = (String, String, Option<String>, Option<String>);

pub(crate) fn parts_of(chart: &Chart) -> Parts {
    let svg = chart.svg();
    let html = svg.is_none().then(|| Page::new(chart.title()).chart(chart.clone()).html());
    (chart.key().to_owned(), chart.json(), svg, html)
}

pub(crate) fn figure_of(py: Python<'_>, parts: Parts) -> PyResult<Bound<'_, PyAny>> {
    py.import("linecard.figure")?.getattr("Figure")?.call1(parts)
}

/// A figure of curves, each a name with its points; for :meth:`linecard.Table.figure`. Of the axes, the names, and whether
/// they are logarithmic.
#[pyfunction]
pub fn curves<'py>(
    py: Python<'py>,
    title: &str,
    x: (String, bool),
    y: (String, bool),
    curves: Vec<(String, Vec<(f64, f64)>)>,
    caption: Option<String>,
) -> PyResult<Bound<'py, PyAny>> {
    let axes = [x, y].map(|(name, is_log)| {
        let axis = Axis::new(name, Unit::Plain(""));
        if is_log { axis.log() } else { axis }
    });
    let mut chart = Curves::new("table", title, axes);
    for (name, points) in curves {
        chart.model(name, points);
    }
    if let Some(caption) = caption {
        chart.caption(caption);
    }
    figure_of(py, parts_of(&chart.into()))
}
