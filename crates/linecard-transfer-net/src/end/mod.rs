//! Common parts of both ends of a transfer: the endpoint driver, lanes with their keys, a clock,
//! and one place to wait.

pub(crate) mod agree;
mod cores;
mod crew;
mod driver;
mod endpoint;
mod goodbye;
mod processor;
mod random;
mod relay;
mod role;
mod socket;
mod turns;
mod wait;

pub use cores::Cores;
pub(crate) use cores::Pinned;
pub use crew::Crew;
pub(crate) use driver::Driver;
pub(crate) use endpoint::Endpoint;
pub(crate) use goodbye::last_words;
use goodbye::say_goodbye;
pub use processor::{CoreTimes, processor_time, thread_time};
pub(crate) use random::{challenges, random, random_key};
pub(crate) use relay::Relay;
pub(crate) use role::{Packet, Role};
pub use socket::{Done, FlushError, Inbox, SealedSocket, SocketCounters, Task, Verdict};
#[cfg(test)]
pub(crate) use turns::{Next, Turns, next_wakeup};
pub(crate) use turns::{deliver, relay_messages};
pub use wait::{Clock, Interest, MAX_TOKENS, Ready, WOKEN, Waiter, Waker};
