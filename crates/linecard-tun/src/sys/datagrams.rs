//! UDP datagrams with what the kernel needs to segment them, or says of those it has merged.
#![expect(unsafe_code, reason = "sendmsg and recvmsg have no safe form in std")]

use super::check;
use std::io;
use std::mem::{size_of, zeroed};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::os::fd::{AsRawFd, BorrowedFd};

/// Room for control messages: one with an integer is sent, and as many come as the owner of the socket has
/// asked for. `usize` aligns it.
type Control = [usize; 32];

/// Datagrams that were received by one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Arrival {
    /// Bytes in all.
    pub(crate) len: usize,
    /// Bytes of each but the last, if the kernel has merged several.
    pub(crate) size: Option<usize>,
    pub(crate) from: SocketAddr,
}

/// Whether the kernel segments datagrams.
pub(crate) fn has_gso(socket: BorrowedFd<'_>) -> bool {
    // 0 bytes for each is the default: not to segment.
    set(socket, (libc::SOL_UDP, libc::UDP_SEGMENT), 0).is_ok()
}

/// Has the kernel merge datagrams that are received together.
pub(crate) fn set_gro(socket: BorrowedFd<'_>) -> io::Result<()> {
    set(socket, (libc::SOL_UDP, libc::UDP_GRO), 1)
}

/// How many bytes may wait to be sent and to be received, or as many as the system allows.
pub(crate) fn set_buffers(socket: BorrowedFd<'_>, bytes: libc::c_int) -> io::Result<()> {
    let set = |name| set(socket, (libc::SOL_SOCKET, name), bytes);
    // Beyond the system's limit only with CAP_NET_ADMIN.
    set(libc::SO_SNDBUFFORCE).or_else(|_| set(libc::SO_SNDBUF))?;
    set(libc::SO_RCVBUFFORCE).or_else(|_| set(libc::SO_RCVBUF))
}

fn set(
    socket: BorrowedFd<'_>,
    (level, name): (libc::c_int, libc::c_int),
    value: libc::c_int,
) -> io::Result<()> {
    let (fd, len) = (socket.as_raw_fd(), size_of::<libc::c_int>() as libc::socklen_t);
    // SAFETY: `value` is an integer of `len` bytes that lives during the call.
    check(unsafe { libc::setsockopt(fd, level, name, (&raw const value).cast(), len) }).map(drop)
}

/// Sends bytes by one call: as datagrams of `size` bytes each, or as one if `size` is 0.
pub(crate) fn send(
    socket: BorrowedFd<'_>,
    bytes: &[u8],
    size: u16,
    to: Option<SocketAddr>,
) -> io::Result<usize> {
    let mut address = to.map(Address::of);
    // Sending only reads, whatever the type says.
    let base = bytes.as_ptr().cast_mut().cast();
    let mut slice = libc::iovec { iov_base: base, iov_len: bytes.len() };
    let mut control: Control = [0; 32];
    let mut message = empty();
    message.msg_iov = &raw mut slice;
    message.msg_iovlen = 1;
    if let Some(Address { bytes, len }) = &mut address {
        message.msg_name = (&raw mut *bytes).cast();
        message.msg_namelen = *len;
    }
    if size > 0 {
        message.msg_control = (&raw mut control).cast();
        // SAFETY: computes a length, of a message with two bytes.
        message.msg_controllen = unsafe { libc::CMSG_SPACE(2) } as _;
        // SAFETY: `control` has room for one message with two bytes, and is aligned for its header.
        unsafe {
            let head = libc::CMSG_FIRSTHDR(&raw const message);
            (*head).cmsg_level = libc::SOL_UDP;
            (*head).cmsg_type = libc::UDP_SEGMENT;
            (*head).cmsg_len = libc::CMSG_LEN(2) as _;
            libc::CMSG_DATA(head).cast::<u16>().write_unaligned(size);
        }
    }
    // SAFETY: all that `message` points to lives during the call: bytes, address and control.
    let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// Receives a datagram, or several that the kernel has merged.
pub(crate) fn receive(socket: BorrowedFd<'_>, room: &mut [u8]) -> io::Result<Arrival> {
    let mut slice = libc::iovec { iov_base: room.as_mut_ptr().cast(), iov_len: room.len() };
    let mut address = Address::room();
    let mut control: Control = [0; 32];
    let mut message = empty();
    message.msg_iov = &raw mut slice;
    message.msg_iovlen = 1;
    message.msg_name = (&raw mut address.bytes).cast();
    message.msg_namelen = address.len;
    message.msg_control = (&raw mut control).cast();
    message.msg_controllen = size_of::<Control>() as _;
    // SAFETY: all that `message` points to lives during the call and may be written: room, address
    // and control.
    let len = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, 0) };
    let len = usize::try_from(len).map_err(|_| io::Error::last_os_error())?;
    if message.msg_flags & libc::MSG_CTRUNC != 0 {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "more control messages than have room",
        ));
    }
    address.len = message.msg_namelen;
    let from = address.socket_addr().ok_or(io::ErrorKind::InvalidData)?;
    Ok(Arrival { len, size: merged_size(&message), from })
}

/// Bytes of each datagram of a received message, as the kernel reports them.
fn merged_size(message: &libc::msghdr) -> Option<usize> {
    // SAFETY: the kernel has filled in the control messages and their length; each has a header, and
    // that of UDP GRO an integer.
    unsafe {
        let mut head = libc::CMSG_FIRSTHDR(message);
        while let Some(found) = head.as_ref() {
            if (found.cmsg_level, found.cmsg_type) == (libc::SOL_UDP, libc::UDP_GRO) {
                let size = libc::CMSG_DATA(head).cast::<libc::c_int>().read_unaligned();
                return usize::try_from(size).ok();
            }
            head = libc::CMSG_NXTHDR(message, head);
        }
    }
    None
}

fn empty() -> libc::msghdr {
    // SAFETY: a struct of integers and pointers, for which zeros are valid.
    unsafe { zeroed() }
}

/// A socket address as the kernel takes and gives it.
struct Address {
    bytes: libc::sockaddr_storage,
    len: libc::socklen_t,
}

impl Address {
    /// Room for any address.
    fn room() -> Self {
        // SAFETY: a struct of integers, for which zeros are valid.
        let bytes = unsafe { zeroed() };
        Self { bytes, len: size_of::<libc::sockaddr_storage>() as libc::socklen_t }
    }

    fn of(address: SocketAddr) -> Self {
        let mut room = Self::room();
        match address {
            SocketAddr::V4(address) => room.put(libc::sockaddr_in {
                sin_family: libc::AF_INET as libc::sa_family_t,
                sin_port: address.port().to_be(),
                sin_addr: libc::in_addr { s_addr: u32::from(*address.ip()).to_be() },
                sin_zero: [0; 8],
            }),
            SocketAddr::V6(address) => room.put(libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as libc::sa_family_t,
                sin6_port: address.port().to_be(),
                sin6_flowinfo: address.flowinfo(),
                sin6_addr: libc::in6_addr { s6_addr: address.ip().octets() },
                sin6_scope_id: address.scope_id(),
            }),
        }
        room
    }

    /// Puts an address of a family in.
    fn put<T: Copy>(&mut self, address: T) {
        const { assert!(size_of::<T>() <= size_of::<libc::sockaddr_storage>()) };
        let place = (&raw mut self.bytes).cast::<T>();
        // SAFETY: the storage is as long, and aligned for all families' addresses.
        unsafe { place.write(address) };
        self.len = size_of::<T>() as libc::socklen_t;
    }

    /// The address; none if it is of another family, or cut off.
    fn socket_addr(&self) -> Option<SocketAddr> {
        let has = |len| self.len as usize >= len;
        let place = &raw const self.bytes;
        match libc::c_int::from(self.bytes.ss_family) {
            libc::AF_INET if has(size_of::<libc::sockaddr_in>()) => {
                // SAFETY: integers all, inside the storage, which is aligned for them.
                let found = unsafe { place.cast::<libc::sockaddr_in>().read() };
                let ip = Ipv4Addr::from(u32::from_be(found.sin_addr.s_addr));
                Some((ip, u16::from_be(found.sin_port)).into())
            }
            libc::AF_INET6 if has(size_of::<libc::sockaddr_in6>()) => {
                // SAFETY: as before.
                let found = unsafe { place.cast::<libc::sockaddr_in6>().read() };
                let (ip, port) = (Ipv6Addr::from(found.sin6_addr.s6_addr), found.sin6_port);
                let (flow, scope) = (found.sin6_flowinfo, found.sin6_scope_id);
                Some(SocketAddrV6::new(ip, u16::from_be(port), flow, scope).into())
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_come_back_as_they_went() {
        for text in ["192.0.2.1:5000", "[2001:db8::1]:5000", "[fe80::1%3]:65535"] {
            let address: SocketAddr = text.parse().expect("an address");
            assert_eq!(Address::of(address).socket_addr(), Some(address));
        }
        assert_eq!(Address::room().socket_addr(), None);
    }
}
