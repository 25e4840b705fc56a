//! The rings that a socket shares with the kernel: one side writes entries and moves the producer
//! index on, the other reads them and moves the consumer index on.
//!
//! Indices count entries since the beginning modulo 2³²; a slot is the index modulo the number of
//! slots, a power of two. Entries are written before the index that shows them (release), and read
//! after it (acquire). Whatever the other side writes into its index, no slot outside is touched.
#![expect(unsafe_code, reason = "entries lie in memory that the kernel maps")]

use super::sys::Mapping;
use std::mem::{align_of, size_of};
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering, fence};

/// A descriptor of the RX and TX rings (`struct xdp_desc`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Descriptor {
    /// Where the bytes start, in bytes from the start of the UMEM.
    pub(super) address: u64,
    /// Bytes.
    pub(super) len: u32,
    /// Flags `XDP_PKT_*`.
    pub(super) options: u32,
}

/// An entry of a ring: any bytes are one.
pub(super) trait Entry: Copy + sealed::Sealed {}
impl Entry for u64 {}
impl Entry for Descriptor {}

mod sealed {
    pub(in super::super) trait Sealed {}
    impl Sealed for u64 {}
    impl Sealed for super::Descriptor {}
}

/// Where in its mapping the parts of a ring lie, in bytes.
pub(super) type Offsets = libc::xdp_ring_offset;

/// The state that both sides of a ring share.
#[derive(Debug)]
struct Ring<T> {
    producer: NonNull<AtomicU32>,
    consumer: NonNull<AtomicU32>,
    flags: NonNull<AtomicU32>,
    entries: NonNull<T>,
    slots: u32,
    /// Keeps what the pointers point to.
    _mapping: Rc<Mapping>,
}

impl<T: Entry> Ring<T> {
    /// None when the parts do not lie in the mapping, or `slots` is not a power of two.
    fn new(mapping: &Rc<Mapping>, offsets: &Offsets, slots: u32) -> Option<Self> {
        if !slots.is_power_of_two() {
            return None;
        }
        let entries_len = size_of::<T>().checked_mul(slots as usize)?;
        Some(Self {
            producer: part(mapping, offsets.producer, size_of::<u32>())?,
            consumer: part(mapping, offsets.consumer, size_of::<u32>())?,
            flags: part(mapping, offsets.flags, size_of::<u32>())?,
            entries: part(mapping, offsets.desc, entries_len)?,
            slots,
            _mapping: Rc::clone(mapping),
        })
    }

    fn producer(&self) -> &AtomicU32 {
        // SAFETY: in the mapping and aligned, see `part`; both sides access it atomically.
        unsafe { self.producer.as_ref() }
    }

    fn consumer(&self) -> &AtomicU32 {
        // SAFETY: as for the producer.
        unsafe { self.consumer.as_ref() }
    }

    fn flags(&self) -> &AtomicU32 {
        // SAFETY: as for the producer.
        unsafe { self.flags.as_ref() }
    }

    /// The slot of an index.
    fn slot(&self, index: u32) -> NonNull<T> {
        // SAFETY: below the number of slots, which all lie in the mapping.
        unsafe { self.entries.add((index & (self.slots - 1)) as usize) }
    }
}

/// The part of a mapping at `offset`, when its `len` bytes lie inside and it is aligned.
fn part<T>(mapping: &Mapping, offset: u64, len: usize) -> Option<NonNull<T>> {
    let offset = usize::try_from(offset).ok()?;
    let inside = offset.checked_add(len).is_some_and(|end| end <= mapping.len());
    if !inside || !offset.is_multiple_of(align_of::<T>()) {
        return None;
    }
    // SAFETY: inside the mapping, which starts with a page.
    Some(unsafe { mapping.start().add(offset) }.cast())
}

/// Our side of a ring that the kernel consumes: fill and TX.
#[derive(Debug)]
pub(super) struct Producer<T> {
    ring: Ring<T>,
    /// The index behind the entries pushed.
    next: u32,
    /// The consumer's index when we last looked.
    taken: u32,
}

impl<T: Entry> Producer<T> {
    /// See [`Ring::new`].
    pub(super) fn new(mapping: &Rc<Mapping>, offsets: &Offsets, slots: u32) -> Option<Self> {
        let ring = Ring::new(mapping, offsets, slots)?;
        let next = ring.producer().load(Ordering::Relaxed);
        Some(Self { next, taken: ring.consumer().load(Ordering::Acquire), ring })
    }

    /// Entries that can be pushed, at least as far as `wanted` asks.
    pub(super) fn room(&mut self, wanted: u32) -> u32 {
        let room = self.ring.slots.saturating_sub(self.next.wrapping_sub(self.taken));
        if room >= wanted {
            return room;
        }
        self.ring.slots.saturating_sub(self.pending())
    }

    /// Entries that the consumer has not taken yet.
    pub(super) fn pending(&mut self) -> u32 {
        self.taken = self.ring.consumer().load(Ordering::Acquire);
        self.next.wrapping_sub(self.taken)
    }

    /// Puts an entry into the ring, to be shown by [`Producer::submit`]; whether there was room.
    pub(super) fn push(&mut self, entry: T) -> bool {
        if self.room(1) == 0 {
            return false;
        }
        // SAFETY: a slot that the consumer has given back and that only we write.
        unsafe { self.ring.slot(self.next).write(entry) };
        self.next = self.next.wrapping_add(1);
        true
    }

    /// Shows the consumer what was pushed.
    pub(super) fn submit(&self) {
        self.ring.producer().store(self.next, Ordering::Release);
    }

    /// Whether the consumer sleeps and wants to be woken for what was submitted.
    pub(super) fn needs_wakeup(&self) -> bool {
        // Submitted entries have to be visible before the flag is read: the consumer sets the flag
        // and then looks for entries once more.
        fence(Ordering::SeqCst);
        self.ring.flags().load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }
}

/// Our side of a ring that the kernel produces: RX and completion.
#[derive(Debug)]
pub(super) struct Consumer<T> {
    ring: Ring<T>,
    /// The index behind the entries taken.
    next: u32,
    /// The producer's index when we last looked.
    shown: u32,
}

impl<T: Entry> Consumer<T> {
    /// See [`Ring::new`].
    pub(super) fn new(mapping: &Rc<Mapping>, offsets: &Offsets, slots: u32) -> Option<Self> {
        let ring = Ring::new(mapping, offsets, slots)?;
        let next = ring.consumer().load(Ordering::Relaxed);
        Some(Self { next, shown: next, ring })
    }

    /// Takes the oldest entry; its slot is given back by [`Consumer::release`].
    pub(super) fn pop(&mut self) -> Option<T> {
        if self.next == self.shown {
            let (next, shown) = self.look();
            if next == shown {
                return None;
            }
        }
        // SAFETY: a slot that the producer has shown and that it does not write before we give it
        // back; any bytes are an entry.
        let entry = unsafe { self.ring.slot(self.next).read() };
        self.next = self.next.wrapping_add(1);
        Some(entry)
    }

    /// Looks how far the other side is; returns the index of the oldest entry and the one behind the newest.
    pub(super) fn look(&mut self) -> (u32, u32) {
        self.shown = self.ring.producer().load(Ordering::Acquire);
        // A producer that is further ahead than the ring is long tells nonsense.
        if self.shown.wrapping_sub(self.next) > self.ring.slots {
            self.shown = self.next;
        }
        (self.next, self.shown)
    }

    /// Entries that are shown and not taken, as the other side says.
    pub(super) fn waiting(&self) -> u32 {
        self.ring.producer().load(Ordering::Relaxed).wrapping_sub(self.next)
    }

    /// Gives the slots of what was taken back.
    pub(super) fn release(&self) {
        self.ring.consumer().store(self.next, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOTS: u32 = 8;
    const OFFSETS: Offsets = Offsets { producer: 0, consumer: 64, flags: 128, desc: 192 };

    /// A ring in memory of our own, both indices at `start`.
    fn ring(start: u32) -> (Producer<u64>, Consumer<u64>) {
        let mapping = Rc::new(Mapping::anonymous(4096).expect("a page"));
        let both: Ring<u64> = Ring::new(&mapping, &OFFSETS, SLOTS).expect("it fits");
        both.producer().store(start, Ordering::Relaxed);
        both.consumer().store(start, Ordering::Relaxed);
        let producer = Producer::new(&mapping, &OFFSETS, SLOTS).expect("it fits");
        (producer, Consumer::new(&mapping, &OFFSETS, SLOTS).expect("it fits"))
    }

    #[test]
    fn what_waits_is_counted_also_where_indices_wrap() {
        for start in [0, u32::MAX - 1] {
            let (mut producer, mut consumer) = ring(start);
            assert_eq!(consumer.waiting(), 0);
            (0..5).for_each(|value| assert!(producer.push(value)));
            assert_eq!(consumer.waiting(), 0, "not shown yet");
            producer.submit();
            assert_eq!(consumer.pop(), Some(0));
            assert_eq!(consumer.waiting(), 4);
        }
    }

    #[test]
    fn entries_come_in_order_also_where_indices_wrap() {
        for start in [0, 5, u32::MAX - 3, u32::MAX] {
            let (mut producer, mut consumer) = ring(start);
            let mut expected = 0;
            for value in 0..100_u64 {
                assert!(producer.push(value));
                producer.submit();
                if value % 3 == 2 {
                    while let Some(got) = consumer.pop() {
                        assert_eq!(got, expected, "from {start}");
                        expected += 1;
                    }
                    consumer.release();
                }
            }
            assert_eq!(expected, 99);
        }
    }

    #[test]
    fn a_full_ring_takes_nothing_until_slots_are_released() {
        let (mut producer, mut consumer) = ring(u32::MAX - 2);
        assert_eq!(producer.room(SLOTS), SLOTS);
        assert!((0..u64::from(SLOTS)).all(|value| producer.push(value)));
        assert!(!producer.push(8));
        producer.submit();
        assert_eq!((producer.room(1), producer.pending()), (0, SLOTS));
        assert_eq!(consumer.pop(), Some(0));
        assert!(!producer.push(8), "taken, but not given back");
        consumer.release();
        assert_eq!(producer.room(1), 1);
        assert!(producer.push(8));
        producer.submit();
        let rest: Vec<u64> = std::iter::from_fn(|| consumer.pop()).collect();
        assert_eq!(rest, (1..=8).collect::<Vec<_>>());
    }

    #[test]
    fn an_empty_ring_gives_nothing_before_entries_are_submitted() {
        let (mut producer, mut consumer) = ring(u32::MAX);
        assert_eq!(consumer.pop(), None);
        assert!(producer.push(1));
        assert_eq!(consumer.pop(), None);
        producer.submit();
        assert_eq!((consumer.pop(), consumer.pop()), (Some(1), None));
    }

    #[test]
    fn senseless_indices_of_the_other_side_give_nothing() {
        for wrong in [9, 1 << 31, u32::MAX] {
            let (mut producer, mut consumer) = ring(0);
            producer.ring.producer().store(wrong, Ordering::Relaxed);
            assert_eq!(consumer.pop(), None, "producer {wrong}");
            producer.ring.consumer().store(wrong.wrapping_neg(), Ordering::Relaxed);
            producer.taken = wrong.wrapping_neg();
            assert_eq!(producer.room(1), 0, "consumer {wrong}");
            assert!(!producer.push(1));
        }
    }

    #[test]
    fn the_flag_says_when_to_wake() {
        let (producer, _consumer) = ring(0);
        assert!(!producer.needs_wakeup());
        producer.ring.flags().store(libc::XDP_RING_NEED_WAKEUP, Ordering::Relaxed);
        assert!(producer.needs_wakeup());
    }

    #[test]
    fn rings_that_do_not_fit_are_refused() {
        let mapping = Rc::new(Mapping::anonymous(4096).expect("a page"));
        let make = |offsets: Offsets, slots| Producer::<u64>::new(&mapping, &offsets, slots);
        assert!(make(OFFSETS, 488).is_none(), "no power of two");
        assert!(make(OFFSETS, 512).is_none(), "longer than the mapping");
        assert!(make(Offsets { desc: 196, ..OFFSETS }, SLOTS).is_none(), "not aligned");
        assert!(make(Offsets { flags: 4093, ..OFFSETS }, SLOTS).is_none(), "ends outside");
        assert!(make(Offsets { producer: u64::MAX, ..OFFSETS }, SLOTS).is_none());
    }

    #[test]
    fn descriptors_are_laid_out_as_the_kernel_has_them() {
        assert_eq!(size_of::<Descriptor>(), size_of::<libc::xdp_desc>());
        assert_eq!(std::mem::offset_of!(Descriptor, options), 12);
    }
}
