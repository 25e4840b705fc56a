//! Captures, packet by packet or as arrays.

use crate::detached::detached;
use crate::failure::{of_capture, of_open, usage};
use crate::packets::{Columns, Flow, Flows, Packets};
use crate::values::whole;
use linecard::packet::{FiveTuple, Layout, LinkType};
use linecard::progress::Progress;
use linecard_io::capture::{CaptureError, Decompressed, Reader, Record};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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
    /// First header of frames: a LINKTYPE value, 1 is Ethernet.
    link_type: u32,
    /// Addresses and ports, for TCP and UDP.
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
    reader: Reader<Decompressed<File>>,
    record: Record,
    flows: Flows,
}

/// Reads a capture, pcap or pcapng, from its beginning to its end.
///
/// Iterating gives a :class:`Packet` each time; :meth:`read` gives many as arrays. Of the file only flows stay in
/// memory, at most 1,048,576. Damage in the file raises :class:`CaptureError` behind the last whole packet.
#[pyclass(module = "linecard", frozen)]
pub struct Capture {
    path: PathBuf,
    /// Given back when it is closed, or when the thread that has it sees that.
    reading: Arc<Mutex<Option<Reading>>>,
    closed: AtomicBool,
}

#[pymethods]
impl Capture {
    /// Opens a file.
    #[new]
    fn new(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let file = path.clone();
        let opened = detached(py, None, None, move |_| open(&file))?;
        let reader = opened.map_err(|error| of_open(&path, error))?;
        let reader = reader.map_err(|error| of_capture(py, &path, &error))?;
        let reading = Reading { reader, record: Record::default(), flows: Flows::default() };
        let reading = Mutex::new(Some(reading)).into();
        Ok(Self { path, reading, closed: AtomicBool::new(false) })
    }

    /// The file.
    #[getter]
    fn path(&self) -> PathBuf {
        self.path.clone()
    }

    /// Whether it is closed.
    #[getter]
    fn closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// Gives the file back, at once or when the thread that reads it is done. Packets that were read are kept.
    fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
        if let Ok(mut reading) = self.reading.try_lock() {
            *reading = None;
        }
    }

    /// The next packets, at most ``count`` of them, or all that there are: arrays, empty at the end.
    #[pyo3(signature = (count=None))]
    fn read(&self, py: Python<'_>, count: Option<&Bound<'_, PyAny>>) -> PyResult<Packets> {
        let count = count.map_or(Ok(MOST), |count| whole(count, "count", 0..=MOST))?;
        let (shared, path) = (Arc::clone(&self.reading), self.path.clone());
        self.check()?;
        let read = detached(py, None, None, move |watch| {
            let mut reading = lock(&shared);
            let reading = reading.as_mut().ok_or(Ended::Closed)?;
            let mut columns = Columns::default();
            let damage = reading.read(count, &mut columns, watch).err();
            Ok((columns, reading.flows.known(), damage))
        })?;
        let (columns, known, damage) = read.map_err(|why: Ended| why.raise(py, &path))?;
        // Packets before the damage come first; the next call raises it again.
        match damage {
            Some(why) if columns.time_ns.is_empty() => Err(why.raise(py, &path)),
            Some(why @ (Ended::Stopped | Ended::Closed)) => Err(why.raise(py, &path)),
            _ => Ok(Packets::new(py, columns, known)),
        }
    }

    fn __iter__(this: Py<Self>) -> Py<Self> {
        this
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Packet>> {
        self.check()?;
        // The lock is waited for, and the file read, while other threads run.
        let next = py.detach(|| {
            let mut reading = lock(&self.reading);
            let reading = reading.as_mut().ok_or(Ended::Closed)?;
            let link = reading.next().map_err(Ended::Capture)?;
            Ok(link.map(|link| (link, reading.record.clone())))
        });
        let next = next.map_err(|why: Ended| why.raise(py, &self.path))?;
        Ok(next.map(|(link_type, record)| Packet {
            time_ns: record.timestamp_ns(),
            data: PyBytes::new(py, record.data()).unbind(),
            wire_length: record.original_len(),
            interface: record.interface(),
            link_type,
            flow: flow_of(&record, link_type).map(Flow),
        }))
    }

    fn __enter__(this: Py<Self>) -> Py<Self> {
        this
    }

    fn __exit__(
        &self,
        _kind: &Bound<'_, PyAny>,
        _value: &Bound<'_, PyAny>,
        _trace: &Bound<'_, PyAny>,
    ) {
        self.close();
    }

    fn __repr__(&self) -> String {
        format!("<linecard.Capture {}>", self.path.display())
    }
}

/// `EISDIR`.
const IS_A_FOLDER: i32 = 21;

/// Opens a capture that is not a folder.
fn open(path: &Path) -> io::Result<Result<Reader<Decompressed<File>>, CaptureError>> {
    let file = File::open(path)?;
    if file.metadata()?.is_dir() {
        return Err(io::Error::from_raw_os_error(IS_A_FOLDER));
    }
    Ok(Reader::new(Decompressed::new(file)))
}

impl Capture {
    /// Refuses to continue when it is closed.
    fn check(&self) -> PyResult<()> {
        if self.closed.load(Ordering::Relaxed) {
            // The thread that read when it was closed has given it back by now, or will.
            if let Ok(mut reading) = self.reading.try_lock() {
                *reading = None;
            }
            return Err(closed(&self.path));
        }
        Ok(())
    }
}

fn closed(path: &Path) -> PyErr {
    PyValueError::new_err(format!("{}: this capture is closed", path.display()))
}

/// Why reading ended before its time.
#[derive(Debug)]
enum Ended {
    Closed,
    Stopped,
    Capture(CaptureError),
}

impl Ended {
    fn raise(&self, py: Python<'_>, path: &Path) -> PyErr {
        match self {
            Self::Closed => closed(path),
            Self::Stopped => usage(py, "stopped"),
            Self::Capture(error) => of_capture(py, path, error),
        }
    }
}

fn lock(shared: &Mutex<Option<Reading>>) -> MutexGuard<'_, Option<Reading>> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
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

    fn read(&mut self, count: u64, to: &mut Columns, watch: &Progress) -> Result<(), Ended> {
        for number in 0..count {
            if number % LOOK == 0 && watch.is_stopped() {
                return Err(Ended::Stopped);
            }
            let Some(link) = self.next().map_err(Ended::Capture)? else { break };
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
