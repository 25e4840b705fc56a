//! Measurements on this host: sending, receiving, tracing, and changing settings and restoring
//! them. The rest of this crate interprets the numbers.
#![expect(
    clippy::disallowed_methods,
    clippy::std_instead_of_alloc,
    clippy::std_instead_of_core,
    reason = "this half reads clocks and waits, and is never built without std"
)]

pub mod ab;
pub mod audit;
pub mod clock;
pub mod dummy;
pub mod experiment;
pub mod find;
pub mod generator;
pub mod journal;
pub mod preset;
pub mod remote;
pub mod session;
pub mod setting;
pub mod sink;
pub mod switches;
mod sys;
pub mod toggle;
pub mod trace;
pub mod watch;
mod wire;
