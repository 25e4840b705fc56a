//! ST 2022-6: an SDI signal in packets of 1,376 octets, at a constant rate.
//!
//! F = width · height · 20 / 8 octets of a frame, blanking included (4:2:2 with 10 bits is two words of
//! 10 bits for each pixel); N = ⌈F / 1376⌉ packets of a frame; P = T / N from packet to packet. The paper
//! ("Chasing Linux Jitter Sources for Uncompressed Video") gives 7.41 µs for 1080i at 29.97 frames
//! a second: that is the period at 30.00 frames, 7,412 ns; at 29.97 it is 7,420 ns.

use super::FrameRate;
use alloc::string::String;
use thiserror::Error;

/// Octets of the SDI signal in one packet (ST 2022-6, section 6.5).
pub const MEDIA_OCTETS: u32 = 1_376;
/// Octets of the payload header without a video time stamp.
pub const PAYLOAD_HEADER: usize = 8;
/// Octets of a UDP payload: RTP header, payload header, media.
pub const UDP_PAYLOAD: usize = 12 + PAYLOAD_HEADER + MEDIA_OCTETS as usize;
/// The RTP payload type that the standard assigns.
pub const PAYLOAD_TYPE: u8 = 98;
const _: () = assert!(UDP_PAYLOAD == 1_396);

/// Picoseconds per second.
const PS: u128 = 1_000_000_000_000;

/// Order of a picture's lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scan {
    /// All lines in order.
    Progressive,
    /// Every second line, then the others.
    Interlaced,
}

/// An SDI format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Format {
    /// Its usual name: lines, scan, and frames or fields per second.
    pub name: &'static str,
    /// Pixels per line, blanking included.
    pub width_total: u32,
    /// Lines per frame, blanking included.
    pub height_total: u32,
    /// Active lines.
    pub height: u32,
    /// Frames per second.
    pub rate: FrameRate,
    /// Order of the lines.
    pub scan: Scan,
}

/// The format does not exist.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("unknown format `{name}`: choose one of {}", names())]
pub struct UnknownFormat {
    /// The requested name.
    pub name: String,
}

const fn format(
    name: &'static str,
    [width_total, height_total, height]: [u32; 3],
    rate: FrameRate,
    scan: Scan,
) -> Format {
    Format { name, width_total, height_total, height, rate, scan }
}

/// All known formats: ST 292-1, ST 424 (level A) and ST 259.
pub const FORMATS: [Format; 17] = {
    use Scan::{Interlaced, Progressive};
    const HD_60: [u32; 3] = [2_200, 1_125, 1_080];
    const HD_50: [u32; 3] = [2_640, 1_125, 1_080];
    const HD_24: [u32; 3] = [2_750, 1_125, 1_080];
    const fn slow(frames: u32) -> FrameRate {
        FrameRate::slow(frames)
    }
    const fn whole(frames: u32) -> FrameRate {
        FrameRate::whole(frames)
    }
    [
        format("1080i59.94", HD_60, slow(30), Interlaced),
        format("1080i60", HD_60, whole(30), Interlaced),
        format("1080i50", HD_50, whole(25), Interlaced),
        format("1080p59.94", HD_60, slow(60), Progressive),
        format("1080p60", HD_60, whole(60), Progressive),
        format("1080p50", HD_50, whole(50), Progressive),
        format("1080p29.97", HD_60, slow(30), Progressive),
        format("1080p30", HD_60, whole(30), Progressive),
        format("1080p25", HD_50, whole(25), Progressive),
        format("1080p23.98", HD_24, slow(24), Progressive),
        format("1080p24", HD_24, whole(24), Progressive),
        format("720p59.94", [1_650, 750, 720], slow(60), Progressive),
        format("720p60", [1_650, 750, 720], whole(60), Progressive),
        format("720p50", [1_980, 750, 720], whole(50), Progressive),
        format("480i59.94", [858, 525, 487], slow(30), Interlaced),
        format("576i50", [864, 625, 576], whole(25), Interlaced),
        format("720p25", [3_960, 750, 720], whole(25), Progressive),
    ]
};

impl Format {
    /// The format of this name.
    ///
    /// ```
    /// use linecard_jitter::media::st2022_6::Format;
    /// let format = Format::by_name("1080i59.94")?;
    /// assert_eq!((format.packets_per_frame(), format.period_ps()), (4_497, 7_419_761));
    /// # Ok::<(), linecard_jitter::media::st2022_6::UnknownFormat>(())
    /// ```
    pub fn by_name(name: &str) -> Result<Self, UnknownFormat> {
        let found = FORMATS.iter().find(|format| format.name.eq_ignore_ascii_case(name));
        found.copied().ok_or_else(|| UnknownFormat { name: name.into() })
    }

    /// Octets per frame, blanking included: F.
    #[must_use]
    pub fn frame_octets(&self) -> u32 {
        // All formats have an even number of pixels.
        self.width_total * self.height_total / 2 * 5
    }

    /// Packets per frame: N.
    #[must_use]
    pub fn packets_per_frame(&self) -> u32 {
        self.frame_octets().div_ceil(MEDIA_OCTETS)
    }

    /// The exact time between packets in picoseconds: numerator and denominator.
    #[must_use]
    pub fn period(&self) -> (u128, u128) {
        let frames = u128::from(self.rate.frames) * u128::from(self.packets_per_frame());
        (PS * u128::from(self.rate.seconds), frames)
    }

    /// The same, rounded to picoseconds: over a day it is off by less than 6 ms.
    #[must_use]
    pub fn period_ps(&self) -> u64 {
        let (numerator, denominator) = self.period();
        u64::try_from((numerator + denominator / 2) / denominator).unwrap_or(u64::MAX)
    }

    /// The same in nanoseconds.
    #[must_use]
    pub fn period_ns(&self) -> f64 {
        let (numerator, denominator) = self.period();
        numerator as f64 / denominator as f64 / 1e3
    }
}

/// The payload header's fields that describe the content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// The video source's frame count, modulo 256.
    pub frame_count: u8,
    /// The FRAME code (size and scan), if present.
    pub frame: Option<u8>,
    /// The FRATE code: frames per second.
    pub frame_rate: Option<u8>,
    /// Octets of the header.
    pub len: usize,
}

impl Header {
    /// Reads the header at the start of an RTP payload; `None` if it is truncated.
    #[must_use]
    pub fn read(payload: &[u8]) -> Option<Self> {
        // Ext (4), F (1), VSID (3), FRCount (8), R (2), S (2), FEC (3), CF (4), reserved (5).
        let [first, frame_count, third, fourth] = *payload.first_chunk()?;
        let (extensions, has_format) = (usize::from(first >> 4), first & 8 != 0);
        let has_clock = (third & 1) << 3 | fourth >> 5 != 0;
        // MAP (4), FRAME (8), FRATE (8), SAMPLE (4), reserved (8), only where F is set.
        let format = if has_format { Some(*payload.get(4..)?.first_chunk::<4>()?) } else { None };
        let words = 1 + usize::from(has_format) + usize::from(has_clock) + extensions;
        Some(Self {
            frame_count,
            frame: format.map(|[a, b, ..]| a << 4 | b >> 4),
            frame_rate: format.map(|[_, b, c, _]| b << 4 | c >> 4),
            len: words * 4,
        })
    }

    /// The format that the codes name.
    #[must_use]
    pub fn format(&self) -> Option<Format> {
        use Scan::{Interlaced, Progressive};
        let rate = match self.frame_rate? {
            0x10 => FrameRate::whole(60),
            0x11 => FrameRate::slow(60),
            0x12 => FrameRate::whole(50),
            0x16 => FrameRate::whole(30),
            0x17 => FrameRate::slow(30),
            0x18 => FrameRate::whole(25),
            0x1A => FrameRate::whole(24),
            0x1B => FrameRate::slow(24),
            _ => return None,
        };
        let (height, scan) = match self.frame? {
            0x10 => (487, Interlaced),
            0x11 => (576, Interlaced),
            0x20 => (1_080, Interlaced),
            // Progressive pictures sent as two segments have the same packets.
            0x21 | 0x22 => (1_080, Progressive),
            0x30 => (720, Progressive),
            _ => return None,
        };
        let is_it =
            |known: &&Format| (known.height, known.scan, known.rate) == (height, scan, rate);
        FORMATS.iter().find(is_it).copied()
    }
}

fn names() -> String {
    FORMATS.map(|format| format.name).join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    /// Promise (Jitter): Periods of ST 2022-6 are within 0.6 ps of the four published
    /// ones.
    ///
    /// Every value of jitter.md, to the picosecond.
    #[test]
    fn formats_are_those_of_the_specification() {
        for (name, packets, period_ps) in [
            ("1080i59.94", 4_497, 7_419_761),
            ("1080i60", 4_497, 7_412_349),
            ("1080i50", 5_397, 7_411_525),
            ("1080p59.94", 4_497, 3_709_881),
        ] {
            let format = Format::by_name(name).unwrap();
            assert_eq!((format.packets_per_frame(), format.period_ps()), (packets, period_ps));
            assert!((format.period_ns() - period_ps as f64 / 1e3).abs() < 0.000_6, "{name}");
        }
        let paper = Format::by_name("1080i60").unwrap();
        assert_eq!(paper.frame_octets(), 6_187_500);
        assert_eq!((paper.period_ns() / 10.0).round() / 100.0, 7.41);
        let really = Format::by_name("1080i59.94").unwrap();
        assert_eq!((really.period_ns() / 10.0).round() / 100.0, 7.42);
    }

    /// Promise (Jitter): Frame sizes times rates of 17 formats are the pixel clocks.
    ///
    /// The pixel clocks of ST 292-1, ST 424 and ST 259, from sizes and rates.
    #[test]
    fn sizes_times_rates_are_the_pixel_clocks() {
        for format in FORMATS {
            let FrameRate { frames, seconds } = format.rate;
            let pixels = u64::from(format.width_total) * u64::from(format.height_total);
            let clock = pixels * u64::from(frames);
            let per_second = u64::from(seconds);
            let known = [148_500_000, 74_250_000];
            let slow = known.map(|hz| hz * 1_000);
            let is_known = match seconds {
                1 => known.contains(&clock) || clock == 13_500_000,
                _ => slow.contains(&clock) || clock == 13_500_000 * per_second,
            };
            assert!(is_known, "{}: {clock} / {per_second}", format.name);
        }
    }

    #[test]
    fn headers_name_formats() {
        let header = |frame: u8, rate: u8| {
            let bytes = [8, 7, 0, 0, frame >> 4, frame << 4 | rate >> 4, rate << 4 | 1, 0];
            Header::read(&bytes).unwrap()
        };
        let found = header(0x20, 0x17);
        assert_eq!((found.frame_count, found.len), (7, 8));
        assert_eq!(found.format().unwrap().name, "1080i59.94");
        assert_eq!(header(0x21, 0x12).format().unwrap().name, "1080p50");
        assert_eq!(header(0x11, 0x18).format().unwrap().name, "576i50");
        assert_eq!(header(0x20, 0x99).format(), None);
        // Without a format, and with a time stamp.
        let bare = Header::read(&[0, 1, 0, 0x20]).unwrap();
        assert_eq!((bare.frame, bare.len), (None, 8));
        assert_eq!(Header::read(&[8, 0, 0, 0, 0]), None);
    }

    #[test]
    fn an_unknown_name_lists_the_known() {
        let text = Format::by_name("4k").unwrap_err().to_string();
        assert!(text.contains("`4k`") && text.contains("1080i59.94, 1080i60"), "{text}");
        assert!(Format::by_name("1080I50").is_ok());
    }
}
