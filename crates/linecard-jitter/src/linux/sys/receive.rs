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

/// Room for the control messages of time stamps, of 32 bytes (`SO_TIMESTAMPNS`) and of 64 (`SO_TIMESTAMPING`).
#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct Control([u8; 96]);

/// When a datagram was received, in ns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Stamps {
    /// By the kernel, on `CLOCK_REALTIME`.
    pub(crate) kernel_ns: Option<u64>,
    /// By the interface, on its own clock.
    pub(crate) wire_ns: Option<u64>,
}

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

    /// The same for a socket with `SO_TIMESTAMPNS` or `SO_TIMESTAMPING`, whose stamps it takes.
    pub(crate) fn stamped() -> Self {
        Self { controls: vec![Control([0; 96]); MESSAGES], ..Self::new() }
    }

    /// Waits for a datagram as the socket is configured to wait, then takes all that have arrived.
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

    /// Datagrams of the last call, with length and time stamps of each.
    pub(crate) fn stamped_datagrams(
        &self,
        came: usize,
    ) -> impl Iterator<Item = (&[u8], usize, Stamps)> {
        self.datagrams(came).zip(&self.messages).map(|((payload, _), message)| {
            (payload, message.msg_len as usize, stamps(&message.msg_hdr))
        })
    }
}

/// The time stamps among the control messages of a datagram that was received.
fn stamps(message: &libc::msghdr) -> Stamps {
    let mut stamps = Stamps::default();
    // SAFETY: the kernel has filled in the control messages and their length, and they lie in `controls`, or there
    // are none.
    let mut header = unsafe { libc::CMSG_FIRSTHDR(message) };
    while !header.is_null() {
        // SAFETY: not null, so a whole header inside of the control messages.
        let libc::cmsghdr { cmsg_level, cmsg_type, cmsg_len, .. } = unsafe { *header };
        // The last of the three times of `struct scm_timestamping` is the interface's own.
        let stamp = match (cmsg_level, cmsg_type) {
            (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => Some((0, &mut stamps.kernel_ns)),
            (libc::SOL_SOCKET, libc::SO_TIMESTAMPING) => Some((2, &mut stamps.wire_ns)),
            _ => None,
        };
        if let Some((index, stamp)) = stamp {
            let len = (index + 1) * size_of::<libc::timespec>();
            // SAFETY: arithmetic without memory.
            let whole = unsafe { libc::CMSG_LEN(len as libc::c_uint) };
            if cmsg_len >= whole as _ {
                // SAFETY: the message is as long as its header and these times, which may stand at any address.
                let time = unsafe {
                    libc::CMSG_DATA(header).cast::<libc::timespec>().add(index).read_unaligned()
                };
                *stamp = ns(time);
            }
        }
        // SAFETY: `header` is one of the control messages of `message`.
        header = unsafe { libc::CMSG_NXTHDR(message, header) };
    }
    stamps
}

/// `None` for 0, where there is no stamp.
fn ns(time: libc::timespec) -> Option<u64> {
    let [seconds, ns] = [time.tv_sec as u64, time.tv_nsec as u64];
    seconds.checked_mul(1_000_000_000)?.checked_add(ns).filter(|ns| *ns > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A control message, with its length as given or as it is.
    fn control(kind: libc::c_int, len: Option<usize>, times: &[[u64; 2]]) -> Vec<u64> {
        let whole = 16 + 16 * times.len();
        let head = [len.unwrap_or(whole) as u64, u64::from(kind.cast_unsigned()) << 32 | 1];
        [&head[..], times.as_flattened()].concat()
    }

    #[test]
    #[cfg(all(target_pointer_width = "64", target_endian = "little"))]
    fn stamps_of_kernel_and_interface_are_told_apart() {
        let kernel = || control(libc::SCM_TIMESTAMPNS, None, &[[1_700_000_000, 5]]);
        let times = [[1_700_000_000, 5], [0, 0], [42, 7]];
        let own = || control(libc::SO_TIMESTAMPING, None, &times);
        let none = control(libc::SO_TIMESTAMPING, None, &[[1_700_000_000, 5], [0, 0], [0, 0]]);
        let cut = control(libc::SO_TIMESTAMPING, Some(16 + 32), &times[..2]);
        let (kernel_ns, wire_ns) = (Some(1_700_000_000_000_000_005), Some(42_000_000_007));
        for (controls, right) in [
            (vec![], Stamps::default()),
            (kernel(), Stamps { kernel_ns, wire_ns: None }),
            ([kernel(), own()].concat(), Stamps { kernel_ns, wire_ns }),
            ([own(), kernel()].concat(), Stamps { kernel_ns, wire_ns }),
            ([kernel(), none].concat(), Stamps { kernel_ns, wire_ns: None }),
            ([cut, kernel()].concat(), Stamps { kernel_ns, wire_ns: None }),
        ] {
            // SAFETY: a struct of integers and pointers, for which zeros are valid.
            let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
            message.msg_control = controls.as_ptr().cast_mut().cast();
            message.msg_controllen = size_of_val(&controls[..]) as _;
            assert_eq!(stamps(&message), right);
        }
    }
}
