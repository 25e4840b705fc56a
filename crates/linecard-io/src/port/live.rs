//! What an engine wants of a port besides packets.

use super::{Buffers, CaptureSink, CaptureSource, Counters, PacketSocket, Tap};
use linecard::packet::LinkType;
use linecard::port::Port;
use linecard::time::Instant;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd};

/// A port that a thread can wait for, and that counts what it does.
///
/// ```
/// use linecard::packet::Batch;
/// use linecard::port::{Port, PortState};
/// use linecard::time::Instant;
/// use linecard_io::port::LivePort;
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

    /// What its packets begin with, where that is one thing: packets of another link type are not sent.
    /// A capture tells the link type of its first packet, or of its first interface where reading on
    /// could wait.
    fn link(&self) -> Option<LinkType> {
        None
    }

    /// When it will have something, where it knows that itself: it is asked then, whatever its
    /// descriptor says. A time that is past says nothing.
    fn next_due(&self) -> Option<Instant> {
        None
    }
}

impl<S: Buffers> LivePort<S::Buffer> for Tap<S> {
    fn link(&self) -> Option<LinkType> {
        Some(Self::link(self))
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.as_fd())
    }

    fn counters(&mut self) -> Counters {
        Self::counters(self)
    }
}

impl<S: Buffers> LivePort<S::Buffer> for PacketSocket<S> {
    fn link(&self) -> Option<LinkType> {
        Some(Self::link(self))
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.as_fd())
    }

    fn counters(&mut self) -> Counters {
        Self::counters(self)
    }
}

impl<R: Read, S: Buffers> LivePort<S::Buffer> for CaptureSource<R, S> {
    fn link(&self) -> Option<LinkType> {
        Self::link(self)
    }

    fn counters(&mut self) -> Counters {
        Self::counters(self)
    }

    fn next_due(&self) -> Option<Instant> {
        Self::next_due(self)
    }
}

impl<B: AsRef<[u8]> + AsMut<[u8]>> LivePort<B> for CaptureSink {
    fn counters(&mut self) -> Counters {
        Self::counters(self)
    }
}

impl<B, P: LivePort<B> + ?Sized> LivePort<B> for Box<P> {
    fn link(&self) -> Option<LinkType> {
        (**self).link()
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        (**self).descriptor()
    }

    fn counters(&mut self) -> Counters {
        (**self).counters()
    }

    fn next_due(&self) -> Option<Instant> {
        (**self).next_due()
    }
}
