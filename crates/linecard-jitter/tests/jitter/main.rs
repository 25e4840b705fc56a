//! The jitter lab on the real kernel: known causes of delay, made on purpose, have to be found again.
//!
//! Needs root (namespaces, real-time classes, BPF) and two cores; without, each test says that it
//! was skipped, and why. Tests assert the cause, never the duration.
#![cfg(target_os = "linux")]
#![expect(clippy::disallowed_methods, reason = "what is measured takes its time")]
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test stops at the first surprise")]

mod injected;
mod interfaces;
mod lab;
mod score;
mod sender;
mod session;
mod sys;
mod watched;
