//! Live interfaces of Linux as ports: [`PacketSocket`]s on any interface, and AF_XDP sockets
//! ([`xdp`]). TUN and TAP devices ([`Tap`](linecard_tun::Tap)) are in linecard-tun.
//!
//! Devices and packet sockets receive into [`Buffers`](linecard_tun::Buffers) given at construction,
//! usually a [`Pool`](linecard::packet::Pool): a port stays on its thread with its pool. Received
//! frames are copied once, out of the kernel; sent packets are passed as slices and copied only by
//! the kernel. If the pool is empty, frames wait in the kernel.
//!
//! Connected ports of different kinds share one buffer type: [`Buffer`] on one thread,
//! [`SharedBuffer`] if other threads process packets. Together they are [`LivePort`]s.
//!
//! No port blocks. [`wait`](linecard_tun::wait) waits for several at once, and each port implements
//! [`AsFd`](std::os::fd::AsFd) for the caller's own event loop.
//!
//! Capture files are ports too: [`CaptureSource`] and [`CaptureSink`].
//!
//! [`vhost`] exchanges packets with virtual machines.
//!
//! [`xdp`] receives without a copy in user space, into memory shared with the kernel.
//!
//! [`probe`] and [`xdp::probe`] report what this host supports,
//! [`interface::list`](linecard_tun::interface::list) its interfaces.
//!
//! Not supported by the others: zero-copy receive, frames above 64 KiB ("BIG TCP"), scheduled
//! transmission, hardware timestamps.

mod buffer;
mod capture;
mod live;
mod packet;
pub mod probe;
mod shared_pool;
pub mod vhost;
pub mod xdp;

pub(crate) use buffer::filled;
pub use buffer::{Buffer, LocalPool};
pub use capture::{CaptureSink, CaptureSource, Pace};
pub use live::LivePort;
pub(crate) use live::left_to;
pub use packet::{Fanout, FanoutBy, PacketConfig, PacketSocket, Takeover};
pub use shared_pool::{SharedBuffer, SharedPool};
