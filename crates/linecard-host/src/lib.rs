//! Everything of Linecard that touches the operating system.
//!
//! [`capture`] reads and writes pcap and pcapng as streams; [`convert`] runs the two offloads over
//! captures; [`port`] reaches live interfaces; [`run`](mod@run) is the main job, in memory. The
//! protocol work itself is in the pure crate `linecard`, which this one gives clocks, files and
//! memory.

pub mod capture;
pub mod convert;
pub mod port;
pub mod run;
