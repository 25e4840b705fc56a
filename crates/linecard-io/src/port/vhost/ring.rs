//! One ring of a guest (virtio 1.3, section 2.7): descriptors out of it, used ones back to it, and
//! notifications both ways.
//!
//! Everything in a ring was written by the guest, which may change it at any time. Nothing is read
//! twice; numbers select memory that the front end has shared, or the ring is [`Broken`].

use super::features::Features;
use rustix::event::epoll;
use std::fmt;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use virtio_queue::{Queue, QueueOwnedT, QueueT};
use vm_memory::{Address, Bytes, GuestAddress, GuestMemoryMmap};

/// The most entries of a ring.
pub(super) const MAX_ENTRIES: u16 = 32_768;
/// The most descriptors of a packet: a guest has no more than 64 KiB to send, and a driver no
/// smaller pieces than 64 bytes.
pub(super) const MAX_PARTS: usize = 1_024;

/// Offsets in the two rings of a queue, whose entries follow.
const FLAGS: u64 = 0;
const INDEX: u64 = 2;
const ENTRIES: u64 = 4;
/// Bytes of an entry of the available ring, and of the used ring.
const AVAILABLE_LEN: u64 = 2;
const USED_LEN: u64 = 8;
/// The guest wants no interrupts.
const NO_INTERRUPT: u16 = 1;

/// The token of a kick at the poller: the ring is looked at in any case.
pub(super) const KICK: u64 = u64::MAX;

/// The memory of a guest.
pub(super) type Memory = GuestMemoryMmap<()>;

/// A ring that does not make sense: it stops until the front end starts it again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Broken;

impl<E: std::error::Error> From<E> for Broken {
    fn from(_: E) -> Self {
        Self
    }
}

/// A piece of guest memory.
pub(super) type Part = (GuestAddress, usize);

/// The next descriptor chain of a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Chain {
    /// There is none.
    None,
    /// Its number, and its bytes.
    Whole(u16, usize),
    /// Its number: it loops, is too long, ends beyond the ring, or has the wrong direction.
    Malformed(u16),
}

/// The eventfd by which the guest wakes a thread: registered there as long as it exists. The front
/// end has the same description open, so closing alone would leave the registration.
#[derive(Debug)]
pub(super) struct Kick {
    event: File,
    poller: Arc<OwnedFd>,
}

impl Kick {
    /// Every kick wakes the thread once (edge-triggered): its counter is never read, and a
    /// descriptor that is always readable cannot keep the thread awake.
    pub(super) fn new(event: File, poller: Arc<OwnedFd>) -> rustix::io::Result<Self> {
        let data = epoll::EventData::new_u64(KICK);
        epoll::add(&*poller, &event, data, epoll::EventFlags::IN | epoll::EventFlags::ET)?;
        Ok(Self { event, poller })
    }
}

impl Drop for Kick {
    fn drop(&mut self) {
        let _registered = epoll::delete(&*self.poller, &self.event);
    }
}

/// Addresses of the three parts of a ring.
#[derive(Debug, Clone, Copy)]
pub(super) struct Addresses {
    pub(super) descriptors: GuestAddress,
    pub(super) available: GuestAddress,
    pub(super) used: GuestAddress,
}

/// A ring as its front end configures it, and what has been done with it.
pub(super) struct Ring {
    queue: Queue,
    memory: Option<Arc<Memory>>,
    features: Features,
    has_addresses: bool,
    is_enabled: bool,
    kick: Option<Kick>,
    call: Option<File>,
    error: Option<File>,
    /// The next entry of the used ring, and up to which the guest can see them.
    used: u16,
    published: u16,
    /// Up to which the guest has been notified; none at the start.
    notified: Option<u16>,
    /// Whether the guest was asked to kick.
    wants_kicks: bool,
}

impl Ring {
    pub(super) fn new() -> Self {
        // The size is a power of two, which is all that is required of it.
        let queue = Queue::new(MAX_ENTRIES).unwrap_or_default();
        Self {
            queue,
            memory: None,
            features: Features::default(),
            has_addresses: false,
            is_enabled: false,
            kick: None,
            call: None,
            error: None,
            used: 0,
            published: 0,
            notified: None,
            wants_kicks: true,
        }
    }

    /// The memory in which it lies, if it has been started and is not broken.
    pub(super) fn running(&self) -> Option<Arc<Memory>> {
        self.memory.as_ref().filter(|_| self.queue.ready()).map(Arc::clone)
    }

    pub(super) fn is_enabled(&self) -> bool {
        self.is_enabled
    }

    pub(super) fn features(&self) -> Features {
        self.features
    }

    pub(super) fn set_enabled(&mut self, is_enabled: bool) {
        self.is_enabled = is_enabled;
    }

    pub(super) fn set_features(&mut self, features: Features) {
        self.features = features;
        self.queue.set_event_idx(features.has_event_index());
    }

    /// Replaces the guest's memory; a ring that is not in the new one is broken.
    pub(super) fn set_memory(&mut self, memory: Option<Arc<Memory>>) {
        self.memory = memory;
        if self.queue.ready() && !self.is_inside() {
            self.fail();
        }
    }

    fn is_inside(&self) -> bool {
        self.memory.as_ref().is_some_and(|memory| self.queue.is_valid(&**memory))
    }

    /// The number of its entries, a power of two; false if it is not.
    pub(super) fn set_size(&mut self, entries: u32) -> bool {
        u16::try_from(entries).is_ok_and(|entries| self.queue.try_set_size(entries).is_ok())
    }

    pub(super) fn set_addresses(&mut self, at: &Addresses) -> Result<(), Broken> {
        self.queue.try_set_desc_table_address(at.descriptors)?;
        self.queue.try_set_avail_ring_address(at.available)?;
        self.queue.try_set_used_ring_address(at.used)?;
        self.has_addresses = true;
        Ok(())
    }

    /// The next entry of the available ring.
    pub(super) fn set_next(&mut self, next: u16) {
        self.queue.set_next_avail(next);
    }

    pub(super) fn next(&self) -> u16 {
        self.queue.next_avail()
    }

    pub(super) fn set_call(&mut self, call: Option<File>) {
        self.call = call;
    }

    pub(super) fn set_error(&mut self, error: Option<File>) {
        self.error = error;
    }

    /// Starts, with kicks if there is a descriptor for them.
    pub(super) fn start(&mut self, kick: Option<Kick>) -> Result<(), Broken> {
        self.kick = kick;
        let memory = self.memory.clone().filter(|_| self.has_addresses).ok_or(Broken)?;
        self.queue.set_ready(true);
        if !self.is_inside() {
            self.queue.set_ready(false);
            return Err(Broken);
        }
        // Buffers used before are those that the guest sees as used: nothing is in progress between turns.
        self.used = self.queue.used_idx(&*memory, Ordering::Acquire)?.0;
        (self.published, self.notified) = (self.used, None);
        self.wants_kicks = true;
        Ok(())
    }

    /// Stops, as the front end wants before it looks at the ring; it must be started again.
    pub(super) fn stop(&mut self) {
        self.queue.set_ready(false);
        (self.kick, self.call, self.error) = (None, None, None);
    }

    /// As at the beginning of a connection.
    pub(super) fn reset(&mut self) {
        *self = Self::new();
    }

    /// Stops a broken ring, and tells the front end.
    pub(super) fn fail(&mut self) {
        self.queue.set_ready(false);
        signal(self.error.as_ref());
    }

    /// Takes the next chain, and appends its parts. Its bytes may be read, or with `is_writable`
    /// written.
    pub(super) fn pop(
        &mut self,
        memory: &Memory,
        is_writable: bool,
        parts: &mut Vec<Part>,
    ) -> Result<Chain, Broken> {
        let entries = self.queue.size();
        let Some(chain) = self.queue.iter(memory)?.next() else { return Ok(Chain::None) };
        let head = chain.head_index();
        if head >= entries {
            return Err(Broken);
        }
        let (mut len, mut has_next) = (0, true);
        for descriptor in chain {
            if parts.len() == MAX_PARTS || descriptor.is_write_only() != is_writable {
                return Ok(Chain::Malformed(head));
            }
            has_next = descriptor.has_next();
            // At most 1,024 lengths of 32 bits.
            len += descriptor.len() as usize;
            parts.push((descriptor.addr(), descriptor.len() as usize));
        }
        // The iterator ends at a descriptor that it cannot read.
        Ok(if has_next { Chain::Malformed(head) } else { Chain::Whole(head, len) })
    }

    /// Gives the chains back that were taken since `next` was the next.
    pub(super) fn put_back(&mut self, next: u16) {
        self.queue.set_next_avail(next);
    }

    /// Marks a chain as used, with this many bytes written; the guest sees that after
    /// [`Ring::publish`].
    pub(super) fn push_used(
        &mut self,
        memory: &Memory,
        head: u16,
        written: u32,
    ) -> Result<(), Broken> {
        let entry = u64::from(self.used % self.queue.size());
        let at = address(self.queue.used_ring(), ENTRIES + USED_LEN * entry)?;
        let mut bytes = [0; USED_LEN as usize];
        bytes[..4].copy_from_slice(&u32::from(head).to_le_bytes());
        bytes[4..].copy_from_slice(&written.to_le_bytes());
        memory.write_slice(&bytes, at)?;
        self.used = self.used.wrapping_add(1);
        Ok(())
    }

    /// Shows the guest what was used, all at once, as packets in several buffers require, and
    /// notifies it if it wants that.
    pub(super) fn publish(&mut self, memory: &Memory) -> Result<(), Broken> {
        if self.used == self.published {
            return Ok(());
        }
        let at = address(self.queue.used_ring(), INDEX)?;
        memory.store(self.used.to_le(), at, Ordering::Release)?;
        self.published = self.used;
        // The guest enables notifications, and then looks at the index again.
        fence(Ordering::SeqCst);
        if self.wants_notification(memory)? {
            signal(self.call.as_ref());
        }
        self.notified = Some(self.used);
        Ok(())
    }

    fn wants_notification(&self, memory: &Memory) -> Result<bool, Broken> {
        let (ring, used) = (self.queue.avail_ring(), self.used);
        let load = |offset| -> Result<u16, Broken> {
            Ok(u16::from_le(memory.load(address(ring, offset)?, Ordering::Relaxed)?))
        };
        if !self.features.has_event_index() {
            return Ok(load(FLAGS)? & NO_INTERRUPT == 0);
        }
        let event = load(ENTRIES + AVAILABLE_LEN * u64::from(self.queue.size()))?;
        // Section 2.7.10: whether the event lies between the last notification and now.
        let since = self.notified.map(|notified| used.wrapping_sub(notified));
        Ok(since.is_none_or(|since| used.wrapping_sub(event).wrapping_sub(1) < since))
    }

    /// Asks the guest to kick; returns whether it has added something meanwhile.
    pub(super) fn ask_for_kicks(&mut self, memory: &Memory) -> Result<bool, Broken> {
        self.wants_kicks = true;
        Ok(self.queue.enable_notification(memory)?)
    }

    /// Tells the guest not to kick: the ring is looked at anyway.
    pub(super) fn decline_kicks(&mut self, memory: &Memory) -> Result<(), Broken> {
        if std::mem::take(&mut self.wants_kicks) {
            self.queue.disable_notification(memory)?;
        }
        Ok(())
    }
}

impl fmt::Debug for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring").field("queue", &self.queue).finish_non_exhaustive()
    }
}

fn address(base: u64, offset: u64) -> Result<GuestAddress, Broken> {
    GuestAddress(base).checked_add(offset).ok_or(Broken)
}

/// Increments an event counter, which does not block: see `Device::nonblocking`.
fn signal(event: Option<&File>) {
    if let Some(event) = event {
        let _full = rustix::io::write(event, &1_u64.to_ne_bytes());
    }
}
