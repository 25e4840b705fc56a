//! A clock, and one place to wait for sockets, other threads and time.

use linecard::time::Instant;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Longest wait in ns, so that a missed wakeup delays at most this.
const LONGEST_NS: u64 = 100_000_000;

/// Tokens are below this: one bit each of [`Ready`].
pub const MAX_TOKENS: usize = u128::BITS as usize - 1;
/// In place of a token: another thread has woken this one.
pub const WOKEN: usize = MAX_TOKENS;

/// Time since the transfer began.
#[derive(Debug, Clone, Copy)]
pub struct Clock(std::time::Instant);

impl Clock {
    /// A clock that starts now, at one second: 0 would look like an expired deadline.
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
pub struct Waker(Arc<Event>);

#[derive(Debug)]
struct Event {
    fd: OwnedFd,
    /// It is written, and not drained yet: writing once more would be a system call for nothing.
    is_written: AtomicBool,
}

impl Waker {
    /// A waker without a waiting thread yet.
    ///
    /// # Errors
    ///
    /// No descriptor is left.
    pub fn new() -> io::Result<Self> {
        let fd = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        Ok(Self(Arc::new(Event { fd, is_written: AtomicBool::new(false) })))
    }

    /// Wakes it. What this thread has done before, it sees.
    pub fn wake(&self) {
        if !self.0.is_written.swap(true, Ordering::AcqRel) {
            // It fails only when 2^64 - 2 wakes wait: then it is awake.
            let _written = rustix::io::write(&self.0.fd, &1_u64.to_ne_bytes());
        }
    }

    fn drain(&self) {
        let _read = rustix::io::read(&self.0.fd, &mut [0_u8; 8]);
        // Behind the read: a wake in between finds it written, and what came before it is seen from here on. The other way
        // round, its write could be read here, and later ones would be left out.
        self.0.is_written.swap(false, Ordering::AcqRel);
    }
}

/// The events to wait for.
#[derive(Debug)]
pub struct Waiter {
    waker: Waker,
}

/// A descriptor that is waited for: until it can be read, and, if wanted, written.
#[derive(Debug, Clone, Copy)]
pub struct Interest<'a> {
    /// The descriptor.
    pub fd: BorrowedFd<'a>,
    /// Wait until it can be written, too.
    pub write: bool,
    /// The caller's number of it, below [`MAX_TOKENS`]; several may be the same.
    pub token: usize,
}

/// Which tokens had something, an error included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ready(u128);

impl Ready {
    /// Before the first poll: all may have something.
    pub const ALL: Self = Self(u128::MAX);

    /// Whether the source with this `token` may have something.
    #[must_use]
    pub const fn has(self, token: usize) -> bool {
        debug_assert!(token <= WOKEN);
        self.0 >> token & 1 == 1
    }
}

impl Waiter {
    /// Waits for `waker`, too.
    #[must_use]
    pub const fn new(waker: Waker) -> Self {
        Self { waker }
    }

    /// Waits until one of `interests` can be read or written, another thread wakes this one, or it is `until`.
    ///
    /// # Errors
    ///
    /// The error of the operating system; never that it was interrupted.
    pub fn wait(
        &self,
        interests: &[Interest<'_>],
        until: Instant,
        now: Instant,
    ) -> io::Result<Ready> {
        let ns = until.ns_since(now).min(LONGEST_NS);
        let mut fds = Vec::with_capacity(1 + interests.len());
        fds.push(PollFd::from_borrowed_fd(self.waker.0.fd.as_fd(), PollFlags::IN));
        fds.extend(interests.iter().map(|interest| {
            let write = if interest.write { PollFlags::OUT } else { PollFlags::empty() };
            PollFd::from_borrowed_fd(interest.fd, PollFlags::IN | write)
        }));
        let timeout =
            Timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as i64 };
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => return Ok(Ready::ALL),
            Err(error) => return Err(error.into()),
        }
        let is_woken = fds[0].revents().contains(PollFlags::IN);
        if is_woken {
            self.waker.drain();
        }
        let found = fds[1..].iter().zip(interests).filter(|(fd, _)| !fd.revents().is_empty());
        Ok(Ready(found.fold(u128::from(is_woken) << WOKEN, |ready, (_, interest)| {
            debug_assert!(interest.token < MAX_TOKENS);
            ready | 1 << interest.token
        })))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn it_waits_for_time_and_for_others() -> io::Result<()> {
        let clock = Clock::start();
        let waker = Waker::new()?;
        let waiter = Waiter::new(waker.clone());
        let now = clock.now();
        waiter.wait(&[], now.plus_ns(5_000_000), now)?;
        assert!(clock.now().ns_since(now) >= 5_000_000);
        waker.wake();
        let now = clock.now();
        assert!(waiter.wait(&[], Instant::NEVER, now)?.has(WOKEN));
        let woken = clock.now();
        // Once woken, it sleeps again: for a tenth of a second at most.
        assert!(!waiter.wait(&[], Instant::NEVER, woken)?.has(WOKEN));
        assert!(clock.now().ns_since(woken) > woken.ns_since(now));
        Ok(())
    }

    /// Wakes that find it awake write nothing; the next one does.
    #[test]
    fn each_wake_behind_a_wait_is_seen() -> io::Result<()> {
        const TIMES: u32 = 1_000;
        let waker = Waker::new()?;
        let waiter = Waiter::new(waker.clone());
        let ((give, given), (took, taken)) = (mpsc::channel(), mpsc::channel());
        let giving = std::thread::spawn(move || {
            for at in 0..TIMES {
                give.send(at).unwrap();
                (0..=at % 3).for_each(|_| waker.wake());
                taken.recv().unwrap();
            }
        });
        let (mut seen, mut late) = (Vec::new(), 0);
        while seen.len() < TIMES as usize {
            let ready = waiter.wait(&[], Instant::NEVER, Clock::start().now())?;
            for at in given.try_iter() {
                late += u32::from(!ready.has(WOKEN));
                seen.push(at);
                took.send(()).unwrap();
            }
        }
        giving.join().unwrap();
        assert!(seen.iter().copied().eq(0..TIMES));
        // It may have given one just when a wait of the longest time was over.
        assert!(late < TIMES / 10, "{late} were found without a wake");
        // Wakes that were left over are one.
        let now = Clock::start().now();
        waiter.wait(&[], now, now)?;
        waiter.waker.wake();
        waiter.waker.wake();
        assert!(waiter.wait(&[], Instant::NEVER, now)?.has(WOKEN));
        assert!(!waiter.wait(&[], now, now)?.has(WOKEN));
        waiter.waker.wake();
        assert!(waiter.wait(&[], Instant::NEVER, now)?.has(WOKEN));
        Ok(())
    }

    #[test]
    fn it_says_who_has_something() -> io::Result<()> {
        let (near, far) = std::os::unix::net::UnixStream::pair()?;
        let waiter = Waiter::new(Waker::new()?);
        let interest = |write| [Interest { fd: near.as_fd(), write, token: 3 }];
        let now = Clock::start().now();
        assert!(!waiter.wait(&interest(false), now, now)?.has(3));
        assert!(waiter.wait(&interest(true), now, now)?.has(3));
        rustix::io::write(&far, b"x")?;
        let ready = waiter.wait(&interest(false), now, now)?;
        assert!(ready.has(3) && !ready.has(2));
        Ok(())
    }
}
