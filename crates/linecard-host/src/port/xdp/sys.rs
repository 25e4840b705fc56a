//! System calls for AF_XDP sockets and `bpf(2)` that std does not have, behind safe functions.
//!
//! What the kernel keeps longer than a call is memory of a [`Mapping`] only: it pins those pages,
//! so that they stay until the socket is gone, whatever happens to the mapping.
#![expect(unsafe_code, reason = "system calls and mappings have no safe form in std")]

use crate::sys::check;
pub(super) use crate::sys::socket::take_error;
use crate::sys::socket::{option, set_option};
use std::ffi::CString;
use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::time::Duration;

/// `XDP_MAX_TX_SKB_BUDGET` of `linux/if_xdp.h` (Linux 6.17), which libc does not name.
const XDP_MAX_TX_SKB_BUDGET: libc::c_int = 9;
/// Commands of `bpf(2)`, of `linux/bpf.h`.
const BPF_MAP_CREATE: libc::c_int = 0;
const BPF_MAP_UPDATE_ELEM: libc::c_int = 2;
const BPF_PROG_LOAD: libc::c_int = 5;
const BPF_LINK_CREATE: libc::c_int = 28;
const BPF_MAP_TYPE_XSKMAP: u32 = 17;
const BPF_PROG_TYPE_XDP: u32 = 6;
const BPF_XDP: u32 = 37;
/// The kernel gives a program load up when a signal comes, as often as that.
const LOAD_TRIES: u32 = 8;

/// Memory of a number of whole pages, given back when dropped. A child process does not have it.
#[derive(Debug)]
pub(super) struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

impl Mapping {
    /// New memory, zeros.
    pub(super) fn anonymous(len: usize) -> io::Result<Self> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE;
        Self::new(len, flags, -1, 0)
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
        // SAFETY: exactly the mapping just made.
        check(unsafe { libc::madvise(start.as_ptr().cast(), len, libc::MADV_DONTFORK) })?;
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
        // SAFETY: the mapping is ours, and whoever points into it keeps it alive.
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
    set(socket, libc::XDP_UMEM_REG, &umem)
}

/// Sets the size of a ring, one of `XDP_*_RING`.
pub(super) fn set_slots(socket: BorrowedFd<'_>, ring: libc::c_int, slots: u32) -> io::Result<()> {
    set(socket, ring, &slots)
}

/// Lets one call send so many frames in copy mode; 32 where the kernel does not know the option.
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

/// What the kernel has counted for a socket.
pub(super) fn statistics(socket: BorrowedFd<'_>) -> io::Result<libc::xdp_statistics> {
    // SAFETY: a struct of integers, for which zeros are valid, as is what the kernel writes.
    let mut statistics = unsafe { zeroed() };
    option(socket, libc::SOL_XDP, libc::XDP_STATISTICS, &mut statistics)?;
    Ok(statistics)
}

/// Sets an option of AF_XDP sockets, which has to be of type `T`.
fn set<T: Copy>(socket: BorrowedFd<'_>, name: libc::c_int, value: &T) -> io::Result<()> {
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

/// Asks the kernel to send what is in the TX ring.
pub(super) fn wake(socket: BorrowedFd<'_>) -> io::Result<()> {
    let (fd, none) = (socket.as_raw_fd(), ptr::null());
    // SAFETY: no bytes and no address are handed over.
    let sent = unsafe { libc::sendto(fd, none, 0, libc::MSG_DONTWAIT, ptr::null(), 0) };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Waits until something can be received, at most `time` (rounded up to milliseconds); whether it
/// can. Wakes a driver that sleeps, also with no time.
pub(super) fn wait(socket: BorrowedFd<'_>, time: Duration) -> io::Result<bool> {
    let mut poll = libc::pollfd { fd: socket.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    let ms = time.as_nanos().div_ceil(1_000_000);
    let ms = libc::c_int::try_from(ms).unwrap_or(libc::c_int::MAX);
    // SAFETY: one entry, which lives during the call.
    check(unsafe { libc::poll(&raw mut poll, 1, ms) }).map(|ready| ready > 0)
}

/// Number of an interface of the calling thread's network namespace.
pub(super) fn interface(name: &str) -> io::Result<u32> {
    let name = CString::new(name)?;
    // SAFETY: `name` ends with a zero and lives during the call.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => Err(io::Error::last_os_error()),
        index => Ok(index),
    }
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

/// The beginnings of `union bpf_attr` that the commands read.
#[repr(C)]
struct MapCreate {
    kind: u32,
    key_len: u32,
    value_len: u32,
    max_entries: u32,
    flags: u32,
}

#[repr(C)]
struct MapUpdate {
    map: libc::c_int,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
struct ProgramLoad {
    kind: u32,
    instruction_count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_len: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
}

#[repr(C)]
struct LinkCreate {
    program: libc::c_int,
    interface: u32,
    attach_type: u32,
    flags: u32,
}

/// A map from queue numbers below `queues` to AF_XDP sockets, empty.
pub(super) fn create_map(queues: u32) -> io::Result<OwnedFd> {
    let (kind, key_len, value_len) = (BPF_MAP_TYPE_XSKMAP, 4, 4);
    bpf_fd(BPF_MAP_CREATE, &MapCreate { kind, key_len, value_len, max_entries: queues, flags: 0 })
}

/// Puts a socket into the map.
pub(super) fn set_socket(
    map: BorrowedFd<'_>,
    queue: u32,
    socket: BorrowedFd<'_>,
) -> io::Result<()> {
    let socket = socket.as_raw_fd();
    let update = MapUpdate {
        map: map.as_raw_fd(),
        padding: 0,
        key: (&raw const queue).expose_provenance() as u64,
        value: (&raw const socket).expose_provenance() as u64,
        flags: 0,
    };
    bpf(BPF_MAP_UPDATE_ELEM, &update).map(drop)
}

/// Loads a program of type XDP, with flags `BPF_F_*`.
pub(super) fn load_program(instructions: &[[u8; 8]], flags: u32) -> io::Result<OwnedFd> {
    const NAME: [u8; 16] = *b"linecard\0\0\0\0\0\0\0\0";
    let license = c"Dual MIT/GPL";
    let load = ProgramLoad {
        kind: BPF_PROG_TYPE_XDP,
        instruction_count: instructions.len() as u32,
        instructions: instructions.as_ptr().expose_provenance() as u64,
        license: license.as_ptr().expose_provenance() as u64,
        log_level: 0,
        log_len: 0,
        log: 0,
        kernel_version: 0,
        flags,
        name: NAME,
    };
    let mut result = bpf_fd(BPF_PROG_LOAD, &load);
    for _ in 1..LOAD_TRIES {
        match &result {
            Err(error) if error.raw_os_error() == Some(libc::EAGAIN) => {}
            _ => break,
        }
        result = bpf_fd(BPF_PROG_LOAD, &load);
    }
    result
}

/// Attaches a program to an interface, with flags `XDP_FLAGS_*`, for as long as what is returned
/// is open in some process.
pub(super) fn link(program: BorrowedFd<'_>, interface: u32, flags: u32) -> io::Result<OwnedFd> {
    let program = program.as_raw_fd();
    bpf_fd(BPF_LINK_CREATE, &LinkCreate { program, interface, attach_type: BPF_XDP, flags })
}

fn bpf_fd<T>(command: libc::c_int, attributes: &T) -> io::Result<OwnedFd> {
    let fd = bpf(command, attributes)?;
    // SAFETY: the commands of the callers open a descriptor, closed on exec, which is ours.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// `attributes` has to be the struct of the command, and what its addresses point to alive.
fn bpf<T>(command: libc::c_int, attributes: &T) -> io::Result<libc::c_int> {
    let len = size_of::<T>();
    // SAFETY: `attributes` is readable for `len` bytes; its addresses are those of values that the
    // callers above hold during the call, of the length that the command reads.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, ptr::from_ref(attributes), len) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as libc::c_int) }
}
