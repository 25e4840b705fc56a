//! Keeps an interface's packets from the kernel's own protocol stack.

use crate::sys::bpf::{self, Hook, instruction};
use linecard_tun::PortError;
use linecard_tun::sys::device;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

const CAPABILITY: &str = "CAP_BPF,CAP_NET_ADMIN";

/// As long as it exists, packets that an interface receives go to packet sockets and not to the
/// kernel's stack: two stacks with the same address would reset each other's connections. It ends
/// with the process, for whatever reason that ends.
///
/// ```no_run
/// let _kept = linecard_io::port::Takeover::new("eth0")?;
/// # Ok::<(), linecard_tun::PortError>(())
/// ```
#[derive(Debug)]
pub struct Takeover {
    _link: OwnedFd,
}

impl Takeover {
    /// Takes over an interface of the calling thread's network namespace.
    ///
    /// # Errors
    ///
    /// If an interface or privilege is missing; [`PortError::Lacks`] before Linux 6.6.
    pub fn new(interface: &str) -> Result<Self, PortError> {
        let doing = "keep its packets from the kernel";
        let failed = |error| PortError::about(interface, doing, CAPABILITY, error);
        let index = device::index(interface).map_err(failed)?;
        let program = bpf::load_program(Hook::TcxIngress, &drop_all(), 0).map_err(lacks(failed))?;
        // Positive, as the kernel has given it.
        let link = bpf::link(Hook::TcxIngress, program.as_fd(), index as u32, 0);
        Ok(Self { _link: link.map_err(lacks(failed))? })
    }

    /// Whether this kernel supports it, as far as this process may ask.
    pub(in super::super) fn is_known() -> bool {
        bpf::load_program(Hook::TcxIngress, &drop_all(), 0).is_ok()
    }
}

/// The error of a kernel that does not have the hook.
fn lacks(other: impl Fn(io::Error) -> PortError) -> impl Fn(io::Error) -> PortError {
    move |error| match error.raw_os_error() {
        Some(libc::EINVAL | libc::ENOSYS | libc::EOPNOTSUPP) => PortError::Lacks {
            what: "programs behind packet sockets (TCX, Linux 6.6)",
            advice: "take an AF_XDP port, or let the kernel have the packets too by the option `mirror`",
        },
        _ => other(error),
    }
}

/// `return TCX_DROP`.
fn drop_all() -> [[u8; 8]; 2] {
    const MOVE: u8 = 0xB7;
    const EXIT: u8 = 0x95;
    const TCX_DROP: i32 = 2;
    [instruction(MOVE, 0, 0, 0, TCX_DROP), instruction(EXIT, 0, 0, 0, 0)]
}
