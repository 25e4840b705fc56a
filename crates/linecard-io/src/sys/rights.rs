//! Another user for the whole process.
#![expect(unsafe_code, reason = "std changes users of children only, rustix of one thread only")]

use super::check;
use std::io;

/// Leaves all supplementary groups; all threads do.
pub(crate) fn leave_groups() -> io::Result<()> {
    // SAFETY: of a list of no groups nothing is read. libc makes all threads do the same.
    check(unsafe { libc::setgroups(0, std::ptr::null()) }).map(drop)
}

/// Makes this the only group, real, effective and saved, of all threads.
pub(crate) fn set_group(gid: u32) -> io::Result<()> {
    // SAFETY: takes numbers. libc makes all threads do the same.
    check(unsafe { libc::setresgid(gid, gid, gid) }).map(drop)
}

/// Makes this the only user, real, effective and saved, of all threads. Threads that differ in
/// whether they may do so end the process.
pub(crate) fn set_user(uid: u32) -> io::Result<()> {
    // SAFETY: takes numbers. libc makes all threads do the same.
    check(unsafe { libc::setresuid(uid, uid, uid) }).map(drop)
}
