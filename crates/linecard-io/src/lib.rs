//! The parts of Linecard that use the operating system.
//!
//! [`calibrate`] measures the cost of stages on this machine; [`capture`] reads and writes pcap and
//! pcapng as streams; [`convert`] runs the two offloads over captures; [`run`](mod@run) runs them
//! in memory; [`engine`] runs pipelines on many cores; [`flows`] counts
//! packets by flow; [`port`] has the live interfaces of Linux,
//! [`attach`](mod@attach) connects two of them, and [`rights`] drops the privileges that opening
//! them took; [`workload`] generates traffic and checks it; a [`lab`] simulates two hosts on this
//! machine; [`placement`] sets core and priority of a measuring thread. Protocol processing itself
//! is in the pure crate `linecard`, which this crate supplies with clocks, files and memory.

#[cfg(target_os = "linux")]
pub mod attach;
#[cfg(target_os = "linux")]
pub mod calibrate;
pub mod capture;
pub mod convert;
#[cfg(target_os = "linux")]
pub mod engine;
pub mod flows;
#[cfg(target_os = "linux")]
pub mod folder;
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
pub mod workload;
