//! The offloads on captures, and the parts of outcomes that all jobs with offloads share.

pub mod coalesce;
mod explain;
mod parts;
pub mod segment;

pub use explain::Line;
pub use parts::{Checksum, Classes, Merging, draw_merging};
