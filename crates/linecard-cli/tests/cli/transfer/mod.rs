//! Transfers as users run them: both ends on loopback.

mod access;
mod agreement;
mod delete;
mod dry;
mod ends;
mod faults;
mod hard_links;
mod hosts;
mod killed;
mod links;
#[cfg(feature = "objects")]
mod objects;
mod resume;
mod several;
mod started;
mod storm;
mod trees;
mod whole;
