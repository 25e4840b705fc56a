//! The stages, one per file.

mod ack_filter;
mod active_ack;
mod coalesce;
mod forward;
mod reassemble;
mod resequence;
mod segment;

pub use ack_filter::AckFilter;
pub use active_ack::ActiveAck;
pub use coalesce::Coalesce;
pub use forward::Forward;
pub use reassemble::Reassemble;
pub use resequence::Resequence;
pub use segment::Segment;

use crate::packet::{Batch, Packet};
use alloc::collections::VecDeque;

/// Moves ready packets to the output; false if that is full and packets are left.
fn give<B>(ready: &mut VecDeque<Packet<B>>, output: &mut Batch<B>) -> bool {
    while let Some(packet) = ready.pop_front() {
        if let Err(packet) = output.push(packet) {
            ready.push_front(packet);
            return false;
        }
    }
    true
}
