//! Safe wrappers of system calls that std does not have: all unsafe code of this crate is here.
//!
//! This module is public for linecard-io; it is internal to this project, and may change at any
//! time.
//!
//! Every call is checked and returns [`io::Error`]; the caller interprets the error.

pub(crate) mod addresses;
pub(crate) mod datagrams;
pub mod device;
pub(crate) mod poll;
#[cfg(feature = "tokio")]
pub(crate) mod ready;
pub mod send;

use std::io;

/// The result of a call that returns a negative number if it fails.
///
/// # Errors
///
/// As the system says, if the number is negative.
pub fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Whether an error has this number.
#[must_use]
pub fn is(error: &io::Error, number: libc::c_int) -> bool {
    error.raw_os_error() == Some(number)
}
