//! The port: one socket, its memory, and the processing in both directions.

use super::super::LivePort;
use super::config::Config;
use super::counters::{Counters, KernelCounters};
use super::error::XdpError;
use super::program::{Attachment, MAX_QUEUES, Mode};
use super::receive::{Arrivals, Assembly, REFILL};
use super::settle::settle;
use super::socket::{Binding, Socket, Unbound};
use super::sys;
use super::umem::{Umem, XdpBuffer};
use linecard::offload::coalesce::LargePackets;
use linecard::packet::{Batch, LinkType};
use linecard::port::{Port, PortState};
use linecard::time::Instant;
use linecard_tun::egress::Progress;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixDatagram;
use std::rc::Rc;
use std::time::Duration;

/// How often a port that receives nothing checks whether its interface still exists: once per this
/// many calls,
const IDLE_CALLS: u32 = 256;
/// and once per this much of the caller's time.
const IDLE_NS: u64 = 10_000_000;

/// Received packets that wait from which the port is crowded: two batches. Some 200,000 packets a second are received
/// where none merge, so that they wait for half a millisecond.
const CROWDED: u32 = 128;

/// Interval at which a sending port queries the MTU of its interface.
const MTU_NS: u64 = 10_000_000;

/// A port to one queue of an interface by AF_XDP.
/// Received packets stay in the frame into which the kernel wrote them: the buffers of packets are
/// those frames ([`XdpBuffer`]), and are returned to the port on drop. Packets of any buffer can be
/// sent; those in a frame of this port are sent without a copy. Ports of other kinds can be
/// connected if the buffer type of a batch can be made of such frames
/// ([`Buffer`](super::super::Buffer)).
///
/// A port stays on the thread that opened it, as its buffers do. Once it is open, nothing blocks
/// but [`XdpPort::wait`]. Dropping a port discards packets still in its TX ring: see
/// [`Frames::sending`].
///
/// ```no_run
/// use linecard::packet::Batch;
/// use linecard::port::{Port, PortState};
/// use linecard::time::Instant;
/// use linecard_io::port::xdp::{Attachment, Config, XdpBuffer, XdpPort};
///
/// let attachment = Attachment::new("eth0")?;
/// let mut port = XdpPort::open(&attachment, 0, &Config::default())?;
/// let start = std::time::Instant::now();
/// let mut batch: Batch<XdpBuffer> = Batch::new();
/// loop {
///     let now = Instant::from_ns(start.elapsed().as_nanos() as u64);
///     if port.receive(&mut batch, now) == PortState::Ended {
///         break;
///     }
///     // Back where it came from, without a copy of ours.
///     port.transmit(&mut batch, now);
/// }
/// # Ok::<(), linecard_io::port::xdp::XdpError>(())
/// ```
pub struct XdpPort {
    pub(super) socket: Socket,
    pub(super) umem: Rc<Umem>,
    attachment: Attachment,
    queue: u32,
    pub(super) counters: Counters,
    /// The position in a large packet of which not all segments had room.
    pub(super) progress: Progress,
    /// Counters before the first segment of a partly segmented packet.
    pub(super) before_cut: Option<Counters>,
    pub(super) assembly: Assembly,
    /// Whether long packets stay in pieces.
    pub(super) gather: bool,
    /// Whether checksums that were left open are looked for.
    pub(super) open_checksums: bool,
    /// Frames that the kernel is to fill or has filled.
    pub(super) filling: u32,
    /// When those were filled that wait in the ring.
    pub(super) arrivals: Arrivals,
    /// Frames that the kernel is to send or has sent.
    pub(super) sending: u32,
    /// Bytes of the longest packet that the interface sends, when last queried.
    pub(super) longest: usize,
    /// When it was last queried.
    pub(super) asked: Instant,
    /// A socket for queries about the interface, which AF_XDP sockets do not support.
    asking: UnixDatagram,
    idle_calls: u32,
    looked: Instant,
    pub(super) ended: bool,
    /// Slots of the RX ring.
    rx_slots: u32,
}

impl XdpPort {
    /// Opens the port of a queue, 0 … [`MAX_QUEUES`] − 1, of the attachment's interface, in its
    /// network namespace. Retries for half a second if another socket has the queue, because a
    /// closed socket keeps it for some milliseconds.
    ///
    /// # Errors
    ///
    /// [`XdpError::Config`], [`XdpError::Permission`], [`XdpError::Unsupported`],
    /// [`XdpError::PinnedMemory`]; [`XdpError::QueueTaken`] when another socket has the queue;
    /// [`XdpError::Bind`], most often because the queue does not exist; [`XdpError::System`].
    pub fn open(attachment: &Attachment, queue: u32, config: &Config) -> Result<Self, XdpError> {
        config.check()?;
        if queue >= MAX_QUEUES {
            let (what, wanted) = ("queue", "0 to 1,023");
            return Err(XdpError::Config { what, value: queue.into(), wanted });
        }
        let umem = Umem::new(config.frames(), config.frame_len.bytes())
            .map_err(|source| XdpError::System { what: "take memory for the port", source })?;
        let mut socket = Socket::new(&umem, config)?;
        // The general path delivers copies; a driver in zero-copy mode requires its own hook.
        let zero_copy = config.zero_copy && attachment.mode() == Mode::Native;
        let allowed = |binding: &Binding| {
            (zero_copy || !binding.zero_copy) && (config.multi_buffer || !binding.multi_buffer)
        };
        let interface = attachment.number();
        settle(|| {
            socket.bind(interface, queue, allowed).map_err(|Unbound(source)| {
                let interface = attachment.interface().to_owned();
                match source.raw_os_error() {
                    Some(libc::EBUSY) => XdpError::QueueTaken { interface, queue },
                    Some(libc::ENODEV) => XdpError::NoInterface { interface },
                    _ => XdpError::Bind { interface, queue, source },
                }
            })
        })?;
        let asking = UnixDatagram::unbound();
        let failed = |source| XdpError::System { what: "ask for the interface's MTU", source };
        let asking = asking.map_err(failed)?;
        let longest = longest(&asking, interface).map_err(failed)?;
        let mut port = Self {
            longest,
            asked: Instant::ZERO,
            asking,
            socket,
            umem,
            attachment: attachment.clone(),
            queue,
            counters: Counters::default(),
            progress: Progress::default(),
            before_cut: None,
            assembly: Assembly::default(),
            gather: config.gather,
            open_checksums: config.open_checksums,
            filling: 0,
            arrivals: Arrivals::of_ring(config.rx_slots),
            sending: 0,
            idle_calls: 0,
            looked: Instant::ZERO,
            ended: false,
            rx_slots: config.rx_slots,
        };
        // All of the ring: the first burst may be as long.
        (0..config.rx_slots.div_ceil(REFILL)).for_each(|_| port.refill());
        // Packets can arrive from now on: there are frames for them.
        attachment.redirect(queue, port.socket.as_fd())?;
        Ok(port)
    }

    /// The counters so far, in the terms of AF_XDP; in those of all ports by
    /// [`LivePort::counters`](super::super::LivePort::counters).
    #[must_use]
    pub fn detailed_counters(&self) -> Counters {
        self.counters
    }

    /// The kernel's counters so far, mostly drops.
    ///
    /// # Errors
    ///
    /// [`XdpError::System`] when the kernel does not answer.
    pub fn kernel_counters(&self) -> Result<KernelCounters, XdpError> {
        sys::statistics(self.socket.as_fd())
            .map(KernelCounters::from)
            .map_err(|source| XdpError::System { what: "read the socket's counters", source })
    }

    /// The modes in use with the driver.
    #[must_use]
    pub fn binding(&self) -> Binding {
        self.socket.binding
    }

    /// The attachment that it receives from.
    #[must_use]
    pub fn attachment(&self) -> &Attachment {
        &self.attachment
    }

    /// The queue it is bound to.
    #[must_use]
    pub fn queue(&self) -> u32 {
        self.queue
    }

    /// Where the frames are. Visits every frame: not to be called per batch.
    #[must_use]
    pub fn frames(&self) -> Frames {
        Frames {
            free: self.umem.free(),
            receiving: self.filling as usize,
            sending: self.sending as usize,
            in_buffers: self.umem.in_buffers(),
        }
    }

    /// A free frame as a buffer of `len` bytes with arbitrary contents, to be written and sent
    /// without a copy. None if no frame is free, or `len` exceeds the length of a frame.
    #[must_use]
    pub fn buffer(&self, len: usize) -> Option<XdpBuffer> {
        self.umem.buffer(len)
    }

    /// Waits until something can be received, for at most `time`; returns whether it can. Neither
    /// sends nor receives.
    ///
    /// # Errors
    ///
    /// [`XdpError::System`] when the kernel does not answer.
    pub fn wait(&self, time: Duration) -> Result<bool, XdpError> {
        linecard_tun::wait(&[self.socket.as_fd()], time)
            .map_err(|source| XdpError::System { what: "wait for packets", source })
    }

    /// Queries the MTU again after some time: it may have been reduced, and the kernel accepts
    /// longer frames and loses them.
    pub(super) fn look_after_mtu(&mut self, now: Instant) {
        if now.ns_since(self.asked) >= MTU_NS {
            self.asked = now;
            self.ask_mtu();
        }
    }

    /// Asks for the MTU again.
    pub(super) fn ask_mtu(&mut self) {
        // If the kernel does not answer, the old value stays.
        if let Ok(longest) = longest(&self.asking, self.attachment.number()) {
            self.longest = longest;
        }
    }

    /// Checks regularly whether the interface still exists: a port of a removed interface would
    /// wait forever.
    fn look_after(&mut self, now: Instant) {
        self.idle_calls += 1;
        if self.idle_calls < IDLE_CALLS && now.ns_since(self.looked) < IDLE_NS {
            return;
        }
        (self.idle_calls, self.looked) = (0, now);
        if sys::take_error(self.socket.as_fd()).is_ok_and(|error| error != 0) {
            self.ended = true;
        }
    }
}

/// Bytes of the longest packet that the interface sends, from the Ethernet header on.
fn longest(asking: &UnixDatagram, interface: u32) -> io::Result<usize> {
    /// Header and two VLAN tags, which the MTU does not count.
    const LINK_HEADERS: usize = 14 + 2 * 4;
    Ok(sys::mtu(asking.as_fd(), interface)?.saturating_add(LINK_HEADERS))
}

impl<B: From<XdpBuffer> + AsRef<[u8]> + AsMut<[u8]>> Port<B> for XdpPort {
    /// Receives frames that the kernel has filled. Ended once the interface was removed or moved to
    /// another namespace, and all its packets were received; this is checked every 10 ms of `now`,
    /// or every 256 calls without packets.
    fn receive(&mut self, batch: &mut Batch<B>, now: Instant) -> PortState {
        let came = self.take_received(batch, now);
        self.reclaim();
        // As many as were taken: a large packet has many.
        (0..came.div_ceil(REFILL).max(1)).for_each(|_| self.refill());
        if self.socket.tx.pending() > 0 {
            self.wake_to_send();
        }
        if came == 0 && batch.room() > 0 {
            if self.ended {
                return PortState::Ended;
            }
            self.look_after(now);
        }
        PortState::Open
    }

    /// See [`XdpPort::send`].
    fn transmit(&mut self, batch: &mut Batch<B>, now: Instant) {
        self.send(batch, now);
    }
}

impl<B: From<XdpBuffer> + AsRef<[u8]> + AsMut<[u8]>> LivePort<B> for XdpPort {
    fn large_packets(&self) -> LargePackets {
        LargePackets::NONE
    }

    fn is_crowded(&self) -> Option<bool> {
        Some(self.socket.rx.waiting() >= CROWDED.min(self.rx_slots / 4))
    }

    fn link(&self) -> Option<LinkType> {
        Some(LinkType::Ethernet)
    }

    /// Not readable when the interface is removed, which only receiving detects: wait for some
    /// milliseconds at a time.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.as_fd())
    }

    fn counters(&mut self) -> linecard_tun::Counters {
        let kernel = self.kernel_counters().unwrap_or_default();
        self.counters.told(&kernel, (self.ended, self.binding().zero_copy))
    }
}

impl fmt::Debug for XdpPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("XdpPort")
            .field("interface", &self.attachment.interface())
            .field("queue", &self.queue)
            .field("binding", &self.socket.binding)
            .field("frames", &self.frames())
            .field("counters", &self.counters)
            .finish_non_exhaustive()
    }
}

impl AsFd for XdpPort {
    /// The socket, for waiting on several at once (`poll`, `epoll`); not for any other use.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Where the frames of a port are; their sum is the configured number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frames {
    /// In the free list.
    pub free: usize,
    /// At the kernel, to receive into, or received but not processed yet.
    pub receiving: usize,
    /// At the kernel, to be sent, or sent but not reclaimed yet.
    pub sending: usize,
    /// In buffers. Those being sent meanwhile count twice.
    pub in_buffers: usize,
}
