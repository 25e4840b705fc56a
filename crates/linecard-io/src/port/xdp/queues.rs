//! Several queues of an interface as one port.

use super::super::LivePort;
use super::config::{Config, SLOTS};
use super::error::XdpError;
use super::port::XdpPort;
use super::program::Attachment;
use super::umem::XdpBuffer;
use linecard::offload::coalesce::LargePackets;
use linecard::packet::{Batch, LinkType};
use linecard::port::{Port, PortState};
use linecard::time::Instant;
use linecard_tun::Counters;
use rustix::event::epoll;
use std::iter;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Ports to several queues of an interface, as one port: it receives from each in turn, and sends by the first.
///
/// An adapter distributes flows over its queues; with it, one thread may serve several.
///
/// ```no_run
/// use linecard_io::port::xdp::{Attachment, Config, XdpQueues};
///
/// let attachment = Attachment::new("eth0")?;
/// let port = XdpQueues::open(&attachment, [0, 1], &Config::default())?;
/// assert_eq!(port.ports().len(), 2);
/// # Ok::<(), linecard_io::port::xdp::XdpError>(())
/// ```
#[derive(Debug)]
pub struct XdpQueues {
    ports: Vec<XdpPort>,
    /// The one that is received from first next time.
    next: usize,
    /// Readable if one of them is.
    any: OwnedFd,
}

impl XdpQueues {
    /// Opens a port, as configured, to each of these queues; all but the first have the smallest rings for sending.
    /// Without any queue it has ended from the beginning, and takes nothing.
    ///
    /// # Errors
    ///
    /// As [`XdpPort::open`], and [`XdpError::System`] without a descriptor for all of them.
    pub fn open(
        attachment: &Attachment,
        queues: impl IntoIterator<Item = u32>,
        config: &Config,
    ) -> Result<Self, XdpError> {
        let receiving = Config { tx_slots: *SLOTS.start(), ..*config };
        let configs = iter::once(config).chain(iter::repeat(&receiving));
        let open = |(queue, config)| XdpPort::open(attachment, queue, config);
        let ports = queues.into_iter().zip(configs).map(open).collect::<Result<Vec<_>, _>>()?;
        let watch = || {
            let any = epoll::create(epoll::CreateFlags::CLOEXEC)?;
            for port in &ports {
                epoll::add(
                    &any,
                    port.as_fd(),
                    epoll::EventData::new_u64(0),
                    epoll::EventFlags::IN,
                )?;
            }
            Ok(any)
        };
        let any = watch().map_err(|source: rustix::io::Errno| XdpError::System {
            what: "wait for several queues",
            source: source.into(),
        })?;
        Ok(Self { ports, next: 0, any })
    }

    /// The port to each queue.
    #[must_use]
    pub fn ports(&self) -> &[XdpPort] {
        &self.ports
    }
}

impl<B: From<XdpBuffer> + AsRef<[u8]> + AsMut<[u8]>> Port<B> for XdpQueues {
    /// Ended once all queues have: those of an interface end together.
    fn receive(&mut self, batch: &mut Batch<B>, now: Instant) -> PortState {
        let (begin, count) = (self.next, self.ports.len());
        let mut state = PortState::Ended;
        // Those without room look after their frames.
        for at in (begin..count).chain(0..begin) {
            let has_room = batch.room() > 0;
            if self.ports[at].receive(batch, now) == PortState::Open {
                state = PortState::Open;
            }
            if has_room && batch.room() == 0 {
                self.next = (at + 1) % count;
            }
        }
        state
    }

    fn transmit(&mut self, batch: &mut Batch<B>, now: Instant) {
        if let Some(port) = self.ports.first_mut() {
            port.transmit(batch, now);
        }
    }
}

impl<B: From<XdpBuffer> + AsRef<[u8]> + AsMut<[u8]>> LivePort<B> for XdpQueues {
    fn large_packets(&self) -> LargePackets {
        LargePackets::NONE
    }

    fn is_crowded(&self) -> Option<bool> {
        Some(self.ports.iter().any(|port| LivePort::<B>::is_crowded(port) == Some(true)))
    }

    fn link(&self) -> Option<LinkType> {
        Some(LinkType::Ethernet)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.any.as_fd())
    }

    fn counters(&mut self) -> Counters {
        let counters = self.ports.iter_mut().map(LivePort::<B>::counters);
        let mut sum = counters.fold(Counters::default(), |sum, port| sum.plus(&port));
        // They are of one interface.
        sum.gone = sum.gone.min(1);
        sum
    }
}
