//! Kernel counters of a socket, and addresses of an interface.
#![expect(unsafe_code, reason = "SO_MEMINFO and getifaddrs have no safe form in any crate in use")]

use std::ffi::CStr;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsRawFd, BorrowedFd};

/// Numbers of `SO_MEMINFO` (`SK_MEMINFO_VARS` in `linux/sock_diag.h`).
const VARS: usize = 9;
/// The place of datagrams that found no room (`SK_MEMINFO_DROPS`).
const DROPS: usize = 8;

/// Datagrams that found no room in the socket; none if the kernel does not say (before 4.12).
pub(super) fn drops(socket: BorrowedFd<'_>) -> Option<u32> {
    let mut numbers = [0_u32; VARS];
    let mut bytes = size_of_val(&numbers) as libc::socklen_t;
    // SAFETY: the kernel writes at most `bytes` bytes into `numbers`, which has that many and may hold
    // any, and the number that it wrote into `bytes`.
    let done = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MEMINFO,
            numbers.as_mut_ptr().cast(),
            &raw mut bytes,
        )
    };
    (done == 0 && bytes as usize > DROPS * size_of::<u32>()).then(|| numbers[DROPS])
}

/// An address of this host.
#[derive(Debug)]
pub(super) struct OwnAddress {
    pub(super) interface: String,
    pub(super) ip: IpAddr,
    /// Other hosts are reached by the interface: it is no loopback and no dummy.
    pub(super) has_link: bool,
    /// The interface is up and has a carrier.
    pub(super) is_up: bool,
}

/// The addresses of an interface, those of one link only left out; none if the interface does not exist.
pub(super) fn addresses(interface: &str) -> Vec<IpAddr> {
    let all = all_addresses().into_iter();
    all.filter(|own| own.interface == interface).map(|own| own.ip).collect()
}

/// The addresses of this host and their interfaces, those of one link only left out.
pub(super) fn all_addresses() -> Vec<OwnAddress> {
    let mut first = std::ptr::null_mut();
    // SAFETY: on success the kernel's list is stored in `first`, to be given back below.
    if unsafe { libc::getifaddrs(&raw mut first) } != 0 {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut next = first;
    while !next.is_null() {
        // SAFETY: `next` is an entry of that list, which nobody changes, and its name ends with a zero.
        let (entry, name) = unsafe { (&*next, CStr::from_ptr((*next).ifa_name)) };
        let own = |ip| OwnAddress {
            interface: without_label(&name.to_string_lossy()).to_owned(),
            ip,
            has_link: has_link(entry.ifa_flags as i32),
            is_up: entry.ifa_flags as i32 & libc::IFF_RUNNING != 0,
        };
        found.extend(address(entry.ifa_addr).map(own));
        next = entry.ifa_next;
    }
    // SAFETY: it came from `getifaddrs`, and no reference into it is left.
    unsafe { libc::freeifaddrs(first) };
    found
}

/// The name of an interface in the label of an address, `eth0:1`: no name has a colon.
fn without_label(label: &str) -> &str {
    label.split_once(':').map_or(label, |(name, _)| name)
}

/// Whether an interface with these flags reaches other hosts. A dummy is Ethernet without neighbours and multicast, and a
/// VRF is a master without neighbours; modems and tunnels have no neighbours, either.
const fn has_link(flags: i32) -> bool {
    let without = libc::IFF_POINTOPOINT | libc::IFF_MULTICAST;
    let is_bare = flags & (libc::IFF_NOARP | without) == libc::IFF_NOARP;
    let is_virtual = is_bare && flags & (libc::IFF_BROADCAST | libc::IFF_MASTER) != 0;
    flags & libc::IFF_LOOPBACK == 0 && !is_virtual
}

fn address(socket: *const libc::sockaddr) -> Option<IpAddr> {
    if socket.is_null() {
        return None;
    }
    // SAFETY: an address that is not null begins with its family, and one of these families has its struct.
    let address = unsafe {
        match i32::from((*socket).sa_family) {
            libc::AF_INET => {
                let v4 = (*socket.cast::<libc::sockaddr_in>()).sin_addr.s_addr;
                IpAddr::V4(Ipv4Addr::from(u32::from_be(v4)))
            }
            libc::AF_INET6 => {
                IpAddr::V6(Ipv6Addr::from((*socket.cast::<libc::sockaddr_in6>()).sin6_addr.s6_addr))
            }
            _ => return None,
        }
    };
    // An address of one link only says nothing without the other end's interface.
    let of_link = matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local());
    (!of_link).then_some(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_has_its_address_and_nobody_has_those_of_nothing() {
        assert!(addresses("lo").contains(&IpAddr::V4(Ipv4Addr::LOCALHOST)));
        assert!(addresses("no-such-thing").is_empty());
        let mut own = all_addresses().into_iter().filter(|own| own.interface == "lo");
        assert!(own.all(|own| !own.has_link && own.is_up));
    }

    #[test]
    fn an_address_with_a_label_is_of_its_interface() {
        assert_eq!(["eth0:1", "eth0"].map(without_label), ["eth0"; 2]);
    }

    #[test]
    fn tunnels_and_modems_have_a_link_and_dummies_have_none() {
        use libc::{
            IFF_BROADCAST, IFF_LOOPBACK, IFF_MASTER, IFF_MULTICAST, IFF_NOARP, IFF_POINTOPOINT,
        };
        let ethernet = IFF_BROADCAST | IFF_MULTICAST;
        let modem = ethernet | IFF_NOARP;
        let (wireguard, ipsec) = (IFF_POINTOPOINT | IFF_NOARP, IFF_NOARP);
        assert!(
            [ethernet, ethernet | IFF_MASTER, modem, wireguard, ipsec].map(has_link) == [true; 5]
        );
        let (dummy, vrf) = (IFF_BROADCAST | IFF_NOARP, IFF_MASTER | IFF_NOARP);
        assert!([dummy, vrf, IFF_LOOPBACK].map(has_link) == [false; 3]);
    }
}
