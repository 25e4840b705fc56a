//! Everything of Linecard that touches the operating system.
//!
//! [`calibrate`] measures what stages cost here; [`capture`] reads and writes pcap and pcapng as streams;
//! [`convert`] runs the two offloads over captures; [`run`](mod@run) is the main job, in memory; [`engine`]
//! runs pipelines on many cores; [`port`] has the live interfaces of Linux, [`attach`](mod@attach) joins two
//! of them, and [`rights`] gives up what opening them took; a [`lab`] is two hosts on this machine, for
//! experiments; [`placement`] says where a measuring thread runs. The protocol work itself is in the pure crate
//! `linecard`, which this one gives clocks, files and memory.

#[cfg(target_os = "linux")]
pub mod attach;
#[cfg(target_os = "linux")]
pub mod calibrate;
pub mod capture;
pub mod convert;
#[cfg(target_os = "linux")]
pub mod engine;
#[cfg(target_os = "linux")]
pub mod lab;
#[cfg(target_os = "linux")]
pub mod placement;
#[cfg(target_os = "linux")]
pub mod port;
#[cfg(target_os = "linux")]
pub mod rights;
pub mod run;
#[cfg(target_os = "linux")]
pub mod sys;
