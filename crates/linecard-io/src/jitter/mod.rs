//! The jitter lab on this host: what sends, what receives, what traces, what changes settings and puts
//! them back. What its numbers mean is said by `linecard_jitter`.

pub mod ab;
pub mod audit;
pub mod clock;
pub mod dummy;
pub mod experiment;
pub mod generator;
pub mod journal;
pub mod preset;
pub mod session;
pub mod setting;
pub mod sink;
pub mod switches;
pub mod toggle;
pub mod trace;
