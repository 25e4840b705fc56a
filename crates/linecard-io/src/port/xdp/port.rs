//! The port: one socket, its memory, and the order of work in both directions.

use super::super::LivePort;
use super::super::progress::Progress;
use super::config::Config;
use super::counters::{Counters, KernelCounters};
use super::error::XdpError;
use super::program::{Attachment, MAX_QUEUES, Mode};
use super::settle::settle;
use super::socket::{Binding, Socket, Unbound};
use super::sys;
use super::umem::{Umem, XdpBuffer};
use crate::port;
use linecard::packet::{Batch, LinkType};
use linecard::port::{Port, PortState};
use linecard::time::Instant;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixDatagram;
use std::rc::Rc;
use std::time::Duration;

/// How often a port that receives nothing asks whether its interface is still there: at every
/// so-manieth call,
const IDLE_CALLS: u32 = 256;
/// and when so much of the caller's time has passed.
const IDLE_NS: u64 = 10_000_000;

/// How often a port that sends asks for the MTU of its interface.
const MTU_NS: u64 = 10_000_000;

/// A port to one queue of an interface by AF_XDP.
///
/// What is received stays in the frame that the kernel put it in: the buffers of packets are those
/// frames ([`XdpBuffer`]), and come back to the port when they are dropped. Packets of any buffer
/// can be sent; those that lie in a frame of this port are not copied for that. Ports of other kinds
/// take part where the buffers of a batch are of another type, which is made of such frames
/// ([`Buffer`](super::super::Buffer)).
///
/// A port stays on the thread that opened it, as its buffers do. Once it is open, nothing blocks but
/// [`XdpPort::wait`]. A port that is dropped sends no more what is still in its TX ring: see
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
    /// How far it came with a large packet whose segments did not all have room.
    pub(super) progress: Progress,
    /// What was counted before the first segment of a packet that is half cut.
    pub(super) before_cut: Option<Counters>,
    /// Frames of a long packet whose last one has not come yet.
    pub(super) parts: Vec<XdpBuffer>,
    /// Whether long packets stay in pieces.
    pub(super) gather: bool,
    /// The rest of a long packet is to be thrown away.
    pub(super) skipping: bool,
    /// Frames that the kernel has to fill or has filled.
    pub(super) filling: u32,
    /// Frames that the kernel has to send or has sent.
    pub(super) sending: u32,
    /// Bytes of the longest packet that the interface sends, when last asked.
    pub(super) longest: usize,
    /// When that was.
    pub(super) asked: Instant,
    /// By which the kernel is asked about the interface; AF_XDP sockets cannot do that.
    asking: UnixDatagram,
    idle_calls: u32,
    looked: Instant,
    pub(super) ended: bool,
}

impl XdpPort {
    /// Opens the port to a queue, 0 … [`MAX_QUEUES`] − 1, of the interface of an attachment, in its
    /// network namespace. Tries for half a second while another socket has the queue: one that was
    /// closed keeps it for some milliseconds.
    ///
    /// # Errors
    ///
    /// [`XdpError::Config`], [`XdpError::Permission`], [`XdpError::Unsupported`],
    /// [`XdpError::PinnedMemory`]; [`XdpError::QueueTaken`] when another socket has the queue;
    /// [`XdpError::Bind`], most often because there is no such queue; [`XdpError::System`].
    pub fn open(attachment: &Attachment, queue: u32, config: &Config) -> Result<Self, XdpError> {
        config.check()?;
        if queue >= MAX_QUEUES {
            let (what, wanted) = ("queue", "0 to 1,023");
            return Err(XdpError::Config { what, value: queue.into(), wanted });
        }
        let umem = Umem::new(config.frames(), config.frame_len.bytes())
            .map_err(|source| XdpError::System { what: "take memory for the port", source })?;
        let mut socket = Socket::new(&umem, config)?;
        // The general path hands over copies; a driver that works without needs its own hook.
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
            parts: Vec::new(),
            gather: config.gather,
            skipping: false,
            filling: 0,
            sending: 0,
            idle_calls: 0,
            looked: Instant::ZERO,
            ended: false,
        };
        port.refill();
        // The first packet can come now: there is a frame for it.
        attachment.redirect(queue, port.socket.as_fd())?;
        Ok(port)
    }

    /// What has been counted so far, in the words of AF_XDP; in those of all ports by
    /// [`LivePort::counters`](super::super::LivePort::counters).
    #[must_use]
    pub fn detailed_counters(&self) -> Counters {
        self.counters
    }

    /// What the kernel has counted so far, mostly drops.
    ///
    /// # Errors
    ///
    /// [`XdpError::System`] when the kernel does not answer.
    pub fn kernel_counters(&self) -> Result<KernelCounters, XdpError> {
        sys::statistics(self.socket.as_fd())
            .map(KernelCounters::from)
            .map_err(|source| XdpError::System { what: "read the socket's counters", source })
    }

    /// How the port works with the driver.
    #[must_use]
    pub fn binding(&self) -> Binding {
        self.socket.binding
    }

    /// The attachment it receives by.
    #[must_use]
    pub fn attachment(&self) -> &Attachment {
        &self.attachment
    }

    /// The queue it is bound to.
    #[must_use]
    pub fn queue(&self) -> u32 {
        self.queue
    }

    /// Where the frames are now. Looks at each of them: not for every batch.
    #[must_use]
    pub fn frames(&self) -> Frames {
        Frames {
            free: self.umem.free(),
            receiving: self.filling as usize,
            sending: self.sending as usize,
            in_buffers: self.umem.in_buffers(),
        }
    }

    /// A free frame as a buffer of `len` bytes of old content, to be written and sent without a
    /// copy. None when none is free, or when `len` is beyond the length of a frame.
    #[must_use]
    pub fn buffer(&self, len: usize) -> Option<XdpBuffer> {
        self.umem.buffer(len)
    }

    /// Waits until something can be received, at most `time`; whether it can. Sends nothing and receives nothing.
    ///
    /// # Errors
    ///
    /// [`XdpError::System`] when the kernel does not answer.
    pub fn wait(&self, time: Duration) -> Result<bool, XdpError> {
        port::wait(&[self.socket.as_fd()], time)
            .map_err(|source| XdpError::System { what: "wait for packets", source })
    }

    /// Asks for the MTU again when that was some time ago: it may have become smaller, and the kernel
    /// takes frames that are longer and loses them.
    pub(super) fn look_after_mtu(&mut self, now: Instant) {
        if now.ns_since(self.asked) >= MTU_NS {
            self.asked = now;
            self.ask_mtu();
        }
    }

    /// Asks for the MTU again.
    pub(super) fn ask_mtu(&mut self) {
        // While the kernel does not answer, the old value stays.
        if let Ok(longest) = longest(&self.asking, self.attachment.number()) {
            self.longest = longest;
        }
    }

    /// Looks now and then whether the interface is still there: a port whose interface was removed
    /// would wait for ever.
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
    /// Takes what the kernel has put into frames. Ended when the interface was removed, or moved to
    /// another namespace, and everything it received was taken; that is looked for every 10 ms of
    /// `now`, or every 256 calls that receive nothing.
    fn receive(&mut self, batch: &mut Batch<B>, now: Instant) -> PortState {
        let came = self.take_received(batch, now);
        self.reclaim();
        self.refill();
        if self.socket.tx.pending() > 0 {
            self.wake_to_send();
        }
        if !came && batch.room() > 0 {
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
    fn link(&self) -> Option<LinkType> {
        Some(LinkType::Ethernet)
    }

    /// Not readable when the interface is removed, which receiving finds out: wait for some
    /// milliseconds at a time.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.as_fd())
    }

    fn counters(&mut self) -> super::super::Counters {
        let kernel = self.kernel_counters().unwrap_or_default();
        self.counters.told(&kernel, self.ended)
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
    /// The socket, to wait for several at once (`poll`, `epoll`). Nothing else should be done with
    /// it.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Where the frames of a port are: together, all that it was configured with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frames {
    /// With nobody.
    pub free: usize,
    /// With the kernel, to receive into, and received but not taken yet.
    pub receiving: usize,
    /// With the kernel, to send, and sent but not taken back yet.
    pub sending: usize,
    /// With buffers. Those that are being sent meanwhile count twice.
    pub in_buffers: usize,
}
