//! Waiting for descriptors.
#![expect(unsafe_code, reason = "poll has no safe form in std")]

use super::check;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

/// Asks whether a descriptor can be read.
pub(crate) fn readable(fd: BorrowedFd<'_>) -> libc::pollfd {
    libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 }
}

/// Waits until one of the descriptors can be read, for at most `time`; a signal ends the wait.
pub(crate) fn wait(entries: &mut [libc::pollfd], time: Duration) -> io::Result<bool> {
    // Below 10⁹, and so an `i32`, which C's `long` holds on 32-bit systems too.
    let nanoseconds = time.subsec_nanos() as i32;
    // A time too long for the system's clock means forever.
    let seconds = time.as_secs().try_into().ok();
    let time = seconds.map(|tv_sec| libc::timespec { tv_sec, tv_nsec: nanoseconds.into() });
    let time = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    let (list, len) = (entries.as_mut_ptr(), entries.len() as libc::nfds_t);
    // SAFETY: `list` has `len` entries, and `time` is null or points to a time; both live during the
    // call. No signal mask is given.
    match check(unsafe { libc::ppoll(list, len, time, std::ptr::null()) }) {
        Ok(ready) => Ok(ready > 0),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => {
            entries.iter_mut().for_each(|entry| entry.revents = 0);
            Ok(false)
        }
        Err(error) => Err(error),
    }
}
