//! Network interface hardware in virtual time.
//!
//! Time is counted in whole picoseconds ([`Ps`]); every component runs on a [`Clock`] with a
//! frequency and a phase. Models move real bytes, under control of real firmware. Idle time is
//! computed and skipped instead of being stepped cycle by cycle. Equal scenarios and seeds give
//! equal results on every machine.

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
