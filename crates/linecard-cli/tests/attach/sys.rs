//! System calls that std does not have: signals, a filter of system calls, frames by the thousand. The only file of
//! this test with `unsafe`.
#![expect(unsafe_code, reason = "system calls have no safe form in std")]

use std::io;
use std::mem::size_of;
use std::net::TcpStream;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Frames given to the kernel by one call.
const BURST: usize = 64;
/// Offset of the system call's number in `struct seccomp_data`, and of its first argument's lower
/// half on machines of little endian.
const NUMBER: u32 = 0;
const FIRST_ARGUMENT: u32 = 16;

/// `BPF_TCX_INGRESS` and `BPF_TCX_EGRESS` of `linux/bpf.h` (Linux 6.6).
pub(crate) const RECEIVED: u32 = 46;
pub(crate) const SENT: u32 = 47;
/// `BPF_PROG_LOAD`, `BPF_LINK_CREATE`, and `BPF_PROG_TYPE_SCHED_CLS`.
const LOAD: libc::c_int = 5;
const LINK: libc::c_int = 28;
const CLASSIFIER: u32 = 3;

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Sends a signal to a child that has not been waited for.
pub(crate) fn signal(child: u32, signal: libc::c_int) -> io::Result<()> {
    // SAFETY: takes numbers; the child is ours and its number still its own.
    check(unsafe { libc::kill(child as libc::pid_t, signal) }).map(drop)
}

/// Segments that the kernel has sent again, by this end of a connection.
pub(crate) fn retransmissions(stream: &TcpStream) -> io::Result<u32> {
    // SAFETY: a struct of integers, for which zeros are valid.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    let mut len = size_of::<libc::tcp_info>() as libc::socklen_t;
    let (level, name) = (libc::IPPROTO_TCP, libc::TCP_INFO);
    let value = (&raw mut info).cast();
    // SAFETY: `value` has room for `len` bytes, and both live during the call.
    check(unsafe { libc::getsockopt(stream.as_raw_fd(), level, name, value, &raw mut len) })?;
    Ok(info.tcpi_total_retrans)
}

/// Makes the command one of a kernel without AF_XDP: its sockets cannot be opened.
pub(crate) fn without_af_xdp(command: &mut Command) {
    let refuse = libc::SECCOMP_RET_ERRNO | libc::EAFNOSUPPORT as u32;
    let load = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    let equal = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    let end = (libc::BPF_RET | libc::BPF_K) as u16;
    let step = |code, k, jf| libc::sock_filter { code, jt: 0, jf, k };
    let filter = [
        step(load, NUMBER, 0),
        step(equal, libc::SYS_socket as u32, 3),
        step(load, FIRST_ARGUMENT, 0),
        step(equal, libc::AF_XDP as u32, 1),
        step(end, refuse, 0),
        step(end, libc::SECCOMP_RET_ALLOW, 0),
    ];
    let install = move || {
        let program =
            libc::sock_fprog { len: filter.len() as u16, filter: filter.as_ptr().cast_mut() };
        // SAFETY: takes numbers.
        check(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) })?;
        let mode = libc::SECCOMP_MODE_FILTER;
        // SAFETY: the program and its filter live during the call, which only reads them.
        check(unsafe { libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const program) }).map(drop)
    };
    // SAFETY: between fork and exec it makes two system calls and touches its own memory only.
    unsafe { command.pre_exec(install) };
}

/// Number of an interface in the calling thread's namespace; 0 when there is none.
fn index(interface: &str) -> io::Result<u32> {
    let name = std::ffi::CString::new(interface)?;
    // SAFETY: `name` ends with a zero and lives during the call.
    Ok(unsafe { libc::if_nametoindex(name.as_ptr()) })
}

/// Runs a program for every frame of an interface that goes one way, until this is closed.
pub(crate) fn on_frames(interface: &str, way: u32, program: &[u64]) -> io::Result<OwnedFd> {
    let license = c"Dual MIT/GPL";
    let mut attributes = [0; 16];
    attributes[0] = u64::from(CLASSIFIER) | (program.len() as u64) << 32;
    attributes[1] = program.as_ptr() as u64;
    attributes[2] = license.as_ptr() as u64;
    let program = bpf(LOAD, &attributes)?;
    let mut attributes = [0; 16];
    attributes[0] = program.as_raw_fd() as u64 | u64::from(index(interface)?) << 32;
    attributes[1] = u64::from(way);
    bpf(LINK, &attributes)
}

/// A call that gives a descriptor. What its attributes point to has to live.
fn bpf(call: libc::c_int, attributes: &[u64; 16]) -> io::Result<OwnedFd> {
    let len = size_of_val(attributes);
    // SAFETY: the kernel reads `len` bytes of attributes, and what those of this file's calls point
    // to: slices that their callers borrow.
    let fd = unsafe { libc::syscall(libc::SYS_bpf, call, attributes.as_ptr(), len) };
    let fd = check(fd as libc::c_int)?;
    // SAFETY: just opened, and owned by nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// A packet socket that only sends.
#[derive(Debug)]
pub(crate) struct Sender(OwnedFd);

impl Sender {
    /// On an interface of the calling thread's namespace.
    pub(crate) fn open(interface: &str) -> io::Result<Self> {
        // SAFETY: no pointers; the result is checked.
        let fd = check(unsafe {
            libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0)
        })?;
        // SAFETY: just opened, and owned by nobody else.
        let socket = Self(unsafe { OwnedFd::from_raw_fd(fd) });
        // SAFETY: a struct of integers, for which zeros are valid.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_ifindex = index(interface)? as i32;
        let len = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        // SAFETY: `address` is a socket address of `len` bytes and lives during the call.
        check(unsafe { libc::bind(socket.0.as_raw_fd(), (&raw const address).cast(), len) })?;
        Ok(socket)
    }

    /// Sends all of them, as fast as the interface takes them.
    pub(crate) fn send(&self, frames: &[Vec<u8>]) -> io::Result<()> {
        for burst in frames.chunks(BURST) {
            let mut slices: Vec<libc::iovec> = burst
                .iter()
                .map(|f| libc::iovec { iov_base: f.as_ptr().cast_mut().cast(), iov_len: f.len() })
                .collect();
            let mut messages: Vec<libc::mmsghdr> = slices
                .iter_mut()
                .map(|slice| {
                    // SAFETY: a struct of integers and pointers, for which zeros are valid.
                    let mut message: libc::mmsghdr = unsafe { std::mem::zeroed() };
                    (message.msg_hdr.msg_iov, message.msg_hdr.msg_iovlen) = (slice, 1);
                    message
                })
                .collect();
            self.send_burst(&mut messages)?;
        }
        Ok(())
    }

    /// Messages whose slices point to frames that live.
    fn send_burst(&self, mut messages: &mut [libc::mmsghdr]) -> io::Result<()> {
        while !messages.is_empty() {
            let (first, count) = (messages.as_mut_ptr(), messages.len() as u32);
            // SAFETY: `count` messages, each with one slice of a frame that the caller borrows.
            match check(unsafe { libc::sendmmsg(self.0.as_raw_fd(), first, count, 0) }) {
                Ok(sent) => messages = &mut messages[sent as usize..],
                // The interface's queue is full: nothing but time helps.
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {
                    std::thread::yield_now();
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
