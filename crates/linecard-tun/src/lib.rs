//! The last mile of a tunnel in user space, on Linux: large packets from and to a TUN or TAP device,
//! and batches of UDP datagrams to and from a peer.
//!
//! [`Tap`] opens a device with the longest virtio header that the kernel knows. Through it the
//! kernel passes TCP and UDP packets of up to 64 KiB unsegmented, and accepts merged ones.
//! [`Segmenter`](egress::Segmenter) segments what was read. [`BatchSocket`](udp::BatchSocket) sends
//! the segments of a packet by one call (UDP GSO), and receives as many datagrams by one (UDP GRO).
//! A [`Coalescer`](linecard::offload::coalesce::Coalescer) merges them for the device again.
//!
//! One direction of a tunnel; the example `tun` has both.
//!
//! ```no_run
//! use linecard::offload::complete_checksum;
//! use linecard::packet::{Batch, ChecksumState, Pool};
//! use linecard::port::{Port, PortState};
//! use linecard::time::Instant;
//! use linecard_tun::{BUFFER_LEN, Tap, TapConfig, TapKind, egress::Segmenter, udp::BatchSocket};
//! use std::{net::UdpSocket, os::fd::AsFd, time::Duration};
//!
//! let config = TapConfig { kind: TapKind::Ip, ..TapConfig::new("tun0") };
//! let mut device = Tap::open(&config, Pool::new(64, BUFFER_LEN))?;
//! let socket = UdpSocket::bind("192.0.2.1:5000")?;
//! socket.connect("192.0.2.2:5000")?;
//! let peer = BatchSocket::new(socket)?;
//! let (mut batch, mut segmenter) = (Batch::new(), Segmenter::default());
//! while device.receive(&mut batch, Instant::ZERO) == PortState::Open {
//!     for mut packet in batch.drain() {
//!         if packet.meta.gso.is_some() {
//!             // An error is a packet that cannot be segmented: it is dropped.
//!             let _ = segmenter.send(&mut packet, |segments| {
//!                 let _full = peer.send(segments.bytes(), segments.size());
//!                 segments.len()
//!             });
//!             continue;
//!         }
//!         if packet.meta.checksum == ChecksumState::Partial {
//!             complete_checksum(&mut packet);
//!         }
//!         let _full = peer.send(packet.bytes(), packet.bytes().len());
//!     }
//!     linecard_tun::wait(&[device.as_fd()], Duration::from_secs(1))?;
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`interface`] sets a device up and reads and sets its MTU and MAC address. [`ingress`] and
//! [`egress`] convert between packets and frames behind virtio headers, for programs that have them
//! from elsewhere.
//!
//! Nothing blocks but [`wait`]. Not supported: frames above 64 KiB ("BIG TCP"), `vhost-net`, ECN and
//! local addresses of UDP datagrams, addresses and routes of a device (`ip` sets them).
#![cfg(target_os = "linux")]

/// Its example is a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;

mod buffers;
mod counters;
mod device;
pub mod egress;
mod error;
pub mod ingress;
pub mod interface;
mod progress;
pub mod sys;
mod tap;
pub mod udp;

pub use buffers::Buffers;
pub use counters::{Counters, Drops};
pub use device::{Device, Frame, TapConfig, TapKind};
pub use error::PortError;
pub use tap::Tap;

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// Bytes of a buffer that holds any frame without "BIG TCP": 64 KiB, Ethernet header and VLAN tags,
/// in whole cache lines.
pub const BUFFER_LEN: usize = 65_536 + 64;

/// Waits until one of the ports can receive, has ended or has failed, for at most `time`; returns
/// whether that is the case. A signal also ends the wait.
///
/// ```no_run
/// use linecard::packet::Pool;
/// use linecard_tun::{BUFFER_LEN, Tap, TapConfig};
/// use std::os::fd::AsFd;
/// use std::time::Duration;
///
/// let tap = Tap::open(&TapConfig::new("tap0"), Pool::new(128, BUFFER_LEN))?;
/// let ready = linecard_tun::wait(&[tap.as_fd()], Duration::from_millis(100))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// The system's error: too little memory, or too many descriptors.
pub fn wait(ports: &[BorrowedFd<'_>], time: Duration) -> io::Result<bool> {
    let entries = ports.iter().map(|port| sys::poll::readable(*port));
    sys::poll::wait(&mut entries.collect::<Vec<_>>(), time)
}

/// As [`wait`], without allocating, and returns which of the ports can be read.
///
/// # Errors
///
/// As [`wait`].
pub fn wait_each<const N: usize>(
    ports: [BorrowedFd<'_>; N],
    time: Duration,
) -> io::Result<[bool; N]> {
    let mut entries = ports.map(sys::poll::readable);
    sys::poll::wait(&mut entries, time)?;
    Ok(entries.map(|entry| entry.revents != 0))
}
