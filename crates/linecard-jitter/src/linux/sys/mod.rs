//! System calls that only measuring needs, with safe faces. Those that ports need as well are in
//! `linecard_io::sys`.
//!
//! Every call is checked and gives [`io::Error`]; what an error means is said by who called.

pub(crate) mod perf;
pub(crate) mod receive;
pub(crate) mod uring;

use std::io;

/// The result of a call that gives a negative number where it fails.
fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
