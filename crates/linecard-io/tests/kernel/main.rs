//! The kernel as witness: our merging equals Linux's GRO, and our segmentation its GSO.
//!
//! The tests send frames from one network namespace to another and need root; without it, or where
//! the kernel lacks something, they say so and pass.
#![expect(clippy::panic, reason = "a test stops at the first surprise")]

mod around;
mod attached;
mod carry;
mod cases;
mod compare;
mod differences;
mod document;
mod frame;
mod gro;
mod gso;
mod gso_tunnels;
mod lab;
mod live;
mod random;
mod session;
mod sys;
mod tap;
