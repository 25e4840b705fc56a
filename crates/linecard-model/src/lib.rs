//! Hardware in virtual time: network interfaces before anyone builds them.
//!
//! Time is whole picoseconds ([`Ps`]); every component runs on a [`Clock`] with a frequency and a
//! phase. What moves are real bytes, and what moves them is real firmware. Nothing is stepped cycle
//! by cycle where nothing happens: waits are computed and skipped. Same scenario, same seed: same
//! bytes out, on every machine.

#![warn(clippy::std_instead_of_core, clippy::std_instead_of_alloc)]

extern crate alloc;

pub mod adapter;
mod cell;
mod clock;
mod dma;
#[cfg(feature = "elf")]
pub mod elf;
mod events;
mod hash;
pub mod npu;
pub mod path;
pub mod pci;
pub mod pcie;
pub mod receive;
pub mod rv32;
pub mod solve;
pub mod transmit;

pub use clock::{Clock, ClockError, Ps};
pub use events::Events;
