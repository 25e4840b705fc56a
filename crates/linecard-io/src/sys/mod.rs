//! Safe wrappers of system calls that std does not have: all unsafe code of this crate is here,
//! except that for AF_XDP, which is beside its port.
//!
//! Three of its modules are public for linecard-jitter; they are internal to this project, and may
//! change at any time.
//!
//! Every call is checked and returns [`io::Error`]; the caller interprets the error.

pub(crate) mod bpf;
pub(crate) mod device;
pub mod ethtool;
pub(crate) mod frames;
pub(crate) mod rights;
pub(crate) mod ring;
pub(crate) mod schedule;
pub(crate) mod send;
pub mod socket;
pub mod tracing;

use std::io;

/// The result of a call that gives a negative number where it fails.
pub(crate) fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Whether an error has this number.
pub(crate) fn is(error: &io::Error, number: libc::c_int) -> bool {
    error.raw_os_error() == Some(number)
}
