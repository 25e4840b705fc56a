//! The stages, a file each.

mod coalesce;
mod reassemble;
mod resequence;
mod segment;

pub use coalesce::Coalesce;
pub use reassemble::Reassemble;
pub use resequence::Resequence;
pub use segment::Segment;
