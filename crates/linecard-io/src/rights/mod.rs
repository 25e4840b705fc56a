//! Dropping privileges once all ports are open.
//!
//! Opening ports requires root or capabilities; using them does not. On Linux privileges belong to
//! threads, and any thread can act for all, because they share memory. So every thread that exists
//! before calls [`forget`], then one of them calls [`drop_all`], which checks all of them. Threads
//! started later inherit the reduced privileges.
//!
//! Not supported: keeping some privileges, regaining any, changing the root directory.
//!
//! Sources: capabilities(7), credentials(7), prctl(2).

mod account;
mod confine;
mod threads;

pub use account::Account;
pub use confine::{Use, confine, folder_of};

use crate::sys;
use rustix::process::{getegid, geteuid, getgid, getgroups, getuid};
use rustix::thread::{self, CapabilitySet, CapabilitySets};
use std::{fmt, io};

/// The user and group of the process after dropping privileges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dropped {
    /// The user, real, effective and saved, of all threads; never 0.
    pub uid: u32,
    /// The group, likewise.
    pub gid: u32,
}

impl fmt::Display for Dropped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "runs as user {}, group {}, without capabilities", self.uid, self.gid)
    }
}

/// Why privileges could not be dropped.
#[derive(Debug, thiserror::Error)]
pub enum RightsError {
    /// The system refuses.
    #[error("cannot drop privileges: {doing}: {source}")]
    System {
        /// The operation that failed.
        doing: &'static str,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A call succeeded without effect.
    #[error("thread {thread} has rights left: {what}; it must give them up before")]
    Left {
        /// The thread's number.
        thread: u32,
        /// The privilege that it still has.
        what: &'static str,
    },
}

impl RightsError {
    fn of(doing: &'static str) -> impl FnOnce(rustix::io::Errno) -> Self {
        move |error| Self::System { doing, source: error.into() }
    }
}

/// Drops the privileges of the calling thread alone: its capabilities, and the ability of programs
/// that it starts to gain more. As root it keeps those capabilities that [`drop_all`] removes from
/// all threads at once.
///
/// ```no_run
/// let worker = std::thread::spawn(|| {
///     // … opens its ports, then:
///     linecard_io::rights::forget()
/// });
/// worker.join().expect("no panic")?;
/// println!("{}", linecard_io::rights::drop_all(Default::default())?);
/// # Ok::<(), linecard_io::rights::RightsError>(())
/// ```
///
/// # Errors
///
/// [`RightsError::System`], for example if a system call filter refuses.
pub fn forget() -> Result<(), RightsError> {
    thread::set_no_new_privs(true).map_err(RightsError::of("set no_new_privs"))?;
    thread::clear_ambient_capability_set()
        .map_err(RightsError::of("clear the ambient capabilities"))?;
    let none = CapabilitySet::empty();
    let mut left = CapabilitySets { effective: none, permitted: none, inheritable: none };
    if is_root() {
        // libc aborts the process if some threads may change their user and some may not.
        let has = thread::capabilities(None).map_err(RightsError::of("read capabilities"))?;
        left = CapabilitySets { inheritable: none, ..has };
    }
    thread::set_capabilities(None, left).map_err(RightsError::of("clear the capabilities"))
}

/// Drops all privileges of the process permanently, and verifies it. As root all threads become
/// `account`, with no other group; otherwise the user stays. Other threads must have called
/// [`forget`]; the calling one need not.
///
/// Open files, sockets and devices stay open. The process can no longer be traced or dumped by its
/// new user.
///
/// # Errors
///
/// [`RightsError::System`] if a step is refused, as in a user namespace without that account, or if
/// `/proc` is not available for checking the threads; [`RightsError::Left`] if a thread has kept a
/// privilege. The process should end then: it may have dropped only some of its privileges.
pub fn drop_all(account: Account) -> Result<Dropped, RightsError> {
    // A former root has none of root's groups; an unprivileged user keeps its own groups, and no
    // thread has others.
    let groups = if is_root() {
        become_user(account)?;
        Vec::new()
    } else {
        let groups = getgroups().map_err(RightsError::of("read the groups"))?;
        groups.into_iter().map(rustix::process::Gid::as_raw).collect()
    };
    forget()?;
    let left = Dropped { uid: getuid().as_raw(), gid: getgid().as_raw() };
    threads::check(left, &groups)?;
    no_way_back(left)
}

/// Whether the calling thread's real or effective user is root; a saved user id of root only shows
/// in its capabilities.
///
/// ```
/// // An ordinary user's process has no other account to become.
/// let account = linecard_io::rights::is_root().then(linecard_io::rights::Account::invoking);
/// ```
#[must_use]
pub fn is_root() -> bool {
    getuid().is_root() || geteuid().is_root()
}

/// Groups first: afterwards the privilege to change them is gone.
fn become_user(account: Account) -> Result<(), RightsError> {
    let failed = |doing| move |source| RightsError::System { doing, source };
    sys::rights::leave_groups().map_err(failed("leave all groups"))?;
    sys::rights::set_group(account.gid()).map_err(failed("change the group"))?;
    sys::rights::set_user(account.uid()).map_err(failed("change the user"))
}

/// Finally, tries to become root again, which the kernel has to refuse.
fn no_way_back(left: Dropped) -> Result<Dropped, RightsError> {
    let thread = thread::gettid().as_raw_pid().unsigned_abs();
    let has = thread::capabilities(None).map_err(RightsError::of("read capabilities"))?;
    if !(has.permitted | has.effective | has.inheritable).is_empty() {
        return Err(RightsError::Left { thread, what: "capabilities" });
    }
    if thread::set_thread_uid(rustix::process::Uid::ROOT).is_ok() {
        return Err(RightsError::Left { thread, what: "it can become root" });
    }
    if geteuid().as_raw() != left.uid || getegid().as_raw() != left.gid {
        return Err(RightsError::Left { thread, what: "another user or group" });
    }
    Ok(left)
}
