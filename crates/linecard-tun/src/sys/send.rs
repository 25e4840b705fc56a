//! Frames given to the kernel as slices, many by one call.
#![expect(
    unsafe_code,
    reason = "sendmmsg has no safe form in std, and writev none whose list can be kept"
)]

use super::check;
use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Slices that one frame may have (`UIO_MAXIOV`).
pub const MAX_SLICES: usize = 1024;

/// The lists that a call needs, kept from call to call: between calls they are empty.
#[derive(Debug, Default)]
pub struct Sender {
    slices: Vec<Slice>,
    frames: Vec<Range<usize>>,
    messages: Vec<Message>,
}

#[repr(transparent)]
struct Slice(libc::iovec);

#[repr(transparent)]
struct Message(libc::mmsghdr);

impl fmt::Debug for Slice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.iov_len)
    }
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes sent", self.0.msg_len)
    }
}

/// Frames to be sent by one call, which borrows their bytes until then.
#[derive(Debug)]
pub struct Burst<'s, 'b> {
    sender: &'s mut Sender,
    bytes: PhantomData<&'b [u8]>,
}

impl Sender {
    /// An empty burst.
    pub fn burst<'b>(&mut self) -> Burst<'_, 'b> {
        self.slices.clear();
        self.frames.clear();
        Burst { sender: self, bytes: PhantomData }
    }
}

impl<'b> Burst<'_, 'b> {
    /// Adds a frame; empty slices are left out.
    pub fn add(&mut self, frame: impl Iterator<Item = &'b [u8]>) {
        let start = self.sender.slices.len();
        self.sender.slices.extend(frame.filter(|bytes| !bytes.is_empty()).map(|bytes| {
            // Sending only reads, whatever the type says.
            let base = bytes.as_ptr().cast_mut().cast();
            Slice(libc::iovec { iov_base: base, iov_len: bytes.len() })
        }));
        self.sender.frames.push(start..self.sender.slices.len());
    }

    /// Writes all slices by one call, as one frame; how many bytes the kernel has taken.
    pub fn write(self, file: BorrowedFd<'_>) -> io::Result<usize> {
        let slices = &mut self.sender.slices;
        let (list, len) = (slices.as_ptr().cast(), slices.len() as libc::c_int);
        // SAFETY: `list` has `len` slices, a `Slice` being laid out as its `iovec`, of bytes which
        // are borrowed for as long as `self` lives.
        let written = unsafe { libc::writev(file.as_raw_fd(), list, len) };
        // Of a failed call: the error is taken before anything else is called.
        let written = usize::try_from(written).map_err(|_| io::Error::last_os_error());
        // No pointer outlives what it points to.
        slices.clear();
        written
    }

    /// Sends the frames in order, without waiting; how many the kernel has taken, at least one.
    /// An error is the first frame's.
    pub fn send(self, socket: BorrowedFd<'_>) -> io::Result<usize> {
        let Sender { slices, frames, messages } = self.sender;
        messages.clear();
        // No slice is added any more: the list stays where it is.
        let base = slices.as_mut_ptr();
        messages.extend(frames.drain(..).map(|frame| {
            // SAFETY: a struct of integers and pointers, for which zeros are valid.
            let mut message: libc::mmsghdr = unsafe { std::mem::zeroed() };
            message.msg_hdr.msg_iov = base.wrapping_add(frame.start).cast();
            message.msg_hdr.msg_iovlen = frame.len() as _;
            Message(message)
        }));
        let (list, len) = (messages.as_mut_ptr().cast(), messages.len() as libc::c_uint);
        // SAFETY: `list` has `len` messages; each points to slices in `slices`, a `Slice` being laid
        // out as its `iovec`, and those to bytes which are borrowed for as long as `self` lives.
        let sent =
            unsafe { libc::sendmmsg(socket.as_raw_fd(), list, len, libc::MSG_DONTWAIT as _) };
        let sent = check(sent);
        // No pointer outlives what it points to.
        messages.clear();
        slices.clear();
        sent.map(|sent| sent as usize)
    }
}
