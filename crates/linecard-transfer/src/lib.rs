//! Bulk transfer over many lanes: chunks, repair, retransmission, pacing and congestion control.
//!
//! This crate is pure: it reads no clock, has no sockets and, except for [`fec`], touches no
//! payload. It decides which packet goes where and when; `linecard_transfer_net` carries that out
//! on real networks and [`sim`] in virtual time, and both run this same code.

#![cfg_attr(not(feature = "std"), no_std)]
#![warn(clippy::std_instead_of_core, clippy::std_instead_of_alloc)]

extern crate alloc;

pub mod control;
pub mod fec;
pub mod lane;
pub mod layout;
pub mod receive;
pub mod send;
pub mod sim;
pub mod store;
pub mod wire;
