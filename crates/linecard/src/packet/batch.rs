//! Batches: the packets processed by one call.

use super::Packet;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// Packets in a batch: enough to amortise the cost of a call, few enough to stay in the L1 cache
/// and to keep a batch's latency below 2 µs at 30 ns per packet.
pub const BATCH: usize = 64;

/// A queue of at most [`BATCH`] packets: the input and output of a stage.
///
/// ```
/// use linecard::packet::{Batch, LinkType, Meta, Packet};
/// let mut batch = Batch::new();
/// assert!(batch.push(Packet::new([0_u8; 60], LinkType::Ethernet, Meta::default())).is_ok());
/// assert_eq!((batch.len(), batch.room()), (1, 63));
/// ```
#[derive(Debug)]
pub struct Batch<B> {
    packets: VecDeque<Packet<B>>,
    limit: usize,
}

impl<B> Default for Batch<B> {
    fn default() -> Self {
        Self::new()
    }
}

impl<B> Batch<B> {
    /// An empty batch with its memory reserved.
    #[must_use]
    pub fn new() -> Self {
        Self::bounded(BATCH)
    }

    /// The same for at most `limit` packets; `limit` is clamped to 1 … [`BATCH`].
    #[must_use]
    pub fn bounded(limit: usize) -> Self {
        Self { packets: VecDeque::with_capacity(BATCH), limit: limit.clamp(1, BATCH) }
    }

    /// Appends a packet, or returns it if the batch is full.
    ///
    /// # Errors
    ///
    /// The packet itself: the caller keeps it for the next call.
    #[inline]
    pub fn push(&mut self, packet: Packet<B>) -> Result<(), Packet<B>> {
        if self.room() == 0 {
            return Err(packet);
        }
        self.packets.push_back(packet);
        Ok(())
    }

    /// Moves packets from the front of another batch to the end of this one, as far as they fit;
    /// returns how many. If all fit into an empty batch, no packet is copied.
    ///
    /// ```
    /// use linecard::packet::{Batch, LinkType, Meta, Packet};
    /// let (mut input, mut output) = (Batch::new(), Batch::bounded(2));
    /// for byte in 0_u8..3 {
    ///     let _fits = input.push(Packet::new([byte; 60], LinkType::Ethernet, Meta::default()));
    /// }
    /// assert_eq!((output.append(&mut input), input.len()), (2, 1));
    /// ```
    pub fn append(&mut self, other: &mut Self) -> usize {
        let count = other.len().min(self.room());
        if self.is_empty() && count == other.len() {
            core::mem::swap(&mut self.packets, &mut other.packets);
        } else {
            self.packets.extend(other.packets.drain(..count));
        }
        count
    }

    /// Removes the oldest packet.
    #[inline]
    pub fn pop(&mut self) -> Option<Packet<B>> {
        self.packets.pop_front()
    }

    /// The oldest packet, left in place.
    #[must_use]
    pub fn front(&self) -> Option<&Packet<B>> {
        self.packets.front()
    }

    /// The packets, oldest first, left in place.
    pub fn iter(&self) -> impl Iterator<Item = &Packet<B>> {
        self.packets.iter()
    }

    /// The packets, oldest first, left in place.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Packet<B>> {
        self.packets.iter_mut()
    }

    /// Takes the list of packets, which [`Batch::set_list`] returns: a list allows access to
    /// packets while others are removed.
    pub(crate) fn take_list(&mut self) -> Vec<Packet<B>> {
        Vec::from(core::mem::take(&mut self.packets))
    }

    /// Returns the list for reuse.
    pub(crate) fn set_list(&mut self, packets: Vec<Packet<B>>) {
        self.packets = VecDeque::from(packets);
    }

    /// Removes all packets, oldest first.
    pub fn drain(&mut self) -> impl Iterator<Item = Packet<B>> {
        self.packets.drain(..)
    }

    /// The number of packets.
    #[must_use]
    pub fn len(&self) -> usize {
        self.packets.len()
    }

    /// Whether there are no packets.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// The number of packets that still fit.
    #[must_use]
    pub fn room(&self) -> usize {
        self.limit - self.packets.len()
    }
}
