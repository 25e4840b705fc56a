//! Rings between threads: one producer, one consumer, fixed size.

use super::idle::Wakeup;
use linecard::packet::{Batch, Packet};
use linecard::port::{Port, PortState};
use linecard::time::Instant;
use rtrb::{Consumer, Producer, RingBuffer};

/// The sending end of a ring; receives nothing.
#[derive(Debug)]
pub struct Sender<B> {
    ring: Producer<Packet<B>>,
    wakeup: Wakeup,
}

/// The receiving end of a ring; transmits nothing.
#[derive(Debug)]
pub struct Receiver<B> {
    ring: Consumer<Packet<B>>,
}

/// A ring that holds at most `capacity` packets.
///
/// ```
/// use linecard::packet::{Batch, LinkType, Meta, Packet};
/// use linecard::port::{Port, PortState};
/// use linecard::time::Instant;
/// let (mut sender, mut receiver) = linecard_io::engine::ring::ring(64);
/// let mut batch = Batch::new();
/// let _fits = batch.push(Packet::new(vec![0_u8; 60], LinkType::Ethernet, Meta::default()));
/// sender.transmit(&mut batch, Instant::ZERO);
/// drop(sender);
/// assert_eq!(receiver.receive(&mut batch, Instant::ZERO), PortState::Ended);
/// assert_eq!(batch.len(), 1);
/// ```
#[must_use]
pub fn ring<B>(capacity: usize) -> (Sender<B>, Receiver<B>) {
    ring_with_wakeup(capacity, Wakeup::default())
}

/// The same, with a wakeup for the receiver's thread.
pub(super) fn ring_with_wakeup<B>(capacity: usize, wakeup: Wakeup) -> (Sender<B>, Receiver<B>) {
    let (producer, consumer) = RingBuffer::new(capacity.max(1));
    (Sender { ring: producer, wakeup }, Receiver { ring: consumer })
}

impl<B> Sender<B> {
    /// Adds a packet, or returns it if the ring is full. Does not wake the receiver.
    pub(super) fn push(&mut self, packet: Packet<B>) -> Result<(), Packet<B>> {
        self.ring.push(packet).map_err(|rtrb::PushError::Full(packet)| packet)
    }

    /// Wakes the receiver.
    pub(super) fn announce(&self) {
        self.wakeup.wake();
    }

    /// Whether the ring is full.
    pub(super) fn is_full(&self) -> bool {
        self.ring.is_full()
    }

    /// Whether the receiver was dropped.
    #[must_use]
    pub fn is_abandoned(&self) -> bool {
        self.ring.is_abandoned()
    }
}

impl<B> Drop for Sender<B> {
    /// The end of the ring has to wake the receiver too.
    fn drop(&mut self) {
        self.wakeup.wake();
    }
}

impl<B> Receiver<B> {
    /// Removes the oldest packet.
    pub(super) fn pop(&mut self) -> Option<Packet<B>> {
        self.ring.pop().ok()
    }

    /// Whether the ring is empty and the sender was dropped.
    pub(super) fn has_ended(&self) -> bool {
        // In this order, so that packets sent before the end are seen.
        self.ring.is_abandoned() && self.ring.is_empty()
    }
}

impl<B> Port<B> for Sender<B> {
    fn receive(&mut self, _: &mut Batch<B>, _: Instant) -> PortState {
        PortState::Ended
    }

    /// Drops packets if the receiver was dropped.
    fn transmit(&mut self, batch: &mut Batch<B>, _: Instant) {
        let given = batch.len();
        while !self.ring.is_full() {
            let Some(packet) = batch.pop() else { break };
            let _fits = self.push(packet);
        }
        if self.is_abandoned() {
            batch.drain().for_each(drop);
        } else if batch.len() < given {
            self.announce();
        }
    }
}

impl<B> Port<B> for Receiver<B> {
    fn receive(&mut self, batch: &mut Batch<B>, _: Instant) -> PortState {
        while batch.room() > 0 {
            let Some(packet) = self.pop() else { break };
            let _fits = batch.push(packet);
        }
        if self.has_ended() { PortState::Ended } else { PortState::Open }
    }

    /// Accepts nothing.
    fn transmit(&mut self, _: &mut Batch<B>, _: Instant) {}
}
