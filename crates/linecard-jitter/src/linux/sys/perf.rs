//! Performance events at tracepoints: counted, or sampled into a mapped ring.
#![expect(unsafe_code, reason = "perf_event_open(2) and mmap(2) have no safe form in std")]

use super::check;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU64, Ordering};

/// From `linux/perf_event.h`.
const PERF_TYPE_TRACEPOINT: u32 = 2;
const PERF_FLAG_FD_CLOEXEC: libc::c_ulong = 1 << 3;
/// Thread, time, core and the event's own data.
const SAMPLE: u64 = 1 << 1 | 1 << 2 | 1 << 7 | 1 << 10;
/// Bits of `flags`.
const WATERMARK: u64 = 1 << 14;
const USE_CLOCKID: u64 = 1 << 25;
/// Words of the ring's first page.
const DATA_HEAD: usize = 1_024 / 8;
const DATA_TAIL: usize = 1_032 / 8;

/// `struct perf_event_attr` as far as version 5.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_watermark: u32,
    breakpoint: u32,
    others: [u64; 4],
    stack: u32,
    clock: i32,
    registers: u64,
    rest: u64,
}

/// Opens an event for all threads of a core.
fn open(mut attributes: Attributes, core: u16) -> io::Result<OwnedFd> {
    attributes.kind = PERF_TYPE_TRACEPOINT;
    attributes.size = size_of::<Attributes>() as u32;
    if cfg!(target_endian = "big") {
        // They are single bits in C, which start at the other end on big-endian machines.
        attributes.flags = attributes.flags.reverse_bits();
    }
    let attributes = &raw const attributes;
    let (any, none) = (-1, -1);
    // SAFETY: the kernel reads `size` bytes of the attributes, which live through the call.
    let result = unsafe {
        let core = libc::c_int::from(core);
        libc::syscall(libc::SYS_perf_event_open, attributes, any, core, none, PERF_FLAG_FD_CLOEXEC)
    };
    let fd = check(result as libc::c_int)?;
    // SAFETY: a descriptor that the kernel has just opened for us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Counts how often a core passes a tracepoint, by the kernel's own counter.
#[derive(Debug)]
pub(crate) struct Counter(File);

impl Counter {
    /// Starts counting. `id` is from `events/…/id` of tracefs.
    pub(crate) fn open(id: u64, core: u16) -> io::Result<Self> {
        Ok(Self(open(Attributes { config: id, ..Attributes::default() }, core)?.into()))
    }

    /// The count so far.
    pub(crate) fn count(&mut self) -> io::Result<u64> {
        let mut count = [0; 8];
        self.0.read_exact(&mut count)?;
        Ok(u64::from_ne_bytes(count))
    }
}

/// A ring into which the kernel samples each pass of a tracepoint, without waking a reader.
pub(crate) struct Sampler {
    _fd: OwnedFd,
    base: NonNull<AtomicU64>,
    len: usize,
}

impl Sampler {
    /// Starts sampling with a ring of `pages` pages, a power of two.
    pub(crate) fn open(id: u64, core: u16, pages: usize) -> io::Result<Self> {
        let attributes = Attributes {
            config: id,
            sample_period: 1,
            sample_type: SAMPLE,
            flags: WATERMARK | USE_CLOCKID,
            wakeup_watermark: u32::MAX,
            clock: libc::CLOCK_MONOTONIC,
            ..Attributes::default()
        };
        let fd = open(attributes, core)?;
        // SAFETY: asks for a number, and touches nothing of ours.
        let page_len = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        let len = (1 + pages) * usize::try_from(page_len).map_err(|_| io::ErrorKind::Other)?;
        let (read_write, shared) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
        // SAFETY: a new mapping at an address of the kernel's choice; the result is checked.
        let base =
            unsafe { libc::mmap(ptr::null_mut(), len, read_write, shared, fd.as_raw_fd(), 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::Other)?;
        Ok(Self { _fd: fd, base, len })
    }

    /// Bytes written so far. Discards the contents of the ring, which frees its space.
    pub(crate) fn drain(&self) -> u64 {
        let head = self.word(DATA_HEAD).load(Ordering::Acquire);
        self.word(DATA_TAIL).store(head, Ordering::Release);
        head
    }

    fn word(&self, index: usize) -> &AtomicU64 {
        // SAFETY: the callers' indexes are within the first page, which is mapped for as long as the
        // value lives, and the kernel writes whole words.
        unsafe { self.base.add(index).as_ref() }
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        // SAFETY: the mapping made by `open`, which nobody borrows any more.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
    }
}
