//! Format facts of ST 2110 streams: picture, offset of its first packets, sound, ancillary data.

use super::cbr::Point;
use super::flow::{Flow, Kind, Packet, by_number};
use super::frames::{Frames, nearest};
use super::rate::first_of_stamps;
use super::st2022_6::Scan;
use super::st2110::anc;
use super::st2110::audio::PacketTime;
use super::st2110::raster::{NoWidth, Sampling};
use super::st2110::sound::Channels;
use super::{FrameRate, NS};
use alloc::vec::Vec;

/// TAI minus UTC since 2017: senders count TAI, captures may be in UTC.
const LEAP_NS: u64 = 37_000_000_000;
/// Packets are behind their time stamps by less than this, or the clocks do not agree.
const MAX_BEHIND_NS: f64 = 1e9;
/// They are before them by less than this: time stamps are rounded, and clocks differ a little.
const MAX_AHEAD_NS: f64 = 1e6;

/// The format of a stream, by its packets.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// Frames, or fields of an interlaced picture, per second.
    pub rate: Option<FrameRate>,
    /// The picture of ST 2110-20.
    pub picture: Option<Picture>,
    /// Whether rate and packets are those of fields.
    pub has_fields: bool,
    /// The fewest packets of a frame or field, and the most.
    pub unit_packets: Option<(u64, u64)>,
    /// Octets of UDP payload, of the shortest packet and the longest.
    pub packet_octets: Option<(u32, u32)>,
    /// Time from the start of a frame or field to its first packet.
    pub offsets: Option<Spread>,
    /// Time from a time stamp to the first packet that has it.
    pub behind: Option<Spread>,
    /// Channels of sound; more than one if the packets do not tell.
    pub channels: Vec<Channels>,
    /// Kinds of ancillary data, with their numbers.
    pub ancillary: Vec<(anc::Kind, u64)>,
    /// ANC data packets with a wrong parity or checksum.
    pub damaged: Option<u64>,
}

/// The picture of ST 2110-20.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Picture {
    /// Pixels of a line, or why they are not known.
    pub width: Result<u32, NoWidth>,
    /// Lines of a frame.
    pub height: u32,
    /// How lines are sent.
    pub scan: Scan,
    /// Whether both fields belong to one instant (`PsF`).
    pub is_segmented: bool,
    /// Samplings that the octets per pixel leave.
    pub samplings: &'static [Sampling],
}

/// The least, the mean and the most of some times.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// The least.
    pub min_ns: f64,
    /// The mean.
    pub mean_ns: f64,
    /// The most.
    pub max_ns: f64,
    /// How many.
    pub count: u64,
}

impl Spread {
    fn of(times_ns: &[f64]) -> Option<Self> {
        let min_ns = times_ns.iter().copied().min_by(f64::total_cmp)?;
        let max_ns = times_ns.iter().copied().max_by(f64::total_cmp)?;
        let mean_ns = times_ns.iter().sum::<f64>() / times_ns.len() as f64;
        Some(Self { min_ns, mean_ns, max_ns, count: times_ns.len() as u64 })
    }
}

impl Facts {
    /// The facts of a flow whose time stamps have this clock.
    #[must_use]
    pub(super) fn of(flow: &Flow, packets: &[Packet], clock: Option<u32>) -> Self {
        let mut facts = Self::default();
        match flow.kind() {
            Kind::Video => facts.add_picture(flow, packets),
            Kind::Jxs => facts.add_frames(packets),
            Kind::Audio | Kind::Am824 => facts.channels = channels(flow),
            Kind::Ancillary => facts.add_ancillary(flow, packets),
            Kind::Probe | Kind::St2022_6 | Kind::Rtp | Kind::Numbered | Kind::Udp => {
                return facts;
            }
        }
        let octets = || packets.iter().map(|packet| packet.octets);
        facts.packet_octets = octets().min().zip(octets().max());
        facts.behind = clock.and_then(|clock| behind(&first_of_stamps(packets), clock));
        facts
    }

    /// Rate and packets of frames or fields.
    fn add_frames(&mut self, packets: &[Packet]) {
        let Some(frames) = Frames::of(&by_number(packets)) else { return };
        self.has_fields = frames.interlaced;
        let size = |packets| u64::try_from(packets).ok();
        self.unit_packets = size(frames.sizes.0).zip(size(frames.sizes.1));
        self.rate = frames.rate(90_000.0).map(|rate| rate.of_fields(frames.interlaced));
    }

    fn add_picture(&mut self, flow: &Flow, packets: &[Packet]) {
        self.add_frames(packets);
        let Some(frames) = Frames::of(&by_number(packets)) else { return };
        let raster = &flow.content().raster;
        self.picture = Some(Picture {
            width: raster.width(),
            height: flow.lines(),
            scan: if frames.interlaced { Scan::Interlaced } else { Scan::Progressive },
            is_segmented: frames.is_segmented(),
            samplings: raster.samplings(),
        });
    }

    /// Ancillary data: its rate is that of the time stamps.
    fn add_ancillary(&mut self, flow: &Flow, packets: &[Packet]) {
        self.has_fields = packets.iter().any(|packet| packet.second_field);
        self.rate = stamp_rate(&first_of_stamps(packets));
        let anc = &flow.content().anc;
        self.ancillary = anc.kinds().to_vec();
        self.damaged = Some(anc.damaged);
        let mut sizes = Vec::<u64>::new();
        for pair in by_number(packets).chunk_by(|a, b| a.timestamp == b.timestamp) {
            sizes.push(pair.len() as u64);
        }
        self.unit_packets = sizes.iter().copied().min().zip(sizes.iter().copied().max());
    }
}

impl FrameRate {
    /// The rate of the fields of frames with this rate, if they have any.
    fn of_fields(self, has_fields: bool) -> Self {
        Self { frames: self.frames * if has_fields { 2 } else { 1 }, ..self }
    }
}

/// Frames or fields per second by time stamps of 90 kHz that count each of them.
fn stamp_rate(stamps: &[Point]) -> Option<FrameRate> {
    let mut steps: Vec<i64> =
        stamps.windows(2).map(|pair| pair[1].0.saturating_sub(pair[0].0)).collect();
    steps.sort_unstable();
    let median = *steps.get(steps.len() / 2)?;
    // A step of 59.94 Hz is 1,501 or 1,502 ticks; lost packets make longer ones.
    let near: Vec<i64> = steps.into_iter().filter(|step| step.abs_diff(median) <= 1).collect();
    let mean = near.iter().map(|step| *step as f64).sum::<f64>() / near.len() as f64;
    nearest(90_000.0 / mean)
}

fn channels(flow: &Flow) -> Vec<Channels> {
    let content = flow.content();
    let Some((PacketTime { samples, .. }, (least, most))) = flow.packet_time().zip(content.sizes())
    else {
        return Vec::new();
    };
    let Some(octets) = u32::try_from(most).ok().filter(|_| least == most) else {
        return Vec::new();
    };
    if samples == 0 || !octets.is_multiple_of(samples) {
        return Vec::new();
    }
    match flow.kind() {
        Kind::Am824 => alloc::vec![Channels { count: octets / samples / 4, bits: 24 }],
        _ => content.widths.channels(octets / samples).collect(),
    }
}

/// How far first packets are behind their time stamps, if these count TAI and the capture's clock is TAI or UTC (ST
/// 2110-10, section 7.5).
fn behind(stamps: &[Point], clock: u32) -> Option<Spread> {
    let is_near = |ns: &f64| (-MAX_AHEAD_NS..MAX_BEHIND_NS).contains(ns);
    [0, LEAP_NS].into_iter().find_map(|ahead_ns| {
        let times: Vec<f64> =
            stamps.iter().map(|stamp| behind_ns(*stamp, ahead_ns, clock)).collect();
        times.iter().all(is_near).then(|| Spread::of(&times)).flatten()
    })
}

/// How far a packet is behind its time stamp, of which 32 bits are known.
fn behind_ns((stamp, at_ns): Point, ahead_ns: u64, clock: u32) -> f64 {
    // Times the clock's rate, so that all are whole numbers below 2^98.
    let turn = (NS as i128) << 32;
    let at = (i128::from(at_ns) + i128::from(ahead_ns)) * i128::from(clock);
    let ticks = (at - i128::from(stamp as u32) * NS as i128).rem_euclid(turn);
    let ticks = if ticks >= turn / 2 { ticks - turn } else { ticks };
    ticks as f64 / f64::from(clock.max(1))
}

/// Time from the start of each frame or field to its first packet: `TR_offset` of ST 2110-21 as it was kept. Starts are
/// multiples of the time of a frame or field from `epoch_ns` on; packets behind a marker are the first.
pub(super) fn offsets(by_number: &[Packet], units: FrameRate, epoch_ns: u64) -> Option<Spread> {
    let per = i128::from(units.frames.max(1));
    let unit = i128::from(units.seconds.max(1)) * NS as i128;
    let is_first =
        |pair: &&[Packet]| pair[0].marker && pair[0].number.checked_add(1) == Some(pair[1].number);
    let offset = |pair: &[Packet]| {
        let since = (i128::from(pair[1].at_ns) - i128::from(epoch_ns)) * per;
        since.rem_euclid(unit) as f64 / per as f64
    };
    let offsets: Vec<f64> = by_number.windows(2).filter(is_first).map(offset).collect();
    Spread::of(&offsets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_of_time_stamps_with_a_loss() {
        let stamps = |step: fn(i64) -> i64| -> Vec<Point> {
            (0..50).filter(|n| *n != 20).map(|n| (step(n), n as u64 * 16_683_333)).collect()
        };
        assert_eq!(stamp_rate(&stamps(|n| n * 3_003 / 2)), Some(FrameRate::slow(60)));
        assert_eq!(stamp_rate(&stamps(|n| n * 1_800)), Some(FrameRate::whole(50)));
        assert_eq!(stamp_rate(&stamps(|n| n * n)), None);
        assert_eq!(stamp_rate(&[]), None);
    }

    /// The first packet of pi-list's 1080i59.94, and the same in UTC.
    #[test]
    fn packets_are_behind_their_time_stamps() {
        let first = (1_731_503_140, 1_516_906_244_153_907_000);
        let found = behind(&[first], 90_000).unwrap();
        assert!((found.min_ns - 618_111.1).abs() < 1.0, "{found:?}");
        assert_eq!(behind(&[(first.0, first.1 - LEAP_NS)], 90_000), Some(found));
        assert_eq!(behind(&[(first.0, first.1 - 5_000_000_000)], 90_000), None);
        assert_eq!(behind(&[], 90_000), None);
        let _ = behind(&[(i64::MAX, u64::MAX), (i64::MIN, 0)], u32::MAX);
    }
}
