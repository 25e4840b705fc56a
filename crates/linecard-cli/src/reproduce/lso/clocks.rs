//! The core clock that carries a rate, found by running every whole MHz.

use super::{Bench, Point, Spacing};
use crate::failure::Failure;
use crate::model::parallel;
use crate::model::settings::DmaClock;

/// Clocks that are tried: above what the paper asks for (893 MHz).
const HIGHEST_MHZ: u64 = 1_000;

/// Clocks that carry a rate, in whole MHz.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Clocks {
    /// The slowest that does.
    pub(super) smallest: u64,
    /// The slowest from which on all do: a transfer takes whole core cycles, so that a faster core may
    /// wait for one more.
    pub(super) all_above: u64,
}

/// How far apart packets are at each clock.
pub(super) struct Scan {
    spacings: Vec<(u64, Spacing)>,
}

impl Scan {
    /// Runs `point` with each clock.
    pub(super) fn run(bench: &Bench, point: Point) -> Result<Self, Failure> {
        let all: Vec<u64> = (1..=HIGHEST_MHZ).collect();
        let one =
            |&mhz: &u64| Ok((mhz, bench.spacing(Point { core_hz: mhz * 1_000_000, ..point })?));
        let spacings = match point.dma {
            DmaClock::Hz(_) => parallel::map(&all, parallel::threads(), one),
            // All clocks take the same cycles: one run says it for each.
            DmaClock::OfCore(_) => {
                let (_, spacing) = one(&HIGHEST_MHZ)?;
                let ps = |mhz: u64| spacing.ps * HIGHEST_MHZ / mhz;
                all.iter().map(|&mhz| Ok((mhz, Spacing { ps: ps(mhz), ..spacing }))).collect()
            }
        };
        Ok(Self { spacings: spacings.into_iter().collect::<Result<_, Failure>>()? })
    }

    /// Clocks that carry a rate; none where no clock does.
    pub(super) fn clocks(&self, bits_per_second: u64) -> Option<Clocks> {
        let carries = |(_, spacing): &&(u64, Spacing)| spacing.carries(bits_per_second);
        let smallest = self.spacings.iter().find(carries)?.0;
        let above = self.spacings.iter().rev().take_while(carries).last()?;
        Some(Clocks { smallest, all_above: above.0 })
    }
}

impl Clocks {
    /// One number where both are equal.
    pub(super) fn text(this: Option<Self>) -> String {
        match this {
            None => format!("none up to {HIGHEST_MHZ} MHz"),
            Some(Self { smallest, all_above }) if smallest == all_above => {
                format!("{smallest} MHz")
            }
            Some(Self { smallest, all_above }) => {
                format!("{all_above} MHz, and some from {smallest} MHz on")
            }
        }
    }
}
