//! A clock, and one place to wait for sockets, other threads and time.

use linecard::time::Instant;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// Nobody waits longer than this: what is forgotten is seen again, in ns.
const LONGEST_NS: u64 = 100_000_000;

/// Time since the transfer began.
#[derive(Debug, Clone, Copy)]
pub struct Clock(std::time::Instant);

impl Clock {
    /// A clock that starts now, at a second: zero is "for ever ago" to those who ask it.
    #[must_use]
    pub fn start() -> Self {
        Self(std::time::Instant::now())
    }

    /// The time.
    #[must_use]
    pub fn now(&self) -> Instant {
        let since = u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX);
        Instant::from_ns(since.saturating_add(1_000_000_000))
    }
}

/// Wakes the thread that waits.
#[derive(Debug, Clone)]
pub struct Waker(Arc<OwnedFd>);

impl Waker {
    /// A waker that nobody waits for yet.
    ///
    /// # Errors
    ///
    /// No descriptor is left.
    pub fn new() -> io::Result<Self> {
        let fd = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        Ok(Self(Arc::new(fd)))
    }

    /// Wakes it.
    pub fn wake(&self) {
        // It fails only when 2^64 - 2 wakes wait: then it is awake.
        let _written = rustix::io::write(&*self.0, &1_u64.to_ne_bytes());
    }

    fn drain(&self) {
        let _read = rustix::io::read(&*self.0, &mut [0_u8; 8]);
    }
}

/// What is waited for.
#[derive(Debug)]
pub struct Waiter {
    waker: Waker,
}

impl Waiter {
    /// Waits for `waker`, too.
    #[must_use]
    pub const fn new(waker: Waker) -> Self {
        Self { waker }
    }

    /// Waits until one of `readable` can be read, one of `writable` written, somebody wakes us, or it is
    /// `until`.
    ///
    /// # Errors
    ///
    /// What the system says; never that it was interrupted.
    pub fn wait(
        &self,
        (readable, writable): (&[BorrowedFd<'_>], &[BorrowedFd<'_>]),
        until: Instant,
        now: Instant,
    ) -> io::Result<()> {
        let ns = until.ns_since(now).min(LONGEST_NS);
        let mut fds = Vec::with_capacity(1 + readable.len() + writable.len());
        fds.push(PollFd::from_borrowed_fd(self.waker.0.as_fd(), PollFlags::IN));
        fds.extend(readable.iter().map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)));
        fds.extend(writable.iter().map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::OUT)));
        let timeout =
            Timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as i64 };
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        if fds[0].revents().contains(PollFlags::IN) {
            self.waker.drain();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_waits_for_time_and_for_others() -> io::Result<()> {
        let clock = Clock::start();
        let waker = Waker::new()?;
        let waiter = Waiter::new(waker.clone());
        let now = clock.now();
        waiter.wait((&[], &[]), now.plus_ns(5_000_000), now)?;
        assert!(clock.now().ns_since(now) >= 5_000_000);
        waker.wake();
        let now = clock.now();
        waiter.wait((&[], &[]), Instant::NEVER, now)?;
        let woken = clock.now();
        // Once woken, it sleeps again: for a tenth of a second at most.
        waiter.wait((&[], &[]), Instant::NEVER, woken)?;
        assert!(clock.now().ns_since(woken) > woken.ns_since(now));
        Ok(())
    }
}
