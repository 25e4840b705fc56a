//! What merging does to a capture, without writing it anywhere.

use crate::detached::{Stop, detached};
use crate::failure::{of_capture, of_open, usage};
use crate::offload::counted;
use crate::values::whole;
use linecard::offload::coalesce::{ChecksumPolicy, Config};
use linecard_host::capture::Format;
use linecard_host::convert::{NoObserver, coalesce};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A file that ends when it is told to.
struct Stoppable {
    file: File,
    stop: Arc<AtomicBool>,
}

impl Read for Stoppable {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(io::Error::other("stopped"));
        }
        self.file.read(buffer)
    }
}

/// Merges the packets of a capture as a receiver with LRO would, and counts; for :func:`linecard.study`.
#[pyfunction]
#[pyo3(signature = (path, *, hold_ns=None, verify=true, stop=None))]
pub fn merging<'py>(
    py: Python<'py>,
    path: PathBuf,
    hold_ns: Option<&Bound<'py, PyAny>>,
    verify: bool,
    stop: Option<Stop>,
) -> PyResult<Bound<'py, PyDict>> {
    let mut config = Config::default();
    if let Some(value) = hold_ns {
        config.hold_budget = Duration::from_nanos(whole(value, "hold_ns", 1..=10_000_000_000)?);
    }
    if !verify {
        config.checksum = ChecksumPolicy::Trust;
    }
    let input = path.clone();
    let merged = detached(py, stop.as_ref(), move |stop| {
        let input = Stoppable { file: File::open(input)?, stop: Arc::clone(stop) };
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
