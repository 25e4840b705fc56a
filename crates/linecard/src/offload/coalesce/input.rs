//! The input of one call of a coalescer.

use crate::packet::{Batch, LinkType, Meta, Packet};
use alloc::vec::Vec;

/// Packets that arrived together, for [`Coalescer::push_batch`](super::Coalescer::push_batch), which takes
/// all of them and leaves the memory of their list.
///
/// With [`Config::flush_at_batch_end`](super::Config::flush_at_batch_end), a list for which the limits of
/// held packets and bytes leave no room is merged in parts for which they do, by default of 512 packets.
#[derive(Debug)]
#[non_exhaustive]
pub enum Input<'a, B> {
    /// A batch, as stages pass it on: `&mut batch` becomes this.
    Batch(&'a mut Batch<B>),
    /// Any number of packets: `&mut list` becomes this.
    Packets(&'a mut Vec<Packet<B>>),
    /// Any number of frames with their link, and the metadata that they share. A packet is made only of
    /// those that do not simply continue a merged one, so this costs least.
    Frames(&'a mut Vec<B>, LinkType, Meta),
}

impl<'a, B> From<&'a mut Batch<B>> for Input<'a, B> {
    fn from(batch: &'a mut Batch<B>) -> Self {
        Self::Batch(batch)
    }
}

impl<'a, B> From<&'a mut Vec<Packet<B>>> for Input<'a, B> {
    fn from(packets: &'a mut Vec<Packet<B>>) -> Self {
        Self::Packets(packets)
    }
}
