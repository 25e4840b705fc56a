//! All figures of one flow: its content, losses, lateness, and the buffers it needs.

use super::cbr::{self, Cbr, Fit, SPIKE_PERIODS};
use super::facts::{self, Facts};
use super::flow::{Flow, Kind, Packet, by_number};
use super::frames::Frames;
use super::rate::{self, Basis, RtpTime, Skew};
use super::rtp::{Counted, Jitter, Order, fixed_clock};
use super::st2022_6::{FORMATS, Format, Scan};
use super::st2110::audio::{self, PacketTime};
use super::st2110::bucket::Bucket;
use super::st2110::vrx::{self, Occupancy, Reads};
use super::st2110::{ReadSchedule, Stream, default_offset};
use super::{FrameRate, NS};
use crate::stats::sorted::Sorted;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// The clock of video time stamps in ST 2110-10, and of ST 2022-6.
const VIDEO_CLOCK: f64 = 90_000.0;
const SDI_CLOCK: f64 = 27_000_000.0;
/// Relative tolerance for recognising a format's period: 59.94 and 60 differ by 0.001, clocks by
/// 0.000 1.
const PERIOD_TOLERANCE: f64 = 0.000_3;
/// A few time stamps, each with the delay of one packet, do not show how fast a clock is.
const MIN_STAMPS: u64 = 10;
/// A probe's due times count nanoseconds.
const DUE_CLOCK: f64 = 1e9;
/// TAI minus UTC since 2017: senders count TAI, captures may be in UTC.
const LEAP_NS: u64 = 37_000_000_000;

/// All figures of one flow.
#[derive(Debug, Clone)]
pub struct Figures {
    /// Payload type of the flow.
    pub kind: Kind,
    /// Loss and order; plain UDP has no sequence numbers, so only the number of packets.
    pub order: Order,
    /// Time from the first packet to the last.
    pub span_ns: u64,
    /// Resolution of the capture's clock: 1, 1,000 (microseconds) or 1,000,000 ns.
    pub resolution_ns: u64,
    /// The format: named by the caller or the payload, or recognised by period or frames.
    pub format: Option<Format>,
    /// Packets per frame and frames per second.
    pub stream: Option<Stream>,
    /// Whole frames or fields seen.
    pub units: u64,
    /// The period by the format or the packet time.
    pub nominal_ns: Option<f64>,
    /// The measured period, on the capture's clock; for video, within the active lines.
    pub period_ns: Option<f64>,
    /// Interarrival jitter, where the clock of the time stamps is known.
    pub jitter: Option<Jitter>,
    /// The sender's clock relative to the capture's, by the nominal period or by time stamps.
    pub skew: Option<Skew>,
    /// Time between packets; for video, without the gaps between frames or fields.
    pub gaps: Sorted,
    /// Lateness of packets relative to their schedule; `None` without a schedule.
    pub lateness: Option<Sorted>,
    /// The kind of schedule.
    pub basis: Option<Basis>,
    /// Gaps of more than two periods.
    pub spikes: Option<u64>,
    /// Maximum level of the bucket.
    pub c_inst: Option<u64>,
    /// The receiver's buffer.
    pub vrx: Option<Vrx>,
    /// Packets by the level of the bucket that they met, themselves not included.
    pub c_inst_levels: Vec<(u64, u64)>,
    /// Packets by the occupancy of the receiver's buffer with the default `TR_offset`, themselves included.
    pub vrx_levels: Vec<(i64, u64)>,
    /// Figures of audio.
    pub audio: Option<Audio>,
    /// The format, by the packets.
    pub facts: Facts,
}

/// The virtual receive buffer of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Vrx {
    /// With the earliest read time at which no packet is late: `max` is then the minimum buffer.
    pub least: Occupancy,
    /// With the default `TR_offset`, and `T_VD` at multiples of the frame time since 1970, as
    /// defined by ST 2110-10; only if the time stamps agree with the capture's time.
    pub default: Option<Occupancy>,
    /// Time from the frame's start to the first packet of a complete frame; under the same
    /// condition.
    pub first_packet_ns: Option<u64>,
    /// The default `TR_offset` in nanoseconds; for video.
    pub default_offset_ns: Option<u64>,
}

/// Figures of audio.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Audio {
    /// Samples per packet.
    pub packet_time: PacketTime,
    /// The largest TS-DF of all complete windows of a second, or of the whole capture if it is
    /// shorter.
    pub delay_factor_ns: Option<u64>,
    /// Number of complete windows.
    pub windows: u64,
}

impl Figures {
    /// The figures of a flow, with a format if the caller knows it; `None` with fewer than three
    /// packets.
    #[must_use]
    pub fn of(flow: &Flow, format: Option<Format>) -> Option<Self> {
        let packets = flow.packets();
        let kind = flow.kind();
        let (first, last) = (packets.first()?, packets.last()?);
        if packets.len() < super::flow::MIN_PACKETS {
            return None;
        }
        let clock = stamp_clock(flow, &packets);
        let numbers: Vec<i64> = packets.iter().map(|packet| packet.number).collect();
        let mut figures = Self {
            kind,
            order: Order::of(&numbers),
            span_ns: last.at_ns.saturating_sub(first.at_ns),
            resolution_ns: resolution(&packets),
            format: None,
            stream: None,
            units: 0,
            nominal_ns: None,
            period_ns: None,
            jitter: None,
            skew: None,
            gaps: gaps(&packets, |_| true),
            lateness: None,
            basis: None,
            spikes: None,
            c_inst: None,
            vrx: None,
            c_inst_levels: Vec::new(),
            vrx_levels: Vec::new(),
            audio: None,
            facts: Facts::of(flow, &packets, clock),
        };
        match kind {
            Kind::Video => figures.add_video(flow, &packets),
            Kind::St2022_6 => figures.add_sdi(format.or(flow.format()), &packets),
            Kind::Probe => figures.add_probe(format, flow.format(), &packets),
            Kind::Audio | Kind::Am824 => figures.add_audio(flow.packet_time(), &packets),
            Kind::Jxs => figures.add_jxs(&packets),
            // Ancillary data follows its video: a packet or some with each frame or field, or none.
            Kind::Ancillary => figures.add_stamps(&[VIDEO_CLOCK as u32], &packets),
            Kind::Rtp | Kind::Numbered | Kind::Udp => figures.add_plain(format, &packets),
        }
        let stamps = packets.iter().map(|packet| (packet.timestamp, packet.at_ns));
        let counted = match kind {
            Kind::Video | Kind::Jxs | Kind::Ancillary => Counted::FirstOfStamp,
            _ => Counted::All,
        };
        figures.jitter = clock.and_then(|clock| Jitter::of(stamps, clock, counted));
        Some(figures)
    }

    /// A constant rate with the period of a format.
    fn add_sdi(&mut self, format: Option<Format>, packets: &[Packet]) {
        let Some(found) = Cbr::of(&points(packets)) else { return };
        let fits = |known: &&Format| has_period(known, found.fit.period_ns);
        let format = format.or_else(|| FORMATS.iter().find(fits).copied());
        self.format = format;
        self.nominal_ns = format.map(|format| format.period_ns());
        self.add_cbr(found);
        self.add_linear(SDI_CLOCK, packets);
    }

    /// Packets that carry their due times. The format of the payload header counts only if the
    /// packets have its period: the header is the same when the caller chose another period.
    fn add_probe(&mut self, asked: Option<Format>, named: Option<Format>, packets: &[Packet]) {
        let due: Vec<cbr::Point> =
            packets.iter().map(|packet| (packet.timestamp, packet.at_ns)).collect();
        let (Some(fit), Some(due_period_ns)) = (Fit::of(&due), due_period_ns(packets)) else {
            return;
        };
        let fits = |known: &&Format| has_period(known, due_period_ns);
        let by_period = || named.iter().chain(&FORMATS).find(fits).copied();
        self.format = asked.or_else(by_period);
        let nominal_ns = self.format.map_or(due_period_ns, |format| format.period_ns());
        let period_ns = due_period_ns * fit.period_ns;
        let lateness = fit.lateness(&due);
        self.nominal_ns = Some(nominal_ns);
        self.period_ns = Some(period_ns);
        self.skew = Skew::of((period_ns / nominal_ns - 1.0) * 1e6, self.span_ns, &lateness);
        self.spikes = Some(late_gaps(packets, due_period_ns));
        self.basis = Some(Basis::Due);
        self.lateness = Some(lateness);
        self.add_linear(DUE_CLOCK, packets);
    }

    /// Buffers of a stream that is read evenly: by the format if the stream has its period,
    /// otherwise by the markers.
    fn add_linear(&mut self, clock: f64, packets: &[Packet]) {
        let by_number = by_number(packets);
        let frames = Frames::of(&by_number);
        self.units = frames.as_ref().map_or(0, |frames| frames.units);
        let seen = frames
            .as_ref()
            .and_then(|frames| Some((frames.packets_per_frame()?, frames.rate(clock)?)));
        let is_right = !matches!(self.skew, Some(Skew::Mismatch(_)));
        let format = self.format.filter(|_| is_right);
        let by_format = format.map(|format| (format.packets_per_frame(), format.rate));
        if let Some((packets_per_frame, rate)) = by_format.or(seen) {
            let schedule = ReadSchedule::Linear;
            self.add_buffers(Stream { packets_per_frame, rate, schedule }, packets);
            self.add_vrx(by_number.first().map_or(0, |first| first.number), packets, None);
        }
    }

    /// Video: packets during the active lines, and none between frames.
    fn add_video(&mut self, flow: &Flow, packets: &[Packet]) {
        let by_number = by_number(packets);
        let Some(frames) = Frames::of(&by_number) else { return };
        self.units = frames.units;
        let (Some(packets_per_frame), Some(rate)) =
            (frames.packets_per_frame(), frames.rate(VIDEO_CLOCK))
        else {
            return;
        };
        let scan = if frames.interlaced { Scan::Interlaced } else { Scan::Progressive };
        let schedule = ReadSchedule::gapped(scan, flow.lines());
        let stream = Stream { packets_per_frame, rate, schedule };
        self.add_buffers(stream, packets);
        self.add_reads(stream, frames.first, packets);
        let offset = default_offset(scan, flow.lines());
        let default_offset_ns = rate.frame_ns() * f64::from(offset.0) / f64::from(offset.1);
        let default_offset_ns = libm::round(default_offset_ns) as u64;
        let epoch = by_number.iter().find(|packet| packet.number == frames.first);
        let epoch_ns = epoch.and_then(|first| epoch_ns(first, rate));
        self.add_vrx(frames.first, packets, epoch_ns.map(|epoch_ns| (epoch_ns, offset)));
        if let (Some(vrx), Some(first), Some(epoch_ns)) = (&mut self.vrx, epoch, epoch_ns) {
            vrx.first_packet_ns = Some(first.at_ns.saturating_sub(epoch_ns));
        }
        if let Some(vrx) = &mut self.vrx {
            vrx.default_offset_ns = Some(default_offset_ns);
        }
        self.facts.offsets = epoch_ns
            .zip(self.facts.rate)
            .and_then(|(epoch_ns, units)| facts::offsets(&by_number, units, epoch_ns));
    }

    /// JPEG XS: frames of any number of packets, compared with RTP time; the bucket if the number is constant.
    fn add_jxs(&mut self, packets: &[Packet]) {
        let by_number = by_number(packets);
        if let Some(frames) = Frames::of(&by_number) {
            self.units = frames.units;
            let rate = frames.rate(VIDEO_CLOCK);
            if let Some((packets_per_frame, rate)) = frames.packets_per_frame().zip(rate) {
                let schedule = ReadSchedule::Linear;
                self.add_buffers(Stream { packets_per_frame, rate, schedule }, packets);
                self.add_vrx(frames.first, packets, None);
            }
        }
        self.add_stamps(&[VIDEO_CLOCK as u32], packets);
    }

    /// Lateness relative to RTP time.
    fn add_stamps(&mut self, clocks: &[u32], packets: &[Packet]) {
        let Some(found) = RtpTime::of_clocks(packets, clocks) else { return };
        let is_known =
            |skew: &Skew| matches!(skew, Skew::Mismatch(_)) || found.lateness.n() >= MIN_STAMPS;
        self.skew = Skew::of(found.skew_ppm, self.span_ns, &found.lateness).filter(is_known);
        if !matches!(self.skew, Some(Skew::Mismatch(_))) {
            self.basis = Some(Basis::Rtp(found.clock));
            self.lateness = Some(found.lateness);
        }
    }

    /// Audio: one packet per packet time.
    fn add_audio(&mut self, packet_time: Option<PacketTime>, packets: &[Packet]) {
        let Some(packet_time) = packet_time else { return };
        self.nominal_ns = Some(packet_time.ns());
        if let Some(found) = Cbr::of(&points(packets)) {
            self.add_cbr(found);
        }
        let pairs: Vec<(i64, u64)> =
            packets.iter().map(|packet| (packet.timestamp, packet.at_ns)).collect();
        let windows = audio::delay_factors(&pairs, packet_time.clock, audio::WINDOW_NS);
        let whole = || audio::delay_factor(&pairs, packet_time.clock);
        self.audio = Some(Audio {
            packet_time,
            delay_factor_ns: windows.iter().copied().max().or_else(whole),
            windows: windows.len() as u64,
        });
    }

    /// Other streams: relative to an even schedule if they have one, otherwise to RTP time.
    fn add_plain(&mut self, format: Option<Format>, packets: &[Packet]) {
        let Some(found) = Cbr::of(&points(packets)) else { return };
        if rate::is_even(&found, packets) {
            self.nominal_ns = format.map(|format| format.period_ns());
            self.format = format;
            return self.add_cbr(found);
        }
        if self.kind == Kind::Rtp {
            self.add_stamps(&rate::CLOCKS, packets);
        }
    }

    fn add_cbr(&mut self, found: Cbr) {
        self.period_ns = Some(found.fit.period_ns);
        self.skew = self.nominal_ns.and_then(|nominal_ns| {
            Skew::of(found.fit.skew_ppm(nominal_ns), found.span_ns, &found.lateness)
        });
        self.gaps = found.gaps;
        self.lateness = Some(found.lateness);
        self.basis = Some(Basis::Even);
        self.spikes = Some(found.spikes);
    }

    fn add_buffers(&mut self, stream: Stream, packets: &[Packet]) {
        let mut bucket = Bucket::new(stream);
        self.stream = Some(stream);
        let mut levels = BTreeMap::new();
        for packet in packets {
            *levels.entry(bucket.push(packet.at_ns)).or_insert(0) += 1;
        }
        self.c_inst = levels.keys().next_back().copied();
        self.c_inst_levels = levels.into_iter().map(|(level, n)| (level - 1, n)).collect();
    }

    /// Gaps and lateness relative to the times at which packets are to be read.
    fn add_reads(&mut self, stream: Stream, first: i64, packets: &[Packet]) {
        let reads = Reads { stream, start_ns: 0 };
        let points: Vec<cbr::Point> = indexed(packets, first)
            .map(|(index, at_ns)| {
                (i64::try_from(reads.offset_ns(index)).unwrap_or(i64::MAX), at_ns)
            })
            .collect();
        // The time on the sender's schedule replaces the number: its "period" is 1.
        let Some(fit) = Fit::of(&points) else { return };
        let lateness = fit.lateness(&points);
        self.skew = Skew::of(fit.skew_ppm(1.0), self.span_ns, &lateness);
        let (active, total) = stream.schedule.active();
        let nominal_ns = stream.rate.frame_ns() / f64::from(stream.packets_per_frame)
            * (active as f64 / total as f64);
        self.nominal_ns = Some(nominal_ns);
        if matches!(self.skew, Some(Skew::Mismatch(_))) {
            return;
        }
        self.lateness = Some(lateness);
        self.basis = Some(Basis::Picture);
        let period_ns = nominal_ns * fit.period_ns;
        self.period_ns = Some(period_ns);
        // A gap after a marker is the blanking interval.
        self.gaps = gaps(packets, |before| !before.marker);
        self.spikes = Some(self.gaps.above((SPIKE_PERIODS as f64 * period_ns) as i64));
    }

    fn add_vrx(&mut self, first: i64, packets: &[Packet], epoch: Option<(u64, (u32, u32))>) {
        let Some(stream) = self.stream else { return };
        let Some(start_ns) = vrx::earliest_start(stream, indexed(packets, first)) else { return };
        let at = |start_ns| Reads { stream, start_ns }.occupancy(indexed(packets, first));
        let Some(least) = at(start_ns) else { return };
        let default = epoch.and_then(|(epoch_ns, (lines, total))| {
            let FrameRate { frames, seconds } = stream.rate;
            let offset = NS * u128::from(seconds) * u128::from(lines)
                / (u128::from(frames.max(1)) * u128::from(total.max(1)));
            let start_ns = epoch_ns.saturating_add(u64::try_from(offset).ok()?);
            self.vrx_levels = Reads { stream, start_ns }.levels(indexed(packets, first));
            at(start_ns)
        });
        self.vrx = Some(Vrx { least, default, first_packet_ns: None, default_offset_ns: None });
    }
}

/// Clock of a flow's RTP time stamps: that of its kind or payload type, otherwise the one that they follow.
fn stamp_clock(flow: &Flow, packets: &[Packet]) -> Option<u32> {
    let (_, payload_type) = flow.rtp()?;
    match flow.kind() {
        Kind::Video | Kind::Jxs | Kind::Ancillary => Some(VIDEO_CLOCK as u32),
        Kind::St2022_6 => Some(SDI_CLOCK as u32),
        Kind::Audio | Kind::Am824 => flow.packet_time().map(|time| time.clock),
        Kind::Rtp => fixed_clock(payload_type).or_else(|| Some(RtpTime::of(packets)?.clock)),
        // Due times are not time stamps.
        Kind::Probe | Kind::Numbered | Kind::Udp => None,
    }
}

/// Packets from number `first` on, with their distance from it.
fn indexed(packets: &[Packet], first: i64) -> impl Iterator<Item = (u64, u64)> {
    let index = move |packet: &Packet| {
        let index = i128::from(packet.number) - i128::from(first);
        Some((u64::try_from(index).ok()?, packet.at_ns))
    };
    packets.iter().filter_map(index)
}

fn points(packets: &[Packet]) -> Vec<cbr::Point> {
    packets.iter().map(|packet| (packet.number, packet.at_ns)).collect()
}

/// Whether this distance between packets is that of a format.
fn has_period(format: &Format, period_ns: f64) -> bool {
    (period_ns / format.period_ns() - 1.0).abs() <= PERIOD_TOLERANCE
}

/// Mean time between probes by their due times.
fn due_period_ns(packets: &[Packet]) -> Option<f64> {
    let by_number = by_number(packets);
    let (first, last) = (by_number.first()?, by_number.last()?);
    let ns = i128::from(last.timestamp) - i128::from(first.timestamp);
    let period_ns = ns as f64 / (i128::from(last.number) - i128::from(first.number)) as f64;
    (period_ns.is_finite() && period_ns > 0.0).then_some(period_ns)
}

/// Gaps between probes with consecutive numbers that exceed the due gap by more than a period.
fn late_gaps(packets: &[Packet], period_ns: f64) -> u64 {
    let is_spike = |pair: &&[Packet]| {
        let gap = i128::from(pair[1].at_ns) - i128::from(pair[0].at_ns);
        let due = i128::from(pair[1].timestamp) - i128::from(pair[0].timestamp);
        pair[0].number.checked_add(1) == Some(pair[1].number)
            && (gap - due) as f64 > (SPIKE_PERIODS - 1) as f64 * period_ns
    };
    packets.windows(2).filter(is_spike).count() as u64
}

/// Gaps after the packets that `counts` selects.
fn gaps(packets: &[Packet], counts: impl Fn(&Packet) -> bool) -> Sorted {
    let gap = |pair: &[Packet]| {
        let gap = i128::from(pair[1].at_ns) - i128::from(pair[0].at_ns);
        i64::try_from(gap).unwrap_or(i64::MAX)
    };
    let pairs = packets.windows(2).filter(|pair| counts(&pair[0]));
    Sorted::new(pairs.map(gap).collect())
}

/// The largest of 1 ms, 1 µs and 1 ns that divides all times.
fn resolution(packets: &[Packet]) -> u64 {
    let divides = |step: &u64| packets.iter().all(|packet| packet.at_ns.is_multiple_of(*step));
    [1_000_000, 1_000].into_iter().find(divides).unwrap_or(1)
}

/// Start of the first packet's frame on the capture's clock: a multiple of the frame time since
/// 1970 in TAI, if the packet's time stamp agrees (ST 2110-10, section 7.6); otherwise `None`.
fn epoch_ns(first: &Packet, rate: FrameRate) -> Option<u64> {
    [0, LEAP_NS].into_iter().find_map(|ahead_ns| {
        let tai_ns = u128::from(first.at_ns) + u128::from(ahead_ns);
        let ticks = tai_ns * 90_000 / NS;
        let behind = (ticks as u32).wrapping_sub(first.timestamp as u32);
        let frame_ns = u128::from(rate.seconds) * NS;
        let frames = u128::from(rate.frames.max(1));
        // Within the frame; the time stamp may be rounded up.
        let is_near = u128::from(behind) * frames < 90_000 * u128::from(rate.seconds);
        let epoch_ns = tai_ns * frames / frame_ns * frame_ns / frames;
        let epoch_ns = u64::try_from(epoch_ns).ok()?.checked_sub(ahead_ns)?;
        is_near.then_some(epoch_ns)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::Schedule;
    use crate::stream::probe::{MIN_LEN, Probe};
    use linecard::rng::Rng;

    /// An ST 2022-6 stream as its header says, one packet in 10,000 late by 100 µs and every other by up to
    /// 200 ns.
    fn sdi(seed: u64) -> Flow {
        let mut rng = Rng::new(seed);
        let format = Format::by_name("1080i59.94").unwrap();
        let schedule = Schedule { start_ns: 1 << 60, period_ps: format.period_ps() };
        let mut flow = Flow::default();
        let mut last = 0;
        for n in 0..50_000_u64 {
            let sequence = ((n + 60_000) as u16).to_be_bytes();
            let marker = if (n + 1) % 4_497 == 0 { 0x80 } else { 0 };
            let mut bytes = alloc::vec![0x80, 98 | marker, sequence[0], sequence[1]];
            bytes.extend([0, 0, 0, 0, 0, 0, 0, 7, 8, 0, 0, 0, 2, 1, 0x71, 0]);
            let late = if n % 10_000 == 5_000 { 100_000 } else { rng.below(200) };
            last = (schedule.due_ns(n) + late).max(last);
            if n != 77 {
                flow.push(last, &bytes, 1_396);
            }
        }
        flow
    }

    #[test]
    fn an_sdi_stream_has_all_figures() {
        let figures = Figures::of(&sdi(1), None).unwrap();
        assert_eq!(figures.kind, Kind::St2022_6);
        assert_eq!((figures.order.lost, figures.order.received), (1, 49_999));
        assert_eq!(figures.format.unwrap().name, "1080i59.94");
        assert_eq!(figures.stream.unwrap().packets_per_frame, 4_497);
        assert_eq!((figures.units, figures.spikes, figures.resolution_ns), (10, Some(5), 1));
        let drift = |ppm: f64| ppm.abs() < 0.1;
        assert!(matches!(figures.skew, Some(Skew::Drift(ppm)) if drift(ppm)), "{:?}", figures.skew);
        let late = figures.lateness.unwrap();
        assert!((99_800..=100_200).contains(&late.max().unwrap()));
        // 100 µs are 13.5 periods: 13 more packets are due in them, and come at once.
        assert_eq!(figures.c_inst, Some(14));
        let vrx = figures.vrx.unwrap();
        assert_eq!((vrx.least.min, vrx.least.max, vrx.default), (0, 14, None));
    }

    #[test]
    fn the_callers_format_counts_more() {
        let format = Format::by_name("1080i60").unwrap();
        let figures = Figures::of(&sdi(2), Some(format)).unwrap();
        let is_wrong = |ppm: f64| (ppm - 1_000.0).abs() < 1.0;
        let skew = figures.skew;
        assert!(matches!(skew, Some(Skew::Mismatch(ppm)) if is_wrong(ppm)), "{skew:?}");
    }

    /// The headers of a stream of one's own period still name 1080i59.94, whose period is 7.42 µs.
    #[test]
    fn probes_are_held_against_their_own_due_times() {
        let mut flow = Flow::default();
        for sequence in 0..10_000_u64 {
            let mut payload = [0; MIN_LEN];
            payload[..2].copy_from_slice(&[0x80, 98]);
            payload[12..20].copy_from_slice(&[8, 0, 0, 0, 2, 1, 0x71, 0]);
            let due_ns = 77_000_000_000 + sequence * 200_000;
            Probe { sequence, due_ns, sent_ns: due_ns + 5 }.write(&mut payload);
            let late = if sequence == 5_000 { 1_000_000 } else { sequence % 300 };
            flow.push((1 << 60) + due_ns + late, &payload, 1_396);
        }
        let figures = Figures::of(&flow, None).unwrap();
        assert_eq!((figures.kind, figures.format), (Kind::Probe, None));
        assert_eq!((figures.nominal_ns, figures.basis), (Some(200_000.0), Some(Basis::Due)));
        let Some(Skew::Drift(ppm)) = figures.skew else { panic!("{:?}", figures.skew) };
        assert!(ppm.abs() < 0.1, "{ppm}");
        assert_eq!((figures.spikes, figures.lateness.unwrap().above(1_000)), (Some(1), 1));
        let asked = Figures::of(&flow, Some(Format::by_name("1080i59.94").unwrap())).unwrap();
        assert!(matches!(asked.skew, Some(Skew::Mismatch(_))), "{:?}", asked.skew);
        assert_eq!(asked.stream, None);
    }

    #[test]
    fn what_has_no_constant_rate_has_no_lateness() {
        let mut flow = Flow::default();
        for at_ns in [0, 5, 1_000_000, 1_000_010, 70_000_000, 900_000_000] {
            flow.push(at_ns, b"a question", 10);
        }
        let figures = Figures::of(&flow, None).unwrap();
        assert_eq!((figures.kind, figures.lateness, figures.spikes), (Kind::Udp, None, None));
        assert!(Figures::of(&Flow::default(), None).is_none());
    }

    #[test]
    fn frames_begin_at_multiples_of_their_time() {
        // The first packet of pi-list's 1080i59.94.
        let first = Packet {
            at_ns: 1_516_906_244_153_907_000,
            number: 0,
            timestamp: 1_731_503_140,
            octets: 1_220,
            marker: false,
            starts: true,
            second_field: false,
        };
        let epoch_ns = epoch_ns(&first, FrameRate::slow(30)).unwrap();
        assert_eq!(first.at_ns - epoch_ns, 607_000);
        let utc = Packet { at_ns: first.at_ns - LEAP_NS, ..first };
        assert_eq!(super::epoch_ns(&utc, FrameRate::slow(30)), Some(epoch_ns - LEAP_NS));
        let other = Packet { timestamp: 5, ..first };
        assert_eq!(super::epoch_ns(&other, FrameRate::slow(30)), None);
    }
}
