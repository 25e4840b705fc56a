//! The stages, a file each.

mod coalesce;
mod reassemble;
mod segment;

pub use coalesce::Coalesce;
pub use reassemble::Reassemble;
pub use segment::Segment;
