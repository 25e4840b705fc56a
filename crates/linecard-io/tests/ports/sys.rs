//! Changes that tests of live ports make to their own thread. The only file of this test with `unsafe`,
//! beside the one that it shares with the kernel as witness.
#![expect(unsafe_code, reason = "system calls have no safe form in std")]

use std::io;

/// Gives only the calling thread to user "nobody", without privileges.
pub(crate) fn lose_rights() -> io::Result<()> {
    let nobody: libc::uid_t = 65_534;
    // SAFETY: takes numbers. Not by libc's function, which would change all threads.
    match unsafe { libc::syscall(libc::SYS_setresuid, nobody, nobody, nobody) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
