//! One ring of a guest (virtio 1.3, section 2.7): descriptors out of it, used ones back to it, and
//! notifications both ways.
//!
//! Everything in a ring was written by the guest, which may change it at any time. Nothing is read
//! twice; numbers select memory that the front end has shared, or the ring is [`Broken`].

use super::features::Features;
use super::memory::{Area, Cursor, Memory};
use rustix::event::epoll;
use std::fmt;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering, fence};
use vm_memory::{VolatileMemory, VolatileSlice};

/// The most entries of a ring.
const MAX_ENTRIES: u16 = 32_768;
/// The most descriptors of a packet: a guest has no more than 64 KiB to send, and a driver no
/// smaller pieces than 64 bytes.
pub(super) const MAX_PARTS: usize = 1_024;

/// Offsets in the two rings of a queue, whose entries follow.
const FLAGS: usize = 0;
const INDEX: usize = 2;
const ENTRIES: usize = 4;
/// Bytes of a descriptor, of an entry of the available ring, and of the used ring.
const DESCRIPTOR_LEN: usize = 16;
const AVAILABLE_LEN: usize = 2;
const USED_LEN: usize = 8;
/// Bytes of an event index, behind the entries of both rings.
const EVENT_LEN: usize = 2;
/// The guest wants no interrupts; the device wants no kicks.
const NO_INTERRUPT: u16 = 1;
const NO_KICK: u16 = 1;
/// Flags of a descriptor: another one follows; it is to be written; it is a table of descriptors.
const NEXT: u16 = 1;
const WRITE: u16 = 2;
const INDIRECT: u16 = 4;

/// The token of a kick at the poller: the ring is looked at in any case.
pub(super) const KICK: u64 = u64::MAX;

/// Looks in vain after which a guest is asked to kick: one that sends all the time is not, for it
/// takes a system call of it.
const VAIN_LOOKS: u8 = 32;

/// A ring that does not make sense: it stops until the front end starts it again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Broken;

impl<E: std::error::Error> From<E> for Broken {
    fn from(_: E) -> Self {
        Self
    }
}

/// A piece of guest memory: its address, and its bytes.
pub(super) type Part = (u64, usize);

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

/// The guest's addresses of the three parts of a ring.
#[derive(Debug, Clone, Copy)]
pub(super) struct Addresses {
    pub(super) descriptors: u64,
    pub(super) available: u64,
    pub(super) used: u64,
}

/// Where the three parts lie: each in one region of the memory, all of it.
#[derive(Debug, Clone, Copy)]
struct Areas {
    descriptors: Area,
    available: Area,
    used: Area,
}

/// The three parts, and the memory around them.
pub(super) struct View<'m> {
    descriptors: VolatileSlice<'m>,
    available: VolatileSlice<'m>,
    used: VolatileSlice<'m>,
    pub(super) memory: Cursor<'m>,
}

impl View<'_> {
    #[inline]
    fn available(&self, offset: usize, order: Ordering) -> Result<u16, Broken> {
        Ok(u16::from_le(self.available.get_atomic_ref::<AtomicU16>(offset)?.load(order)))
    }

    #[inline]
    fn set_used(&self, offset: usize, value: u16, order: Ordering) -> Result<(), Broken> {
        self.used.get_atomic_ref::<AtomicU16>(offset)?.store(value.to_le(), order);
        Ok(())
    }

    #[inline]
    fn descriptor(&self, number: u16) -> Result<Descriptor, Broken> {
        let at = usize::from(number) * DESCRIPTOR_LEN;
        let bytes = self.descriptors.get_ref::<u128>(at)?.load();
        Ok(Descriptor::of(u128::from_le(bytes)))
    }

    /// A descriptor of a table in the guest's memory.
    fn indirect(&mut self, table: u64, number: u16) -> Result<Descriptor, Broken> {
        let mut bytes = [0; DESCRIPTOR_LEN];
        let at = table.checked_add(u64::from(number) * DESCRIPTOR_LEN as u64).ok_or(Broken)?;
        self.memory.read(at, &mut bytes)?;
        Ok(Descriptor::of(u128::from_le_bytes(bytes)))
    }
}

/// A buffer, as a guest describes it.
#[derive(Debug, Clone, Copy)]
struct Descriptor {
    at: u64,
    len: u32,
    flags: u16,
    next: u16,
}

impl Descriptor {
    /// The fields, lowest first.
    #[inline]
    fn of(bits: u128) -> Self {
        Self {
            at: bits as u64,
            len: (bits >> 64) as u32,
            flags: (bits >> 96) as u16,
            next: (bits >> 112) as u16,
        }
    }
}

/// A ring as its front end configures it, and what has been done with it.
pub(super) struct Ring {
    memory: Option<Arc<Memory>>,
    features: Features,
    /// Entries, a power of two.
    size: u16,
    addresses: Option<Addresses>,
    /// None while it does not run.
    areas: Option<Areas>,
    is_enabled: bool,
    kick: Option<Kick>,
    call: Option<File>,
    error: Option<File>,
    /// The next entry of the available ring, and the guest's index as it was read last.
    next: u16,
    available: u16,
    /// The next entry of the used ring, and those that the guest does not see yet: written one by
    /// one, each would have to wait for a cache line of the guest.
    next_used: u16,
    used: Vec<u64>,
    /// Up to which the guest has been notified; none at the start.
    notified: Option<u16>,
    /// Whether the guest was asked to kick, and how often there was nothing before that.
    wants_kicks: bool,
    vain_looks: u8,
}

impl Ring {
    pub(super) fn new() -> Self {
        Self {
            memory: None,
            features: Features::default(),
            size: MAX_ENTRIES,
            addresses: None,
            areas: None,
            is_enabled: false,
            kick: None,
            call: None,
            error: None,
            next: 0,
            available: 0,
            next_used: 0,
            used: Vec::new(),
            notified: None,
            wants_kicks: true,
            vain_looks: 0,
        }
    }

    /// The memory in which it lies, if it has been started and is not broken.
    pub(super) fn running(&self) -> Option<Arc<Memory>> {
        self.memory.as_ref().filter(|_| self.areas.is_some()).map(Arc::clone)
    }

    /// The ring in its memory.
    pub(super) fn view<'m>(&self, memory: &'m Memory) -> Result<View<'m>, Broken> {
        let areas = self.areas.ok_or(Broken)?;
        Ok(View {
            descriptors: memory.area(areas.descriptors)?,
            available: memory.area(areas.available)?,
            used: memory.area(areas.used)?,
            memory: memory.cursor()?,
        })
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
    }

    /// Replaces the guest's memory; a ring that is not in the new one is broken.
    pub(super) fn set_memory(&mut self, memory: Option<Arc<Memory>>) {
        self.memory = memory;
        self.find_again();
    }

    /// Finds its parts again if it runs, after they may have moved.
    fn find_again(&mut self) {
        if self.areas.take().is_some() {
            match self.find() {
                Ok(areas) => self.areas = Some(areas),
                Err(Broken) => self.fail(),
            }
        }
    }

    /// Finds its parts.
    fn find(&self) -> Result<Areas, Broken> {
        let (Some(memory), Some(at)) = (&self.memory, self.addresses) else { return Err(Broken) };
        let entries = |len: usize| len * usize::from(self.size);
        Ok(Areas {
            descriptors: memory.find(at.descriptors, entries(DESCRIPTOR_LEN))?,
            available: memory.find(at.available, ENTRIES + entries(AVAILABLE_LEN) + EVENT_LEN)?,
            used: memory.find(at.used, ENTRIES + entries(USED_LEN) + EVENT_LEN)?,
        })
    }

    /// The number of its entries, a power of two; false if it is not.
    pub(super) fn set_size(&mut self, entries: u32) -> bool {
        let entries = u16::try_from(entries).ok();
        let entries = entries.filter(|size| size.is_power_of_two() && *size <= MAX_ENTRIES);
        self.size = entries.unwrap_or(self.size);
        self.find_again();
        entries.is_some()
    }

    /// Sets the addresses, which have to be aligned.
    pub(super) fn set_addresses(&mut self, at: &Addresses) -> Result<(), Broken> {
        let parts = [(at.descriptors, 16), (at.available, 2), (at.used, 4)];
        if parts.into_iter().any(|(at, align)| at % align != 0) {
            return Err(Broken);
        }
        self.addresses = Some(*at);
        self.find_again();
        Ok(())
    }

    /// The next entry of the available ring.
    pub(super) fn set_next(&mut self, next: u16) {
        (self.next, self.available) = (next, next);
    }

    pub(super) fn next(&self) -> u16 {
        self.next
    }

    pub(super) fn set_call(&mut self, call: Option<File>) {
        self.call = call;
    }

    pub(super) fn set_error(&mut self, error: Option<File>) {
        self.error = error;
    }

    /// Starts, with kicks if there is a descriptor for them.
    pub(super) fn start(&mut self, kick: Option<Kick>) -> Result<(), Broken> {
        (self.kick, self.areas) = (kick, None);
        let areas = self.find()?;
        let memory = self.memory.as_ref().ok_or(Broken)?;
        // Buffers used before are those that the guest sees as used: nothing is in progress between turns.
        let used = memory.area(areas.used)?;
        let used = u16::from_le(used.get_atomic_ref::<AtomicU16>(INDEX)?.load(Ordering::Acquire));
        (self.areas, self.available) = (Some(areas), self.next);
        (self.next_used, self.notified) = (used, None);
        self.used.clear();
        (self.wants_kicks, self.vain_looks) = (true, 0);
        Ok(())
    }

    /// Stops, as the front end wants before it looks at the ring; it must be started again.
    pub(super) fn stop(&mut self) {
        self.areas = None;
        (self.kick, self.call, self.error) = (None, None, None);
    }

    /// As at the beginning of a connection.
    pub(super) fn reset(&mut self) {
        *self = Self::new();
    }

    /// Stops a broken ring, and tells the front end.
    pub(super) fn fail(&mut self) {
        self.areas = None;
        signal(self.error.as_ref());
    }

    /// The place of an entry.
    #[inline]
    fn place(&self, entry: u16) -> usize {
        // A power of two.
        usize::from(entry & (self.size - 1))
    }

    /// Reads how many chains are available; returns whether any is.
    fn look(&mut self, view: &View<'_>) -> Result<bool, Broken> {
        self.available = view.available(INDEX, Ordering::Acquire)?;
        let available = self.available.wrapping_sub(self.next);
        if available > self.size { Err(Broken) } else { Ok(available > 0) }
    }

    /// Prefetches the next buffers, `most` of them, to be read or written: those of packets in one
    /// piece.
    pub(super) fn prefetch(
        &mut self,
        view: &mut View<'_>,
        most: usize,
        is_writable: bool,
    ) -> Result<(), Broken> {
        self.look(view)?;
        let ahead = usize::from(self.available.wrapping_sub(self.next)).min(most);
        // At most as many as there are entries.
        for ahead in 0..ahead as u16 {
            if let Ok(head) = self.head(view, self.next.wrapping_add(ahead)) {
                let descriptor = view.descriptor(head)?;
                view.memory.prefetch(descriptor.at, is_writable);
            }
        }
        Ok(())
    }

    /// The first descriptor of the chain of an entry.
    #[inline]
    fn head(&self, view: &View<'_>, entry: u16) -> Result<u16, Broken> {
        let at = ENTRIES + AVAILABLE_LEN * self.place(entry);
        let head = view.available(at, Ordering::Relaxed)?;
        if head < self.size { Ok(head) } else { Err(Broken) }
    }

    /// Takes the next chain, and appends its parts. Its bytes may be read, or with `is_writable`
    /// written.
    #[inline]
    pub(super) fn pop(
        &mut self,
        view: &mut View<'_>,
        is_writable: bool,
        parts: &mut Vec<Part>,
    ) -> Result<Chain, Broken> {
        if self.next == self.available && !self.look(view)? {
            return Ok(Chain::None);
        }
        let head = self.head(view, self.next)?;
        self.next = self.next.wrapping_add(1);
        let len = self.walk(view, head, is_writable, parts);
        Ok(len.map_or(Chain::Malformed(head), |len| Chain::Whole(head, len)))
    }

    /// Appends the parts of a chain; returns its bytes, or none if it makes no sense.
    #[inline]
    fn walk(
        &self,
        view: &mut View<'_>,
        head: u16,
        is_writable: bool,
        parts: &mut Vec<Part>,
    ) -> Option<usize> {
        let (mut table, mut entries, mut index) = (None, self.size, head);
        // Bytes of a chain are below 2³² (section 2.7.5.2).
        let mut len = 0_u32;
        // A chain has no more descriptors than there are, which ends loops.
        let mut left = entries;
        while left > 0 && index < entries && parts.len() < MAX_PARTS {
            let descriptor = match table {
                None => view.descriptor(index).ok()?,
                Some(table) => view.indirect(table, index).ok()?,
            };
            if descriptor.flags & INDIRECT != 0 {
                let bytes = usize::try_from(descriptor.len).ok()?;
                if table.is_some() || bytes % DESCRIPTOR_LEN != 0 {
                    return None;
                }
                entries = u16::try_from(bytes / DESCRIPTOR_LEN).ok()?;
                (table, left, index) = (Some(descriptor.at), entries, 0);
                continue;
            }
            if (descriptor.flags & WRITE != 0) != is_writable {
                return None;
            }
            len = len.checked_add(descriptor.len)?;
            parts.push((descriptor.at, descriptor.len as usize));
            if descriptor.flags & NEXT == 0 {
                return Some(len as usize);
            }
            (index, left) = (descriptor.next, left - 1);
        }
        None
    }

    /// Gives the chains back that were taken since `next` was the next.
    pub(super) fn put_back(&mut self, next: u16) {
        self.set_next(next);
    }

    /// Marks a chain as used, with this many bytes written; the guest sees that after
    /// [`Ring::publish`].
    #[inline]
    pub(super) fn push_used(&mut self, head: u16, written: u32) {
        self.used.push(u64::from(head) | u64::from(written) << 32);
    }

    /// Shows the guest what was used, all at once, as packets in several buffers require, and
    /// notifies it if it wants that.
    pub(super) fn publish(&mut self, view: &View<'_>) -> Result<(), Broken> {
        if self.used.is_empty() {
            return Ok(());
        }
        for entry in &self.used {
            let at = ENTRIES + USED_LEN * self.place(self.next_used);
            view.used.get_ref(at)?.store(entry.to_le());
            self.next_used = self.next_used.wrapping_add(1);
        }
        self.used.clear();
        view.set_used(INDEX, self.next_used, Ordering::Release)?;
        // The guest enables notifications, and then looks at the index again.
        fence(Ordering::SeqCst);
        if self.wants_notification(view)? {
            signal(self.call.as_ref());
        }
        self.notified = Some(self.next_used);
        Ok(())
    }

    fn wants_notification(&self, view: &View<'_>) -> Result<bool, Broken> {
        if !self.features.has_event_index() {
            return Ok(view.available(FLAGS, Ordering::Relaxed)? & NO_INTERRUPT == 0);
        }
        let at = ENTRIES + AVAILABLE_LEN * usize::from(self.size);
        let (event, used) = (view.available(at, Ordering::Relaxed)?, self.next_used);
        // Section 2.7.10: whether the event lies between the last notification and now.
        let since = self.notified.map(|notified| used.wrapping_sub(notified));
        Ok(since.is_none_or(|since| used.wrapping_sub(event).wrapping_sub(1) < since))
    }

    /// Called when there was nothing: asks the guest to kick, if that was so several times. Returns
    /// whether the ring has to be looked at again.
    pub(super) fn rest(&mut self, view: &View<'_>) -> Result<bool, Broken> {
        if self.vain_looks < VAIN_LOOKS {
            self.vain_looks += 1;
            return Ok(true);
        }
        self.wants_kicks = true;
        match self.features.has_event_index() {
            true => {
                let at = ENTRIES + USED_LEN * usize::from(self.size);
                view.set_used(at, self.next, Ordering::Relaxed)?;
            }
            false => view.set_used(FLAGS, 0, Ordering::Relaxed)?,
        }
        // The guest adds something, and then looks whether it is to kick.
        fence(Ordering::SeqCst);
        self.look(view)
    }

    /// Tells the guest not to kick: the ring is looked at anyway.
    #[inline]
    pub(super) fn decline_kicks(&mut self, view: &View<'_>) -> Result<(), Broken> {
        self.vain_looks = 0;
        // With the event index, one kick ends what was asked for.
        if std::mem::take(&mut self.wants_kicks) && !self.features.has_event_index() {
            view.set_used(FLAGS, NO_KICK, Ordering::Relaxed)?;
        }
        Ok(())
    }
}

impl fmt::Debug for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (size, next, areas) = (self.size, self.next, self.areas);
        let mut text = f.debug_struct("Ring");
        text.field("size", &size)
            .field("next", &next)
            .field("areas", &areas)
            .finish_non_exhaustive()
    }
}

/// Increments an event counter, which does not block: see `Device::nonblocking`.
fn signal(event: Option<&File>) {
    if let Some(event) = event {
        let _full = rustix::io::write(event, &1_u64.to_ne_bytes());
    }
}
