//! System calls for AF_XDP sockets that std does not have, behind safe functions.
//!
//! The kernel keeps only memory of a [`Mapping`] longer than a call: it pins those pages,
//! so that they stay until the socket is gone, whatever happens to the mapping.
#![expect(unsafe_code, reason = "system calls and mappings have no safe form in std")]

use crate::sys::check;
pub(super) use crate::sys::socket::take_error;
use crate::sys::socket::{Plain, option, set_option, set_option_with_addresses};
use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::{self, NonNull};

/// `XDP_MAX_TX_SKB_BUDGET` of `linux/if_xdp.h` (Linux 6.17), which libc does not name.
const XDP_MAX_TX_SKB_BUDGET: libc::c_int = 9;
/// Memory of a number of whole pages, given back when dropped. A child process does not have it.
#[derive(Debug)]
pub(super) struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

impl Mapping {
    /// New memory, zeros.
    pub(super) fn anonymous(len: usize) -> io::Result<Self> {
        // Miri knows neither this nor the advice below.
        let populate = if cfg!(miri) { 0 } else { libc::MAP_POPULATE };
        Self::new(len, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | populate, -1, 0)
    }

    /// The ring of a socket that lies at `offset`, one of `XDP_*_PGOFF_*`.
    pub(super) fn of_socket(socket: BorrowedFd<'_>, offset: u64, len: usize) -> io::Result<Self> {
        let offset = i64::try_from(offset).map_err(io::Error::other)?;
        Self::new(len, libc::MAP_SHARED | libc::MAP_POPULATE, socket.as_raw_fd(), offset)
    }

    fn new(len: usize, flags: libc::c_int, fd: libc::c_int, offset: i64) -> io::Result<Self> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping where the kernel has room; it replaces none.
        let start = unsafe { libc::mmap64(ptr::null_mut(), len, access, flags, fd, offset) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or_else(|| io::Error::other("mapped at 0"))?;
        let mapping = Self { start, len };
        if !cfg!(miri) {
            // SAFETY: exactly the mapping just made.
            check(unsafe { libc::madvise(start.as_ptr().cast(), len, libc::MADV_DONTFORK) })?;
        }
        Ok(mapping)
    }

    /// Where it starts: the begin of a page.
    pub(super) fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Bytes.
    pub(super) fn len(&self) -> usize {
        self.len
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and every pointer into it keeps it alive.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}

/// A new AF_XDP socket.
pub(super) fn socket() -> io::Result<OwnedFd> {
    // SAFETY: no pointers; the result is checked.
    let fd = check(unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) })?;
    // SAFETY: just opened, and owned by nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Gives a socket its memory, in frames of `frame_len` bytes.
pub(super) fn register(socket: BorrowedFd<'_>, memory: &Mapping, frame_len: u32) -> io::Result<()> {
    let umem = libc::xdp_umem_reg {
        addr: memory.start().as_ptr().expose_provenance() as u64,
        len: memory.len() as u64,
        chunk_size: frame_len,
        headroom: 0,
        flags: 0,
        tx_metadata_len: 0,
    };
    let name = libc::XDP_UMEM_REG;
    // SAFETY: the address and length are those of a mapping, whose pages the kernel pins until the socket
    // is closed.
    unsafe { set_option_with_addresses(socket, libc::SOL_XDP, name, &umem) }
}

/// Sets the size of a ring, one of `XDP_*_RING`.
pub(super) fn set_slots(socket: BorrowedFd<'_>, ring: libc::c_int, slots: u32) -> io::Result<()> {
    set(socket, ring, &slots)
}

/// Lets one call send this many frames in copy mode; 32 where the kernel does not know the option.
pub(super) fn set_budget(socket: BorrowedFd<'_>, frames: u32) -> io::Result<()> {
    set(socket, XDP_MAX_TX_SKB_BUDGET, &frames)
}

/// Where in their mappings the parts of the rings lie.
pub(super) fn offsets(socket: BorrowedFd<'_>) -> io::Result<libc::xdp_mmap_offsets> {
    // SAFETY: a struct of integers, for which zeros are valid, as is what the kernel writes.
    let mut offsets = unsafe { zeroed() };
    option(socket, libc::SOL_XDP, libc::XDP_MMAP_OFFSETS, &mut offsets)?;
    Ok(offsets)
}

/// The kernel's counters of a socket.
pub(super) fn statistics(socket: BorrowedFd<'_>) -> io::Result<libc::xdp_statistics> {
    // SAFETY: a struct of integers, for which zeros are valid, as is what the kernel writes.
    let mut statistics = unsafe { zeroed() };
    option(socket, libc::SOL_XDP, libc::XDP_STATISTICS, &mut statistics)?;
    Ok(statistics)
}

/// Sets an option of AF_XDP sockets, which has to be of type `T`.
fn set<T: Plain>(socket: BorrowedFd<'_>, name: libc::c_int, value: &T) -> io::Result<()> {
    set_option(socket, libc::SOL_XDP, name, value)
}

/// Binds a socket to a queue of an interface, with flags `XDP_*`.
pub(super) fn bind(
    socket: BorrowedFd<'_>,
    interface: u32,
    queue: u32,
    flags: u16,
) -> io::Result<()> {
    let address = libc::sockaddr_xdp {
        sxdp_family: libc::AF_XDP as u16,
        sxdp_flags: flags,
        sxdp_ifindex: interface,
        sxdp_queue_id: queue,
        sxdp_shared_umem_fd: 0,
    };
    let len = size_of::<libc::sockaddr_xdp>() as u32;
    // SAFETY: `address` is a socket address of `len` bytes and lives during the call.
    check(unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), len) }).map(drop)
}

/// Asks the kernel to send the frames in the TX ring.
pub(super) fn wake(socket: BorrowedFd<'_>) -> io::Result<()> {
    let (fd, none) = (socket.as_raw_fd(), ptr::null());
    // SAFETY: no bytes and no address are handed over.
    let sent = unsafe { libc::sendto(fd, none, 0, libc::MSG_DONTWAIT, ptr::null(), 0) };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// The MTU of the interface with that number, in bytes, as seen from the namespace of
/// `socket`, which may be of any kind but AF_XDP.
pub(super) fn mtu(socket: BorrowedFd<'_>, interface: u32) -> io::Result<usize> {
    // SAFETY: a struct of integers, for which zeros are valid.
    let mut request: libc::ifreq = unsafe { zeroed() };
    request.ifr_ifru.ifru_ifindex = libc::c_int::try_from(interface).map_err(io::Error::other)?;
    for name in [libc::SIOCGIFNAME, libc::SIOCGIFMTU] {
        // SAFETY: `request` is what these calls read and write, and lives during the call.
        check(unsafe { libc::ioctl(socket.as_raw_fd(), name as _, &raw mut request) })?;
    }
    // SAFETY: the last call has written this field; any bytes are an integer.
    usize::try_from(unsafe { request.ifr_ifru.ifru_mtu }).map_err(io::Error::other)
}

/// The most memory that this process may have pinned, in bytes (`RLIMIT_MEMLOCK`).
pub(super) fn memlock_limit() -> u64 {
    let mut limit = libc::rlimit64 { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is what this call writes, and lives during the call.
    match unsafe { libc::getrlimit64(libc::RLIMIT_MEMLOCK, &raw mut limit) } {
        0 => limit.rlim_cur,
        _ => 0,
    }
}
