//! The stages, a file each.

mod coalesce;
mod segment;

pub use coalesce::Coalesce;
pub use segment::Segment;
