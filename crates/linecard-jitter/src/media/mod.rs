//! Uncompressed video and audio over IP as its standards see it: formats, packets, buffers.
//!
//! ST 2022-6 carries a whole SDI signal at a constant packet rate, ST 2110 picture, sound and data apart
//! from each other. What makes a stream good enough for a receiver is defined for ST 2110 only, by ST
//! 2110-21; the same figures of an ST 2022-6 stream are "2110-21 style" here, and never a verdict.
//! Arithmetic is in integers: no figure depends on rounding.

pub mod cbr;
pub mod figures;
pub mod flow;
pub mod frames;
pub mod rate;
pub mod rtp;
pub mod st2022_6;
pub mod st2110;

/// Frames per second as a fraction of two whole numbers, at least 1 each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FrameRate {
    /// Frames …
    pub frames: u32,
    /// … in so many seconds.
    pub seconds: u32,
}

/// Nanoseconds of a second.
pub(crate) const NS: u128 = 1_000_000_000;

impl FrameRate {
    /// A whole number of frames per second.
    #[must_use]
    pub const fn whole(frames: u32) -> Self {
        Self { frames, seconds: 1 }
    }

    /// One of the rates that are 1.001 times slower: 60,000/1,001 for 60.
    #[must_use]
    pub const fn slow(frames: u32) -> Self {
        Self { frames: frames * 1_000, seconds: 1_001 }
    }

    /// The time from frame to frame in nanoseconds.
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
