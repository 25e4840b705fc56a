//! Safe wrappers of system calls that std does not have: all unsafe code of this crate is here,
//! except that for AF_XDP, which is beside its port. Calls about interfaces and TUN devices are in
//! [`linecard_tun::sys`].
//!
//! Some of its modules are public for linecard-jitter and linecard-app; they are internal to this project, and may
//! change at any time.
//!
//! Every call is checked and returns an [`io::Error`](std::io::Error); the caller interprets the error.

pub(crate) mod bpf;
pub mod descriptor;
pub mod ethtool;
pub(crate) mod frames;
pub(crate) mod rights;
pub(crate) mod ring;
pub(crate) mod schedule;
pub mod socket;
pub mod tracing;

pub(crate) use linecard_tun::sys::{check, is};
