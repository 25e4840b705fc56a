//! The IP addresses of interfaces: `getifaddrs`.
#![expect(unsafe_code, reason = "getifaddrs has no safe form in std")]

use super::check;
use std::ffi::CStr;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The IP addresses of an interface of this thread's network namespace, with the bits of their prefixes.
pub(crate) fn of_interface(name: &str) -> io::Result<Vec<(IpAddr, u32)>> {
    let mut first = std::ptr::null_mut();
    // SAFETY: the call writes a pointer, which lives during the call.
    check(unsafe { libc::getifaddrs(&raw mut first) })?;
    let (mut found, mut next) = (Vec::new(), first);
    while !next.is_null() {
        // SAFETY: a member of the list, which lives until it is freed below.
        let entry = unsafe { &*next };
        next = entry.ifa_next;
        // SAFETY: the name ends with a zero.
        let owner = unsafe { CStr::from_ptr(entry.ifa_name) };
        if owner.to_bytes() != name.as_bytes() {
            continue;
        }
        // SAFETY: addresses of the list, or null.
        let pair = unsafe { (address(entry.ifa_addr), address(entry.ifa_netmask)) };
        if let (Some(address), Some(mask)) = pair {
            found.push((address, bits(mask)));
        }
    }
    // SAFETY: it came from `getifaddrs`, and no reference into it is left.
    unsafe { libc::freeifaddrs(first) };
    Ok(found)
}

/// Bits of a mask that are set.
fn bits(mask: IpAddr) -> u32 {
    match mask {
        IpAddr::V4(mask) => mask.to_bits().count_ones(),
        IpAddr::V6(mask) => mask.to_bits().count_ones(),
    }
}

/// # Safety
///
/// Null, or an address of the length that its family says.
unsafe fn address(address: *const libc::sockaddr) -> Option<IpAddr> {
    if address.is_null() {
        return None;
    }
    // SAFETY: as the caller says; the structs need not be aligned for it.
    unsafe {
        match i32::from((*address).sa_family) {
            libc::AF_INET => {
                let inet = address.cast::<libc::sockaddr_in>().read_unaligned();
                Some(Ipv4Addr::from(u32::from_be(inet.sin_addr.s_addr)).into())
            }
            libc::AF_INET6 => {
                let inet = address.cast::<libc::sockaddr_in6>().read_unaligned();
                Some(Ipv6Addr::from(inet.sin6_addr.s6_addr).into())
            }
            _ => None,
        }
    }
}
