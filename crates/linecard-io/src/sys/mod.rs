//! System calls that std does not have, with safe faces: what is unsafe in this crate is here, and what only
//! AF_XDP needs beside its port.
//!
//! Three of its modules are public, for the crate that measures; they are for this project's crates, and
//! change as those need.
//!
//! Every call is checked and gives [`io::Error`]; what an error means is said by who called.

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
