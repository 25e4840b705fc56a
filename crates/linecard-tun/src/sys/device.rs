//! Interfaces by name, and TUN/TAP devices: the calls that take a `struct ifreq`.
#![expect(unsafe_code, reason = "ioctl has no safe form in std")]

use super::check;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Bytes of an interface name, without the zero that ends it.
pub const MAX_NAME: usize = libc::IFNAMSIZ - 1;

/// A request about the interface `name`, of at most [`MAX_NAME`] bytes; all else is zero.
pub fn request(name: &str) -> libc::ifreq {
    // SAFETY: a struct of integers, for which zeros are valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // Its last byte stays 0.
    for (to, from) in request.ifr_name[..MAX_NAME].iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    request
}

/// Asks the kernel about an interface of this thread's network namespace, or to change it.
fn ask(code: libc::c_ulong, request: &mut libc::ifreq) -> io::Result<()> {
    let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC;
    // SAFETY: no pointers; the result is checked.
    let fd = check(unsafe { libc::socket(libc::AF_INET, kind, 0) })?;
    // SAFETY: just opened, and owned by nobody else.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    let request: *mut libc::ifreq = request;
    // SAFETY: the codes used here read and write one `ifreq`, which lives during the call.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), code as libc::Ioctl, request) }).map(drop)
}

/// The interface's number.
pub fn index(name: &str) -> io::Result<i32> {
    if name.len() > MAX_NAME {
        // Cut, it could be another's.
        return Err(io::Error::from_raw_os_error(libc::ENODEV));
    }
    let mut request = request(name);
    ask(libc::SIOCGIFINDEX as libc::c_ulong, &mut request)?;
    // SAFETY: integers all, and the kernel has filled in this one.
    Ok(unsafe { request.ifr_ifru.ifru_ifindex })
}

/// The name of the interface of this number.
pub fn name(index: i32) -> io::Result<String> {
    let mut request = request("");
    request.ifr_ifru.ifru_ifindex = index;
    ask(libc::SIOCGIFNAME as libc::c_ulong, &mut request)?;
    let bytes = request.ifr_name.iter().map(|byte| *byte as u8).take_while(|byte| *byte != 0);
    String::from_utf8(bytes.collect()).map_err(io::Error::other)
}

/// Bytes of its largest IP packet.
pub fn mtu(name: &str) -> io::Result<i32> {
    let mut request = request(name);
    ask(libc::SIOCGIFMTU as libc::c_ulong, &mut request)?;
    // SAFETY: integers all, and the kernel has filled in this one.
    Ok(unsafe { request.ifr_ifru.ifru_mtu })
}

/// Sets the bytes of its largest IP packet.
pub(crate) fn set_mtu(name: &str, mtu: i32) -> io::Result<()> {
    let mut request = request(name);
    request.ifr_ifru.ifru_mtu = mtu;
    ask(libc::SIOCSIFMTU as libc::c_ulong, &mut request)
}

/// Its link type, `ARPHRD_*`, and the first bytes of its hardware address, as many as Ethernet has.
pub(crate) fn hardware(name: &str) -> io::Result<(u16, [u8; 6])> {
    let mut request = request(name);
    ask(libc::SIOCGIFHWADDR as libc::c_ulong, &mut request)?;
    // SAFETY: integers all, and the kernel has filled in this one.
    let address = unsafe { request.ifr_ifru.ifru_hwaddr };
    let mut bytes = [0; 6];
    for (to, from) in bytes.iter_mut().zip(address.sa_data) {
        *to = from as u8;
    }
    Ok((address.sa_family, bytes))
}

/// Sets the hardware address of an interface of this link type.
pub(crate) fn set_hardware(name: &str, (kind, bytes): (u16, [u8; 6])) -> io::Result<()> {
    let mut request = request(name);
    let mut address = libc::sockaddr { sa_family: kind, sa_data: [0; 14] };
    for (to, from) in address.sa_data.iter_mut().zip(bytes) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_hwaddr = address;
    ask(libc::SIOCSIFHWADDR as libc::c_ulong, &mut request)
}

/// Whether it has an IPv4 address.
pub(crate) fn has_ipv4(name: &str) -> io::Result<bool> {
    match ask(libc::SIOCGIFADDR as libc::c_ulong, &mut request(name)) {
        Err(error) if super::is(&error, libc::EADDRNOTAVAIL) => Ok(false),
        result => result.map(|()| true),
    }
}

/// The lower 16 of its `IFF_*`.
pub(crate) fn flags(name: &str) -> io::Result<libc::c_short> {
    let mut request = request(name);
    ask(libc::SIOCGIFFLAGS as libc::c_ulong, &mut request)?;
    // SAFETY: integers all, and the kernel has filled in this one.
    Ok(unsafe { request.ifr_ifru.ifru_flags })
}

/// Brings it up or down.
pub(crate) fn set_up(name: &str, up: bool) -> io::Result<()> {
    let (flags, bit) = (flags(name)?, libc::IFF_UP as libc::c_short);
    let mut request = request(name);
    request.ifr_ifru.ifru_flags = if up { flags | bit } else { flags & !bit };
    ask(libc::SIOCSIFFLAGS as libc::c_ulong, &mut request)
}

/// Makes `file`, which is `/dev/net/tun`, a queue of a device; gives the device's name.
pub(crate) fn attach_tun(file: &File, name: &str, flags: libc::c_int) -> io::Result<String> {
    let mut request = request(name);
    request.ifr_ifru.ifru_flags = flags as libc::c_short;
    // SAFETY: `request` is what this call reads and writes, and lives during the call.
    check(unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &raw mut request) })?;
    let bytes = request.ifr_name.iter().map(|byte| *byte as u8).take_while(|byte| *byte != 0);
    Ok(String::from_utf8_lossy(&bytes.collect::<Vec<_>>()).into_owned())
}

/// Sets how many bytes stand before each frame, and that their numbers are little endian.
pub(crate) fn set_tun_header(file: &File, len: usize) -> io::Result<()> {
    let (len, little) = (len as libc::c_int, 1 as libc::c_int);
    // SAFETY: this call reads an integer, which lives during the call.
    check(unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETVNETHDRSZ, &raw const len) })?;
    // SAFETY: as before.
    check(unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETVNETLE, &raw const little) }).map(drop)
}

/// Modes that TUN and TAP devices of this kernel support: bits of `IFF_*`.
pub fn tun_features(device: BorrowedFd<'_>) -> io::Result<libc::c_uint> {
    let mut features: libc::c_uint = 0;
    let place = &raw mut features;
    // SAFETY: this call writes an integer, which lives during the call.
    check(unsafe { libc::ioctl(device.as_raw_fd(), libc::TUNGETFEATURES, place) })?;
    Ok(features)
}

/// Says whether the device has a carrier.
pub(crate) fn set_tun_carrier(device: BorrowedFd<'_>, has: bool) -> io::Result<()> {
    let has = libc::c_int::from(has);
    // SAFETY: this call reads an integer, which lives during the call.
    check(unsafe { libc::ioctl(device.as_raw_fd(), libc::TUNSETCARRIER, &raw const has) }).map(drop)
}

/// Says what the reader of the device can do: bits of `TUN_F_*`.
pub(crate) fn set_tun_offloads(file: &File, offloads: libc::c_uint) -> io::Result<()> {
    let offloads = libc::c_ulong::from(offloads);
    // SAFETY: this call takes a number.
    check(unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETOFFLOAD, offloads) }).map(drop)
}
