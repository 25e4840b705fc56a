//! What all live ports have in common.

use super::{Buffers, Counters, PacketSocket, Tap};
use linecard::port::Port;
use std::os::fd::{AsFd, BorrowedFd};

/// A port to an interface, of whatever kind: what a thread needs that waits for several ports and
/// shows what they have done.
///
/// ```no_run
/// use linecard::packet::{Batch, PoolBuffer};
/// use linecard::time::Instant;
/// use linecard_host::port::{self, LivePort};
/// use std::time::Duration;
///
/// fn forward(
///     from: &mut dyn LivePort<PoolBuffer>,
///     to: &mut dyn LivePort<PoolBuffer>,
///     batch: &mut Batch<PoolBuffer>,
/// ) -> std::io::Result<()> {
///     from.receive(batch, Instant::ZERO);
///     to.transmit(batch, Instant::ZERO);
///     let waiting: Vec<_> = from.descriptor().into_iter().collect();
///     port::wait(&waiting, Duration::from_millis(1)).map(drop)
/// }
/// ```
pub trait LivePort<B>: Port<B> {
    /// To be waited for by [`wait`](super::wait) or an event loop: readable when packets have come,
    /// or the port has ended. None for a port that cannot be waited for.
    fn descriptor(&self) -> Option<BorrowedFd<'_>>;

    /// What has been done so far; asks the kernel what it had no room for.
    fn counters(&mut self) -> Counters;
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
