//! `bpf(2)`: programs and maps, made of raw instructions, without any compiler.
#![expect(unsafe_code, reason = "bpf(2) has no safe form in std")]

use std::ffi::CStr;
use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;

/// Commands of `bpf(2)`, of `linux/bpf.h`.
pub(super) const BPF_MAP_CREATE: libc::c_int = 0;
const BPF_MAP_UPDATE_ELEM: libc::c_int = 2;
pub(super) const BPF_PROG_LOAD: libc::c_int = 5;
const BPF_LINK_CREATE: libc::c_int = 28;
const BPF_MAP_TYPE_XSKMAP: u32 = 17;
/// `BPF_F_XDP_HAS_FRAGS` of `linux/bpf.h` (Linux 5.18): packets may be longer than a frame.
pub(crate) const LONG_PACKETS: u32 = 1 << 5;
/// The kernel gives a program load up when a signal comes, as often as that.
const LOAD_TRIES: u32 = 8;

/// The beginnings of `union bpf_attr` that the commands read.
#[repr(C)]
pub(super) struct MapCreate {
    pub(super) kind: u32,
    pub(super) key_len: u32,
    pub(super) value_len: u32,
    pub(super) max_entries: u32,
    pub(super) flags: u32,
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
pub(super) struct ProgramLoad {
    kind: u32,
    instruction_count: u32,
    instructions: u64,
    license: u64,
    pub(super) log_level: u32,
    pub(super) log_len: u32,
    pub(super) log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
    interface: u32,
    attach_type: u32,
}

#[repr(C)]
struct LinkCreate {
    program: libc::c_int,
    interface: u32,
    attach_type: u32,
    flags: u32,
}

/// A map from queue numbers below `queues` to AF_XDP sockets, empty.
pub(crate) fn create_map(queues: u32) -> io::Result<OwnedFd> {
    let (kind, key_len, value_len) = (BPF_MAP_TYPE_XSKMAP, 4, 4);
    let create = MapCreate { kind, key_len, value_len, max_entries: queues, flags: 0 };
    // SAFETY: the command's struct, without addresses; the command opens a descriptor.
    unsafe { bpf_fd(BPF_MAP_CREATE, &create) }
}

/// Puts a socket into the map.
pub(crate) fn set_socket(
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
    // SAFETY: the command's struct; key and value live until the end of this function, and are of the
    // lengths that `create_map` has given the map.
    unsafe { bpf(BPF_MAP_UPDATE_ELEM, &update) }.map(drop)
}

/// Where a program is attached to an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hook {
    /// Before all else, in the driver or right behind it.
    Xdp,
    /// On the way to the kernel's protocols, behind packet sockets (TCX, Linux 6.6).
    TcxIngress,
}

impl Hook {
    /// `BPF_PROG_TYPE_*` and the attach type, of `linux/bpf.h`.
    fn numbers(self) -> (u32, u32) {
        match self {
            Self::Xdp => (6, 37),
            Self::TcxIngress => (3, 46),
        }
    }
}

/// One instruction in the machine's byte order (RFC 9669, section 3).
#[must_use]
pub fn instruction(code: u8, to: u8, from: u8, offset: i16, value: i32) -> [u8; 8] {
    let registers = if cfg!(target_endian = "little") { from << 4 | to } else { to << 4 | from };
    let ([a, b], [c, d, e, f]) = (offset.to_ne_bytes(), value.to_ne_bytes());
    [code, registers, a, b, c, d, e, f]
}

/// The name of programs, and the licence that lets them call the kernel's functions.
const NAME: [u8; 16] = *b"linecard\0\0\0\0\0\0\0\0";
const LICENSE: &CStr = c"Dual MIT/GPL";

impl ProgramLoad {
    /// Of these instructions, which have to live until the command has read them; without a log.
    pub(super) fn new(kind: u32, instructions: &[[u8; 8]]) -> Self {
        Self {
            kind,
            instruction_count: instructions.len() as u32,
            instructions: instructions.as_ptr().expose_provenance() as u64,
            license: LICENSE.as_ptr().expose_provenance() as u64,
            log_level: 0,
            log_len: 0,
            log: 0,
            kernel_version: 0,
            flags: 0,
            name: NAME,
            interface: 0,
            attach_type: 0,
        }
    }
}

/// Loads a program, with flags `BPF_F_*`.
pub(crate) fn load_program(
    hook: Hook,
    instructions: &[[u8; 8]],
    flags: u32,
) -> io::Result<OwnedFd> {
    // Programs at the older hook need not say where they will be.
    let (kind, attach_type) = hook.numbers();
    let attach_type = if hook == Hook::Xdp { 0 } else { attach_type };
    let load = ProgramLoad { flags, attach_type, ..ProgramLoad::new(kind, instructions) };
    // SAFETY: instructions, as many as told, and license live during the call; there is no log.
    unsafe { load_patiently(&load) }
}

/// Loads a program that the arguments describe.
///
/// # Safety
///
/// Its addresses are those of as many instructions as it says, of a license that ends with a 0, and of
/// `log_len` bytes that may be written; all of them during the call.
pub(super) unsafe fn load_patiently(load: &ProgramLoad) -> io::Result<OwnedFd> {
    // SAFETY: the command's struct, whose addresses the caller vouches for; it opens a descriptor.
    let try_once = || unsafe { bpf_fd(BPF_PROG_LOAD, load) };
    let mut result = try_once();
    for _ in 1..LOAD_TRIES {
        match &result {
            Err(error) if error.raw_os_error() == Some(libc::EAGAIN) => {}
            _ => break,
        }
        result = try_once();
    }
    result
}

/// Attaches a program to an interface, with flags of the hook, for as long as the returned link is
/// open in some process.
pub(crate) fn link(
    hook: Hook,
    program: BorrowedFd<'_>,
    interface: u32,
    flags: u32,
) -> io::Result<OwnedFd> {
    let (program, (_, attach_type)) = (program.as_raw_fd(), hook.numbers());
    let create = LinkCreate { program, interface, attach_type, flags };
    // SAFETY: the command's struct, without addresses; the command opens a descriptor.
    unsafe { bpf_fd(BPF_LINK_CREATE, &create) }
}

/// A command that opens a descriptor.
///
/// # Safety
///
/// As for [`bpf`], and the command gives a new descriptor.
pub(super) unsafe fn bpf_fd<T>(command: libc::c_int, attributes: &T) -> io::Result<OwnedFd> {
    // SAFETY: the caller vouches for it.
    let fd = unsafe { bpf(command, attributes) }?;
    // SAFETY: a new descriptor, closed on exec, which is ours.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Any command.
///
/// # Safety
///
/// `attributes` is the struct of the command, or its beginning, with all bytes set; its addresses are
/// those of memory that the command may read or write during the call, of the lengths that it uses.
pub(super) unsafe fn bpf<T>(command: libc::c_int, attributes: &T) -> io::Result<libc::c_int> {
    let len = size_of::<T>();
    // SAFETY: `attributes` is readable for `len` bytes; the caller vouches for its addresses.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, ptr::from_ref(attributes), len) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as libc::c_int) }
}
