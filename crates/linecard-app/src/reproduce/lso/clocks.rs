//! The core clock that carries a rate, found by running every whole MHz, and tenths below the first
//! that does.

use super::{Bench, Point, Spacing};
use crate::Error;
use crate::model::core::DmaClock;
use crate::model::parallel;

/// Clocks that are tried: above what the paper asks for (893 MHz).
const HIGHEST_MHZ: u64 = 1_000;

/// Hz of the steps below the first whole MHz that carries a rate.
const TENTH: u64 = 100_000;
const MHZ: u64 = 1_000_000;

/// Clocks that carry a rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Clocks {
    /// The slowest that does, in MHz, to a tenth.
    pub(super) smallest: f64,
    /// The slowest whole MHz from which on all do: a transfer takes whole core cycles, so that a faster core may
    /// wait for one more.
    pub(super) all_above: u64,
}

/// How far apart packets are at each clock.
pub(super) struct Scan<'b> {
    bench: &'b Bench,
    point: Point,
    spacings: Vec<(u64, Spacing)>,
}

impl<'b> Scan<'b> {
    /// Runs `point` with each clock.
    pub(super) fn run(bench: &'b Bench, point: Point) -> Result<Self, Error> {
        let all: Vec<u64> = (1..=HIGHEST_MHZ).collect();
        let one = |&mhz: &u64| Ok((mhz, bench.spacing(Point { core_hz: mhz * MHZ, ..point })?));
        let spacings = match point.dma {
            DmaClock::Hz(_) => parallel::map(&all, parallel::threads(), one),
            // All clocks take the same cycles: one run says it for each.
            DmaClock::OfCore(_) => {
                let (_, spacing) = one(&HIGHEST_MHZ)?;
                let ps = |mhz: u64| spacing.ps * HIGHEST_MHZ / mhz;
                all.iter().map(|&mhz| Ok((mhz, Spacing { ps: ps(mhz), ..spacing }))).collect()
            }
        };
        let spacings = spacings.into_iter().collect::<Result<_, Error>>()?;
        Ok(Self { bench, point, spacings })
    }

    /// Clocks that carry a rate; none where no clock does.
    pub(super) fn clocks(&self, bits_per_second: u64) -> Result<Option<Clocks>, Error> {
        let carries = |(_, spacing): &&(u64, Spacing)| spacing.carries(bits_per_second);
        let first = self.spacings.iter().find(carries);
        let above = self.spacings.iter().rev().take_while(carries).last();
        let (Some((first, _)), Some((all_above, _))) = (first, above) else { return Ok(None) };
        let smallest = self.smallest(first * MHZ, bits_per_second)?;
        Ok(Some(Clocks { smallest: smallest as f64 / 1e6, all_above: *all_above }))
    }

    /// Whether a clock below `first` does already: an island between two whole MHz.
    fn smallest(&self, first: u64, bits_per_second: u64) -> Result<u64, Error> {
        // Below three quarters even the instructions take too long, as they do not depend on the bus.
        let tenths: Vec<u64> = (first * 3 / 4 / TENTH..first / TENTH).map(|n| n * TENTH).collect();
        let carries = |&core_hz: &u64| {
            let spacing = self.bench.spacing(Point { core_hz, ..self.point })?;
            Ok::<_, Error>((core_hz, spacing.carries(bits_per_second)))
        };
        for found in parallel::map(&tenths, parallel::threads(), carries) {
            if let (hz, true) = found? {
                return Ok(hz);
            }
        }
        Ok(first)
    }
}

impl Scan<'_> {
    /// The slowest whole MHz, from where continuation packets are carried on, with which messages are
    /// carried that come one behind the other.
    pub(super) fn messages(&self, bits_per_second: u64) -> Result<Option<u64>, Error> {
        let Some(Clocks { all_above, .. }) = self.clocks(bits_per_second)? else { return Ok(None) };
        for mhz in all_above..=HIGHEST_MHZ {
            let point = Point { core_hz: mhz * MHZ, ..self.point };
            if self.bench.message_spacing(point)?.carries(bits_per_second) {
                return Ok(Some(mhz));
            }
        }
        Ok(None)
    }
}

impl Clocks {
    /// One number where both are nearly equal.
    pub(super) fn text(this: Option<Self>) -> String {
        match this {
            None => format!("none up to {HIGHEST_MHZ} MHz"),
            Some(Self { smallest, all_above }) if all_above as f64 - smallest < 1.0 => {
                format!("{all_above} MHz (from {smallest:.1} on)")
            }
            Some(Self { smallest, all_above }) => {
                format!("{all_above} MHz, and some from {smallest:.1} MHz on")
            }
        }
    }
}
