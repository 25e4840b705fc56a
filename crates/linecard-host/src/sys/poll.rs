//! Waiting for descriptors.
#![expect(unsafe_code, reason = "poll has no safe form in std")]

use super::check;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

/// Waits until one of these can be read or has failed, at most `time` in whole milliseconds;
/// whether it is so. A signal ends the wait.
pub(crate) fn readable(fds: &[BorrowedFd<'_>], time: Duration) -> io::Result<bool> {
    let entry =
        |fd: &BorrowedFd<'_>| libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    let mut entries: Vec<_> = fds.iter().map(entry).collect();
    let time = libc::c_int::try_from(time.as_millis()).unwrap_or(libc::c_int::MAX);
    // SAFETY: as many entries as there are, which live during the call.
    let ready = unsafe { libc::poll(entries.as_mut_ptr(), entries.len() as libc::nfds_t, time) };
    match check(ready) {
        Ok(ready) => Ok(ready > 0),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(false),
        Err(error) => Err(error),
    }
}
