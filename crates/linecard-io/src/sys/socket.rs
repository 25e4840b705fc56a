//! Sockets: options, and what packet sockets have beside, addresses and counters.
#![expect(unsafe_code, reason = "socket options have no safe form in std")]

use super::check;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// A non-blocking Unix socket without a name.
pub(crate) fn unix_socket() -> io::Result<OwnedFd> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    Ok(socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?)
}

/// The number of this thread's network namespace, which no other gets until the next boot (Linux 5.14).
pub(crate) fn network_cookie() -> io::Result<u64> {
    let mut cookie = 0_u64;
    let socket = unix_socket()?;
    option(socket.as_fd(), libc::SOL_SOCKET, libc::SO_NETNS_COOKIE, &mut cookie)?;
    Ok(cookie)
}

/// A non-blocking packet socket that gives and takes whole frames.
#[derive(Debug)]
pub(crate) struct PacketFd(OwnedFd);

/// Which interface a socket stands on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bound {
    /// Its number; −1 when it is gone.
    pub(crate) index: i32,
    /// Its `ARPHRD_*`.
    pub(crate) hardware: u16,
}

impl PacketFd {
    /// A socket on no interface, which receives nothing yet.
    pub(crate) fn open() -> io::Result<Self> {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: no pointers; the result is checked.
        let fd = check(unsafe { libc::socket(libc::AF_PACKET, kind, 0) })?;
        // SAFETY: just opened, and owned by nobody else.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Receives everything that comes by the interface with this number, from now on.
    pub(crate) fn bind(&self, index: i32) -> io::Result<()> {
        let mut address = empty_address();
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
        address.sll_ifindex = index;
        let len = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        // SAFETY: `address` is a socket address of `len` bytes and lives during the call.
        check(unsafe { libc::bind(self.0.as_raw_fd(), (&raw const address).cast(), len) }).map(drop)
    }

    /// The interface that it stands on.
    pub(crate) fn bound(&self) -> io::Result<Bound> {
        let mut address = empty_address();
        let mut len = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        let (fd, place) = (self.0.as_raw_fd(), (&raw mut address).cast());
        // SAFETY: `place` has room for `len` bytes, and both live during the call.
        check(unsafe { libc::getsockname(fd, place, &raw mut len) })?;
        Ok(Bound { index: address.sll_ifindex, hardware: address.sll_hatype })
    }

    /// Sets a number among the options of packet sockets.
    pub(crate) fn set(&self, name: libc::c_int, value: libc::c_int) -> io::Result<()> {
        set_option(self.as_fd(), libc::SOL_PACKET, name, &value)
    }

    /// How much may wait to be sent, in bytes, or as much of it as the system allows.
    pub(crate) fn set_send_buffer(&self, bytes: libc::c_int) -> io::Result<()> {
        // Beyond the system's limit only for who may administer networks.
        let force = set_option(self.as_fd(), libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &bytes);
        force.or_else(|_| set_option(self.as_fd(), libc::SOL_SOCKET, libc::SO_SNDBUF, &bytes))
    }

    /// Receives frames for others too; the kernel takes it back when the socket is closed.
    pub(crate) fn set_promiscuous(&self, index: i32) -> io::Result<()> {
        let wish = libc::packet_mreq {
            mr_ifindex: index,
            mr_type: libc::PACKET_MR_PROMISC as libc::c_ushort,
            mr_alen: 0,
            mr_address: [0; 8],
        };
        set_option(self.as_fd(), libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &wish)
    }

    /// How many bytes of frames may wait to be received, or as much of it as the system allows.
    pub(crate) fn set_receive_buffer(&self, bytes: libc::c_int) -> io::Result<()> {
        // Beyond the system's limit only with CAP_NET_ADMIN.
        let force = set_option(self.as_fd(), libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &bytes);
        force.or_else(|_| set_option(self.as_fd(), libc::SOL_SOCKET, libc::SO_RCVBUF, &bytes))
    }

    /// Requests a ring of blocks, given their size and number, with slots of `slot_len` bytes; no
    /// blocks take it away.
    pub(super) fn set_ring(&self, ring: (usize, usize), slot_len: usize) -> io::Result<()> {
        let (block_len, blocks) = ring;
        let slots = block_len.checked_div(slot_len).unwrap_or(0) * blocks;
        let [block_len, blocks, slot_len, slots] =
            [block_len, blocks, slot_len, slots].map(|number| number as libc::c_uint);
        let request = libc::tpacket_req {
            tp_block_size: block_len,
            tp_block_nr: blocks,
            tp_frame_size: slot_len,
            tp_frame_nr: slots,
        };
        set_option(self.as_fd(), libc::SOL_PACKET, libc::PACKET_RX_RING, &request)
    }

    /// Has the kernel say when each frame was received.
    pub(crate) fn set_timestamps(&self) -> io::Result<()> {
        let on: libc::c_int = 1;
        set_option(self.as_fd(), libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &on)
    }

    /// Frames that the kernel could not keep for the socket since this was asked for last.
    pub(crate) fn drops(&self) -> io::Result<u32> {
        let mut stats = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
        option(self.as_fd(), libc::SOL_PACKET, libc::PACKET_STATISTICS, &mut stats)?;
        Ok(stats.tp_drops)
    }
}

impl AsFd for PacketFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Takes the error that waits at a socket, so that it does not wake its waiter again; 0 when there
/// is none.
pub(crate) fn take_error(socket: BorrowedFd<'_>) -> io::Result<libc::c_int> {
    let mut number: libc::c_int = 0;
    option(socket, libc::SOL_SOCKET, libc::SO_ERROR, &mut number)?;
    Ok(number)
}

/// Values of options without addresses.
///
/// # Safety
///
/// Only integers, all of whose bytes are set and may have any value, and none of which the kernel takes
/// for an address.
pub unsafe trait Plain: Copy {}

// SAFETY: an integer.
unsafe impl Plain for i32 {}
// SAFETY: an integer.
unsafe impl Plain for u32 {}
// SAFETY: an integer.
unsafe impl Plain for u64 {}
// SAFETY: integers.
unsafe impl<T: Plain, const N: usize> Plain for [T; N] {}
// SAFETY: integers without padding between them: 4, 2, 2 and 8 bytes.
unsafe impl Plain for libc::packet_mreq {}
// SAFETY: integers.
unsafe impl Plain for libc::tpacket_stats {}
// SAFETY: integers.
unsafe impl Plain for libc::tpacket_req {}
// SAFETY: integers.
unsafe impl Plain for libc::xdp_statistics {}
// SAFETY: integers.
unsafe impl Plain for libc::xdp_mmap_offsets {}

/// Sets an option to a value without addresses. The kernel refuses one of another length.
///
/// # Errors
///
/// As the system says.
pub fn set_option<T: Plain>(
    socket: BorrowedFd<'_>,
    level: libc::c_int,
    name: libc::c_int,
    value: &T,
) -> io::Result<()> {
    // SAFETY: no integer of `value` is an address.
    unsafe { set_option_with_addresses(socket, level, name, value) }
}

/// Sets an option to any value.
///
/// # Safety
///
/// `T` is the option's own type, and what the kernel takes for addresses in `value` is memory that it
/// may use as the option says, for as long as the option says.
pub(crate) unsafe fn set_option_with_addresses<T: Copy>(
    socket: BorrowedFd<'_>,
    level: libc::c_int,
    name: libc::c_int,
    value: &T,
) -> io::Result<()> {
    let (fd, len) = (socket.as_raw_fd(), size_of::<T>() as libc::socklen_t);
    let value: *const T = value;
    // SAFETY: `value` points to `len` bytes that live during the call.
    check(unsafe { libc::setsockopt(fd, level, name, value.cast(), len) }).map(drop)
}

/// Reads an option. An older kernel may write less of the value.
///
/// # Errors
///
/// As the system says.
pub fn option<T: Plain>(
    socket: BorrowedFd<'_>,
    level: libc::c_int,
    name: libc::c_int,
    value: &mut T,
) -> io::Result<()> {
    let (fd, mut len) = (socket.as_raw_fd(), size_of::<T>() as libc::socklen_t);
    let value: *mut T = value;
    // SAFETY: `value` has room for `len` bytes, and both live during the call; all bytes are valid in it.
    check(unsafe { libc::getsockopt(fd, level, name, value.cast(), &raw mut len) }).map(drop)
}

fn empty_address() -> libc::sockaddr_ll {
    // SAFETY: a struct of integers, for which zeros are valid.
    unsafe { std::mem::zeroed() }
}
