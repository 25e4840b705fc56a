//! Other programs: `sendmmsg` and `recvmmsg`, one message for each datagram, nothing cut or merged
//! by the kernel.
#![expect(unsafe_code, reason = "neither call has a safe form in any crate in use")]

use std::net::UdpSocket;
use std::os::fd::AsRawFd;

/// Messages of one call.
pub(crate) const MESSAGES: usize = 64;
/// Room for one datagram.
const SLOT: usize = 9_216;

/// Sends datagrams of `stride` bytes; how many the kernel took.
pub(crate) fn send(socket: &UdpSocket, bytes: &[u8], stride: usize) -> usize {
    // SAFETY: structs of integers and pointers, for which zeros are valid.
    let mut messages: [libc::mmsghdr; MESSAGES] = unsafe { std::mem::zeroed() };
    // SAFETY: as above.
    let mut slices: [libc::iovec; MESSAGES] = unsafe { std::mem::zeroed() };
    let mut count = 0;
    for (datagram, slice) in bytes.chunks(stride).zip(&mut slices) {
        slice.iov_base = datagram.as_ptr().cast_mut().cast();
        slice.iov_len = datagram.len();
        messages[count].msg_hdr.msg_iov = slice;
        messages[count].msg_hdr.msg_iovlen = 1;
        count += 1;
    }
    // SAFETY: `count` messages, each with one slice of `bytes`, which is only read; all of them live
    // during the call.
    let sent = unsafe {
        let list = messages.as_mut_ptr();
        libc::sendmmsg(socket.as_raw_fd(), list, count as libc::c_uint, libc::MSG_DONTWAIT as _)
    };
    usize::try_from(sent).unwrap_or(0)
}

/// Room for datagrams.
pub(crate) fn area() -> Vec<u8> {
    vec![1; MESSAGES * SLOT]
}

/// Takes waiting datagrams; returns how many, and their bytes.
pub(crate) fn receive(socket: &UdpSocket, area: &mut [u8]) -> (usize, usize) {
    // SAFETY: structs of integers and pointers, for which zeros are valid.
    let mut messages: [libc::mmsghdr; MESSAGES] = unsafe { std::mem::zeroed() };
    // SAFETY: as above.
    let mut slices: [libc::iovec; MESSAGES] = unsafe { std::mem::zeroed() };
    for ((slot, slice), message) in area.chunks_exact_mut(SLOT).zip(&mut slices).zip(&mut messages)
    {
        *slice = libc::iovec { iov_base: slot.as_mut_ptr().cast(), iov_len: slot.len() };
        message.msg_hdr.msg_iov = slice;
        message.msg_hdr.msg_iovlen = 1;
    }
    // SAFETY: each message has one slice of `area`, or none; all of them live during the call, and
    // nobody else uses them.
    let came = unsafe {
        let (list, flags) = (messages.as_mut_ptr(), libc::MSG_DONTWAIT as _);
        libc::recvmmsg(
            socket.as_raw_fd(),
            list,
            MESSAGES as libc::c_uint,
            flags,
            std::ptr::null_mut(),
        )
    };
    let came = usize::try_from(came).unwrap_or(0);
    let bytes = messages.iter().take(came).map(|message| message.msg_len as usize).sum();
    (came, bytes)
}
