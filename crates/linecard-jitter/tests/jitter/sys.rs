//! System calls that std lacks.
#![expect(unsafe_code, reason = "setsockopt has no safe form in std")]

use std::net::UdpSocket;
use std::os::fd::AsRawFd;

/// Has the kernel segment each send into packets of this many bytes (`UDP_SEGMENT`). Over the
/// loopback interface they stay together until the softirq that receives has to cut them.
pub(crate) fn set_segment(socket: &UdpSocket, bytes: libc::c_int) {
    const UDP_SEGMENT: libc::c_int = 103;
    let len = size_of::<libc::c_int>() as libc::socklen_t;
    let value = (&raw const bytes).cast();
    // SAFETY: the option reads one integer, which lives during the call.
    let result =
        unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_UDP, UDP_SEGMENT, value, len) };
    assert_eq!(result, 0, "Linux 4.18 or later");
}
