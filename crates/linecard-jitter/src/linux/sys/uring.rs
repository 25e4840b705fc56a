//! Receives datagrams by `io_uring`: one request returns many, in buffers that the kernel chooses.
#![expect(
    unsafe_code,
    reason = "buffers that the kernel fills while nobody waits have no safe form"
)]

use io_uring::squeue::{self, Flags};
use io_uring::types::{CancelBuilder, Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode};
use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

/// Number of buffers, each for one datagram; a power of two.
pub(crate) const BUFFERS: usize = 64;
/// Bytes per buffer: longer datagrams are truncated.
pub(crate) const SLOT: usize = 9_216;
/// Requests that can be pending: there is one at a time.
const REQUESTS: u32 = 8;
/// Id of the only buffer group.
const GROUP: u16 = 0;

const _: () = assert!(BUFFERS.is_power_of_two() && BUFFERS <= 1 << 15);

/// `struct io_uring_buf` of `linux/io_uring.h`; the last field of the first entry is the ring's
/// tail.
#[repr(C)]
struct Slot {
    address: u64,
    len: u32,
    id: u16,
    tail: AtomicU16,
}

/// The ring of buffers that the kernel owns.
#[repr(C, align(4096))]
struct Page([Slot; BUFFERS]);

/// Receives from one socket, on the thread that created it.
pub(crate) struct Uring<'s> {
    ring: IoUring,
    page: NonNull<Page>,
    memory: NonNull<[u8; BUFFERS * SLOT]>,
    /// Tail of the ring of buffers; wraps.
    tail: u16,
    /// Whether one request returns many datagrams (Linux 6.0).
    multishot: bool,
    /// Whether a request is pending.
    armed: bool,
    socket: BorrowedFd<'s>,
    /// The kernel requires that one thread submits all requests.
    _thread: PhantomData<*const ()>,
}

impl fmt::Debug for Uring<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "io_uring, multishot: {}", self.multishot)
    }
}

/// Whether the kernel allows `io_uring`.
pub(crate) fn check() -> io::Result<()> {
    build().map(drop)
}

/// Completes work when its thread asks for it (Linux 6.1), or else at any time.
fn build() -> io::Result<IoUring> {
    let deferred = IoUring::builder().setup_single_issuer().setup_defer_taskrun().build(REQUESTS);
    deferred.or_else(|error| match error.raw_os_error() {
        Some(libc::EINVAL) => IoUring::builder().build(REQUESTS),
        _ => Err(error),
    })
}

impl<'s> Uring<'s> {
    pub(crate) fn new(socket: BorrowedFd<'s>) -> io::Result<Self> {
        let ring = build()?;
        let page = Box::new(Page(std::array::from_fn(|_| Slot {
            address: 0,
            len: 0,
            id: 0,
            tail: AtomicU16::new(0),
        })));
        // Not zeros: the kernel maps zero pages lazily.
        let memory = vec![1_u8; BUFFERS * SLOT].into_boxed_slice();
        let memory: Box<[u8; BUFFERS * SLOT]> =
            memory.try_into().map_err(|_| io::ErrorKind::InvalidData)?;
        // From here on, only accessed by address: the kernel writes there.
        let page = NonNull::from(Box::leak(page));
        let memory = NonNull::from(Box::leak(memory));
        let mut uring = Self {
            ring,
            page,
            memory,
            tail: 0,
            multishot: true,
            armed: false,
            socket,
            _thread: PhantomData,
        };
        let address = page.as_ptr().expose_provenance() as u64;
        let submitter = uring.ring.submitter();
        // SAFETY: the page has that many entries, and lives until the ring is gone: see `drop`.
        unsafe { submitter.register_buf_ring_with_flags(address, BUFFERS as u16, GROUP, 0) }?;
        (0..BUFFERS as u16).for_each(|id| uring.give(id));
        Ok(uring)
    }

    /// Waits for a datagram, for at most `patience`.
    pub(crate) fn wait(&mut self, patience: Duration) -> io::Result<()> {
        if !self.armed {
            self.request()?;
        }
        let time = Timespec::from(patience);
        let arguments = SubmitArgs::new().timespec(&time);
        match self.ring.submitter().submit_with_args(1, &arguments) {
            Ok(_) => Ok(()),
            Err(error) => match error.raw_os_error() {
                Some(libc::ETIME | libc::EINTR | libc::EBUSY) => Ok(()),
                _ => Err(error),
            },
        }
    }

    /// Passes each received datagram to `each`, with whether it was truncated, then returns its
    /// buffer to the kernel.
    pub(crate) fn take(&mut self, mut each: impl FnMut(&[u8], bool)) -> io::Result<()> {
        // A flood must not keep the caller here.
        for _ in 0..2 * BUFFERS {
            let entry = self.ring.completion().next();
            let Some(entry) = entry else { break };
            let (result, flags) = (entry.result(), entry.flags());
            self.armed &= cqueue::more(flags);
            let buffer = cqueue::buffer_select(flags).filter(|id| usize::from(*id) < BUFFERS);
            match (usize::try_from(result), buffer) {
                (Ok(len), Some(id)) => each(self.slot(id, len.min(SLOT)), len > SLOT),
                // An empty datagram takes no buffer.
                (Ok(_), None) => each(&[], false),
                (Err(_), _) => self.refused(-result)?,
            }
            if let Some(id) = buffer {
                self.give(id);
            }
        }
        Ok(())
    }

    fn refused(&mut self, number: i32) -> io::Result<()> {
        match number {
            // All buffers are in use: they are returned as their datagrams are taken.
            libc::ENOBUFS | libc::EAGAIN | libc::EINTR | libc::ECONNREFUSED => Ok(()),
            libc::EINVAL if self.multishot => {
                self.multishot = false;
                Ok(())
            }
            _ => Err(io::Error::from_raw_os_error(number)),
        }
    }

    fn request(&mut self) -> io::Result<()> {
        let fd = Fd(self.socket.as_raw_fd());
        // Returns the full length of a truncated datagram.
        let flags = libc::MSG_TRUNC;
        let entry: squeue::Entry = if self.multishot {
            opcode::RecvMulti::new(fd, GROUP).flags(flags).build()
        } else {
            let single = opcode::Recv::new(fd, ptr::null_mut(), SLOT as u32).buf_group(GROUP);
            single.flags(flags).build().flags(Flags::BUFFER_SELECT)
        };
        // SAFETY: the request has no memory but the buffers of its group, which live until it is gone:
        // see `drop`.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        pushed.map_err(|_full| io::Error::from(io::ErrorKind::OutOfMemory))?;
        self.armed = true;
        Ok(())
    }

    /// The first bytes of a buffer that the kernel has filled.
    fn slot(&self, id: u16, len: usize) -> &[u8] {
        let start = self.start(id);
        // SAFETY: inside the memory, for both numbers have been checked; the kernel does not write there
        // until the buffer is given back, which takes `self` for itself.
        unsafe { std::slice::from_raw_parts(start, len) }
    }

    fn start(&self, id: u16) -> *mut u8 {
        self.memory.as_ptr().cast::<u8>().wrapping_add(usize::from(id) * SLOT)
    }

    /// Returns a buffer to the kernel.
    fn give(&mut self, id: u16) {
        let at = usize::from(self.tail) % BUFFERS;
        let address = self.start(id).expose_provenance() as u64;
        let slots = self.page.as_ptr().cast::<Slot>();
        // SAFETY: inside the page; the kernel reads entries below the tail only, and there is room, for a
        // buffer is given back once.
        unsafe {
            let slot = slots.wrapping_add(at);
            (&raw mut (*slot).address).write(address);
            (&raw mut (*slot).len).write(SLOT as u32);
            (&raw mut (*slot).id).write(id);
        }
        self.tail = self.tail.wrapping_add(1);
        // SAFETY: the first entry's last field, which both sides use as an atomic number.
        unsafe { &(*slots).tail }.store(self.tail, Ordering::Release);
    }

    /// Cancels the pending request, so that the kernel writes no more. Returns whether the kernel
    /// confirmed it.
    fn is_released(&self) -> bool {
        let submitter = self.ring.submitter();
        let cancelled = submitter.register_sync_cancel(None, CancelBuilder::any());
        // Without a pending request, there is none to cancel.
        let is_quiet = match cancelled {
            Ok(()) => true,
            Err(error) => error.raw_os_error() == Some(libc::ENOENT) || !self.armed,
        };
        submitter.unregister_buf_ring(GROUP).is_ok() && is_quiet
    }
}

impl Drop for Uring<'_> {
    fn drop(&mut self) {
        // Otherwise the memory is leaked: the kernel may still write to it.
        if self.is_released() {
            // SAFETY: from `Box::leak`, and the kernel has let both go.
            unsafe {
                drop(Box::from_raw(self.page.as_ptr()));
                drop(Box::from_raw(self.memory.as_ptr()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    #[test]
    fn one_request_gives_many_and_lets_go() {
        if let Err(error) = check() {
            linecard_testkit::skip("io_uring", error);
            return;
        }
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut uring = Uring::new(socket.as_fd()).unwrap();
        let mut came = Vec::new();
        for number in 0..200_u8 {
            sender.send_to(&[number; 3], socket.local_addr().unwrap()).unwrap();
            uring.wait(Duration::from_secs(5)).unwrap();
            uring.take(|bytes, is_cut| came.push((bytes.to_vec(), is_cut))).unwrap();
        }
        let wanted: Vec<_> = (0..200).map(|number| (vec![number; 3], false)).collect();
        assert_eq!(came, wanted);
        if uring.multishot {
            assert!(uring.armed, "the request has ended on the way");
        } else {
            linecard_testkit::skip("multishot requests", "before Linux 6.0");
        }
        uring.wait(Duration::from_millis(1)).unwrap();
        assert!(uring.is_released());
        // Dropped twice: the second time it keeps its memory, since nothing forbids that.
        assert!(!uring.is_released());
    }
}
