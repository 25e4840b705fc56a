//! The jitter lab on this host: what sends, what receives, what traces, what changes settings and puts
//! them back. What its numbers mean is said by `linecard_jitter`.

pub mod ab;
pub mod audit;
pub mod journal;
pub mod setting;
pub mod toggle;
