//! A capture file as receive port.

use crate::capture::{CaptureError, Reader, Record};
use crate::convert::{Unknown, link_of};
use crate::port::filled;
use linecard::packet::{Batch, LinkType, Meta, Packet, Pool};
use linecard::port::{Port, PortState};
use linecard::time::Instant;
use linecard_tun::{Buffers, Counters};
use std::io::Read;

/// The most entries without a packet that one call reads.
const MAX_PASSED: usize = 1_024;

/// When the frames of a capture are received.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Pace {
    /// As soon as there is room.
    #[default]
    Fast,
    /// At their recorded intervals, counted from the first call. A frame whose time is unknown or
    /// before that of the first follows the previous frame at once.
    Recorded,
}

/// The packets of a capture, in its order, with the caller's time.
///
/// ```
/// use linecard::packet::{Batch, Pool};
/// use linecard::port::{Port, PortState};
/// use linecard::time::Instant;
/// use linecard_io::port::{CaptureSource, Pace};
/// use linecard_tun::BUFFER_LEN;
///
/// // A pcap file of Ethernet, little endian, with one frame of 14 bytes.
/// let mut file = vec![0xD4, 0xC3, 0xB2, 0xA1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 1, 0, 0, 0];
/// file.extend([1, 0, 0, 0, 0, 0, 0, 0, 14, 0, 0, 0, 14, 0, 0, 0]);
/// file.extend([7; 14]);
///
/// let mut source = CaptureSource::new(&file[..], Pool::new(64, BUFFER_LEN), Pace::Fast)?;
/// let mut batch = Batch::new();
/// assert_eq!(source.receive(&mut batch, Instant::ZERO), PortState::Ended);
/// assert_eq!(batch.pop().expect("one").bytes(), [7; 14]);
/// assert!(source.error().is_none());
/// # Ok::<(), linecard_io::capture::CaptureError>(())
/// ```
///
/// A truncated frame, or one longer than a buffer of the pool, is dropped ([`Drops::too_long`]).
/// The number of its interface becomes the packet's lane. Transmitted packets are dropped too
/// ([`Drops::refused`]).
///
/// [`Drops::too_long`]: linecard_tun::Drops::too_long
/// [`Drops::refused`]: linecard_tun::Drops::refused
#[derive(Debug)]
pub struct CaptureSource<R, S = Pool> {
    reader: Reader<R>,
    /// The entry read last.
    record: Record,
    /// The entry is a packet that has not been received yet.
    is_waiting: bool,
    pace: Pace,
    /// The first frame's time: the caller's, and the capture's.
    start: Option<(Instant, u64)>,
    pool: S,
    counters: Counters,
    /// Packets received of link types that are not known.
    unknown: Unknown,
    has_ended: bool,
    error: Option<CaptureError>,
}

impl<R: Read, S: Buffers> CaptureSource<R, S> {
    /// Starts reading; pass a plain `File`.
    ///
    /// # Errors
    ///
    /// If the input is not a capture, or cannot be read.
    pub fn new(read: R, pool: S, pace: Pace) -> Result<Self, CaptureError> {
        Ok(Self {
            reader: Reader::new(read)?,
            record: Record::default(),
            is_waiting: false,
            pace,
            start: None,
            pool,
            counters: Counters::default(),
            unknown: Unknown::new(),
            has_ended: false,
            error: None,
        })
    }

    /// The counters so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Why it ended before the end of the file, if so: damage, or a system error.
    #[must_use]
    pub fn error(&self) -> Option<&CaptureError> {
        self.error.as_ref()
    }

    /// The same, by value.
    pub(crate) fn take_error(&mut self) -> Option<CaptureError> {
        self.error.take()
    }

    /// Packets of link types that are not known, where all packets so far are of such.
    pub(crate) fn only_unknown(&mut self) -> Option<Unknown> {
        let packets = self.unknown.values().sum::<u64>();
        let is_all = packets > 0 && packets == self.counters.received;
        is_all.then(|| std::mem::take(&mut self.unknown))
    }

    /// The link type of the last packet read; before the first one, that of the first known
    /// interface.
    #[must_use]
    pub fn link(&self) -> Option<LinkType> {
        let interface = if self.record.is_packet() { self.record.interface() } else { 0 };
        self.reader.link_type(interface).map(LinkType::from_capture)
    }

    /// Reads ahead to the first packet, so that its link type is known; only to the first interface
    /// if reading on `may_wait`. Errors are reported when packets are received.
    pub(crate) fn look_ahead(&mut self, may_wait: bool) {
        for _ in 0..MAX_PASSED {
            if self.is_waiting || self.has_ended || may_wait && self.reader.interface_count() > 0 {
                return;
            }
            self.read();
        }
    }

    /// When the next frame is due, if it has to wait for its time.
    #[must_use]
    pub fn next_due(&self) -> Option<Instant> {
        self.is_waiting.then(|| self.due())
    }

    /// The time of the waiting packet: now for the first one, and at full speed.
    fn due(&self) -> Instant {
        let ns = self.record.timestamp_ns();
        match (self.pace, self.start) {
            (Pace::Recorded, Some((start, first_ns))) => start.plus_ns(ns.saturating_sub(first_ns)),
            _ => Instant::ZERO,
        }
    }

    /// Reads the next entry; returns whether it is one without a packet.
    fn read(&mut self) -> bool {
        if self.has_ended {
            return false;
        }
        match self.reader.read(&mut self.record) {
            Ok(true) => self.is_waiting = self.record.is_packet(),
            Ok(false) => self.has_ended = true,
            Err(error) => {
                (self.has_ended, self.error) = (true, Some(error));
            }
        }
        !self.is_waiting && !self.has_ended
    }

    fn next(&mut self, now: Instant) -> Came<S::Buffer> {
        if !self.is_waiting && self.read() {
            return Came::Passed;
        }
        if !self.is_waiting || self.due() > now {
            return Came::Nothing;
        }
        if self.is_too_long() {
            self.is_waiting = false;
            self.counters.dropped.too_long += 1;
            return Came::Passed;
        }
        let Some(buffer) = filled(&self.pool, self.record.data()) else {
            self.counters.no_buffer += 1;
            return Came::Nothing;
        };
        self.is_waiting = false;
        self.begin(now);
        self.counters.count_received(buffer.as_ref().len());
        let interface = self.record.interface();
        let link = link_of(self.reader.link_type(interface), &mut self.unknown);
        let meta = Meta { timestamp: now, lane: interface, ..Meta::default() };
        Came::Packet(Packet::new(buffer, link, meta))
    }

    fn is_too_long(&self) -> bool {
        let len = self.record.data().len();
        len > self.pool.buffer_len() || (len as u64) < self.record.original_len().into()
    }

    /// The first frame with a time defines the offset of all times.
    fn begin(&mut self, now: Instant) {
        let ns = self.record.timestamp_ns();
        if ns > 0 {
            self.start.get_or_insert((now, ns));
        }
    }
}

/// The result of one entry.
enum Came<B> {
    Packet(Packet<B>),
    Passed,
    Nothing,
}

impl<R: Read, S: Buffers> Port<S::Buffer> for CaptureSource<R, S> {
    /// Ended after the last packet, or at damage.
    fn receive(&mut self, batch: &mut Batch<S::Buffer>, now: Instant) -> PortState {
        let mut passed = 0;
        while !self.has_ended && batch.room() > 0 && passed < MAX_PASSED {
            match self.next(now) {
                Came::Packet(packet) => {
                    let _fits = batch.push(packet);
                }
                Came::Passed => passed += 1,
                Came::Nothing => break,
            }
        }
        if self.has_ended { PortState::Ended } else { PortState::Open }
    }

    fn transmit(&mut self, batch: &mut Batch<S::Buffer>, _now: Instant) {
        self.counters.dropped.refused += batch.drain().count() as u64;
    }
}
