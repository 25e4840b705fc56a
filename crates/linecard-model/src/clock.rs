//! Virtual time in picoseconds, and clocks whose edges do not drift.

use core::fmt;
use core::ops::{Add, AddAssign, Sub};

/// A point in virtual time or a span of it, in picoseconds, 0 … 2⁶⁴ − 1 (213 days).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ps(pub u64);

impl Ps {
    /// The start of the simulation.
    pub const ZERO: Self = Self(0);
    /// A time that never comes.
    pub const NEVER: Self = Self(u64::MAX);
    /// Picoseconds in a second.
    pub const SECOND: Self = Self(1_000_000_000_000);

    /// `ns` nanoseconds.
    #[must_use]
    pub const fn from_ns(ns: u64) -> Self {
        Self(ns.saturating_mul(1_000))
    }

    /// Whole nanoseconds, rounded down.
    #[must_use]
    pub const fn as_ns(self) -> u64 {
        self.0 / 1_000
    }

    /// Seconds, for rates.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "53 bits are picoseconds of 2.5 hours")]
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e12
    }

    /// Time passed since `earlier`, zero when `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Self {
        Self(self.0.saturating_sub(earlier.0))
    }

    /// How long `bits` take at `bits_per_second`, rounded up; [`Ps::NEVER`] at a rate of 0.
    #[must_use]
    pub fn of_bits(bits: u64, bits_per_second: u64) -> Self {
        let scaled = u128::from(bits) * u128::from(Self::SECOND.0);
        match scaled.checked_add(u128::from(bits_per_second.wrapping_sub(1))) {
            Some(sum) if bits_per_second != 0 => {
                Self(u64::try_from(sum / u128::from(bits_per_second)).unwrap_or(u64::MAX))
            }
            _ => Self::NEVER,
        }
    }
}

impl From<linecard_config::Duration> for Ps {
    fn from(time: linecard_config::Duration) -> Self {
        Self(time.as_ps())
    }
}

impl Add for Ps {
    type Output = Self;
    /// Saturates at [`Ps::NEVER`].
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Ps {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Ps {
    type Output = Self;
    /// Saturates at zero, as [`Ps::since`].
    fn sub(self, other: Self) -> Self {
        self.since(other)
    }
}

impl fmt::Display for Ps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ps", self.0)
    }
}

/// Digits in which times are multiplied.
const MILLION: u64 = 1_000_000;

/// Why a clock is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ClockError {
    /// Too slow or too fast.
    #[error(
        "a clock of {0} Hz: give {min} Hz to {max} Hz (1 kHz to 100 GHz)",
        min = Clock::MIN_HZ,
        max = Clock::MAX_HZ
    )]
    Frequency(u64),
    /// The phase is not below the period.
    #[error("a phase of {phase_ps} ps: less than the period of {period_ps} ps is needed")]
    Phase {
        /// The given value.
        phase_ps: u64,
        /// The period it has to be below.
        period_ps: u64,
    },
}

/// A clock domain: edges at `phase + n / frequency`, each rounded down to a picosecond.
///
/// Edges are computed from the frequency instead of adding up a rounded period, so clocks at 423
/// MHz and 2115 MHz stay aligned at every fifth edge forever.
///
/// ```
/// use linecard_model::{Clock, Ps};
/// # fn main() -> Result<(), linecard_model::ClockError> {
/// let core = Clock::new(423_000_000, Ps::ZERO)?;
/// let dma = Clock::new(2_115_000_000, Ps::ZERO)?;
/// assert_eq!(core.edge(37), dma.edge(185));
/// assert_eq!(core.at_or_after(dma.edge(184)), 37);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clock {
    hz: u64,
    phase: Ps,
}

impl Clock {
    /// The slowest clock.
    pub const MIN_HZ: u64 = 1_000;
    /// The fastest clock: ten picoseconds between edges, so that rounding stays small.
    pub const MAX_HZ: u64 = 100_000_000_000;

    /// A clock whose edge 0 is at `phase`.
    ///
    /// # Errors
    /// A frequency outside [`Clock::MIN_HZ`] … [`Clock::MAX_HZ`], a phase of a period or more.
    pub fn new(hz: u64, phase: Ps) -> Result<Self, ClockError> {
        if !(Self::MIN_HZ..=Self::MAX_HZ).contains(&hz) {
            return Err(ClockError::Frequency(hz));
        }
        let period_ps = Ps::SECOND.0 / hz;
        if phase.0 >= period_ps {
            return Err(ClockError::Phase { phase_ps: phase.0, period_ps });
        }
        Ok(Self { hz, phase })
    }

    /// Cycles per second.
    #[must_use]
    pub const fn hz(&self) -> u64 {
        self.hz
    }

    /// When edge `n` is, which is when cycle `n` begins.
    #[must_use]
    pub fn edge(&self, n: u64) -> Ps {
        // n · 10¹² / hz in two digits of 10⁶, because the product does not fit 64 bits and a
        // 128-bit division is many times slower; hz ≤ 10¹¹, so each partial product fits.
        let (seconds, n) = (n / self.hz, n % self.hz);
        let (high, rest) = (n * MILLION / self.hz, n * MILLION % self.hz);
        let offset = high * MILLION + rest * MILLION / self.hz;
        self.phase + Ps(seconds.saturating_mul(Ps::SECOND.0).saturating_add(offset))
    }

    /// The first edge at `time` or later.
    #[must_use]
    pub fn at_or_after(&self, time: Ps) -> u64 {
        let wanted = time.since(self.phase).0;
        // The smallest n with floor(n · 10¹² / hz) ≥ wanted, which is wanted · hz / 10¹² rounded up.
        let (seconds, rest) = (wanted / Ps::SECOND.0, wanted % Ps::SECOND.0);
        let (high, low) = (rest / MILLION * self.hz, rest % MILLION * self.hz);
        let millionths = high + low / MILLION;
        let n = millionths / MILLION;
        let whole = millionths.is_multiple_of(MILLION) && low.is_multiple_of(MILLION);
        seconds.saturating_mul(self.hz).saturating_add(n + u64::from(!whole))
    }

    /// How long `n` cycles take, counted from edge 0.
    #[must_use]
    pub fn cycles(&self, n: u64) -> Ps {
        self.edge(n).since(self.phase)
    }
}

#[cfg(test)]
mod tests {
    use super::{Clock, ClockError, Ps};

    fn clock(hz: u64, phase: u64) -> Clock {
        Clock::new(hz, Ps(phase)).expect("a clock")
    }

    #[test]
    fn the_first_edge_at_or_after_a_time_is_found() {
        for hz in [1_000, 33_000_000, 423_000_000, 2_115_000_000, 99_999_999_999] {
            let clock = clock(hz, 7);
            for n in [0, 1, 2, 3, 184, 185, 1_000_003, 9_876_543_210] {
                let edge = clock.edge(n);
                assert_eq!(clock.at_or_after(edge), n, "{hz} Hz, edge {n}");
                assert_eq!(clock.at_or_after(edge + Ps(1)), n + 1, "{hz} Hz, after edge {n}");
            }
            assert_eq!(clock.at_or_after(Ps::ZERO), 0);
        }
    }

    #[test]
    fn edges_are_those_of_wide_arithmetic() {
        let mut rng = linecard::rng::Rng::new(1);
        let mut below = |most: u64, bits| {
            let shift = rng.below(bits);
            rng.below(most >> shift)
        };
        for _ in 0..100_000 {
            let hz = Clock::MIN_HZ + below(Clock::MAX_HZ, 27);
            let clock = clock(hz.min(Clock::MAX_HZ), 0);
            let n = below(u64::MAX, 60);
            let wide = u128::from(n) * u128::from(Ps::SECOND.0) / u128::from(clock.hz());
            let wide = u64::try_from(wide).unwrap_or(u64::MAX);
            assert_eq!(clock.edge(n).0, wide, "{hz} Hz, edge {n}");
            let time = below(u64::MAX, 60);
            let scaled = u128::from(time) * u128::from(clock.hz());
            let wide = u64::try_from(scaled.div_ceil(u128::from(Ps::SECOND.0))).unwrap_or(u64::MAX);
            assert_eq!(clock.at_or_after(Ps(time)), wide, "{hz} Hz, {time} ps");
        }
    }

    #[test]
    fn clocks_in_a_whole_ratio_stay_together() {
        let (slow, fast) = (clock(423_000_000, 0), clock(2_115_000_000, 0));
        for n in (0..10_000_000_000).step_by(123_456_789) {
            assert_eq!(slow.edge(n), fast.edge(5 * n));
        }
    }

    #[test]
    fn what_no_clock_can_be_is_refused() {
        assert_eq!(Clock::new(0, Ps::ZERO), Err(ClockError::Frequency(0)));
        assert_eq!(Clock::new(u64::MAX, Ps::ZERO), Err(ClockError::Frequency(u64::MAX)));
        let late = Clock::new(1_000_000_000, Ps(1_000));
        assert_eq!(late, Err(ClockError::Phase { phase_ps: 1_000, period_ps: 1_000 }));
    }

    #[test]
    fn bits_take_their_time_rounded_up() {
        assert_eq!(Ps::of_bits(1, 3), Ps(333_333_333_334));
        assert_eq!(Ps::of_bits(12_304, 100_000_000_000), Ps(123_040));
        assert_eq!(Ps::of_bits(1, 0), Ps::NEVER);
        assert_eq!(Ps::of_bits(u64::MAX, 1), Ps::NEVER);
    }
}
