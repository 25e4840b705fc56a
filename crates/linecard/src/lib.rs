//! **Linecard is a line card in software**: it segments large sends into packets (LSO), merges
//! received packets (LRO), and runs protocol work as small stages.
//!
//! This crate is pure: no clock, no random source, no I/O. Time ([`time::Instant`]) and randomness
//! ([`rng::Rng`]) are arguments, so the same code runs live, on a capture and in a model, and every
//! test can be replayed from a seed. It depends on no other crate.
//!
//! # Features
//!
//! | feature | default | what it adds |
//! |---|---|---|
//! | `std` | on | checksums by the vector instructions that the processor has; without it the crate is `no_std` + `alloc` |
//!
//! # Contents
//!
//! The core types:
//!
//! | noun | type |
//! |---|---|
//! | bytes in a buffer that the caller owns, parsed offsets, metadata | [`packet::Packet`] |
//! | at most 64 packets processed by one call | [`packet::Batch`] |
//! | a state machine: packets and a time in; packets and the next wake-up out | [`stage::Stage`] |
//! | stages and ports connected | [`pipeline::Pipeline`] |
//! | where packets come from and go to | [`port::Port`] |
//! | one of several parallel paths | [`port::Lane`] |
//!
//! **Begin with [`offload::burst`]**: its `Merger` merges a burst in your buffer, and its `cut` divides
//! a frame. [`offload::coalesce::Coalescer`] and [`offload::segment::segment`] are for merging across
//! bursts and for data paths of several stages.
#![cfg_attr(not(feature = "std"), no_std)]
#![warn(clippy::std_instead_of_core, clippy::std_instead_of_alloc)]

extern crate alloc;

pub mod offload;
pub mod packet;
pub mod pipeline;
pub mod port;
pub mod progress;
pub mod rng;
pub mod stage;
pub mod stages;
pub mod stats;
pub mod time;

/// Its example is a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
