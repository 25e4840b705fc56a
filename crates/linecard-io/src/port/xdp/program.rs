//! The program that redirects an interface's packets to AF_XDP sockets, and its attachment.

use super::error::XdpError;
use super::settle::settle;
use crate::sys::bpf::{self, Hook, instruction};
use linecard_tun::sys::device;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// Queues that can be redirected: more than any interface has today.
pub const MAX_QUEUES: u32 = 1024;

/// `XDP_FLAGS_*` of `linux/if_link.h`.
const XDP_FLAGS_SKB_MODE: u32 = 1 << 1;
const XDP_FLAGS_DRV_MODE: u32 = 1 << 2;

/// Where the program runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// In the driver, before the kernel processes the packet.
    Native,
    /// In the kernel's general receive path (SKB mode): any driver, slower. The kernel does not
    /// merge packets before the program.
    Generic,
}

/// The redirect program on an interface: packets of a queue that has a port go to the port, all
/// others to the kernel as usual.
///
/// The kernel detaches it when the last clone and the last port are dropped, however the process
/// ends. Attachments can be shared between threads; each port is then opened on the thread that
/// uses it.
///
/// Packets whose checksum a local sender leaves to hardware (veth, virtual machines) arrive with
/// partial checksums, and no metadata says so: switch that off at the sender (`ethtool -K DEV tx
/// off`).
///
/// ```no_run
/// use linecard_io::port::xdp::{Attachment, Config, XdpPort};
/// let attachment = Attachment::new("eth0")?;
/// let ports: Result<Vec<_>, _> =
///     (0..4).map(|queue| XdpPort::open(&attachment, queue, &Config::default())).collect();
/// # ports?;
/// # Ok::<(), linecard_io::port::xdp::XdpError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Attachment(Arc<Attached>);

#[derive(Debug)]
struct Attached {
    name: String,
    interface: u32,
    mode: Mode,
    map: OwnedFd,
    /// Keeps the program attached.
    _link: OwnedFd,
}

impl Attachment {
    /// Attaches the program to an interface of the calling thread's network namespace: in the
    /// driver if possible, otherwise in the general path. Retries for half a second if another
    /// program is attached, because the program of an ended process stays for some milliseconds.
    ///
    /// # Errors
    ///
    /// [`XdpError::NoInterface`], [`XdpError::Permission`], [`XdpError::Unsupported`];
    /// [`XdpError::Occupied`] when another program is attached; [`XdpError::Attach`].
    pub fn new(interface: &str) -> Result<Self, XdpError> {
        Self::in_modes(interface, &[Mode::Native, Mode::Generic])
    }

    /// Attaches the program in this mode only.
    ///
    /// # Errors
    ///
    /// As [`Attachment::new`].
    pub fn in_mode(interface: &str, mode: Mode) -> Result<Self, XdpError> {
        Self::in_modes(interface, &[mode])
    }

    /// Attaches a program that redirects only unfragmented UDP datagrams to this port, over IPv4
    /// without options or IPv6 without extension headers, and without VLAN tags; everything else
    /// goes to the kernel as usual.
    ///
    /// # Errors
    ///
    /// As [`Attachment::new`].
    pub fn of_udp_port(interface: &str, port: u16) -> Result<Self, XdpError> {
        Self::attached(interface, &[Mode::Native, Mode::Generic], Some(port))
    }

    fn in_modes(name: &str, modes: &[Mode]) -> Result<Self, XdpError> {
        Self::attached(name, modes, None)
    }

    fn attached(name: &str, modes: &[Mode], port: Option<u16>) -> Result<Self, XdpError> {
        let interface = device::index(name)
            .map_err(|_none| XdpError::NoInterface { interface: name.to_owned() })?
            .unsigned_abs();
        let map = create_map()?;
        let (mode, link) = settle(|| attach_in_modes((&map, port), name, interface, modes))?;
        let name = name.to_owned();
        Ok(Self(Arc::new(Attached { name, interface, mode, map, _link: link })))
    }

    /// Where the program runs.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.0.mode
    }

    /// Name of the interface when the program was attached.
    #[must_use]
    pub fn interface(&self) -> &str {
        &self.0.name
    }

    /// Number of the interface.
    pub(super) fn number(&self) -> u32 {
        self.0.interface
    }

    /// Redirects a queue to a socket.
    pub(super) fn redirect(&self, queue: u32, socket: BorrowedFd<'_>) -> Result<(), XdpError> {
        bpf::set_socket(self.0.map.as_fd(), queue, socket)
            .map_err(|error| XdpError::of_bpf("redirect a queue to its socket", error))
    }
}

pub(super) fn create_map() -> Result<OwnedFd, XdpError> {
    bpf::create_map(MAX_QUEUES)
        .map_err(|error| XdpError::of_bpf("create the BPF map of queues", error))
}

/// Loads the program; with support for packets longer than a frame if `long`.
pub(super) fn load(map: &OwnedFd, long: bool) -> io::Result<OwnedFd> {
    load_for((map, None), long)
}

/// The same for one UDP port.
fn load_for((map, port): (&OwnedFd, Option<u16>), long: bool) -> io::Result<OwnedFd> {
    let flags = if long { bpf::LONG_PACKETS } else { 0 };
    let redirect = redirect(map.as_raw_fd());
    match port {
        Some(port) => bpf::load_program(Hook::Xdp, &[&filter(port)[..], &redirect].concat(), flags),
        None => bpf::load_program(Hook::Xdp, &redirect, flags),
    }
}

/// The first mode that accepts the program, and the link.
fn attach_in_modes(
    map: (&OwnedFd, Option<u16>),
    name: &str,
    interface: u32,
    modes: &[Mode],
) -> Result<(Mode, OwnedFd), XdpError> {
    let mut last = io::Error::from(io::ErrorKind::Unsupported);
    for &mode in modes {
        match attach(map, interface, mode)? {
            Ok(link) => return Ok((mode, link)),
            Err(error) => last = error,
        }
        if matches!(last.raw_os_error(), Some(libc::EBUSY | libc::EEXIST)) {
            return Err(XdpError::Occupied { interface: name.to_owned() });
        }
    }
    Err(XdpError::Attach { interface: name.to_owned(), source: last })
}

/// The link; the inner error is the reason why this mode does not accept the program.
fn attach(
    map: (&OwnedFd, Option<u16>),
    interface: u32,
    mode: Mode,
) -> Result<Result<OwnedFd, io::Error>, XdpError> {
    let flags = match mode {
        Mode::Native => XDP_FLAGS_DRV_MODE,
        Mode::Generic => XDP_FLAGS_SKB_MODE,
    };
    // Older kernels do not know the flag, and some drivers refuse such programs.
    let linked = match load_for(map, true) {
        Ok(program) => bpf::link(Hook::Xdp, program.as_fd(), interface, flags),
        Err(error) => Err(error),
    };
    let linked = match linked {
        Err(error) if !is_final(&error) => {
            let program = load_for(map, false)
                .map_err(|error| XdpError::of_bpf("load the redirect program", error))?;
            bpf::link(Hook::Xdp, program.as_fd(), interface, flags)
        }
        other => other,
    };
    match linked {
        Err(error) if is_permission(&error) => {
            Err(XdpError::of_bpf("load and attach the redirect program", error))
        }
        other => Ok(other),
    }
}

fn is_permission(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EPERM | libc::EACCES | libc::ENOSYS))
}

/// Whether another program would fail with the same error.
fn is_final(error: &io::Error) -> bool {
    is_permission(error) || matches!(error.raw_os_error(), Some(libc::EBUSY | libc::EEXIST))
}

/// The program, of six instructions of 8 bytes (RFC 9669, section 3): what
/// `return bpf_redirect_map(&map, context->rx_queue_index, XDP_PASS)` compiles to. Where the queue
/// has no socket, the helper returns its last argument.
fn redirect(map: libc::c_int) -> [[u8; 8]; 6] {
    /// `r2 = *(u32 *)(r1 + 16)`: `rx_queue_index` of `struct xdp_md`.
    const LOAD_WORD: u8 = 0x61;
    const QUEUE_OFFSET: i16 = 16;
    /// `r1 = map`, in two instructions; the source says that it is a descriptor.
    const LOAD_WIDE: u8 = 0x18;
    const MAP_FD: u8 = 1;
    /// `r3 = XDP_PASS`.
    const MOVE: u8 = 0xB7;
    const XDP_PASS: i32 = 2;
    const CALL: u8 = 0x85;
    const REDIRECT_MAP: i32 = 51;
    const EXIT: u8 = 0x95;
    [
        instruction(LOAD_WORD, 2, 1, QUEUE_OFFSET, 0),
        instruction(LOAD_WIDE, 1, MAP_FD, 0, map),
        instruction(0, 0, 0, 0, 0),
        instruction(MOVE, 3, 0, 0, XDP_PASS),
        instruction(CALL, 0, 0, 0, REDIRECT_MAP),
        instruction(EXIT, 0, 0, 0, 0),
    ]
}

/// Filters for one UDP port before the redirection: the kernel gets packets that are too short, of
/// another protocol, fragments, or for another port. The context is in register 1 before and after.
fn filter(port: u16) -> [[u8; 8]; 24] {
    const LOAD_WORD: u8 = 0x61;
    const LOAD_HALF: u8 = 0x69;
    const LOAD_BYTE: u8 = 0x71;
    const COPY: u8 = 0xBF;
    const ADD: u8 = 0x07;
    const AND: u8 = 0x57;
    const ABOVE: u8 = 0x2D;
    const IS: u8 = 0x15;
    const IS_NOT: u8 = 0x55;
    const JUMP: u8 = 0x05;
    const MOVE: u8 = 0xB7;
    const EXIT: u8 = 0x95;
    // Compared as the machine loads them from the wire.
    let wire = |number: u16| i32::from(number.to_be());
    [
        // data and data_end of `struct xdp_md`.
        instruction(LOAD_WORD, 2, 1, 0, 0),
        instruction(LOAD_WORD, 3, 1, 4, 0),
        // 14 of Ethernet, 20 of IPv4, 8 of UDP.
        instruction(COPY, 4, 2, 0, 0),
        instruction(ADD, 4, 0, 0, 42),
        instruction(ABOVE, 4, 3, 17, 0),
        instruction(LOAD_HALF, 5, 2, 12, 0),
        instruction(IS, 5, 0, 7, wire(0x86DD)),
        instruction(IS_NOT, 5, 0, 14, wire(0x0800)),
        // IPv4: no options, no fragment (RFC 791, 3.1), UDP, port.
        instruction(LOAD_BYTE, 5, 2, 14, 0),
        instruction(IS_NOT, 5, 0, 12, 0x45),
        instruction(LOAD_HALF, 5, 2, 20, 0),
        instruction(AND, 5, 0, 0, wire(0x3FFF)),
        instruction(IS_NOT, 5, 0, 9, 0),
        instruction(JUMP, 0, 0, 4, 0),
        // IPv6: 20 bytes more (RFC 8200, 3).
        instruction(ADD, 4, 0, 0, 20),
        instruction(ABOVE, 4, 3, 6, 0),
        instruction(LOAD_BYTE, 5, 2, 20, 0),
        instruction(JUMP, 0, 0, 1, 0),
        instruction(LOAD_BYTE, 5, 2, 23, 0),
        instruction(IS_NOT, 5, 0, 2, 17),
        // The datagram's port is 6 bytes before its headers' end, in register 4.
        instruction(LOAD_HALF, 5, 4, -6, 0),
        instruction(IS, 5, 0, 2, wire(port)),
        // XDP_PASS.
        instruction(MOVE, 0, 0, 0, 2),
        instruction(EXIT, 0, 0, 0, 0),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_endian = "little")]
    fn the_program_is_what_a_compiler_makes() {
        let wanted: [[u8; 8]; 6] = [
            [0x61, 0x12, 0x10, 0, 0, 0, 0, 0],
            [0x18, 0x11, 0, 0, 0x05, 0x01, 0, 0],
            [0, 0, 0, 0, 0, 0, 0, 0],
            [0xB7, 0x03, 0, 0, 0x02, 0, 0, 0],
            [0x85, 0, 0, 0, 0x33, 0, 0, 0],
            [0x95, 0, 0, 0, 0, 0, 0, 0],
        ];
        assert_eq!(redirect(0x105), wanted);
    }
}
