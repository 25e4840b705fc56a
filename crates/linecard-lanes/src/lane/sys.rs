//! What the kernel counts for a socket.
#![expect(unsafe_code, reason = "SO_MEMINFO has no safe form in any crate in use")]

use std::os::fd::{AsRawFd, BorrowedFd};

/// Numbers of `SO_MEMINFO` (`SK_MEMINFO_VARS` in `linux/sock_diag.h`).
const VARS: usize = 9;
/// The place of datagrams that found no room (`SK_MEMINFO_DROPS`).
const DROPS: usize = 8;

/// Datagrams that found no room in the socket; none if the kernel does not say (before 4.12).
pub(super) fn drops(socket: BorrowedFd<'_>) -> Option<u32> {
    let mut numbers = [0_u32; VARS];
    let mut bytes = size_of_val(&numbers) as libc::socklen_t;
    // SAFETY: the kernel writes at most `bytes` bytes into `numbers`, which has that many and may hold
    // any, and the number that it wrote into `bytes`.
    let done = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MEMINFO,
            numbers.as_mut_ptr().cast(),
            &raw mut bytes,
        )
    };
    (done == 0 && bytes as usize > DROPS * size_of::<u32>()).then(|| numbers[DROPS])
}
