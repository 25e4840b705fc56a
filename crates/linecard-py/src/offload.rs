//! The two offloads on bytes.

use crate::failure::usage;
use crate::values::{bytes, link, whole};
use linecard::offload::coalesce::{self, ChecksumPolicy, Config, Exit, Flush, Refusal};
use linecard::offload::segment::{SegmentError, Segments, fragment as cut_ip, segment as cut};
use linecard::packet::{Gso, LinkType, Meta, Packet, Piece};
use linecard::time::Instant;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Times beyond are not times: 292 years.
const MOST_NS: u64 = i64::MAX as u64;

/// A packet that has left a :class:`Coalescer`: one that came, or several merged into one.
#[pyclass(module = "linecard", frozen)]
pub struct Merged {
    packet: Vec<u8>,
    link: LinkType,
    gso: Option<Gso>,
    time_ns: u64,
    lane: u32,
    exit: Exit,
}

impl Merged {
    fn new(packet: &Packet<Vec<u8>>, exit: Exit) -> Self {
        let mut bytes = packet.header().to_vec();
        packet.payload().for_each(|piece| bytes.extend_from_slice(piece));
        if !packet.is_merged() {
            // Padding behind the datagram stays.
            bytes.clear();
            bytes.extend_from_slice(packet.bytes());
        }
        Self {
            packet: bytes,
            link: packet.link(),
            gso: packet.meta.gso,
            time_ns: packet.meta.timestamp.as_ns(),
            lane: packet.meta.lane,
            exit,
        }
    }
}

#[pymethods]
impl Merged {
    /// The frame.
    #[getter]
    fn data<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.packet)
    }

    /// Packets in it.
    #[getter]
    fn segments(&self) -> u16 {
        self.gso.map_or(1, |gso| gso.segments.max(1))
    }

    /// Payload bytes of each but the last; None where it is one packet.
    #[getter]
    fn segment_size(&self) -> Option<u16> {
        self.gso.map(|gso| gso.size)
    }

    /// When its first packet came.
    #[getter]
    fn time_ns(&self) -> u64 {
        self.time_ns
    }

    /// The lane of its packets.
    #[getter]
    fn lane(&self) -> u32 {
        self.lane
    }

    /// Whether it was held, alone or with others.
    #[getter]
    fn was_held(&self) -> bool {
        matches!(self.exit, Exit::Flushed(_))
    }

    /// Why it left, in a word as in reports.
    #[getter]
    fn reason(&self) -> &'static str {
        match self.exit {
            Exit::Passed(refusal) => refusal.name(),
            Exit::Flushed(flush) => flush.name(),
        }
    }

    /// The same in a line.
    #[getter]
    fn explanation(&self) -> &'static str {
        match self.exit {
            Exit::Passed(refusal) => refusal.explanation(),
            Exit::Flushed(flush) => flush.explanation(),
        }
    }

    /// The packets that came, byte for byte.
    fn originals<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyBytes>>> {
        let Some(gso) = self.gso else { return Ok(vec![self.data(py)]) };
        let packet = Packet::new(self.packet.as_slice(), self.link, Meta::default());
        let segments = cut(&packet, gso).map_err(|error| usage(py, &error.to_string()))?;
        Ok(written(py, segments))
    }

    fn __len__(&self) -> usize {
        self.packet.len()
    }

    fn __repr__(&self) -> String {
        let (bytes, count, reason) = (self.packet.len(), self.segments(), self.reason());
        format!("<linecard.Merged {bytes} bytes, {count} packets, {reason}>")
    }
}

/// Merges packets of flows (LRO), as ``linecard coalesce`` does.
///
/// Arriving packets are given to :meth:`push` with their time; what leaves is what these calls return. Nothing is held
/// longer than ``hold_ns`` in the times given.
#[pyclass(module = "linecard", frozen)]
pub struct Coalescer {
    inner: Mutex<coalesce::Coalescer<Vec<u8>>>,
}

#[pymethods]
impl Coalescer {
    /// ``max_size``: largest merged packet from the IP header on, 576 to 524288 bytes. ``hold_ns``: longest time
    /// that a packet is held, up to 10 s. ``max_flows``: flows remembered, 8 to 4194304. ``verify``: compute
    /// checksums, so that packets that fail pass unmerged; without, trust them.
    #[new]
    #[pyo3(signature = (*, max_size=None, hold_ns=None, max_flows=None, verify=true))]
    fn new(
        max_size: Option<&Bound<'_, PyAny>>,
        hold_ns: Option<&Bound<'_, PyAny>>,
        max_flows: Option<&Bound<'_, PyAny>>,
        verify: bool,
    ) -> PyResult<Self> {
        let mut config = config(hold_ns, verify)?;
        if let Some(value) = max_size {
            config.max_bytes = whole(value, "max_size", 576..=Config::MAX_BYTES as u64)? as usize;
        }
        if let Some(value) = max_flows {
            config.max_flows = whole(value, "max_flows", 8..=1 << 22)? as usize;
        }
        Ok(Self { inner: coalesce::Coalescer::new(config).into() })
    }

    /// Takes a frame that came at ``time_ns``; gives what leaves because of it, or because its time has come.
    #[pyo3(signature = (data, time_ns, *, link="ethernet", lane=None))]
    fn push(
        &self,
        py: Python<'_>,
        data: &Bound<'_, PyAny>,
        time_ns: &Bound<'_, PyAny>,
        link: &str,
        lane: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Vec<Merged>> {
        let now = Instant::from_ns(whole(time_ns, "time_ns", 0..=MOST_NS)?);
        let lane = lane.map_or(Ok(0), |lane| whole(lane, "lane", 0..=u64::from(u32::MAX)))?;
        let meta = Meta { timestamp: now, lane: lane as u32, ..Meta::default() };
        let frame = bytes(data, "data")?;
        if frame.is_empty() || u32::try_from(frame.len()).is_err() {
            let what = format!("data: a frame of {} bytes: choose 1 to 4294967295", frame.len());
            return Err(usage(py, &what));
        }
        let packet = Packet::new(frame, self::link(py, link)?, meta);
        Ok(self.leaving(|coalescer, out| {
            coalescer.advance(now, out);
            coalescer.push(packet, now, out);
        }))
    }

    /// Flushes packets that are due at ``time_ns``.
    fn advance(&self, time_ns: &Bound<'_, PyAny>) -> PyResult<Vec<Merged>> {
        let now = Instant::from_ns(whole(time_ns, "time_ns", 0..=MOST_NS)?);
        Ok(self.leaving(|coalescer, out| coalescer.advance(now, out)))
    }

    /// Lets everything go.
    fn flush(&self) -> Vec<Merged> {
        self.leaving(|coalescer, out| coalescer.flush_all(Flush::Stop, out))
    }

    /// Packets that are held.
    #[getter]
    fn held(&self) -> usize {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).held()
    }

    /// When :meth:`advance` should be called next; None where nothing is held.
    #[getter]
    fn next_wakeup_ns(&self) -> Option<u64> {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.next_wakeup().map(Instant::as_ns)
    }

    /// Its counters: packets and bytes, and how often each reason occurred.
    fn counters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        counted(py, inner.counters())
    }

    fn __repr__(&self) -> String {
        format!("<linecard.Coalescer holding {} packets>", self.held())
    }
}

/// How long packets are held at most, and whether checksums are computed.
pub(crate) fn config(hold_ns: Option<&Bound<'_, PyAny>>, verify: bool) -> PyResult<Config> {
    let mut config = Config::default();
    if let Some(value) = hold_ns {
        config.hold_budget = Duration::from_nanos(whole(value, "hold_ns", 1..=10_000_000_000)?);
    }
    if !verify {
        config.checksum = ChecksumPolicy::Trust;
    }
    Ok(config)
}

/// Where packets that leave go.
type Out<'o> = dyn FnMut(Packet<Vec<u8>>, Exit) + 'o;

impl Coalescer {
    fn leaving(
        &self,
        work: impl FnOnce(&mut coalesce::Coalescer<Vec<u8>>, &mut &mut Out<'_>),
    ) -> Vec<Merged> {
        let mut left = Vec::new();
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let mut leave = |packet: Packet<Vec<u8>>, exit| left.push(Merged::new(&packet, exit));
        let out: &mut Out<'_> = &mut leave;
        work(&mut inner, &mut { out });
        left
    }
}

/// Counters as a dictionary, reasons below ``flushed`` and ``refused``.
pub(crate) fn counted<'py>(
    py: Python<'py>,
    counters: &coalesce::Counters,
) -> PyResult<Bound<'py, PyDict>> {
    let all = PyDict::new(py);
    for (name, count) in [
        ("packets_in", counters.packets_in),
        ("bytes_in", counters.bytes_in),
        ("packets_out", counters.packets_out),
        ("bytes_out", counters.bytes_out),
        ("merged", counters.merged),
        ("passed", counters.passed),
    ] {
        all.set_item(name, count)?;
    }
    let (flushed, refused) = (PyDict::new(py), PyDict::new(py));
    for reason in Flush::ALL {
        flushed.set_item(reason.name(), counters.flushed.of(*reason))?;
    }
    for reason in Refusal::ALL {
        refused.set_item(reason.name(), counters.refused.of(*reason))?;
    }
    all.set_item("flushed", flushed)?;
    all.set_item("refused", refused)?;
    Ok(all)
}

/// Cuts a TCP or UDP packet into segments of ``mss`` bytes of payload, the last one shorter (LSO).
///
/// Sequence numbers, identifications, lengths and checksums follow; FIN and PSH go on the last one only.
#[pyfunction]
#[pyo3(signature = (data, mss, *, link="ethernet"))]
pub fn segment<'py>(
    py: Python<'py>,
    data: &Bound<'py, PyAny>,
    mss: &Bound<'py, PyAny>,
    link: &str,
) -> PyResult<Vec<Bound<'py, PyBytes>>> {
    let size = whole(mss, "mss", 1..=65_535)? as u16;
    let packet = packet_of(py, data, link)?;
    let gso = Gso { size, ..Gso::default() };
    Ok(written(py, cut(&packet, gso).map_err(|error| refuse(py, error))?))
}

/// Cuts an IP datagram into fragments of at most ``mtu`` bytes from the IP header on (RFC 791, RFC 8200).
///
/// ``identification`` is of IPv6 only, whose packets have none before.
#[pyfunction]
#[pyo3(signature = (data, mtu, *, link="ethernet", identification=None))]
pub fn fragment<'py>(
    py: Python<'py>,
    data: &Bound<'py, PyAny>,
    mtu: &Bound<'py, PyAny>,
    link: &str,
    identification: Option<&Bound<'py, PyAny>>,
) -> PyResult<Vec<Bound<'py, PyBytes>>> {
    let mtu = whole(mtu, "mtu", 68..=65_535)? as usize;
    let range = 0..=u64::from(u32::MAX);
    let number = identification.map_or(Ok(0), |value| whole(value, "identification", range))?;
    let packet = packet_of(py, data, link)?;
    let fragments = cut_ip(&packet, mtu, number as u32).map_err(|error| refuse(py, error))?;
    Ok(written(py, fragments))
}

fn packet_of(py: Python<'_>, data: &Bound<'_, PyAny>, name: &str) -> PyResult<Packet<Vec<u8>>> {
    let frame = bytes(data, "data")?;
    if u32::try_from(frame.len()).is_err() {
        let what = format!("data: a frame of {} bytes: choose at most 4294967295", frame.len());
        return Err(usage(py, &what));
    }
    Ok(Packet::new(frame, link(py, name)?, Meta::default()))
}

fn refuse(py: Python<'_>, error: SegmentError) -> PyErr {
    usage(py, &format!("data: {error}"))
}

fn written<'py, B: AsRef<[u8]>>(
    py: Python<'py>,
    mut segments: Segments<'_, Piece<B>>,
) -> Vec<Bound<'py, PyBytes>> {
    let mut all = Vec::with_capacity(segments.count());
    let mut room = vec![0; segments.max_len()];
    // There is room for the longest segment, so that writing cannot fail.
    while let Ok(Some(written)) = segments.write_next(&mut room) {
        all.push(PyBytes::new(py, &room[..written.len]));
    }
    all
}
