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

/// Buffers for the datagrams of one call. Each call passes their addresses to the kernel again.
pub(crate) struct Batch {
    buffer: Vec<u8>,
    slices: Vec<libc::iovec>,
    messages: Vec<libc::mmsghdr>,
}

// SAFETY: the pointers in the lists are set before each use, and point into `buffer` and `slices`,
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
        Self { buffer, slices: vec![slice; MESSAGES], messages: vec![message; MESSAGES] }
    }

    /// Waits for a datagram as the socket is configured to wait, then takes those that are there.
    /// Returns their number.
    pub(crate) fn receive(&mut self, socket: BorrowedFd<'_>) -> io::Result<usize> {
        let slots = self.buffer.chunks_exact_mut(SLOT);
        for ((slot, slice), message) in slots.zip(&mut self.slices).zip(&mut self.messages) {
            *slice = libc::iovec { iov_base: slot.as_mut_ptr().cast(), iov_len: slot.len() };
            message.msg_hdr.msg_iov = slice;
            message.msg_hdr.msg_iovlen = 1;
        }
        let (fd, list) = (socket.as_raw_fd(), self.messages.as_mut_ptr());
        let (len, flags) = (MESSAGES as libc::c_uint, libc::MSG_WAITFORONE as _);
        // SAFETY: `list` has `len` messages, each with one slice of `buffer`; all of that lives during the
        // call and is borrowed by nobody else.
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
}
