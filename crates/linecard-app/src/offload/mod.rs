//! The offloads on captures, and the parts of outcomes that all jobs with offloads share.

pub mod coalesce;
mod explain;
pub(crate) mod flows;
mod parts;
pub mod segment;

pub use explain::Line;
pub use flows::{Flow, FlowPackets};
pub use parts::{Checksum, Classes, Merging, draw_merging};
