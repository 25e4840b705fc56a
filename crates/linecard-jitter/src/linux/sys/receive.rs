//! Receives many datagrams in one call.
#![expect(unsafe_code, reason = "recvmmsg has no safe form in std")]

use super::check;
use std::fmt;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Maximum datagrams per call.
pub(crate) const MESSAGES: usize = 64;
/// Buffer bytes per datagram: longer ones are truncated.
pub(crate) const SLOT: usize = 9_216;

/// Room for the control message of a time stamp, which takes 32 bytes.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct Control([u8; 64]);

/// Buffers for the datagrams of one call. Each call passes their addresses to the kernel again.
pub(crate) struct Batch {
    buffer: Vec<u8>,
    slices: Vec<libc::iovec>,
    messages: Vec<libc::mmsghdr>,
    /// For each message, or empty.
    controls: Vec<Control>,
}

// SAFETY: the pointers in the lists are set before each use, and point into `buffer`, `slices` and `controls`,
// which the batch owns.
unsafe impl Send for Batch {}

impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} slots", self.messages.len())
    }
}

impl Batch {
    /// Allocates the buffers and touches their memory.
    pub(crate) fn new() -> Self {
        // SAFETY: structs of integers and pointers, for which zeros are valid.
        let (slice, message) = unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
        let buffer = vec![1; MESSAGES * SLOT];
        let (slices, messages) = (vec![slice; MESSAGES], vec![message; MESSAGES]);
        Self { buffer, slices, messages, controls: Vec::new() }
    }

    /// The same for a socket with `SO_TIMESTAMPNS`, whose stamps it takes.
    pub(crate) fn stamped() -> Self {
        Self { controls: vec![Control([0; 64]); MESSAGES], ..Self::new() }
    }

    /// Waits for a datagram as the socket is configured to wait, then takes those that are there.
    /// Returns their number. Each has its length, also if it is truncated (`MSG_TRUNC`).
    pub(crate) fn receive(&mut self, socket: BorrowedFd<'_>) -> io::Result<usize> {
        let slots = self.buffer.chunks_exact_mut(SLOT);
        for ((slot, slice), message) in slots.zip(&mut self.slices).zip(&mut self.messages) {
            *slice = libc::iovec { iov_base: slot.as_mut_ptr().cast(), iov_len: slot.len() };
            message.msg_hdr.msg_iov = slice;
            message.msg_hdr.msg_iovlen = 1;
        }
        for (control, message) in self.controls.iter_mut().zip(&mut self.messages) {
            message.msg_hdr.msg_control = (&raw mut control.0).cast();
            message.msg_hdr.msg_controllen = size_of::<Control>() as _;
        }
        let (fd, list) = (socket.as_raw_fd(), self.messages.as_mut_ptr());
        let (len, flags) =
            (MESSAGES as libc::c_uint, (libc::MSG_WAITFORONE | libc::MSG_TRUNC) as _);
        // SAFETY: `list` has `len` messages, each with one slice of `buffer` and none or one of `controls`; all of
        // that lives during the call and is borrowed by nobody else.
        let came = check(unsafe { libc::recvmmsg(fd, list, len, flags, std::ptr::null_mut()) })?;
        Ok(usize::try_from(came).unwrap_or(0).min(MESSAGES))
    }

    /// Datagrams of the last call, and whether each was truncated.
    pub(crate) fn datagrams(&self, came: usize) -> impl Iterator<Item = (&[u8], bool)> {
        let slots = self.buffer.chunks_exact(SLOT).zip(&self.messages).take(came);
        slots.map(|(slot, message)| {
            let is_cut = message.msg_hdr.msg_flags & libc::MSG_TRUNC != 0;
            (&slot[..(message.msg_len as usize).min(SLOT)], is_cut)
        })
    }

    /// Datagrams of the last call, with the length of each, and the time of `CLOCK_REALTIME` in ns at which the kernel
    /// received it.
    pub(crate) fn stamped_datagrams(
        &self,
        came: usize,
    ) -> impl Iterator<Item = (&[u8], usize, Option<u64>)> {
        self.datagrams(came).zip(&self.messages).map(|((payload, _), message)| {
            (payload, message.msg_len as usize, stamp(&message.msg_hdr))
        })
    }
}

/// The time stamp among the control messages of a datagram that was received.
fn stamp(message: &libc::msghdr) -> Option<u64> {
    // SAFETY: the kernel has filled in the control messages and their length, and they lie in `controls`, or there
    // are none.
    let mut header = unsafe { libc::CMSG_FIRSTHDR(message) };
    while !header.is_null() {
        // SAFETY: not null, so a whole header inside of the control messages.
        let libc::cmsghdr { cmsg_level, cmsg_type, cmsg_len, .. } = unsafe { *header };
        // SAFETY: arithmetic without memory.
        let whole = unsafe { libc::CMSG_LEN(size_of::<libc::timespec>() as libc::c_uint) };
        let is_stamp = (cmsg_level, cmsg_type) == (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS);
        if is_stamp && cmsg_len >= whole as _ {
            // SAFETY: the message is as long as its header and a `timespec`, which may stand at any address.
            let time = unsafe { libc::CMSG_DATA(header).cast::<libc::timespec>().read_unaligned() };
            let [seconds, ns] = [time.tv_sec as u64, time.tv_nsec as u64];
            return seconds.checked_mul(1_000_000_000)?.checked_add(ns);
        }
        // SAFETY: `header` is one of the control messages of `message`.
        header = unsafe { libc::CMSG_NXTHDR(message, header) };
    }
    None
}
