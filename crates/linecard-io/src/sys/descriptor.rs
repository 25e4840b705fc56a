//! Descriptors that the parent of this process has opened.
#![expect(unsafe_code, reason = "std has no form for a number")]

use super::check;
use std::fs::File;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

/// The first number that is not a standard stream.
const FIRST: i32 = 3;

/// A copy of a descriptor by its number. Programs that this process starts inherit neither of the two,
/// unless it is a standard stream: a supervisor that waits for the end of the other side would wait for
/// them, too.
///
/// # Errors
///
/// `EBADF` if no such descriptor is open.
pub fn copy(number: i32) -> io::Result<File> {
    // SAFETY: takes numbers, and opens a descriptor of its own.
    let copy = check(unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, FIRST) })?;
    if number >= FIRST {
        // SAFETY: takes numbers.
        check(unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) })?;
    }
    // SAFETY: just opened, and owned by nobody else.
    Ok(File::from(unsafe { OwnedFd::from_raw_fd(copy) }))
}
