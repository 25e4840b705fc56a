//! TUN and TAP devices for tunnels in user space, on Linux: large packets from and to the kernel.
//!
//! [`Tap`] opens a device with the longest virtio header that the kernel knows. Through it the
//! kernel passes TCP and UDP packets of up to 64 KiB unsegmented, and accepts merged ones.
//! [`Segmenter`](egress::Segmenter) segments what was read. A
//! [`Coalescer`](linecard::offload::coalesce::Coalescer) merges packets for the device again.
//!
//! [`interface`] sets a device up and reads and sets its MTU and MAC address. [`ingress`] and
//! [`egress`] convert between packets and frames behind virtio headers, for programs that have them
//! from elsewhere.
//!
//! Nothing blocks but [`wait`]. Not supported: frames above 64 KiB ("BIG TCP"), `vhost-net`, addresses and routes of a device (`ip` sets them).
#![cfg(target_os = "linux")]

mod buffers;
mod counters;
pub mod egress;
mod error;
pub mod ingress;
pub mod interface;
mod progress;
pub mod sys;
mod tap;

pub use buffers::Buffers;
pub use counters::{Counters, Drops};
pub use error::PortError;
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
    let mut entries: Vec<_> = ports.iter().map(|port| PollFd::new(port, PollFlags::IN)).collect();
    // A time too long for the system's clock means forever.
    let time = Timespec::try_from(time).ok();
    match poll(&mut entries, time.as_ref()) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
