//! Finds the cause of each late packet between the wire and the application, and how certain that
//! is.
//!
//! The crate is pure: it takes measurements as numbers and interprets them. The module `linux`,
//! behind the feature of that name, makes the measurements. All times are nanoseconds on one clock
//! of the host (`CLOCK_MONOTONIC` where the kernel traces, the capture's own clock where there is a
//! capture).

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
