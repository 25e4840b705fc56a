//! Safe wrappers of system calls that only measurements need. Those that ports need as well are in
//! `linecard_io::sys`.
//!
//! Every call is checked and returns an [`io::Error`]; the caller interprets it.

pub(crate) mod packet;
pub(crate) mod perf;
pub(crate) mod ptp;
pub(crate) mod receive;
pub(crate) mod uring;

use std::io;

/// Converts the result of a call that returns a negative number on failure.
fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
