//! The kernel polls the device for a waiting socket: no interrupt, no softirq, no wakeup, if the
//! device's driver uses NAPI.

use linecard_io::sys::socket::{option, set_option};
use std::io;
use std::net::UdpSocket;
use std::os::fd::AsFd;

/// Of `asm-generic/socket.h`; not every libc has them.
const SO_BUSY_POLL: libc::c_int = 46;
const SO_INCOMING_NAPI_ID: libc::c_int = 56;
const SO_PREFER_BUSY_POLL: libc::c_int = 69;

/// Sets how long calls poll before they sleep.
pub(super) fn ask(socket: &UdpSocket, time_us: u32) -> io::Result<()> {
    let time_us = libc::c_int::try_from(time_us).unwrap_or(libc::c_int::MAX);
    set_option(socket.as_fd(), libc::SOL_SOCKET, SO_BUSY_POLL, &time_us)?;
    // Keeps the device's interrupts off between calls; kernels before 5.11 poll without it.
    let yes: libc::c_int = 1;
    let _refused = set_option(socket.as_fd(), libc::SOL_SOCKET, SO_PREFER_BUSY_POLL, &yes);
    Ok(())
}

/// Whether the last packet came through a device that can be polled.
pub(super) fn was_possible(socket: &UdpSocket) -> bool {
    let mut number: libc::c_uint = 0;
    let read = option(socket.as_fd(), libc::SOL_SOCKET, SO_INCOMING_NAPI_ID, &mut number);
    read.is_ok() && number > 0
}
