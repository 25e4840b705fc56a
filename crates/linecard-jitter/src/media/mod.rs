//! Uncompressed video and audio over IP according to its standards: formats, packets, buffers.
//!
//! ST 2022-6 carries a whole SDI signal at a constant packet rate; ST 2110 carries video, audio and
//! ancillary data separately. Only ST 2110 defines when a stream is good enough for a receiver (ST
//! 2110-21); for an ST 2022-6 stream, the same figures are labelled "2110-21 style" and never give
//! a verdict. Arithmetic is in integers, so no figure depends on rounding.

pub mod cbr;
pub mod content;
pub mod facts;
pub mod figures;
pub mod flow;
pub mod frames;
pub mod live;
pub mod number;
pub mod rate;
pub mod rtp;
pub mod st2022_6;
pub mod st2110;

/// Frames per second as a fraction of two integers, at least 1 each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FrameRate {
    /// Frames …
    pub frames: u32,
    /// … in this many seconds.
    pub seconds: u32,
}

/// Nanoseconds per second.
pub(crate) const NS: u128 = 1_000_000_000;

impl FrameRate {
    /// A whole number of frames per second.
    #[must_use]
    pub const fn whole(frames: u32) -> Self {
        Self { frames, seconds: 1 }
    }

    /// A rate that is 1.001 times lower: 60,000/1,001 for 60.
    #[must_use]
    pub const fn slow(frames: u32) -> Self {
        Self { frames: frames * 1_000, seconds: 1_001 }
    }

    /// Duration of a frame in nanoseconds.
    #[must_use]
    pub fn frame_ns(&self) -> f64 {
        f64::from(self.seconds) * 1e9 / f64::from(self.frames.max(1))
    }
}

impl core::fmt::Display for FrameRate {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        if self.seconds == 1 {
            return write!(f, "{}", self.frames);
        }
        write!(f, "{:.2}", f64::from(self.frames) / f64::from(self.seconds.max(1)))
    }
}
