//! One lane at either end: packet numbers, round-trip times, loss, pacing, congestion, failure and
//! recovery.
//!
//! Each lane is judged by itself: a slow or failed path says nothing about another.

mod bbr;
mod challenges;
mod control;
mod cubic;
mod delivery;
mod flight;
mod pacer;
mod ranges;
mod receiver;
mod rtt;
mod sender;

pub use bbr::Bbr;
pub use challenges::Challenges;
pub use control::{Breaker, Congestion, Control, Observed};
pub use cubic::Cubic;
pub use delivery::RateSample;
pub use flight::{Flight, FlightUpdate, MAX_FLIGHT, PACKET_THRESHOLD, Piece};
pub use pacer::Pacer;
pub use ranges::Ranges;
pub use receiver::{AckSettings, LaneReceiver};
pub use rtt::{GRANULARITY_NS, INITIAL_NS, Rtt};
pub use sender::{LaneCounters, LaneSender, LaneSettings, LaneState};
