//! The last mile of a tunnel in user space, on Linux: large packets from and to a TUN or TAP device,
//! and batches of UDP datagrams to and from peers.
//!
//! | step | type |
//! |---|---|
//! | open a device with the longest virtio header that the kernel knows; read and write packets of up to 64 KiB | [`Device`] |
//! | cut a packet, with room around each segment for a header and a tag | [`cut`](linecard::offload::burst::cut), by [`Frame::cut`] |
//! | send segments, up to 64 by one call (UDP GSO) | [`Batcher`](udp::Batcher) |
//! | receive what waits, up to 64 datagrams by one call (UDP GRO) | [`Receiver`](udp::Receiver) |
//! | merge packets where they were received | [`Merger`](linecard::offload::burst::Merger), by [`Device::merger`] |
//!
//! Everything works on memory of the caller, and nothing is held from one call to the next. A
//! complete tunnel, both directions in one thread; the example `tun` is the same with encryption.
//!
//! ```no_run
//! use linecard::offload::burst::Room;
//! use linecard_tun::udp::{BatchSocket, Batcher, Receiver};
//! use linecard_tun::{BUFFER_LEN, Device, DeviceConfig, wait_each};
//! use std::{io::ErrorKind, net::UdpSocket, os::fd::AsFd, time::Duration};
//!
//! let device = Device::open(&DeviceConfig::tun("tun0"))?;
//! let socket = UdpSocket::bind("192.0.2.1:5000")?;
//! socket.connect("192.0.2.2:5000")?;
//! let socket = BatchSocket::new(socket)?;
//! socket.set_buffers(5 << 20)?;
//! let (mut batcher, mut receiver, mut merger) = (Batcher::new(), Receiver::new(4), device.merger());
//! let mut frame = vec![0; BUFFER_LEN];
//! loop {
//!     let [from_device, from_peer] = wait_each([device.as_fd(), socket.as_fd()], Duration::MAX)?;
//!     // At most this many, so that neither direction waits for the other.
//!     for _ in 0..64 * usize::from(from_device) {
//!         let frame = match device.read(&mut frame) {
//!             Err(error) if error.kind() == ErrorKind::WouldBlock => break,
//!             // Among other errors: the device was removed.
//!             read => read?,
//!         };
//!         // A packet that cannot be segmented, or that a full socket does not take, is lost, as in a full queue.
//!         let Ok(mut segments) = frame.cut() else { continue };
//!         // Encrypt each datagram in place here; `Room` leaves bytes around it.
//!         let _lost = batcher.push(&socket, &mut segments, Room::default(), |_datagram| {});
//!     }
//!     let _lost = batcher.flush(&socket);
//!     for _ in 0..16 * usize::from(from_peer) {
//!         let Ok(burst) = receiver.receive(&socket) else { break };
//!         // Decrypt each range in place here.
//!         merger.merge_burst(burst.bytes, burst.ranges(), &mut |packet| {
//!             let _full = device.write(&packet);
//!         })?;
//!     }
//! }
//! # #[expect(unreachable_code, reason = "the loop has no end")]
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! **Many peers.** A server leaves its socket unconnected, pushes to
//! [`socket.to(address)`](udp::BatchSocket::to), and finds the sender of what it received in each
//! [`Batch`](udp::Batch).
//!
//! **With an executor.** With the feature `tokio`, the module `tokio` has `AsyncDevice` and
//! `AsyncSocket`, whose reading is awaited; the example `tokio` is a tunnel made of them.
//! [`Device`] and [`BatchSocket`](udp::BatchSocket) never block, and are file descriptors for any
//! other executor. There, a task that always finds something to read should yield after some reads.
//!
//! No timer is needed, since nothing is held. Where packets are to be merged across bursts
//! ([`Config::holding`](linecard::offload::coalesce::Config::holding)), note that tokio's timers
//! count whole milliseconds: a deadline is rounded up to the next one, and an idle runtime sleeps
//! for whole milliseconds from when it looks, so that a hold budget below 1 ms becomes 1 to 2 ms.
//! Flush at the end of each burst instead, or await a `timerfd`.
//!
//! [`Tap`] is the same device as a [`Port`](linecard::port::Port) of packets, for programs made of
//! stages; [`egress::Segmenter`] segments such packets.
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
#[cfg(feature = "tokio")]
pub mod tokio;
pub mod udp;

pub use buffers::Buffers;
pub use counters::{Counters, Drops};
pub use device::{Device, DeviceConfig, DeviceKind, Frame};
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
/// use linecard_tun::{BUFFER_LEN, Tap, DeviceConfig};
/// use std::os::fd::AsFd;
/// use std::time::Duration;
///
/// let tap = Tap::open(&DeviceConfig::tap("tap0"), Pool::new(128, BUFFER_LEN))?;
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
