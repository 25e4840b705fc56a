//! Inverse problems: from a line rate to the smallest clocks, bus widths and numbers of cores.
//!
//! With P cycles of a packet before its transfer starts, O beside it, and a transfer of T core
//! cycles, a packet takes P + max(T, O). So a core needs a clock of at least max((P + O) ·
//! packets/s, P · packets/s / (1 − ρ)), where ρ is the DMA's share of its time, which must be below
//! 1 (Elbeshti et al., section 4). It includes the synchronisation between two unrelated clocks: a
//! transfer begins with the DMA's next edge and ends, for the core, with the core's next.
//!
//! The answers are confirmed by [`measure`], which runs the firmware.
//!
//! ```
//! use linecard_model::solve::{Firmware, Phase, SolveInput, Traffic};
//! use linecard_model::transmit::{Design, Kind, firmware};
//! use linecard_model::{Clock, Ps};
//! # fn main() -> Result<(), Box<dyn core::error::Error>> {
//! let mhz = |mhz: u64| Clock::new(mhz * 1_000_000, Ps::ZERO);
//! let design = Design::published(mhz(1)?, mhz(2_115)?);
//! let question = SolveInput {
//!     firmware: Firmware::measure(&firmware::approach_2(), design.timing)?,
//!     traffic: Traffic::endless(Kind::Tcp, design.mtu),
//!     bits_per_second: 100_000_000_000,
//!     phase: Phase::Best,
//!     design,
//! };
//! // The published answer is 148 MHz.
//! assert_eq!(question.core_clock()?.smallest_hz.div_ceil(1_000_000), 116);
//! # Ok(())
//! # }
//! ```

mod bottlenecks;
mod costs;
mod input;
mod measure;
mod predict;
mod timing;
mod traffic;

#[cfg(test)]
mod tests;

pub use bottlenecks::{Bottleneck, BottleneckAnalysis, ClockLimits, Relief, relieve};
pub use costs::{Cost, Costs};
pub use input::{Edge, SolveError, SolveInput};
pub use measure::{Measured, measure, measure_steady};
pub use predict::{Firmware, Prediction, Resource};
pub use timing::Phase;
pub use traffic::{Flow, Traffic};
