//! Rings between threads: one producer, one consumer, memory of fixed size.

use super::idle::Bell;
use linecard::packet::{Batch, Packet};
use linecard::port::{Port, PortState};
use linecard::time::Instant;
use rtrb::{Consumer, Producer, RingBuffer};

/// Where packets go into a ring; receives nothing.
#[derive(Debug)]
pub struct Sender<B> {
    ring: Producer<Packet<B>>,
    bell: Bell,
}

/// Where packets come out of a ring; transmits nothing.
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
    belled(capacity, Bell::default())
}

/// The same, where the receiver's thread is woken up by this bell.
pub(super) fn belled<B>(capacity: usize, bell: Bell) -> (Sender<B>, Receiver<B>) {
    let (producer, consumer) = RingBuffer::new(capacity.max(1));
    (Sender { ring: producer, bell }, Receiver { ring: consumer })
}

impl<B> Sender<B> {
    /// Puts a packet in, or gives it back when the ring is full. Nobody is woken up.
    pub(super) fn push(&mut self, packet: Packet<B>) -> Result<(), Packet<B>> {
        self.ring.push(packet).map_err(|rtrb::PushError::Full(packet)| packet)
    }

    /// Tells the receiver that there is something.
    pub(super) fn announce(&self) {
        self.bell.ring();
    }

    /// Whether there is no room.
    pub(super) fn is_full(&self) -> bool {
        self.ring.is_full()
    }

    /// Whether there is nobody to receive any more.
    #[must_use]
    pub fn is_abandoned(&self) -> bool {
        self.ring.is_abandoned()
    }
}

impl<B> Drop for Sender<B> {
    /// An end is something to wake up for.
    fn drop(&mut self) {
        self.bell.ring();
    }
}

impl<B> Receiver<B> {
    /// Takes the oldest packet.
    pub(super) fn pop(&mut self) -> Option<Packet<B>> {
        self.ring.pop().ok()
    }

    /// Whether nothing is inside and nothing will come.
    pub(super) fn has_ended(&self) -> bool {
        // In this order: what was sent before the end is seen.
        self.ring.is_abandoned() && self.ring.is_empty()
    }
}

impl<B> Port<B> for Sender<B> {
    fn receive(&mut self, _: &mut Batch<B>, _: Instant) -> PortState {
        PortState::Ended
    }

    /// Drops what nobody will receive.
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

    /// Takes nothing.
    fn transmit(&mut self, _: &mut Batch<B>, _: Instant) {}
}
