//! From the wire to the application: which cause makes each late packet, and how sure that is.
//!
//! This crate is pure: measurements come in as numbers, and what they mean goes out. What measures is the
//! module `linux`, behind the feature of that name. All times are nanoseconds on one clock of the host
//! (`CLOCK_MONOTONIC` where the kernel traces, the capture's own where there is one).

#![cfg_attr(not(feature = "std"), no_std)]
#![warn(clippy::std_instead_of_core, clippy::std_instead_of_alloc)]

extern crate alloc;

pub mod ledger;
#[cfg(all(feature = "linux", target_os = "linux"))]
pub mod linux;
pub mod media;
pub mod stats;
pub mod stream;
pub mod trace;
pub mod verdict;
