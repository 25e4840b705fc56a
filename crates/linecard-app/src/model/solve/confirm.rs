//! Runs of the firmware that confirm a computed clock, and the clock that they give where it differs.

use super::error::{ClockError, OpenClock};
use super::{Confirmation, Confirmations, Correction};
use crate::Error;
use linecard_model::Clock;
use linecard_report::{BitRate, Share};

/// Which side of an edge is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    /// The lowest clock that carries the line: just below it the line is not carried.
    Below,
    /// The clock from which on the line is carried: just above it, too.
    Above,
}

/// A clock, and the run beside it that confirms it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Confirmed {
    /// As computed.
    computed_hz: u64,
    /// As confirmed.
    pub(super) hz: u64,
    /// The clock of the run beside it.
    run_hz: u64,
    /// Rate of that run, in bits per second.
    carried: f64,
}

/// Why no clock is confirmed.
#[derive(Debug)]
pub(super) enum ConfirmError {
    /// No run up or down to this clock agrees.
    None { last_hz: u64 },
    /// A run has failed, or was stopped.
    Run(Error),
}

/// Where the computed clock is not confirmed, clocks in steps of a quarter of a per cent of it are tried.
const STEPS_OF_CLOCK: u64 = 400;

/// Five per cent: beyond that the closed form does not describe this design.
const MAX_STEPS: u64 = 20;

impl Side {
    pub(super) const fn key(self) -> &'static str {
        match self {
            Self::Below => "below",
            Self::Above => "above",
        }
    }

    /// The clock this many steps away from a computed one.
    fn step(self, hz: u64, steps: u64) -> u64 {
        let by = (hz / STEPS_OF_CLOCK).max(1) * steps;
        if self == Self::Below { hz.saturating_sub(by) } else { hz.saturating_add(by) }
    }

    /// The clock a hundredth beside one.
    fn beside(self, hz: u64) -> u64 {
        let hundredth = hz / 100;
        let hz = if self == Self::Below { hz - hz / 101 } else { hz + hundredth };
        hz.clamp(Clock::MIN_HZ, Clock::MAX_HZ)
    }

    /// The clock nearest to the computed one that runs confirm, up to `limit_hz`. `carried` is what a run at a
    /// clock carries, in bits per second.
    pub(super) fn confirm(
        self,
        computed_hz: u64,
        limit_hz: u64,
        wanted: f64,
        mut carried: impl FnMut(u64) -> Result<f64, Error>,
    ) -> Result<Confirmed, ConfirmError> {
        let mut run = |hz| carried(hz).map_err(ConfirmError::Run);
        let mut last_hz = computed_hz;
        for steps in 0..=MAX_STEPS {
            let hz = self.step(computed_hz, steps);
            if hz > limit_hz || hz < Clock::MIN_HZ {
                break;
            }
            last_hz = hz;
            if steps > 0 && run(hz)? < wanted {
                continue;
            }
            let run_hz = self.beside(hz);
            let carried = run(run_hz)?;
            if (carried >= wanted) == (self == Self::Above) {
                return Ok(Confirmed { computed_hz, hz, run_hz, carried });
            }
        }
        Err(ConfirmError::None { last_hz })
    }
}

impl Confirmed {
    fn is_as_computed(&self) -> bool {
        self.hz == self.computed_hz
    }

    /// The closed form's clock, where runs give another.
    pub(super) fn correction(&self) -> Option<Correction> {
        let off = Share(self.hz as f64 / self.computed_hz as f64 - 1.0);
        (!self.is_as_computed()).then(|| Correction { mhz: self.computed_hz as f64 / 1e6, off })
    }

    fn run(&self) -> Confirmation {
        Confirmation {
            carried: BitRate(self.carried),
            as_computed: self.is_as_computed(),
            run_mhz: self.run_hz as f64 / 1e6,
        }
    }
}

/// The runs that confirm an answer.
pub(super) fn runs(below: Confirmed, above: Confirmed) -> Confirmations {
    Confirmations { below: below.run(), above: above.run() }
}

impl ConfirmError {
    /// No run confirms what was computed: that is not an answer.
    pub(super) fn of(self, clock: OpenClock, computed_hz: u64) -> Error {
        match self {
            Self::Run(error) => error,
            Self::None { last_hz } => {
                ClockError::Unconfirmed { clock, computed_hz, last_hz }.into()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rate of runs, from a given clock on.
    fn from(edge_hz: u64) -> impl FnMut(u64) -> Result<f64, Error> {
        move |hz| Ok(if hz >= edge_hz { 2.0 } else { 1.0 })
    }

    #[test]
    fn a_clock_that_runs_confirm_stays_as_computed() {
        for side in [Side::Below, Side::Above] {
            let found = side.confirm(1_000_000_000, u64::MAX, 2.0, from(1_000_000_000));
            let found = found.expect("a clock");
            assert!(found.is_as_computed(), "{found:?}");
        }
    }

    /// The answer was printed with "NOT as computed" beside it.
    #[test]
    fn a_clock_that_runs_do_not_confirm_is_corrected_by_them() {
        // Too low in closed form: 1.02 carries, and so do factors just above it.
        let found = Side::Above.confirm(1_000_000_000, u64::MAX, 2.0, from(1_018_000_000));
        let found = found.expect("a clock");
        assert_eq!((found.hz, found.run_hz), (1_020_000_000, 1_030_200_000));
        // Too high: the lowest that carries, and just below does not.
        let found = Side::Below.confirm(1_000_000_000, u64::MAX, 2.0, from(982_000_000));
        let found = found.expect("a clock");
        assert!((982_000_000..=990_000_000).contains(&found.hz), "{found:?}");
        assert!(found.run_hz < 982_000_000 && found.carried < 2.0, "{found:?}");
        let correction = found.correction().expect("another clock");
        assert!(correction.mhz == 1_000.0 && correction.off.0 < -0.01, "{correction:?}");
    }

    #[test]
    fn no_clock_is_confirmed_beyond_the_bound_or_the_limit() {
        let last = |side: Side, limit_hz, edge_hz| match side.confirm(
            1_000_000_000,
            limit_hz,
            2.0,
            from(edge_hz),
        ) {
            Err(ConfirmError::None { last_hz }) => last_hz,
            other => panic!("{other:?}"),
        };
        assert_eq!(last(Side::Above, u64::MAX, 1_200_000_000), 1_050_000_000);
        assert_eq!(last(Side::Above, 1_006_000_000, 1_018_000_000), 1_005_000_000);
        assert_eq!(last(Side::Below, u64::MAX, 500_000_000), 950_000_000);
    }
}
