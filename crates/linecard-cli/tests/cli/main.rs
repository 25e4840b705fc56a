//! The command as a user runs it: its output, its files, its exit codes.
//!
//! Every refusal is checked in three ways: exactly one line on stderr that names the value, the
//! exit code that `--help` documents, and a folder in which nothing has changed.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test stops at the first surprise")]

mod account;
mod analyze;
mod analyze_media;
mod arguments;
#[path = "../support/around.rs"]
mod around;
#[cfg(target_os = "linux")]
mod attached;
mod captures;
mod damage;
mod disk;
mod end2end100;
mod entries;
mod files;
#[cfg(target_os = "linux")]
mod firmware;
mod folder;
mod jitter_audit;
#[cfg(target_os = "linux")]
mod jitter_lab;
#[cfg(target_os = "linux")]
mod jitter_live;
#[cfg(target_os = "linux")]
mod jitter_remote;
#[cfg(target_os = "linux")]
mod jitter_watch;
mod lso;
#[cfg(target_os = "linux")]
mod manual;
mod model;
mod model_kinds;
mod modelled;
mod packaged;
mod page;
mod pipes;
#[cfg(target_os = "linux")]
mod plan;
#[cfg(target_os = "linux")]
mod ports;
#[cfg(target_os = "linux")]
mod reproduce;
mod run;
mod scenario;
mod solve;
mod stopped;
#[path = "../support/mod.rs"]
mod support;
#[cfg(target_os = "linux")]
mod transfer;
