//! Captures, packet by packet or as arrays.

use crate::detached::detached;
use crate::failure::{of_capture, of_open, usage};
use crate::packets::{Columns, Flow, Flows, Packets};
use crate::values::whole;
use linecard::packet::{FiveTuple, Layout, LinkType};
use linecard_host::capture::{CaptureError, Reader, Record};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// Packets between looks for a signal.
const LOOK: u64 = 4_096;
/// Packets of one array at most: 24 bytes each.
const MOST: u64 = u32::MAX as u64;

/// A packet of a capture.
#[pyclass(module = "linecard", frozen, get_all)]
pub struct Packet {
    /// Nanoseconds since 1970, 0 where the capture has no time.
    time_ns: u64,
    /// The captured bytes.
    data: Py<PyBytes>,
    /// Bytes of the frame on the wire.
    wire_length: u32,
    /// Number of the interface in its section.
    interface: u32,
    /// What frames start with: a LINKTYPE value, 1 is Ethernet.
    link_type: u32,
    /// Who sends to whom, for TCP and UDP.
    flow: Option<Flow>,
}

#[pymethods]
impl Packet {
    fn __repr__(&self) -> String {
        let flow = self.flow.map_or_else(|| "no ports".to_owned(), |flow| flow.0.to_string());
        format!("<linecard.Packet {} ns, {} bytes, {flow}>", self.time_ns, self.wire_length)
    }
}

/// A capture that is being read.
#[derive(Debug)]
struct Reading {
    reader: Reader<File>,
    record: Record,
    flows: Flows,
}

/// Reads a capture, pcap or pcapng, from its beginning to its end.
///
/// Iterating gives a :class:`Packet` each time; :meth:`read` gives many as arrays. Memory does not grow with the
/// file. Damage in the file raises :class:`CaptureError` behind the last whole packet.
#[pyclass(module = "linecard", frozen)]
pub struct Capture {
    path: PathBuf,
    /// None when it is closed. A thread has it while it reads.
    reading: std::sync::Arc<Mutex<Option<Reading>>>,
}

#[pymethods]
impl Capture {
    /// Opens a file.
    #[new]
    fn new(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let file = File::open(&path).map_err(|error| of_open(&path, error))?;
        let is_folder = file.metadata().is_ok_and(|data| data.is_dir());
        if is_folder {
            return Err(of_open(&path, std::io::Error::from_raw_os_error(IS_A_FOLDER)));
        }
        let reader = Reader::new(file).map_err(|error| of_capture(py, &path, &error))?;
        let reading = Reading { reader, record: Record::default(), flows: Flows::default() };
        Ok(Self { path, reading: Mutex::new(Some(reading)).into() })
    }

    /// The file.
    #[getter]
    fn path(&self) -> PathBuf {
        self.path.clone()
    }

    /// Whether it is closed.
    #[getter]
    fn closed(&self, py: Python<'_>) -> PyResult<bool> {
        self.with(py, |reading| reading.is_none())
    }

    /// Gives the file back. What was read stays.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |reading| *reading = None)
    }

    /// The next packets, at most ``count`` of them, or all that there are: arrays, empty at the end.
    #[pyo3(signature = (count=None))]
    fn read(&self, py: Python<'_>, count: Option<&Bound<'_, PyAny>>) -> PyResult<Packets> {
        let count = count.map_or(Ok(MOST), |count| whole(count, "count", 0..=MOST))?;
        let shared = std::sync::Arc::clone(&self.reading);
        let path = self.path.clone();
        let read = detached(py, move |stop| {
            let mut reading = lock(&shared);
            let reading = reading.as_mut().ok_or(Stop::Closed)?;
            let mut columns = Columns::default();
            let damage = reading.read(count, &mut columns, stop).err();
            Ok((columns, reading.flows.list(), damage))
        })?;
        let (columns, flows, damage) = read.map_err(|why: Stop| why.raise(py, &path))?;
        // What was read before the damage comes first; the next call raises it again.
        match damage {
            Some(why) if columns.time_ns.is_empty() => Err(why.raise(py, &path)),
            Some(why @ (Stop::Stopped | Stop::Closed)) => Err(why.raise(py, &path)),
            _ => Packets::new(py, columns, flows),
        }
    }

    fn __iter__(this: Py<Self>) -> Py<Self> {
        this
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Packet>> {
        let found = self.with_reading(py, |reading| {
            Ok(match reading.next()? {
                None => None,
                Some(link_type) => {
                    let record = &reading.record;
                    Some(Packet {
                        time_ns: record.timestamp_ns(),
                        data: PyBytes::new(py, record.data()).unbind(),
                        wire_length: record.original_len(),
                        interface: record.interface(),
                        link_type,
                        flow: flow_of(record, link_type).map(Flow),
                    })
                }
            })
        })?;
        found.map_err(|error| of_capture(py, &self.path, &error))
    }

    fn __enter__(this: Py<Self>) -> Py<Self> {
        this
    }

    fn __exit__(
        &self,
        py: Python<'_>,
        _kind: &Bound<'_, PyAny>,
        _value: &Bound<'_, PyAny>,
        _trace: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        self.close(py)
    }

    fn __repr__(&self) -> String {
        format!("<linecard.Capture {}>", self.path.display())
    }
}

/// `EISDIR`.
const IS_A_FOLDER: i32 = 21;

impl Capture {
    fn with<R>(&self, py: Python<'_>, work: impl FnOnce(&mut Option<Reading>) -> R) -> PyResult<R> {
        match self.reading.try_lock() {
            Ok(mut reading) => Ok(work(&mut reading)),
            Err(std::sync::TryLockError::Poisoned(poisoned)) => {
                Ok(work(&mut poisoned.into_inner()))
            }
            Err(std::sync::TryLockError::WouldBlock) => {
                let what = "another thread is reading this capture: open it once for each";
                Err(usage(py, &format!("{}: {what}", self.path.display())))
            }
        }
    }

    fn with_reading<R>(&self, py: Python<'_>, work: impl FnOnce(&mut Reading) -> R) -> PyResult<R> {
        self.with(py, |reading| reading.as_mut().map(work))?
            .ok_or_else(|| Stop::Closed.raise(py, &self.path))
    }
}

/// Why reading ended before its time.
#[derive(Debug)]
enum Stop {
    Closed,
    Stopped,
    Capture(CaptureError),
}

impl Stop {
    fn raise(&self, py: Python<'_>, path: &Path) -> PyErr {
        match self {
            Self::Closed => {
                PyValueError::new_err(format!("{}: this capture is closed", path.display()))
            }
            Self::Stopped => usage(py, "stopped"),
            Self::Capture(error) => of_capture(py, path, error),
        }
    }
}

fn lock(shared: &Mutex<Option<Reading>>) -> std::sync::MutexGuard<'_, Option<Reading>> {
    shared.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl Reading {
    /// The next packet is in the record: its link type. None at the end.
    fn next(&mut self) -> Result<Option<u32>, CaptureError> {
        loop {
            if !self.reader.read(&mut self.record)? {
                return Ok(None);
            }
            if self.record.is_packet() {
                let link = self.reader.link_type(self.record.interface());
                return Ok(Some(link.unwrap_or(u32::MAX)));
            }
        }
    }

    fn read(&mut self, count: u64, to: &mut Columns, stop: &AtomicBool) -> Result<(), Stop> {
        for number in 0..count {
            if number % LOOK == 0 && stop.load(Ordering::Relaxed) {
                return Err(Stop::Stopped);
            }
            let Some(link) = self.next().map_err(Stop::Capture)? else { break };
            let record = &self.record;
            to.time_ns.push(record.timestamp_ns());
            to.wire_length.push(record.original_len());
            to.captured_length.push(record.data().len() as u32);
            to.interface.push(record.interface());
            to.flow.push(self.flows.number(flow_of(record, link)));
        }
        Ok(())
    }
}

fn flow_of(record: &Record, link: u32) -> Option<FiveTuple> {
    let bytes = record.data();
    let length = record.original_len() as usize;
    let layout = Layout::parse_head(LinkType::from_capture(link), bytes, length);
    FiveTuple::of(&layout, bytes)
}
