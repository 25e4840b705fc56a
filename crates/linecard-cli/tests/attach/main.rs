//! `linecard attach` from end to end: between a peer and a host, each a network namespace with the
//! kernel's own TCP, without faults and with them. The tests need root; without
//! it, or without a facility of the kernel, they say so and pass.
//!
//! `LINECARD_LONG=1` sends 2 GB in place of 64 MB.
#![cfg(target_os = "linux")]
#![expect(clippy::panic, reason = "a test stops at the first surprise")]
#![expect(clippy::print_stdout, reason = "figures, shown with --nocapture or on failure")]

mod bytes;
mod command;
mod deploy;
mod document;
mod ends;
mod faults;
mod flood;
mod interfaces;
mod lab;
mod links;
mod mtu;
mod refused;
mod scheduling;
#[path = "../support/mod.rs"]
#[expect(dead_code, reason = "shared: the command is run elsewhere here")]
mod support;
mod sys;
mod tags;
mod transfer;
