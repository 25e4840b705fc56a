//! Many packets of a capture as arrays, and their flows.

use crate::failure::usage;
use linecard::packet::FiveTuple;
use linecard::packet::header::protocol;
use numpy::{IntoPyArray, PyArray1};
use pyo3::prelude::*;
use pyo3::types::PyType;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, PoisonError, RwLock};

/// Flows that are distinguished in a capture: 200 MB of them. Packets of further ones have no number.
const MAX_FLOWS: usize = 1 << 20;
/// The number of packets that show no ports.
const NONE: i32 = -1;
/// The number of packets of further flows.
const FULL: i32 = -2;

/// Addresses and ports: TCP or UDP with both ends.
#[pyclass(module = "linecard", frozen, eq, ord, hash)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Flow(pub(crate) FiveTuple);

#[pymethods]
impl Flow {
    /// ``protocol`` is ``"tcp"`` or ``"udp"``; addresses are texts, as ``"10.0.0.1"`` or ``"fd00::1"``.
    #[new]
    fn new(
        py: Python<'_>,
        source: &str,
        source_port: u16,
        destination: &str,
        destination_port: u16,
        protocol: &str,
    ) -> PyResult<Self> {
        let address = |name: &str, text: &str| {
            let wrong = |_| usage(py, &format!("{name} \"{text}\": this is not an IP address"));
            text.parse::<IpAddr>().map_err(wrong)
        };
        let protocol = match protocol {
            "tcp" => protocol::TCP,
            "udp" => protocol::UDP,
            other => return Err(usage(py, &format!("protocol \"{other}\": choose tcp or udp"))),
        };
        Ok(Self(FiveTuple {
            source: (address("source", source)?, source_port).into(),
            destination: (address("destination", destination)?, destination_port).into(),
            protocol,
        }))
    }

    /// Flows go to other processes, as those of a cluster.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> (Bound<'py, PyType>, FlowParts) {
        let flow = slf.get();
        let ports = (flow.source_port(), flow.destination_port());
        let parts = (flow.source(), ports.0, flow.destination(), ports.1, flow.protocol());
        (slf.get_type(), parts)
    }

    /// Address of the sender.
    #[getter]
    fn source(&self) -> String {
        self.0.source.ip().to_string()
    }

    /// Its port.
    #[getter]
    fn source_port(&self) -> u16 {
        self.0.source.port()
    }

    /// Address of whom it is sent to.
    #[getter]
    fn destination(&self) -> String {
        self.0.destination.ip().to_string()
    }

    /// Its port.
    #[getter]
    fn destination_port(&self) -> u16 {
        self.0.destination.port()
    }

    /// ``"tcp"`` or ``"udp"``.
    #[getter]
    fn protocol(&self) -> &'static str {
        if self.0.protocol == protocol::TCP { "tcp" } else { "udp" }
    }

    fn __str__(&self) -> String {
        self.0.to_string()
    }

    fn __repr__(&self) -> String {
        format!("<linecard.Flow {}>", self.0)
    }
}

/// Parts of a flow.
type FlowParts = (String, u16, String, u16, &'static str);

/// Columns of many packets, in order.
type PacketsParts = (
    Py<PyArray1<u64>>,
    Py<PyArray1<u32>>,
    Py<PyArray1<u32>>,
    Py<PyArray1<u32>>,
    Py<PyArray1<i32>>,
    Vec<Flow>,
);

/// Flows by number, in the order of their first packets.
#[derive(Debug, Default)]
pub(crate) struct Flows {
    numbers: HashMap<FiveTuple, i32>,
    list: Arc<RwLock<Vec<FiveTuple>>>,
    last: Option<(FiveTuple, i32)>,
}

impl Flows {
    /// The number of a packet's flow.
    pub(crate) fn number(&mut self, flow: Option<FiveTuple>) -> i32 {
        let Some(flow) = flow else { return NONE };
        if let Some((last, number)) = self.last
            && last == flow
        {
            return number;
        }
        let number = match self.numbers.get(&flow) {
            Some(number) => *number,
            None if self.numbers.len() == MAX_FLOWS => return FULL,
            None => {
                let number = self.numbers.len() as i32;
                self.list.write().unwrap_or_else(PoisonError::into_inner).push(flow);
                self.numbers.insert(flow, number);
                number
            }
        };
        self.last = Some((flow, number));
        number
    }

    /// Those there are now.
    pub(crate) fn known(&self) -> Known {
        Known { list: Arc::clone(&self.list), count: self.numbers.len() }
    }
}

/// The first flows of a capture; further ones are added behind them.
#[derive(Debug)]
pub(crate) struct Known {
    list: Arc<RwLock<Vec<FiveTuple>>>,
    count: usize,
}

/// Columns that grow while a capture is read.
#[derive(Debug, Default)]
pub(crate) struct Columns {
    pub(crate) time_ns: Vec<u64>,
    pub(crate) wire_length: Vec<u32>,
    pub(crate) captured_length: Vec<u32>,
    pub(crate) interface: Vec<u32>,
    pub(crate) flow: Vec<i32>,
}

/// Packets of a capture as arrays of equal length, one for each column; nothing is copied for them.
#[pyclass(module = "linecard", frozen)]
pub struct Packets {
    /// Nanoseconds since 1970 (``uint64``), 0 where the capture has no time.
    #[pyo3(get)]
    time_ns: Py<PyArray1<u64>>,
    /// Bytes of the frame on the wire (``uint32``).
    #[pyo3(get)]
    wire_length: Py<PyArray1<u32>>,
    /// Bytes of it in the capture (``uint32``).
    #[pyo3(get)]
    captured_length: Py<PyArray1<u32>>,
    /// Number of the interface in its section (``uint32``).
    #[pyo3(get)]
    interface: Py<PyArray1<u32>>,
    /// Number of the flow in ``flows`` (``int32``); -1 for packets that show no ports, -2 for those of further
    /// flows when there are 1,048,576 already.
    #[pyo3(get)]
    flow: Py<PyArray1<i32>>,
    known: Known,
    length: usize,
}

impl Packets {
    pub(crate) fn new(py: Python<'_>, columns: Columns, known: Known) -> Self {
        let length = columns.time_ns.len();
        Self {
            time_ns: columns.time_ns.into_pyarray(py).unbind(),
            wire_length: columns.wire_length.into_pyarray(py).unbind(),
            captured_length: columns.captured_length.into_pyarray(py).unbind(),
            interface: columns.interface.into_pyarray(py).unbind(),
            flow: columns.flow.into_pyarray(py).unbind(),
            known,
            length,
        }
    }
}

#[pymethods]
impl Packets {
    /// All flows so far, in the order of their first packets: a new list each time.
    #[getter]
    fn flows(&self) -> Vec<Flow> {
        let all = self.known.list.read().unwrap_or_else(PoisonError::into_inner);
        all[..self.known.count].iter().copied().map(Flow).collect()
    }

    /// Arrays and flows go to other processes.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, PacketsParts)> {
        let (py, all) = (slf.py(), slf.get());
        let parts = (
            all.time_ns.clone_ref(py),
            all.wire_length.clone_ref(py),
            all.captured_length.clone_ref(py),
            all.interface.clone_ref(py),
            all.flow.clone_ref(py),
            all.flows(),
        );
        Ok((slf.get_type().getattr("_of")?, parts))
    }

    #[staticmethod]
    fn _of(
        py: Python<'_>,
        time_ns: Py<PyArray1<u64>>,
        wire_length: Py<PyArray1<u32>>,
        captured_length: Py<PyArray1<u32>>,
        interface: Py<PyArray1<u32>>,
        flow: Py<PyArray1<i32>>,
        flows: Vec<Bound<'_, Flow>>,
    ) -> Self {
        let list: Vec<FiveTuple> = flows.iter().map(|flow| flow.get().0).collect();
        let known = Known { count: list.len(), list: Arc::new(RwLock::new(list)) };
        let length = time_ns.bind(py).len().unwrap_or(0);
        Self { time_ns, wire_length, captured_length, interface, flow, known, length }
    }

    fn __len__(&self) -> usize {
        self.length
    }

    fn __repr__(&self) -> String {
        format!("<linecard.Packets: {} packets>", self.length)
    }
}
