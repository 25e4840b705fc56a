//! Live interfaces of Linux as ports: [`Tap`] devices, [`PacketSocket`]s on any interface, and
//! AF_XDP sockets ([`xdp`]).
//!
//! The first two receive into [`Buffers`] given at construction, usually a
//! [`Pool`](linecard::packet::Pool): a port stays on its thread with its pool. Received frames are
//! copied once, out of the kernel; sent packets are passed as slices and copied only by the kernel.
//! If the pool is empty, frames wait in the kernel.
//!
//! Connected ports of different kinds share one buffer type: [`Buffer`] on one thread,
//! [`SharedBuffer`] if other threads process packets. Together they are [`LivePort`]s.
//!
//! No port blocks. [`wait`] waits for several at once, and each port implements
//! [`AsFd`](std::os::fd::AsFd) for the caller's own event loop.
//!
//! Capture files are ports too: [`CaptureSource`] and [`CaptureSink`].
//!
//! [`xdp`] receives without a copy in user space, into memory shared with the kernel.
//!
//! [`probe`] and [`xdp::probe`] report what this host supports, [`interface::list`] its interfaces.
//!
//! Not supported by the others: zero-copy receive, frames above 64 KiB ("BIG TCP"), scheduled
//! transmission, hardware timestamps.

mod buffer;
mod buffers;
mod capture;
mod counters;
mod error;
mod incoming;
pub mod interface;
mod live;
mod outgoing;
mod packet;
pub mod probe;
mod progress;
mod shared_pool;
mod tap;
pub mod xdp;

pub use buffer::{Buffer, LocalPool};
pub use buffers::Buffers;
pub use capture::{CaptureSink, CaptureSource, Pace};
pub use counters::{Counters, Drops};
pub use error::PortError;
pub use live::LivePort;
pub use packet::{Fanout, FanoutBy, PacketConfig, PacketSocket, Takeover};
pub use shared_pool::{SharedBuffer, SharedPool};
pub use tap::{Tap, TapConfig, TapKind};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
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
/// use linecard_io::port::{self, Tap, TapConfig};
/// use std::os::fd::AsFd;
/// use std::time::Duration;
///
/// let tap = Tap::open(&TapConfig::new("tap0"), Pool::new(128, port::BUFFER_LEN))?;
/// let ready = port::wait(&[tap.as_fd()], Duration::from_millis(100))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// The system's error: too little memory, or too many descriptors.
pub fn wait(ports: &[BorrowedFd<'_>], time: Duration) -> io::Result<bool> {
    let mut entries: Vec<_> = ports.iter().map(|port| PollFd::new(port, PollFlags::IN)).collect();
    // A time too long for the system's clock means forever.
    let time = Timespec::try_from(time).ok();
    match poll(&mut entries, time.as_ref()) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
