//! The receive ring of a packet socket (`TPACKET_V3`): memory shared with the kernel.
#![expect(unsafe_code, reason = "mapped memory and its hand-over have no safe form in std")]

use super::check;
use super::socket::PacketFd;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering};

/// Where a block has its status (`tpacket_block_desc`, `hdr.bh1.block_status`).
pub(crate) const STATUS: usize = 8;

/// Blocks of frames, each of which belongs to the kernel or to us.
#[derive(Debug)]
pub(crate) struct Ring {
    base: NonNull<u8>,
    block_len: usize,
    blocks: usize,
    /// The block that is handed over next.
    next: usize,
}

impl Ring {
    /// Gives the socket a ring of `blocks` blocks of `block_len` bytes, and maps it.
    pub(crate) fn new(
        socket: &PacketFd,
        (block_len, blocks): (usize, usize),
        timeout_ms: u32,
    ) -> io::Result<Self> {
        socket.set(libc::PACKET_VERSION, libc::tpacket_versions::TPACKET_V3 as libc::c_int)?;
        socket.set_ring((block_len, blocks), timeout_ms)?;
        let fd = socket.as_fd().as_raw_fd();
        let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
        // SAFETY: a new mapping at a place of the kernel's choosing; the result is checked.
        let base = unsafe { libc::mmap(ptr::null_mut(), block_len * blocks, access, kind, fd, 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { base, block_len, blocks, next: 0 })
    }

    /// The next block, when the kernel has handed it over.
    pub(crate) fn block(&self) -> Option<&[u8]> {
        if self.status().load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
            return None;
        }
        // SAFETY: the block lies inside the mapping, which lives as long as `self`. It is ours, and
        // the kernel leaves it alone, until `release`, which borrows `self` for itself.
        Some(unsafe { std::slice::from_raw_parts(self.start().as_ptr(), self.block_len) })
    }

    /// Gives the block that was handed over back to the kernel.
    pub(crate) fn release(&mut self) {
        self.status().store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.next = (self.next + 1) % self.blocks;
    }

    fn start(&self) -> NonNull<u8> {
        // SAFETY: `next` is below `blocks`, so this lies inside the mapping.
        unsafe { self.base.add(self.next * self.block_len) }
    }

    fn status(&self) -> &AtomicU32 {
        // SAFETY: a block begins on a page and is longer than its descriptor, so the status is
        // inside and aligned; the kernel and we change it as a whole only.
        unsafe { AtomicU32::from_ptr(self.start().add(STATUS).as_ptr().cast()) }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: mapped by `new` with this length, and nothing borrows it any more.
        let _unmapped =
            check(unsafe { libc::munmap(self.base.as_ptr().cast(), self.block_len * self.blocks) });
    }
}
