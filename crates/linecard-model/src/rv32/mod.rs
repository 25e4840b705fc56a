//! An RV32I core: by default with three stages (fetch, decode and execute, write back), otherwise with the cycles of
//! another core by kind of instruction ([`Timing`]).
//!
//! With three stages, every instruction takes one cycle; a taken branch, and every jump, additionally costs the
//! bubbles of the refilled pipeline. The core has its own instruction memory at address 0 and its
//! own data memory after it, without caches: those accesses never wait. All other addresses are
//! accesses to the [`Bus`], which may stall the core.
//!
//! Not supported: privileged instructions other than `wfi`, control and status registers, traps (a
//! [`Fault`] instead), self-modifying code, unaligned accesses.
//!
//! Source: The RISC-V Instruction Set Manual, volume I, chapter 2 (RV32I 2.1); timing after
//! "LSO on a RISC core", section 4: one cycle each, no cache, the bus may stall.

mod bus;
mod config;
mod core;
mod decode;
mod fault;
mod image;
mod profile;

pub use self::core::{Core, Cycles, Stop};
pub use bus::{AccessError, Bus, Reply, Wake, Width};
pub use config::{Config, CoreKind, DATA_AT, MAX_MEMORY, Timing};
pub use fault::{Access, Fault, FaultKind};
pub use image::{Image, LoadError, Segment};
pub use profile::{Counts, Profile, annotate};
