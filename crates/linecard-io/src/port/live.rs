//! Requirements of an engine on a port besides packets.

use super::{CaptureSink, CaptureSource, PacketSocket};
use linecard::offload::coalesce::LargePackets;
use linecard::offload::virtio::Format;
use linecard::packet::LinkType;
use linecard::port::Port;
use linecard::time::Instant;
use linecard_tun::{Buffers, Counters, Tap};
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd};

/// A port that a thread can wait for, and that has counters.
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
    /// Readable when packets can be received or the port has ended; none if receiving is always
    /// attempted.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Its counters so far; queries the kernel's drop counters.
    fn counters(&mut self) -> Counters {
        Counters::default()
    }

    /// The link type of its packets, if there is only one: packets of other link types are not
    /// sent. A capture returns that of its first packet, or of its first interface if reading on
    /// could block.
    fn link(&self) -> Option<LinkType> {
        None
    }

    /// The large packets that leave it whole, as far as it knows now: packets to it merge only into these.
    fn large_packets(&self) -> LargePackets {
        LargePackets::ALL
    }

    /// Whether so many received packets wait that further ones would wait for long, or soon have no room; none if the
    /// port never knows that. Sending may bring more: the peer answers acknowledgments with data.
    fn is_crowded(&self) -> Option<bool> {
        None
    }

    /// When packets are due, if the port knows that itself: receiving is attempted then, whatever
    /// its descriptor reports. A time in the past has no meaning.
    fn next_due(&self) -> Option<Instant> {
        None
    }
}

/// Methods of [`LivePort`] that a port leaves to another one, which is a field of it.
macro_rules! left_to {
    ($field:ident: $($method:ident),+) => { $(left_to!(@ $field $method);)+ };
    (@ $field:ident large_packets) => {
        fn large_packets(&self) -> linecard::offload::coalesce::LargePackets {
            self.$field.large_packets()
        }
    };
    (@ $field:ident is_crowded) => {
        fn is_crowded(&self) -> Option<bool> {
            self.$field.is_crowded()
        }
    };
    (@ $field:ident link) => {
        fn link(&self) -> Option<linecard::packet::LinkType> {
            self.$field.link()
        }
    };
    (@ $field:ident descriptor) => {
        fn descriptor(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
            self.$field.descriptor()
        }
    };
    (@ $field:ident counters) => {
        fn counters(&mut self) -> linecard_tun::Counters {
            self.$field.counters()
        }
    };
    (@ $field:ident next_due) => {
        fn next_due(&self) -> Option<linecard::time::Instant> {
            self.$field.next_due()
        }
    };
}
pub(crate) use left_to;

impl<S: Buffers> LivePort<S::Buffer> for Tap<S> {
    fn large_packets(&self) -> LargePackets {
        let has = |bit| self.offloads() & bit != 0;
        LargePackets::NONE
            .with(LargePackets::TCP4, has(libc::TUN_F_TSO4))
            .with(LargePackets::TCP6, has(libc::TUN_F_TSO6))
            .with(LargePackets::UDP, has(libc::TUN_F_USO4))
            .with(LargePackets::IN_TUNNELS, self.format() == Format::Tunnel)
    }

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
    fn large_packets(&self) -> LargePackets {
        // Its headers cannot describe tunnels.
        const PLAIN: LargePackets = LargePackets::NONE
            .with(LargePackets::TCP4, true)
            .with(LargePackets::TCP6, true)
            .with(LargePackets::UDP, true);
        LargePackets::NONE.with(PLAIN, self.offloads())
    }

    fn is_crowded(&self) -> Option<bool> {
        Self::is_crowded(self)
    }

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
    fn large_packets(&self) -> LargePackets {
        (**self).large_packets()
    }

    fn is_crowded(&self) -> Option<bool> {
        (**self).is_crowded()
    }

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
