//! The stages, a file each.

mod ack_filter;
mod active_ack;
mod coalesce;
mod reassemble;
mod resequence;
mod segment;

pub use ack_filter::AckFilter;
pub use active_ack::ActiveAck;
pub use coalesce::Coalesce;
pub use reassemble::Reassemble;
pub use resequence::Resequence;
pub use segment::Segment;
