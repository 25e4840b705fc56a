//! ST 2110-21: how evenly a sender must send, and how large a receiver's buffer must be.
//!
//! Two models. *Network compatibility*: a bucket that every packet fills by one and that drains one
//! packet every T/(1.1·N); its level is `C_inst` and must not exceed `C_max` ([`bucket`]). *Virtual
//! receive buffer*: packets are read on a schedule that starts at `T_VD` = n·T + `TR_offset`; the
//! occupancy must stay between 0 and `VRX_full` ([`vrx`]). Both run over the whole capture, without
//! a reset at frames.

pub mod anc;
pub mod audio;
pub mod bucket;
pub mod jxs;
pub mod payload;
pub mod raster;
pub mod sound;
pub mod vrx;

use super::FrameRate;
use super::st2022_6::Scan;

/// Sender type: how evenly it sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Sender {
    /// Type N and NL: typical of hardware.
    Narrow,
    /// Type W: typical of software.
    Wide,
}

impl Sender {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Narrow => "narrow",
            Self::Wide => "wide",
        }
    }
}

/// Read times of a frame's packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ReadSchedule {
    /// Evenly over the whole frame.
    Linear,
    /// Evenly over the active lines, with none during the blanking.
    Gapped {
        /// Active lines of the frame, or of a frame with the same proportions …
        active: u32,
        /// … of this total.
        total: u32,
        /// First line of the second field, if there is one.
        second_field: Option<u32>,
    },
}

impl ReadSchedule {
    /// The gapped schedule of a picture with this many lines (ST 2110-21, section 6.3).
    #[must_use]
    pub fn gapped(scan: Scan, height: u32) -> Self {
        let (active, total, second_field) = match (scan, height) {
            (Scan::Progressive, _) => (1_080, 1_125, None),
            (Scan::Interlaced, ..=487) => (487, 525, Some(263)),
            (Scan::Interlaced, ..=576) => (576, 625, Some(313)),
            (Scan::Interlaced, _) => (1_080, 1_125, Some(563)),
        };
        Self::Gapped { active, total, second_field }
    }

    /// The share of a frame in which packets are read, as a fraction.
    pub(super) fn active(self) -> (u128, u128) {
        match self {
            Self::Linear => (1, 1),
            Self::Gapped { active, total, .. } => (active.max(1).into(), total.max(1).into()),
        }
    }
}

/// The default `TR_offset`, as lines of a total (ST 2110-21, section 6.3).
#[must_use]
pub fn default_offset(scan: Scan, height: u32) -> (u32, u32) {
    match (scan, height) {
        (Scan::Progressive, 1_080..) => (43, 1_125),
        (Scan::Progressive, _) => (28, 750),
        (Scan::Interlaced, ..=487) => (20, 525),
        (Scan::Interlaced, ..=576) => (26, 625),
        (Scan::Interlaced, _) => (22, 1_125),
    }
}

/// Parameters of a stream for the models.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Stream {
    /// Packets per frame (both fields): N, at least 1.
    pub packets_per_frame: u32,
    /// Frames per second: 1/T.
    pub rate: FrameRate,
    /// Read schedule.
    pub schedule: ReadSchedule,
}

/// Limits of a sender type for network and receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Limits {
    /// `C_max`, packets.
    pub c_max: u64,
    /// `VRX_full`, packets.
    pub vrx_full: u64,
}

impl Stream {
    /// `C_max` and `VRX_full` (ST 2110-21, sections 6.6.1 and 7.1), rounded down.
    ///
    /// ```
    /// use linecard_jitter::media::{FrameRate, st2110::{ReadSchedule, Sender, Stream}};
    /// let schedule = ReadSchedule::Linear;
    /// let stream = Stream { packets_per_frame: 4_320, rate: FrameRate::slow(60), schedule };
    /// let wide = stream.limits(Sender::Wide);
    /// assert_eq!((wide.c_max, wide.vrx_full), (16, 863));
    /// ```
    #[must_use]
    pub fn limits(&self, sender: Sender) -> Limits {
        let (active, total) = self.schedule.active();
        // N / (k · T · R), where T = seconds / frames and R = active / total.
        let share = |k: u128, (active, total): (u128, u128)| {
            let above = u128::from(self.packets_per_frame) * u128::from(self.rate.frames) * total;
            let whole = above / (k * u128::from(self.rate.seconds).max(1) * active);
            u64::try_from(whole).unwrap_or(u64::MAX)
        };
        match sender {
            Sender::Narrow => Limits {
                c_max: share(43_200, (active, total)).max(4),
                vrx_full: share(27_000, (1, 1)).max(8),
            },
            Sender::Wide => Limits {
                c_max: share(21_600, (1, 1)).max(16),
                vrx_full: share(300, (1, 1)).max(720),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1080i59.94 as in the captures: N = 4320, T = 1001/30000 s. By hand: narrow `C_max` = ⌊4320 /
    /// (43200 · 0.96 · 0.0333667)⌋ = ⌊3.12⌋, VRX ⌊4320 / (27000 · 0.0333667)⌋ = ⌊4.80⌋.
    #[test]
    fn limits_of_hd() {
        let stream = Stream {
            packets_per_frame: 4_320,
            rate: FrameRate::slow(30),
            schedule: ReadSchedule::gapped(Scan::Interlaced, 1_080),
        };
        assert_eq!(stream.limits(Sender::Narrow), Limits { c_max: 4, vrx_full: 8 });
        assert_eq!(stream.limits(Sender::Wide), Limits { c_max: 16, vrx_full: 720 });
    }

    /// 2160p59.94 with 1,200 octets in a packet: N = 17280; by hand 24.97, 38.36, 47.95, 3452.5.
    #[test]
    fn limits_of_ultra_hd() {
        let stream = Stream {
            packets_per_frame: 17_280,
            rate: FrameRate::slow(60),
            schedule: ReadSchedule::gapped(Scan::Progressive, 2_160),
        };
        assert_eq!(stream.limits(Sender::Narrow), Limits { c_max: 24, vrx_full: 38 });
        assert_eq!(stream.limits(Sender::Wide), Limits { c_max: 47, vrx_full: 3_452 });
        let linear = Stream { schedule: ReadSchedule::Linear, ..stream };
        assert_eq!(linear.limits(Sender::Narrow).c_max, 23);
    }

    #[test]
    fn what_makes_no_sense_gives_limits_all_the_same() {
        let rate = FrameRate { frames: 0, seconds: 0 };
        let schedule = ReadSchedule::Gapped { active: 0, total: 0, second_field: None };
        let stream = Stream { packets_per_frame: 0, rate, schedule };
        assert_eq!(stream.limits(Sender::Narrow), Limits { c_max: 4, vrx_full: 8 });
    }
}
