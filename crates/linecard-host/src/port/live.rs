//! What an engine wants of a port besides packets.

use super::{Buffers, Counters, PacketSocket, Tap};
use linecard::port::Port;
use std::os::fd::{AsFd, BorrowedFd};

/// A port that a thread can wait for, and that counts what it does.
///
/// ```
/// use linecard::packet::Batch;
/// use linecard::port::{Port, PortState};
/// use linecard::time::Instant;
/// use linecard_host::port::LivePort;
///
/// /// Takes everything and gives nothing.
/// struct Nowhere;
///
/// impl<B> Port<B> for Nowhere {
///     fn receive(&mut self, _: &mut Batch<B>, _: Instant) -> PortState { PortState::Open }
///     fn transmit(&mut self, batch: &mut Batch<B>, _: Instant) { batch.drain().for_each(drop) }
/// }
///
/// impl<B> LivePort<B> for Nowhere {}
///
/// let mut port: Box<dyn LivePort<Vec<u8>>> = Box::new(Nowhere);
/// assert!(port.descriptor().is_none() && port.counters().received == 0);
/// ```
pub trait LivePort<B>: Port<B> {
    /// Readable when something can be received, or the port has ended; none where that is always
    /// tried.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// What it has done so far; asks the kernel what it had no room for.
    fn counters(&mut self) -> Counters {
        Counters::default()
    }
}

impl<S: Buffers> LivePort<S::Buffer> for Tap<S> {
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.as_fd())
    }

    fn counters(&mut self) -> Counters {
        Self::counters(self)
    }
}

impl<S: Buffers> LivePort<S::Buffer> for PacketSocket<S> {
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.as_fd())
    }

    fn counters(&mut self) -> Counters {
        Self::counters(self)
    }
}

impl<B, P: LivePort<B> + ?Sized> LivePort<B> for Box<P> {
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        (**self).descriptor()
    }

    fn counters(&mut self) -> Counters {
        (**self).counters()
    }
}
