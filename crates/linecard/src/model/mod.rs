//! Hardware in virtual time: network interfaces before anyone builds them.
//!
//! Time is whole picoseconds ([`Ps`]); every component runs on a [`Clock`] with a frequency and a
//! phase. What moves are real bytes, and what moves them is real firmware. Nothing is stepped cycle
//! by cycle where nothing happens: waits are computed and skipped. Same scenario, same seed: same
//! bytes out, on every machine.

mod clock;
mod events;
pub mod npu;
pub mod rv32;

pub use clock::{Clock, ClockError, Ps};
pub use events::Events;
