//! Errors of opening an AF_XDP port, each in one line with its remedy.

use std::io;

use thiserror::Error;

/// Why an AF_XDP port cannot be opened or asked.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum XdpError {
    /// A value of the configuration is outside its range.
    #[error("{what} is {value}: choose {wanted}")]
    Config {
        /// Name of the value.
        what: &'static str,
        /// The value given.
        value: u64,
        /// Its range.
        wanted: &'static str,
    },
    /// The interface does not exist.
    #[error("no interface `{interface}` in this network namespace: `ip link` lists them")]
    NoInterface {
        /// The name that was asked for.
        interface: String,
    },
    /// The kernel has no AF_XDP sockets or no BPF links.
    #[error(
        "this kernel lacks {what}: it takes Linux {since} or newer, with {option}; a packet socket \
         (packet:NAME) does without"
    )]
    Unsupported {
        /// The missing feature.
        what: &'static str,
        /// The first release that has it.
        since: &'static str,
        /// The options of the kernel's configuration.
        option: &'static str,
    },
    /// The process may not do that.
    #[error(
        "no permission to {what}: it takes {capability}; run as root, or `setcap \
         cap_net_raw,cap_net_admin,cap_bpf+ep` on the program"
    )]
    Permission {
        /// The operation that failed.
        what: &'static str,
        /// The capabilities that it takes.
        capability: &'static str,
    },
    /// Another program is attached to the interface.
    #[error(
        "interface `{interface}` has another XDP program: end its owner, or detach it by \
         `ip link set dev {interface} xdp off`"
    )]
    Occupied {
        /// The interface.
        interface: String,
    },
    /// Neither the driver nor the kernel's general path takes the program.
    #[error(
        "interface `{interface}` takes no XDP program ({source}): use another kind of port, or \
         Linux 5.9 or newer where this one is older"
    )]
    Attach {
        /// The interface.
        interface: String,
        /// The system's reason.
        source: io::Error,
    },
    /// Another socket has the queue.
    #[error(
        "queue {queue} of `{interface}` has another AF_XDP socket: end its owner, or take \
         another queue"
    )]
    QueueTaken {
        /// The interface.
        interface: String,
        /// The queue.
        queue: u32,
    },
    /// The queue cannot be bound; most often there is none of that number.
    #[error(
        "cannot bind to queue {queue} of `{interface}` ({source}): `ethtool -l {interface}` says \
         how many queues there are, counted from 0: one for each of `--workers`"
    )]
    Bind {
        /// The interface.
        interface: String,
        /// The queue.
        queue: u32,
        /// The system's reason.
        source: io::Error,
    },
    /// The process may not pin so much memory.
    #[error(
        "the port pins {bytes} bytes of memory, this process may pin {limit}: raise the limit \
         (`ulimit -l`, CAP_IPC_LOCK), or take fewer frames (`--buffers`)"
    )]
    PinnedMemory {
        /// The need of the port, in bytes.
        bytes: u64,
        /// The limit on all together, in bytes.
        limit: u64,
    },
    /// Anything else that the system refuses.
    #[error("cannot {what}: {source}")]
    System {
        /// The operation that failed.
        what: &'static str,
        /// The system's reason.
        source: io::Error,
    },
}

impl XdpError {
    /// The capabilities that sockets take.
    pub(super) const SOCKET_CAPABILITY: &'static str = "CAP_NET_RAW";
    /// The capabilities that programs take.
    pub(super) const PROGRAM_CAPABILITY: &'static str =
        "CAP_BPF and CAP_NET_ADMIN (before Linux 5.8: CAP_SYS_ADMIN)";

    /// Why no socket could be opened.
    pub(super) fn of_socket(source: io::Error) -> Self {
        match source.raw_os_error() {
            Some(libc::EAFNOSUPPORT) => Self::Unsupported {
                what: "AF_XDP sockets",
                since: "5.9",
                option: "CONFIG_XDP_SOCKETS=y",
            },
            Some(libc::EPERM | libc::EACCES) => Self::Permission {
                what: "open an AF_XDP socket",
                capability: Self::SOCKET_CAPABILITY,
            },
            _ => Self::System { what: "open an AF_XDP socket", source },
        }
    }

    /// Why `bpf(2)` refuses what was tried.
    pub(super) fn of_bpf(what: &'static str, source: io::Error) -> Self {
        match source.raw_os_error() {
            Some(libc::ENOSYS) => Self::Unsupported {
                what: "the system call bpf(2)",
                since: "5.9",
                option: "CONFIG_BPF_SYSCALL=y",
            },
            Some(libc::EPERM | libc::EACCES) => {
                Self::Permission { what, capability: Self::PROGRAM_CAPABILITY }
            }
            _ => Self::System { what, source },
        }
    }
}
