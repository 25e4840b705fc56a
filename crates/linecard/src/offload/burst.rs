//! The offloads of a tunnel, a VPN or a virtual machine's back end, on borrowed memory: [`Merger`]
//! merges what arrived in one burst and describes it by virtio headers, and [`cut`] divides what a
//! virtio header describes.
//!
//! There is no buffer type, no clock and no timer, and nothing outlives a call. To merge across
//! bursts, to keep what no virtio header describes, or to run several offloads in a row, see
//! [`coalesce`](super::coalesce) and [`segment`](super::segment), which take
//! [packets](crate::packet::Packet).

pub use super::coalesce::burst::{BurstCounters, Merged, Merger, OutsideBuffer, stride};
pub use super::segment::cut::{CutError, FrameSegments, Room, Run, cut, cut_pieces};
