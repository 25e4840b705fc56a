//! BPF programs at tracepoints, and the memory that they write and we read.
#![expect(unsafe_code, reason = "bpf(2) and mmap(2) have no safe form in std")]

use super::bpf::{BPF_MAP_CREATE, MapCreate, ProgramLoad, bpf, bpf_fd, load_patiently};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU64, Ordering};

pub use super::bpf::instruction;

/// Of `linux/bpf.h`.
const BPF_RAW_TRACEPOINT_OPEN: libc::c_int = 17;
const BPF_OBJ_GET_INFO_BY_FD: libc::c_int = 15;
const BPF_MAP_TYPE_ARRAY: u32 = 2;
const BPF_MAP_TYPE_RINGBUF: u32 = 27;
const BPF_F_MMAPABLE: u32 = 1 << 10;
const BPF_PROG_TYPE_RAW_TRACEPOINT: u32 = 17;
/// Bytes of what the verifier says that are kept.
const LOG_LEN: usize = 1 << 16;

#[repr(C)]
struct RawTracepointOpen {
    name: u64,
    program: libc::c_int,
    padding: u32,
}

#[repr(C)]
struct InfoByFd {
    fd: libc::c_int,
    len: u32,
    info: u64,
}

/// As far as `recursion_misses` in `struct bpf_prog_info` of `linux/bpf.h`.
#[repr(C)]
struct ProgramInfo {
    before: [u8; 208],
    recursion_misses: u64,
}

/// Memory that BPF programs and this process share: one array of 64-bit words, zero at first.
#[derive(Debug)]
pub struct Shared {
    fd: OwnedFd,
    base: NonNull<AtomicU64>,
    words: usize,
}

// SAFETY: the words are atomic, and the mapping lives as long as the value.
unsafe impl Send for Shared {}
// SAFETY: as before.
unsafe impl Sync for Shared {}

impl Shared {
    /// Makes `words` words; less than 2^29 bytes can be reached by a program.
    ///
    /// # Errors
    ///
    /// As the system says.
    pub fn new(words: usize) -> io::Result<Self> {
        let len = words * size_of::<u64>();
        let value_len =
            u32::try_from(len).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        let create = MapCreate {
            kind: BPF_MAP_TYPE_ARRAY,
            key_len: 4,
            value_len,
            max_entries: 1,
            flags: BPF_F_MMAPABLE,
        };
        // SAFETY: the command's struct, without addresses; the command opens a descriptor.
        let fd = unsafe { bpf_fd(BPF_MAP_CREATE, &create) }?;
        let (read_write, shared) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
        // SAFETY: a new mapping at an address of the kernel's choice; the result is checked.
        let base =
            unsafe { libc::mmap(ptr::null_mut(), len, read_write, shared, fd.as_raw_fd(), 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::Other)?;
        Ok(Self { fd, base, words })
    }

    /// For `BPF_PSEUDO_MAP_VALUE`.
    #[must_use]
    pub fn fd(&self) -> BorrowedFd<'_> {
        use std::os::fd::AsFd;
        self.fd.as_fd()
    }

    /// The word at `index`; 0 outside.
    #[must_use]
    pub fn word(&self, index: usize) -> u64 {
        if index >= self.words {
            return 0;
        }
        // SAFETY: within the mapping, which is aligned to pages; programs write whole words.
        unsafe { self.base.add(index).as_ref() }.load(Ordering::Acquire)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let len = self.words * size_of::<u64>();
        // SAFETY: the mapping made by `new`, which nobody borrows any more.
        unsafe { libc::munmap(self.base.as_ptr().cast(), len) };
    }
}

/// A ring buffer of the kernel's own for BPF programs, of this many bytes: a power of two, whole
/// pages.
///
/// # Errors
///
/// As the system says.
pub fn ring(bytes: u32) -> io::Result<OwnedFd> {
    let (kind, max_entries) = (BPF_MAP_TYPE_RINGBUF, bytes);
    let create = MapCreate { kind, key_len: 0, value_len: 0, max_entries, flags: 0 };
    // SAFETY: the command's struct, without addresses; the command opens a descriptor.
    unsafe { bpf_fd(BPF_MAP_CREATE, &create) }
}

/// Loads a program for raw tracepoints. When the verifier refuses, the error has its last words.
///
/// # Errors
///
/// As the system says.
pub fn load(instructions: &[[u8; 8]]) -> io::Result<OwnedFd> {
    let mut load = ProgramLoad::new(BPF_PROG_TYPE_RAW_TRACEPOINT, instructions);
    // SAFETY: instructions, as many as told, and license live during the call; there is no log.
    let error = match unsafe { load_patiently(&load) } {
        Err(error) if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EACCES)) => error,
        result => return result,
    };
    let mut log = vec![0_u8; LOG_LEN];
    load.log_level = 1;
    load.log_len = LOG_LEN as u32;
    load.log = log.as_mut_ptr().expose_provenance() as u64;
    // SAFETY: as before, and the log has `LOG_LEN` bytes, which nobody borrows during the call.
    let _same_error = unsafe { load_patiently(&load) };
    let len = log.iter().position(|byte| *byte == 0).unwrap_or(LOG_LEN);
    let log = String::from_utf8_lossy(&log[..len]);
    let words = log.lines().rev().find(|line| !line.starts_with("processed")).unwrap_or_default();
    Err(io::Error::new(error.kind(), format!("{error}: the verifier says: {words}")))
}

/// Runs a program whenever the kernel passes a tracepoint, for as long as the returned descriptor is open.
///
/// # Errors
///
/// As the system says.
pub fn attach(name: &std::ffi::CStr, program: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let name = name.as_ptr().expose_provenance() as u64;
    let open = RawTracepointOpen { name, program: program.as_raw_fd(), padding: 0 };
    // SAFETY: the command's struct; the name ends with a 0 and lives during the call, which opens a
    // descriptor.
    unsafe { bpf_fd(BPF_RAW_TRACEPOINT_OPEN, &open) }
}

/// How often a program was not run because it was running on that core already; 0 where the kernel
/// does not count it (before Linux 5.12).
///
/// # Errors
///
/// As the system says.
pub fn misses(program: BorrowedFd<'_>) -> io::Result<u64> {
    let mut info = ProgramInfo { before: [0; 208], recursion_misses: 0 };
    let len = size_of::<ProgramInfo>() as u32;
    let info_at = (&raw mut info).expose_provenance() as u64;
    let ask = InfoByFd { fd: program.as_raw_fd(), len, info: info_at };
    // SAFETY: the command's struct; `info` has `len` bytes, of integers, and is written during the call.
    unsafe { bpf(BPF_OBJ_GET_INFO_BY_FD, &ask) }?;
    // SAFETY: the kernel has written it; a plain read could be moved before the call.
    Ok(unsafe { ptr::read_volatile(&raw const info.recursion_misses) })
}
