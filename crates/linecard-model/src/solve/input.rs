//! Finds the smallest clock, bus width or number of cores that sustains a line.

use super::predict::{Firmware, Prediction};
use super::timing::Phase;
use super::traffic::Traffic;
use crate::transmit::{Design, DesignError};
use crate::{Clock, Ps};

/// The required line rate, and the given parameters.
#[derive(Debug, Clone)]
pub struct SolveInput {
    /// The design; the parameter to be found is ignored, and so is its line.
    pub design: Design,
    /// The costs of the firmware.
    pub firmware: Firmware,
    /// The traffic.
    pub traffic: Traffic,
    /// The line rate to be carried, all overhead included.
    pub bits_per_second: u64,
    /// The relative phase of the two clocks.
    pub phase: Phase,
}

/// The clock from which on a line is sustained.
///
/// Transfers take whole cycles, so a slightly faster core may wait a cycle longer and carry less: some
/// clocks below `from_hz` carry the line too, the lowest of them is `smallest_hz`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Edge {
    /// The lowest clock that carries it.
    pub smallest_hz: u64,
    /// Every clock from here on sustains it.
    pub from_hz: u64,
}

/// Why there is no solution.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum SolveError {
    /// Core and DMA take turns.
    #[error("no closed form for a bus of policy \"interleave\": run the firmware instead")]
    NoClosedForm,
    /// The design cannot be built.
    #[error(transparent)]
    Design(#[from] DesignError),
    /// Messages of several cores wait for their turn, and have no room for that.
    #[error(
        "sbi_bytes is {sbi_bytes}: several cores wait for each other below {wanted} (two messages): \
         give that much, or run the firmware instead of the closed form"
    )]
    Buffer {
        /// The size of the buffer.
        sbi_bytes: u64,
        /// Input of the closed form.
        wanted: u64,
    },
    /// The mix has no packets.
    #[error("the traffic has no packets: give messages with payload and weight")]
    NoTraffic,
    /// The DMA is too slow, whatever the core does.
    #[error(
        "no core clock carries this: the DMA would be moving for {demand:.3} of the time, which must \
         be below 1, less the time for which a core waits for it: raise its clock, the bus width or the number of cores"
    )]
    Dma {
        /// Its share of the time.
        demand: f64,
    },
    /// The core is too slow, whatever the DMA does.
    #[error(
        "no DMA carries this: instructions alone need a core clock of {least_mhz:.1} MHz, this one has \
         {mhz:.1} MHz: raise it or the number of cores"
    )]
    Core {
        /// Its resources.
        mhz: f64,
        /// Requirements of its instructions.
        least_mhz: f64,
    },
}

/// The step of the search: a tenth of what a firmware run confirms.
const STEP_PER_MILLE: u64 = 1;

/// The resolution of an edge, in Hz.
const RESOLUTION_HZ: u64 = 1_000;

impl SolveInput {
    /// The throughput of a design.
    ///
    /// # Errors
    /// If there is no traffic, or no closed form is known.
    pub fn predict(&self, design: &Design) -> Result<Prediction, SolveError> {
        self.is_answerable(design)?;
        Prediction::of(design, &self.firmware, &self.traffic, self.phase)
            .ok_or(SolveError::NoClosedForm)
    }

    /// A fast estimate, for searches.
    fn estimate(&self, design: &Design) -> Result<Prediction, SolveError> {
        self.is_answerable(design)?;
        Prediction::estimate(design, &self.firmware, &self.traffic, self.phase)
            .ok_or(SolveError::NoClosedForm)
    }

    /// Whether a design carries the rate. Positions of the clocks are walked through only where they decide,
    /// which is where some positions carry it and others do not.
    fn carries(&self, design: &Design) -> Result<bool, SolveError> {
        self.is_answerable(design)?;
        let with = |phase| {
            let prediction = Prediction::estimate(design, &self.firmware, &self.traffic, phase);
            let prediction = prediction.ok_or(SolveError::NoClosedForm)?;
            Ok(prediction.carries(self.bits_per_second))
        };
        if self.phase != Phase::Typical {
            return with(self.phase);
        }
        if !with(Phase::Best)? {
            return Ok(false);
        }
        Ok(with(Phase::Worst)? || self.predict(design)?.carries(self.bits_per_second))
    }

    fn is_answerable(&self, design: &Design) -> Result<(), SolveError> {
        design.check()?;
        if self.traffic.flows.iter().all(|flow| flow.weight == 0 || flow.payload == 0) {
            return Err(SolveError::NoTraffic);
        }
        let wanted = self.traffic.order_bytes(design.mtu);
        if design.cores > 1 && (design.sbi_bytes as u64) < wanted {
            return Err(SolveError::Buffer { sbi_bytes: design.sbi_bytes as u64, wanted });
        }
        Ok(())
    }

    /// The smallest core clock.
    ///
    /// # Errors
    /// If no clock suffices.
    pub fn core_clock(&self) -> Result<Edge, SolveError> {
        let prediction = self.predict(&self.design)?;
        let least = prediction.least_core_hz(self.bits_per_second);
        let lowest = u64::try_from(least).unwrap_or(Clock::MAX_HZ).max(Clock::MIN_HZ);
        let (mut first, mut last_bad) = (None, None);
        let mut hz = lowest;
        while hz <= Clock::MAX_HZ {
            let design = self.with_core(hz);
            let prediction = self.estimate(&design)?;
            match self.carries(&design)? {
                true => first = first.or(Some((last_bad, hz))),
                false => last_bad = Some(hz),
            }
            if prediction.is_enough_from_here(self.bits_per_second) {
                break;
            }
            hz = next(hz);
        }
        let demand = prediction.dma_demand(self.bits_per_second);
        let (bad, first) = first.ok_or(SolveError::Dma { demand })?;
        if hz > Clock::MAX_HZ && last_bad.is_some_and(|bad| next(bad) > Clock::MAX_HZ) {
            return Err(SolveError::Dma { demand });
        }
        let smallest_hz = bad.map_or(Ok(first), |bad| self.between(bad, first))?;
        let from_hz = last_bad.map_or(Ok(lowest), |bad| self.between(bad, next(bad)))?;
        Ok(Edge { smallest_hz, from_hz })
    }

    /// The edge between a clock that does not sustain the line and one that does.
    fn between(&self, mut bad: u64, mut good: u64) -> Result<u64, SolveError> {
        while good.saturating_sub(bad) > RESOLUTION_HZ {
            let middle = bad.midpoint(good);
            match self.carries(&self.with_core(middle))? {
                true => good = middle,
                false => bad = middle,
            }
        }
        Ok(good)
    }

    /// The smallest DMA clock.
    ///
    /// # Errors
    /// If no clock suffices.
    pub fn dma_clock(&self) -> Result<u64, SolveError> {
        let carries = |hz: u64| {
            let design = Design { dma: of_hz(hz, self.design.dma), ..self.design.clone() };
            self.predict(&design).map(|prediction| prediction.carries(self.bits_per_second))
        };
        if !carries(Clock::MAX_HZ)? {
            return Err(self.core_too_slow(&self.design)?);
        }
        let (mut bad, mut good) = (Clock::MIN_HZ - 1, Clock::MAX_HZ);
        while good - bad > RESOLUTION_HZ {
            let middle = bad.midpoint(good);
            match carries(middle)? {
                true => good = middle,
                false => bad = middle,
            }
        }
        Ok(good)
    }

    /// The narrowest bus, in bits.
    ///
    /// # Errors
    /// If no bus suffices.
    pub fn bus_bits(&self) -> Result<u32, SolveError> {
        for bus_bits in (5..=10).map(|power| 1 << power) {
            let design = Design { bus_bits, ..self.design.clone() };
            if self.predict(&design)?.carries(self.bits_per_second) {
                return Ok(bus_bits);
            }
        }
        Err(self.core_too_slow(&Design { bus_bits: 1024, ..self.design.clone() })?)
    }

    /// The fewest cores, with buffers in which messages can wait for their turn.
    ///
    /// # Errors
    /// If even the most cores that can be built are too few.
    pub fn cores(&self) -> Result<usize, SolveError> {
        let wanted = usize::try_from(self.traffic.order_bytes(self.design.mtu));
        let sbi_bytes = self.design.sbi_bytes.max(wanted.unwrap_or(usize::MAX));
        let with = |cores| Design { cores, sbi_bytes, ..self.design.clone() };
        for cores in 1..=Design::MAX_CORES {
            let design = with(cores);
            if self.predict(&design)?.carries(self.bits_per_second) {
                return Ok(cores);
            }
        }
        Err(self.core_too_slow(&with(Design::MAX_CORES))?)
    }

    #[expect(clippy::cast_precision_loss, reason = "clocks for people")]
    fn core_too_slow(&self, design: &Design) -> Result<SolveError, SolveError> {
        let prediction = self.predict(design)?;
        let demand = prediction.dma_demand(self.bits_per_second);
        let least = prediction.least_core_hz(self.bits_per_second) as f64 / 1e6;
        let mhz = self.design.core.hz() as f64 / 1e6;
        Ok(if least <= mhz && demand >= 1.0 {
            SolveError::Dma { demand }
        } else {
            SolveError::Core { mhz, least_mhz: least }
        })
    }

    fn with_core(&self, hz: u64) -> Design {
        Design { core: of_hz(hz, self.design.core), ..self.design.clone() }
    }
}

/// One step of the search further.
fn next(hz: u64) -> u64 {
    hz + (hz / 1_000 * STEP_PER_MILLE).max(RESOLUTION_HZ)
}

/// A clock of another frequency, with the same phase where the period has room for it.
fn of_hz(hz: u64, like: Clock) -> Clock {
    let hz = hz.clamp(Clock::MIN_HZ, Clock::MAX_HZ);
    let phase = Clock::new(hz, like.edge(0));
    phase.or_else(|_| Clock::new(hz, Ps::ZERO)).unwrap_or(like)
}
