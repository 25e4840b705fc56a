//! The schedule of a stream without an end: the smooth one that its fastest packets follow.
//!
//! Of every [`WINDOW_NS`], the packet with the least delay is kept; a line through the last [`WINDOWS`] of them, by
//! the method of [`Fit`], follows the difference between the sender's clock and this one, and lies below all of them.
//! A step in the delay of the path is therefore lateness for up to [`WINDOWS`] · [`WINDOW_NS`], and normal after that.

use crate::media::cbr::{Fit, Point};
use crate::media::figures::Figures;
use crate::media::flow::{Flow, Kind, Packet, by_number};
use crate::media::frames::Frames;
use crate::media::rate::{Basis, MAX_DRIFT_PPM};
use crate::media::st2110::vrx::Reads;
use alloc::vec::Vec;

/// Time of which the fastest packet is kept.
pub const WINDOW_NS: u64 = 500_000_000;
/// How many of these packets are kept: 32 seconds.
pub const WINDOWS: usize = 64;
/// Windows before lateness counts: the first packets know the period only by some millionths.
const SETTLED: usize = 3;
/// After eight windows, a rate that differs by this share from that of the first packets shows that those were sent in a
/// hurry, or slowly: two clocks do not differ by that.
const SURE: usize = 8;
const GROSS_PPM: f64 = 10_000.0;
/// Lateness that no packet of the schedule has: after [`STRAYS`] such packets in a row, the stream has another
/// schedule. One packet that is far too early would otherwise make all others late.
const EARLIEST_NS: f64 = -1e8;
const LATEST_NS: f64 = 1e10;
const STRAYS: u32 = 3;

/// The quantity that determines when a packet is due.
#[derive(Debug, Clone, Copy)]
enum Axis {
    /// Its number.
    Number,
    /// Its time stamp, by the first packet of each.
    Stamp,
    /// The read time of ST 2110-21 of its number, from the number of a frame's first packet.
    Read(Reads, i64),
    /// Packets without numbers are due a period after the one before.
    Gap,
}

/// When packets of a stream are due.
#[derive(Debug, Clone)]
pub struct Schedule {
    axis: Axis,
    fit: Fit,
    /// The period of the first packets.
    learned_ns: f64,
    fastest: Vec<Point>,
    /// The fastest packet of this window, and the window's start.
    best: Option<Point>,
    window_ns: u64,
    is_settled: bool,
    strays: u32,
    is_interrupted: bool,
    /// The fastest packets of half a minute have another rate: the first ones did not have that of the stream.
    pub(super) is_wrong: bool,
    /// The highest place on the axis.
    last: Option<Point>,
    /// Times that the stream took up another schedule.
    pub changes: u64,
}

impl Schedule {
    /// The schedule by some packets of a stream, whose numbers in the stream are higher by `offset`; `None` where they
    /// have none.
    #[must_use]
    pub fn learn(flow: &Flow, figures: &Figures, offset: i64) -> Option<Self> {
        let packets = flow.packets();
        let axis = match (figures.basis?, flow.kind()) {
            (Basis::Even, Kind::Udp) => Axis::Gap,
            (Basis::Even, _) => Axis::Number,
            (Basis::Due | Basis::Rtp(_), _) => Axis::Stamp,
            (Basis::Picture, _) => {
                let first = Frames::of(&by_number(&packets))?.first;
                Axis::Read(Reads { stream: figures.stream?, start_ns: 0 }, first)
            }
        };
        let mut points: Vec<Point> =
            packets.iter().filter_map(|packet| Some((axis.place(packet)?, packet.at_ns))).collect();
        points.sort_unstable();
        points.dedup_by_key(|point| point.0);
        let fit = Fit::of(&points)?;
        let last = points.last().copied();
        let axis = match axis {
            Axis::Read(reads, first) => Axis::Read(reads, first.saturating_add(offset)),
            other => other,
        };
        Some(Self {
            axis,
            learned_ns: fit.period_ns,
            fit,
            fastest: Vec::with_capacity(WINDOWS),
            best: None,
            window_ns: last?.1,
            is_settled: false,
            strays: 0,
            is_interrupted: false,
            is_wrong: false,
            last,
            changes: 0,
        })
    }

    /// How late a packet is, in nanoseconds, at least 0; `None` for packets that the schedule does not place, and before
    /// it is known well.
    pub fn late_ns(&mut self, packet: &Packet) -> Option<u64> {
        let point = (self.axis.place(packet)?, packet.at_ns);
        if let Axis::Gap = self.axis {
            let (_, before_ns) = self.last.replace(point)?;
            let gap_ns = point.1.saturating_sub(before_ns) as f64;
            return Some((gap_ns - self.fit.period_ns).max(0.0) as u64);
        }
        if self.is_interrupted {
            self.begin_at(point);
            return None;
        }
        let late_ns = self.fit.late_ns(point);
        if !(EARLIEST_NS..=LATEST_NS).contains(&late_ns) {
            return self.stray(point);
        }
        self.strays = 0;
        if let (Axis::Stamp, Some(last)) = (self.axis, self.last)
            && point.0 <= last.0
        {
            return None;
        }
        self.last = Some(point);
        if late_ns < 0.0 {
            self.fit.start_ns += late_ns;
        }
        self.keep_fastest(point);
        self.is_settled.then_some(late_ns.max(0.0) as u64)
    }

    /// The next packet counts as on time: there was a pause, whose end is not lateness.
    pub fn interrupt(&mut self) {
        (self.is_interrupted, self.last) = (true, None);
    }

    /// The period in nanoseconds of this host's clock, of one number or tick.
    #[must_use]
    pub fn period_ns(&self) -> f64 {
        self.fit.period_ns
    }

    fn stray(&mut self, point: Point) -> Option<u64> {
        self.strays += 1;
        if self.strays >= STRAYS {
            self.changes += 1;
            self.begin_at(point);
        }
        None
    }

    /// Takes up the schedule again with a packet that is on time.
    fn begin_at(&mut self, point: Point) {
        self.fit = Fit { start_ns: 0.0, first: point.0, epoch_ns: point.1, ..self.fit };
        self.fastest.clear();
        (self.best, self.window_ns) = (Some(point), point.1);
        (self.last, self.strays, self.is_interrupted) = (Some(point), 0, false);
    }

    fn keep_fastest(&mut self, point: Point) {
        let late = |point| self.fit.late_ns(point);
        if self.best.is_none_or(|best| late(point) <= late(best)) {
            self.best = Some(point);
        }
        if point.1.saturating_sub(self.window_ns) < WINDOW_NS {
            return;
        }
        self.window_ns = point.1;
        if self.fastest.len() == WINDOWS {
            self.fastest.remove(0);
        }
        self.fastest.extend(self.best.take());
        self.fit_again();
    }

    /// A line below the fastest packets, whose slope is theirs once they are enough, if two clocks can differ by that.
    fn fit_again(&mut self) {
        let Some(&(first, epoch_ns)) = self.fastest.first() else { return };
        self.is_settled |= self.fastest.len() >= SETTLED;
        let drift_ppm = |fit: &Fit| (fit.period_ns / self.learned_ns - 1.0).abs() * 1e6;
        let can_be = |fit: &Fit| drift_ppm(fit) <= MAX_DRIFT_PPM;
        let fit = Fit::of(&self.fastest);
        self.is_wrong = match self.fastest.len() {
            WINDOWS => !fit.as_ref().is_some_and(can_be),
            SURE.. => fit.as_ref().is_some_and(|fit| drift_ppm(fit) > GROSS_PPM),
            _ => false,
        };
        let period_ns = fit.filter(can_be).map_or(self.fit.period_ns, |fit| fit.period_ns);
        let fit = Fit { period_ns, start_ns: 0.0, first, epoch_ns };
        let lowest = self.fastest.iter().map(|point| fit.late_ns(*point)).min_by(f64::total_cmp);
        self.fit = Fit { start_ns: lowest.unwrap_or(0.0), ..fit };
    }
}

impl Axis {
    fn place(&self, packet: &Packet) -> Option<i64> {
        match self {
            Self::Number | Self::Gap => Some(packet.number),
            Self::Stamp => Some(packet.timestamp),
            Self::Read(reads, first) => {
                let index = packet.number.checked_sub(*first)?;
                i64::try_from(reads.offset_ns(u64::try_from(index).ok()?)).ok()
            }
        }
    }
}
