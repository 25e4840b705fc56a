//! Descriptors that the parent of this process has opened.
#![expect(unsafe_code, reason = "std has no form for a number")]

use super::check;
use std::fs::File;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

/// A copy of a descriptor by its number.
///
/// # Errors
///
/// `EBADF` if no such descriptor is open.
pub fn copy(number: i32) -> io::Result<File> {
    // SAFETY: takes numbers, and opens a descriptor of its own.
    let copy = check(unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 3) })?;
    // SAFETY: just opened, and owned by nobody else.
    Ok(File::from(unsafe { OwnedFd::from_raw_fd(copy) }))
}
