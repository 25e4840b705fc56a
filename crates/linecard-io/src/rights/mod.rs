//! Giving up rights, once all ports are open.
//!
//! Opening ports takes root or capabilities; using them takes none. On Linux rights belong to
//! threads, and any thread can act for all, whose memory it shares. So every thread that was there
//! before says [`forget`], then one of them says [`drop_all`], which looks at all of them. Threads
//! that are started later have what their starter had left.
//!
//! Not supported: keeping some rights, getting any back, changing the folder that is the root.
//!
//! Sources: capabilities(7), credentials(7), prctl(2).

mod account;
mod threads;

pub use account::Account;

use crate::sys;
use rustix::process::{getegid, geteuid, getgid, getgroups, getuid};
use rustix::thread::{self, CapabilitySet, CapabilitySets};
use std::{fmt, io};

/// What is left: whose rights the process has now, and no others.
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

/// Why rights are left.
#[derive(Debug, thiserror::Error)]
pub enum RightsError {
    /// The system refuses.
    #[error("cannot give up rights: {doing}: {source}")]
    System {
        /// What was tried.
        doing: &'static str,
        /// What the system says.
        source: io::Error,
    },
    /// It is said to be done, and it is not.
    #[error("thread {thread} has rights left: {what}; it must give them up before")]
    Left {
        /// The thread's number.
        thread: u32,
        /// What it has.
        what: &'static str,
    },
}

impl RightsError {
    fn of(doing: &'static str) -> impl FnOnce(rustix::io::Errno) -> Self {
        move |error| Self::System { doing, source: error.into() }
    }
}

/// Gives up what the calling thread has and no other thread: its capabilities, and that programs
/// it starts may have more than it has. As root it keeps those capabilities that [`drop_all`]
/// takes from all threads at once.
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
/// [`RightsError::System`], as where a filter of system calls refuses.
pub fn forget() -> Result<(), RightsError> {
    thread::set_no_new_privs(true).map_err(RightsError::of("set no_new_privs"))?;
    thread::clear_ambient_capability_set()
        .map_err(RightsError::of("clear the ambient capabilities"))?;
    let none = CapabilitySet::empty();
    let mut left = CapabilitySets { effective: none, permitted: none, inheritable: none };
    if is_root() {
        // libc ends the process when some threads may change their user and some may not.
        let has = thread::capabilities(None).map_err(RightsError::of("read capabilities"))?;
        left = CapabilitySets { inheritable: none, ..has };
    }
    thread::set_capabilities(None, left).map_err(RightsError::of("clear the capabilities"))
}

/// Gives up all rights of the process for good, and makes sure of it. As root all threads become
/// `account`, with no other group; else the user stays. Other threads must have said [`forget`];
/// the calling one need not.
///
/// Files, sockets and devices that are open stay so. The process can no longer be traced or dumped
/// by its new user.
///
/// # Errors
///
/// [`RightsError::System`] when a step is refused, as in a user namespace without that account,
/// or when `/proc` is not there to look at the threads; [`RightsError::Left`] when some thread has
/// kept something. The process should end then: some of its rights may be gone, and some not.
pub fn drop_all(account: Account) -> Result<Dropped, RightsError> {
    // Whoever was root has none of root's groups; a user who stays keeps the ones of that user, and no
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

/// Whether a user of the calling thread, real or effective, is root; its saved one shows in its
/// capabilities only.
///
/// ```
/// // An ordinary user's process has no other account to become.
/// let account = linecard_io::rights::is_root().then(linecard_io::rights::Account::invoking);
/// ```
#[must_use]
pub fn is_root() -> bool {
    getuid().is_root() || geteuid().is_root()
}

/// Groups first: afterwards there is no right to change them.
fn become_user(account: Account) -> Result<(), RightsError> {
    let failed = |doing| move |source| RightsError::System { doing, source };
    sys::rights::leave_groups().map_err(failed("leave all groups"))?;
    sys::rights::set_group(account.gid()).map_err(failed("change the group"))?;
    sys::rights::set_user(account.uid()).map_err(failed("change the user"))
}

/// The last word is the kernel's: it is asked for root, and has to refuse.
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
