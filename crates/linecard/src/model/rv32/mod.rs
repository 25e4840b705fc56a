//! An RV32I core with three stages: fetch, decode and execute, write back.
//!
//! Every instruction takes one cycle; a branch that is taken, and every jump, costs the bubbles of
//! the refilled pipeline besides. The core has its own instruction memory at address 0 and its own
//! data memory behind it, without caches: those accesses never wait. All other addresses are
//! [`Outside`] and may stall it.

mod outside;

pub use outside::{Outside, Reply, Wake, Width};
