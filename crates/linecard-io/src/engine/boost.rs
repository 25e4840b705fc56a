//! Real-time priority that a thread takes and gives back without privileges.
//!
//! A thread that has dropped its privileges may leave its real-time class, and not enter it again. So a
//! second thread keeps the class for it, and sleeps. While the first one holds a lock for which the
//! second one waits, the kernel lends it that priority: the inheritance of futexes, `FUTEX_LOCK_PI` in
//! futex(2).

use rustix::io::Errno;
use rustix::thread::futex::{self, Flags};
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::{fmt, io};

/// Lends its priority to the thread that made it.
pub(super) struct Boost {
    lock: Arc<AtomicU32>,
    /// None while it ends.
    ask: Option<SyncSender<()>>,
    lender: Option<JoinHandle<()>>,
    is_taken: bool,
}

impl Boost {
    /// Starts the thread that lends; it inherits class, core and privileges of the calling one.
    ///
    /// # Errors
    ///
    /// If the system cannot create a thread.
    pub(super) fn new(name: &str) -> io::Result<Self> {
        let lock = Arc::new(AtomicU32::new(0));
        let (ask, asked) = sync_channel(1);
        let lent = Arc::clone(&lock);
        let thread = thread::Builder::new().name(format!("{name} boost"));
        let lender = thread.spawn(move || lend(&lent, &asked))?;
        Ok(Self { lock, ask: Some(ask), lender: Some(lender), is_taken: false })
    }

    /// Takes the priority. The lender comes to wait for the lock within microseconds.
    pub(super) fn take(&mut self) -> io::Result<()> {
        if !self.is_taken {
            take(&self.lock)?;
            self.is_taken = true;
            // One that is not handled yet does as well.
            let _asked = self.ask.as_ref().map(|ask| ask.try_send(()));
        }
        Ok(())
    }

    /// Gives it back.
    pub(super) fn give(&mut self) -> io::Result<()> {
        if self.is_taken {
            give(&self.lock)?;
            self.is_taken = false;
        }
        Ok(())
    }
}

impl Drop for Boost {
    fn drop(&mut self) {
        let given = self.give();
        self.ask = None;
        // A lender that waits for a lock which stays taken would never end.
        if given.is_ok() {
            self.lender.take().map(JoinHandle::join);
        }
    }
}

impl fmt::Debug for Boost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Boost").field("is_taken", &self.is_taken).finish_non_exhaustive()
    }
}

/// Whether the kernel has such futexes, and a filter of system calls lets them pass.
pub(super) fn is_possible() -> bool {
    let lock = AtomicU32::new(0);
    take(&lock).and_then(|()| give(&lock)).is_ok()
}

fn lend(lock: &AtomicU32, asked: &Receiver<()>) {
    while asked.recv().is_ok() {
        if take(lock).and_then(|()| give(lock)).is_err() {
            return;
        }
    }
}

fn take(lock: &AtomicU32) -> io::Result<()> {
    loop {
        match futex::lock_pi(lock, Flags::PRIVATE, None) {
            Err(Errno::INTR | Errno::AGAIN) => {}
            result => return Ok(result?),
        }
    }
}

fn give(lock: &AtomicU32) -> io::Result<()> {
    loop {
        match futex::unlock_pi(lock, Flags::PRIVATE) {
            Err(Errno::INTR | Errno::AGAIN) => {}
            result => return Ok(result?),
        }
    }
}
