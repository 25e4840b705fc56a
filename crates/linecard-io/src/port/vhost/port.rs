//! The port of a thread: some queue pairs of a device.

use super::super::LivePort;
use super::device::Device;
use super::error::VhostError;
use super::link::{Link, Source};
use super::receive::{MIN_FRAME, Taken};
use super::ring::{Broken, KICK, Part, Ring, View};
use super::send::{Lists, Put};
use linecard::offload::coalesce::LargePackets;
use linecard::offload::virtio::{Format, Header};
use linecard::packet::{Batch, LinkType, Meta, Packet, RSS_KEY_LEN, Toeplitz};
use linecard::port::{Port, PortState};
use linecard::time::Instant;
use linecard_tun::egress::{self, HeaderBytes, Segmenter, describe};
use linecard_tun::{BUFFER_LEN, Buffers, Counters, Drops, ingress};
use rustix::event::{Timespec, epoll};
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::iter;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// Queue pairs of a device: a driver asks for no more than its guest has cores.
pub const MAX_PAIRS: usize = 64;
/// Calls of `receive` after which messages of the front end are looked for although packets arrive.
const CALLS: u32 = 64;
/// Events taken from a poller at a time: one of the socket, and kicks.
const EVENTS: usize = 32;
/// When a ring is looked at again in which something was left, for lack of buffers for example.
const AGAIN_NS: u64 = 50_000;
/// How long packets wait for a guest that provides no buffers: a guest that is paused must not hold
/// up the other port for longer.
const STALL_NS: u64 = 1_000_000_000;

/// Parameters of a device.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct VhostConfig {
    /// The socket.
    pub path: PathBuf,
    /// Whether the front end listens there, and this process connects.
    pub client: bool,
    /// Whether the port ends when its front end leaves. Default: it waits for the next one.
    pub once: bool,
    /// Whether the guest exchanges large packets and partial checksums. Default: yes.
    pub offloads: bool,
    /// Queue pairs that are offered, 1 to 64.
    pub pairs: usize,
    /// Ports that share the pairs, on a thread each.
    pub workers: usize,
}

impl VhostConfig {
    /// A server at this path with one queue pair.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        let (client, once, offloads) = (false, false, true);
        Self { path: path.into(), client, once, offloads, pairs: 1, workers: 1 }
    }
}

/// A network card of a virtual machine: see the [module](self::super).
///
/// ```no_run
/// use linecard::packet::{Batch, Pool};
/// use linecard::port::Port;
/// use linecard::time::Instant;
/// use linecard_io::port::vhost::{VhostConfig, VhostDevice, VhostPort};
/// use linecard_tun::BUFFER_LEN;
///
/// let device = VhostDevice::open(&VhostConfig::new("/run/vm1.sock"))?;
/// let mut port = VhostPort::open(&device, 0, Pool::new(128, BUFFER_LEN))?;
/// let mut batch = Batch::new();
/// port.receive(&mut batch, Instant::ZERO);
/// # Ok::<(), linecard_io::port::vhost::VhostError>(())
/// ```
#[derive(Debug, Clone)]
pub struct VhostDevice {
    config: VhostConfig,
    device: Arc<Device>,
    /// Until the port of the first worker takes it.
    source: Arc<Mutex<Option<Source>>>,
}

impl VhostDevice {
    /// Listens at the socket, which only this user may connect to; replaces one without a listener. It is removed when
    /// the last port is dropped.
    ///
    /// # Errors
    ///
    /// If another process listens, the file is not a socket, or the system refuses it.
    pub fn open(config: &VhostConfig) -> Result<Self, VhostError> {
        let settings = [("queues", config.pairs), ("workers", config.workers)];
        for (what, value) in settings {
            if !(1..=MAX_PAIRS).contains(&value) {
                return Err(VhostError::Setting { what, value, range: "1 to 64" });
            }
        }
        let poller = || epoll::create(epoll::CreateFlags::CLOEXEC).map(Arc::new);
        let pollers = (0..config.workers).map(|_| poller()).collect::<Result<_, _>>();
        let pollers = pollers.map_err(|error| VhostError::System {
            doing: "wait at",
            path: config.path.clone(),
            source: error.into(),
        })?;
        let source = match config.client {
            true => Source::Client(config.path.clone()),
            false => Source::server(&config.path)?,
        };
        let device = Arc::new(Device::new(config.pairs, config.offloads, pollers));
        let source = Arc::new(Mutex::new(Some(source)));
        Ok(Self { config: config.clone(), device, source })
    }

    /// Whether the guest is offered large packets and partial checksums.
    #[must_use]
    pub fn offloads(&self) -> bool {
        self.config.offloads
    }

    /// Queue pairs that are offered.
    #[must_use]
    pub fn pairs(&self) -> usize {
        self.config.pairs
    }
}

/// Some queue pairs of a [`VhostDevice`], which receives into buffers of `S`.
///
/// The port of worker 0 also serves the front end, so it has to be called for anything to happen.
///
/// **Receive.** Frames whose descriptors or virtio header make no sense are dropped
/// ([`Drops::bad_descriptors`], [`Drops::bad_header`]).
///
/// **Transmit.** Large packets are given whole if the guest accepts them, otherwise segmented.
/// Packets for which the guest has no buffers stay in the batch, but not for more than a second;
/// without a guest, they are dropped ([`Drops::refused`]). A packet left in the batch has to stay
/// its first packet.
pub struct VhostPort<S: Buffers> {
    device: Arc<Device>,
    poller: Arc<OwnedFd>,
    worker: usize,
    link: Option<Link>,
    pool: S,
    /// A buffer that was taken for a frame that did not arrive.
    spare: Option<S::Buffer>,
    parts: Vec<Part>,
    lists: Lists,
    segmenter: Segmenter,
    /// Drop counters before the first segment of a partly segmented packet.
    before_cut: Option<Drops>,
    events: Vec<epoll::Event>,
    /// Spreads flows over the pairs of this worker.
    toeplitz: Toeplitz,
    /// The pair that is looked at first.
    first: usize,
    calls: u32,
    /// Whether nothing was received last.
    is_idle: bool,
    /// When to look again, if something was left in a ring.
    again: Option<Instant>,
    /// Since when the guest has provided no buffers.
    blocked: Option<Instant>,
    counters: Counters,
}

impl<S: Buffers> VhostPort<S> {
    /// The port of a worker, of which each has one. Buffers of the pool need [`BUFFER_LEN`] bytes
    /// with offloads.
    ///
    /// # Errors
    ///
    /// If the worker does not exist, buffers are too short, or the system refuses it.
    pub fn open(device: &VhostDevice, worker: usize, pool: S) -> Result<Self, VhostError> {
        if device.config.offloads && pool.buffer_len() < BUFFER_LEN {
            let (what, value) = ("bytes of buffers", pool.buffer_len());
            return Err(VhostError::Setting { what, value, range: "65,600 or more" });
        }
        if worker >= device.config.workers {
            let (what, value) = ("number of the worker", worker);
            return Err(VhostError::Setting { what, value, range: "a smaller one" });
        }
        let mut source = device.source.lock().unwrap_or_else(PoisonError::into_inner);
        let source = if worker == 0 { source.take() } else { None };
        let (shared, once) = (Arc::clone(&device.device), device.config.once);
        let link = source.map(|source| Link::new(source, Arc::clone(&shared), once)).transpose();
        let link = link.map_err(|source| VhostError::System {
            doing: "wait at",
            path: device.config.path.clone(),
            source,
        })?;
        Ok(Self {
            poller: Arc::clone(shared.poller(worker)),
            device: shared,
            worker,
            link,
            pool,
            spare: None,
            parts: Vec::new(),
            lists: Lists::default(),
            segmenter: Segmenter::default(),
            before_cut: None,
            events: Vec::with_capacity(EVENTS),
            toeplitz: Toeplitz::new(&key()),
            first: 0,
            calls: 0,
            is_idle: true,
            again: None,
            blocked: None,
            counters: Counters::default(),
        })
    }

    /// The counters so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Whether the guest takes packets.
    #[must_use]
    pub fn has_guest(&self) -> bool {
        self.device.active() > 0
    }

    /// Takes the events that woke the thread, before it looks at rings: what happens afterwards
    /// wakes it again. Serves the front end.
    fn poll(&mut self, now: Instant) {
        self.events.clear();
        let events = rustix::buffer::spare_capacity(&mut self.events);
        let _none = epoll::wait(&*self.poller, events, Some(&Timespec::default()));
        let is_called = self.events.iter().any(|event| event.data.u64() != KICK);
        if let Some(link) = &mut self.link {
            if is_called || link.next_due().is_some_and(|due| due <= now) {
                link.serve(now);
            }
            self.counters.gone = link.has_ended().into();
        }
    }

    /// Receives from a pair; whether nothing is left there.
    fn receive_from(&mut self, pair: usize, batch: &mut Batch<S::Buffer>, now: Instant) -> bool {
        let device = Arc::clone(&self.device);
        let mut ring = device.transmit_queue(pair);
        let Some(memory) = ring.running() else { return true };
        let all = ring.view(&memory).and_then(|mut view| {
            let all = match ring.is_enabled() {
                true => self.take_all(&mut ring, &mut view, batch, now),
                false => discard(&mut ring, &mut view, &mut self.parts, batch.room()),
            };
            ring.publish(&view).and(all)
        });
        all.unwrap_or_else(|Broken| {
            self.counters.dropped.bad_descriptors += 1;
            ring.fail();
            true
        })
    }

    fn take_all(
        &mut self,
        ring: &mut Ring,
        view: &mut View<'_>,
        batch: &mut Batch<S::Buffer>,
        now: Instant,
    ) -> Result<bool, Broken> {
        ring.prefetch(view, batch.room(), false)?;
        let (format, endian) = ring.features().virtio();
        // As many attempts as there is room: dropped frames count too.
        for attempt in 0..batch.room() {
            let Some(mut buffer) = self.spare.take().or_else(|| self.pool.take()) else {
                self.counters.no_buffer += 1;
                return Ok(false);
            };
            let mut header = [0; Format::MAX_LEN];
            let len = match ring.take(view, &mut header, buffer.as_mut(), &mut self.parts)? {
                Taken::Frame(len) => len,
                other => {
                    self.spare = Some(buffer);
                    match other {
                        Taken::Malformed => self.counters.dropped.bad_descriptors += 1,
                        Taken::TooLong => self.counters.dropped.too_long += 1,
                        _ => return Ok(attempt == 0 && !ring.rest(view)?),
                    }
                    continue;
                }
            };
            ring.decline_kicks(view)?;
            S::truncate(&mut buffer, len);
            // Made where it is used: a copy of fields just written waits until they are in the cache.
            let meta = || Meta { timestamp: now, ..Meta::default() };
            // Most say nothing.
            if header[..2] == [0; 2] {
                self.counters.count_received(len);
                let _fits = batch.push(Packet::new(buffer, LinkType::Ethernet, meta()));
                continue;
            }
            let header = Header::read(&header, format, endian).unwrap_or_default();
            match ingress::packet(&header, buffer, LinkType::Ethernet, meta()) {
                Ok(packet) => {
                    self.counters.count_received(len);
                    let _fits = batch.push(packet);
                }
                Err(_) => self.counters.dropped.bad_header += 1,
            }
        }
        Ok(false)
    }

    /// The pair for a packet, if the guest takes any: always the same for a flow, and one of this
    /// worker, if it has any that the guest uses.
    fn pair(&self, packet: &Packet<S::Buffer>) -> Option<usize> {
        let (active, workers) = (self.device.active(), self.device.workers());
        let own = active.saturating_sub(self.worker);
        // Of one worker, all are its own, which saves a division.
        match if workers == 1 { own } else { own.div_ceil(workers) } {
            0 if active == 0 => None,
            0 => Some(self.worker % active),
            1 => Some(self.worker),
            // 32 bits always fit.
            own => Some(self.worker + workers * (self.toeplitz.of(packet) as usize % own)),
        }
    }

    /// Sends the packets at the front that belong to a pair; false if the guest has no room for one
    /// of them.
    fn send_to(&mut self, pair: usize, batch: &mut Batch<S::Buffer>) -> bool {
        let device = Arc::clone(&self.device);
        let mut ring = device.receive_queue(pair);
        let sent = match ring.running() {
            Some(memory) => ring.view(&memory).and_then(|mut view| {
                ring.prefetch(&mut view, batch.len(), true)?;
                self.send_all(pair, &mut ring, &mut view, batch)
            }),
            None => Err(Broken),
        };
        sent.unwrap_or_else(|Broken| {
            ring.fail();
            drop(ring);
            device.count_active();
            self.refuse(batch);
            true
        })
    }

    fn send_all(
        &mut self,
        pair: usize,
        ring: &mut Ring,
        view: &mut View<'_>,
        batch: &mut Batch<S::Buffer>,
    ) -> Result<bool, Broken> {
        let is_taken = loop {
            let Some(packet) = batch.iter_mut().next() else { break true };
            if self.pair(packet) != Some(pair) {
                break true;
            }
            if !self.send(ring, view, packet)? {
                break false;
            }
            batch.pop();
            self.blocked = None;
        };
        ring.publish(view)?;
        Ok(is_taken)
    }

    /// Drops the first packet, of which segments may have been sent.
    fn refuse(&mut self, batch: &mut Batch<S::Buffer>) {
        if let Some(before) = self.before_cut.take() {
            self.segmenter = Segmenter::default();
            self.counters.dropped = before;
        }
        self.counters.dropped.refused += u64::from(batch.pop().is_some());
    }

    /// Sends a packet, whole or segmented; false if the guest has no room.
    fn send(
        &mut self,
        ring: &mut Ring,
        view: &mut View<'_>,
        packet: &mut Packet<S::Buffer>,
    ) -> Result<bool, Broken> {
        if packet.link() != LinkType::Ethernet {
            self.counters.dropped.other_link += 1;
            return Ok(true);
        }
        let len = egress::frame_len(packet);
        if len < MIN_FRAME {
            self.counters.dropped.invalid += 1;
            return Ok(true);
        }
        let (features, mut header) = (ring.features(), None);
        if !egress::is_plain(packet) {
            // Without partial checksums as on a wire.
            let virtio = features.takes_partial_checksums().then(|| features.virtio());
            let takes = |header: &HeaderBytes| features.takes(header.as_slice()[1]);
            header = describe(packet, virtio).filter(|header| virtio.is_none() || takes(header));
            if header.is_none() {
                return self.send_cut(ring, view, packet);
            }
            header = header.filter(|_| virtio.is_some());
        }
        let (header, lists) = (header.as_ref(), &mut self.lists);
        let put = match packet.is_merged() {
            true => ring.put(view, header, egress::slices(packet), len, lists)?,
            false => ring.put(view, header, iter::once(packet.bytes()), len, lists)?,
        };
        match put {
            Put::Done => self.counters.count_transmitted(len),
            Put::Later => return Ok(false),
            Put::TooLong => self.counters.dropped.above_mtu += 1,
        }
        Ok(true)
    }

    fn send_cut(
        &mut self,
        ring: &mut Ring,
        view: &mut View<'_>,
        packet: &mut Packet<S::Buffer>,
    ) -> Result<bool, Broken> {
        let len = egress::frame_len(packet);
        let before = self.before_cut.take().unwrap_or(self.counters.dropped);
        let Self { segmenter, lists, counters, .. } = self;
        let mut is_broken = false;
        let all = segmenter.send(packet, |frames| {
            let sent = frames.iter().take_while(|frame| {
                let put = ring.put(view, None, iter::once(*frame), frame.len(), lists);
                counters.dropped.above_mtu += u64::from(put == Ok(Put::TooLong));
                is_broken |= put == Err(Broken);
                matches!(put, Ok(Put::Done | Put::TooLong))
            });
            sent.count()
        });
        match all {
            Ok(false) => {
                self.before_cut = Some(before);
                return if is_broken { Err(Broken) } else { Ok(false) };
            }
            Ok(true) => self.counters.count_cut(before, len),
            Err(_) => self.counters.dropped.unsendable += 1,
        }
        Ok(true)
    }

    /// Whether the guest has provided no buffers for so long that packets are dropped.
    fn has_stalled(&mut self, now: Instant) -> bool {
        let since = *self.blocked.get_or_insert(now);
        now.ns_since(since) > STALL_NS
    }
}

/// A key that guests cannot know, by which they could direct all flows to one pair.
fn key() -> [u8; RSS_KEY_LEN] {
    let mut key = [0; RSS_KEY_LEN];
    for word in key.as_chunks_mut().0 {
        *word = RandomState::new().hash_one(0).to_ne_bytes();
    }
    key
}

/// Takes what a disabled ring has, and drops it, as vhost-user requires.
fn discard(
    ring: &mut Ring,
    view: &mut View<'_>,
    parts: &mut Vec<Part>,
    most: usize,
) -> Result<bool, Broken> {
    for attempt in 0..most {
        let taken = ring.take(view, &mut [0; Format::MAX_LEN], &mut [], parts)?;
        if taken == Taken::Nothing {
            return Ok(attempt == 0 && !ring.rest(view)?);
        }
        ring.decline_kicks(view)?;
    }
    Ok(false)
}

impl<S: Buffers> Port<S::Buffer> for VhostPort<S> {
    /// Ended once the front end has left, if the port is to end then.
    fn receive(&mut self, batch: &mut Batch<S::Buffer>, now: Instant) -> PortState {
        if self.is_idle || self.calls == 0 {
            self.poll(now);
        }
        self.calls = (self.calls + 1) % CALLS;
        let before = batch.len();
        let (pairs, workers) = (self.device.pairs(), self.device.workers());
        let own = (pairs.saturating_sub(self.worker)).div_ceil(workers);
        let mut is_empty = true;
        for number in 0..own {
            let pair = self.worker + workers * ((self.first + number) % own);
            is_empty &= self.receive_from(pair, batch, now);
        }
        self.first = self.first.wrapping_add(1) % own.max(1);
        self.is_idle = batch.len() == before;
        self.again = (!is_empty).then(|| now.plus_ns(AGAIN_NS));
        if self.counters.gone > 0 { PortState::Ended } else { PortState::Open }
    }

    fn transmit(&mut self, batch: &mut Batch<S::Buffer>, now: Instant) {
        while let Some(packet) = batch.front() {
            let Some(pair) = self.pair(packet) else {
                self.refuse(batch);
                continue;
            };
            if self.send_to(pair, batch) {
                continue;
            }
            if !self.has_stalled(now) {
                self.counters.blocked += 1;
                return;
            }
            self.refuse(batch);
        }
    }
}

impl<S: Buffers> LivePort<S::Buffer> for VhostPort<S> {
    /// Those that the driver of the guest has accepted.
    fn large_packets(&self) -> LargePackets {
        self.device.accepted().large_packets()
    }

    fn link(&self) -> Option<LinkType> {
        Some(LinkType::Ethernet)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.poller.as_fd())
    }

    fn counters(&mut self) -> Counters {
        Self::counters(self)
    }

    fn next_due(&self) -> Option<Instant> {
        let link = self.link.as_ref().and_then(Link::next_due);
        self.again.into_iter().chain(link).min()
    }
}

impl<S: Buffers> fmt::Debug for VhostPort<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (device, worker) = (&self.device, self.worker);
        let mut text = f.debug_struct("VhostPort");
        text.field("device", device).field("worker", &worker).finish_non_exhaustive()
    }
}
