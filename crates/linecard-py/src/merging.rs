//! The effect of merging on a capture, without writing an output.

use crate::detached::{Stop, detached};
use crate::failure::{of_capture, of_open, usage};
use crate::offload::{config, counted};
use linecard_app::Cancellable;
use linecard_io::capture::Format;
use linecard_io::convert::{NoObserver, coalesce};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// Merges the packets of a capture as a receiver with LRO would, and counts; for :func:`linecard.study`.
#[pyfunction]
#[pyo3(signature = (path, *, hold_ns=None, verify=true, stop=None))]
pub fn merging<'py>(
    py: Python<'py>,
    path: PathBuf,
    hold_ns: Option<&Bound<'py, PyAny>>,
    verify: bool,
    stop: Option<&Bound<'py, Stop>>,
) -> PyResult<Bound<'py, PyDict>> {
    let config = config(hold_ns, verify)?;
    let input = path.clone();
    let merged = detached(py, stop.map(Bound::get), None, move |watch| {
        let input = Cancellable::new(File::open(input)?, Arc::clone(watch));
        Ok(coalesce(input, io::sink(), Format::PcapNg, config, &mut NoObserver))
    })?;
    let merged = merged.map_err(|error| of_open(&path, error))?;
    let (_, account) = merged.map_err(|error| of_capture(py, &path, &error))?;
    if let Some(damage) = &account.damage
        && account.counters.packets_in == 0
    {
        return Err(usage(py, &format!("{}: {damage}", path.display())));
    }
    let all = counted(py, &account.counters)?;
    all.set_item("damage", account.damage.map(|damage| damage.to_string()))?;
    Ok(all)
}
