//! Descriptors that tokio awaits.
#![expect(unsafe_code, reason = "tokio cannot see that a descriptor stays the same")]

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::task::yield_now;

/// An owner of a descriptor that never replaces it.
pub(crate) trait OwnsDescriptor: AsRawFd + AsFd {}

impl OwnsDescriptor for crate::Device {}
impl OwnsDescriptor for crate::udp::BatchSocket {}

/// The events awaited. An error alone is not readable to tokio: a device that was removed, a datagram that nobody
/// received.
const AWAITED: Interest = Interest::READABLE.add(Interest::ERROR);

/// A descriptor whose readiness to be read tokio awaits.
#[derive(Debug)]
pub(crate) struct Ready<T: OwnsDescriptor>(AsyncFd<T>);

impl<T: OwnsDescriptor> Ready<T> {
    pub(crate) fn new(end: T) -> io::Result<Self> {
        // SAFETY: `T` owns its descriptor and never replaces it, so that it stays open and the same until it is
        // dropped or taken out, which ends the registration first. Nothing here gives `&mut T` away, by which
        // another value could be put in its place.
        let registered = unsafe { AsyncFd::register_with_interest(end, AWAITED) };
        Ok(Self(registered?))
    }

    pub(crate) fn get_ref(&self) -> &T {
        self.0.get_ref()
    }

    pub(crate) fn into_inner(self) -> T {
        self.0.into_inner()
    }

    /// Waits, after other tasks have run: where there is always something to read, tokio would let them wait.
    pub(crate) async fn readable(&self) -> io::Result<()> {
        yield_now().await;
        // The guard's readiness is kept: the next read that finds nothing clears it.
        self.0.ready(AWAITED).await.map(drop)
    }

    /// Reads, unless it is known that there is nothing.
    pub(crate) fn try_read<R>(&self, mut read: impl FnMut(&T) -> io::Result<R>) -> io::Result<R> {
        // tokio's `try_io` knows one interest at a time.
        match self.0.try_io(Interest::READABLE, &mut read) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                self.0.try_io(Interest::ERROR, read)
            }
            result => result,
        }
    }

    /// Reads as soon as there is something, after other tasks have run.
    pub(crate) async fn read<R>(&self, mut read: impl FnMut(&T) -> io::Result<R>) -> io::Result<R> {
        yield_now().await;
        // Not by tokio's `async_io`, which knows one interest at a time.
        loop {
            let mut guard = self.0.ready(AWAITED).await?;
            if let Ok(result) = guard.try_io(|end| read(end.get_ref())) {
                return result;
            }
        }
    }
}

impl<T: OwnsDescriptor> AsFd for Ready<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.get_ref().as_fd()
    }
}
