//! What both ends of a transfer have: lanes with their keys, a clock, and one place to wait.

pub(crate) mod agree;
mod carrier;
mod cores;
mod goodbye;
mod processor;
mod random;
mod relay;
mod wait;

pub use carrier::{Carrier, CarrierCounters, Verdict};
pub use cores::Cores;
pub(crate) use cores::Pinned;
pub(crate) use goodbye::{give_up, last_words};
pub use processor::processor_time;
pub(crate) use random::random;
pub(crate) use relay::Relay;
pub use wait::{Clock, Interest, Ready, Waiter, Waker};
