//! Which addresses the two ends of a lane have, and by which interface it leaves.
//!
//! The sender names the addresses of its lanes. The receiver answers each with the address that its own routing
//! table uses towards it: with two links between the same hosts, the address on that link. The sender in turn
//! connects only to addresses that may be the receiver's ([`Peer::refuses`]).

use super::spec::{LocalEnd, Spec};
use super::sys::{self, OwnAddress};
use super::{Lane, Udp};
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

/// `RTM_NEWROUTE` and `RTM_GETROUTE` (`linux/rtnetlink.h`).
const NEW_ROUTE: u16 = 24;
const GET_ROUTE: u16 = 26;
/// `NLM_F_REQUEST` (`linux/netlink.h`).
const REQUEST: u16 = 1;
/// `RTA_DST`, `RTA_SRC` and `RTA_OIF`.
const DESTINATION: u16 = 1;
const SOURCE: u16 = 2;
const INTERFACE: u16 = 4;
/// Bytes of `struct nlmsghdr` and of `struct rtmsg`.
const HEAD_BYTES: usize = 16;
const ROUTE_BYTES: usize = 12;
/// Any port: nothing is sent.
const ANY_PORT: u16 = 9;

/// The addresses of this host.
#[derive(Debug)]
pub(crate) struct Own(Vec<OwnAddress>);

impl Own {
    /// As they are now.
    pub(crate) fn now() -> Self {
        Self(sys::all_addresses())
    }

    /// Whether an address is one of this host.
    pub(crate) fn has(&self, ip: IpAddr) -> bool {
        ip.is_loopback() || self.0.iter().any(|own| own.ip == ip)
    }

    /// The interface that has an address.
    pub(crate) fn interface(&self, ip: IpAddr) -> Option<&str> {
        self.find(ip).map(|own| own.interface.as_str())
    }

    /// Whether an interface with an address is down or has no carrier.
    pub(crate) fn is_down(&self, interface: &str) -> bool {
        self.0.iter().any(|own| own.interface == interface && !own.is_up)
    }

    fn find(&self, ip: IpAddr) -> Option<&OwnAddress> {
        self.0.iter().find(|own| own.ip == ip)
    }

    /// The address that an interface has in place of one that it had: of the same family, and of one link only if that
    /// was. None if it has that still, or no such.
    pub(crate) fn next(&self, before: IpAddr, interface: &str) -> Option<IpAddr> {
        let is_like = |ip: &IpAddr| {
            ip.is_ipv4() == before.is_ipv4() && is_link_local(*ip) == is_link_local(before)
        };
        let mut own = self.0.iter().filter(|own| own.interface == interface && is_like(&own.ip));
        own.next().map(|own| own.ip).filter(|_| !self.has(before))
    }

    /// One address of each other interface than those of `used`, pairs of an own address and one of the peer, of the
    /// family of the first: those at which this host and the peer may reach each other. None if the peer is on this host.
    pub(crate) fn beside(&self, used: &[(IpAddr, IpAddr)], peer: IpAddr) -> Vec<IpAddr> {
        let Some((local, _)) = used.first().filter(|(ip, _)| !ip.is_loopback() && !self.has(peer))
        else {
            return Vec::new();
        };
        let used = used.iter().filter_map(|(ip, towards)| self.link(*ip, *towards));
        let mut names: Vec<String> = used.collect();
        let mut found = Vec::new();
        for OwnAddress { interface, ip, has_link, .. } in &self.0 {
            if *has_link && ip.is_ipv4() == local.is_ipv4() && !names.contains(interface) {
                names.push(interface.clone());
                found.push(*ip);
            }
        }
        found
    }

    /// The interface that has an address, or, if that has no link, by which packets from there to `towards` leave.
    fn link(&self, ip: IpAddr, towards: IpAddr) -> Option<String> {
        let own = self.find(ip)?;
        if own.has_link {
            return Some(own.interface.clone());
        }
        interface_towards(ip, towards).ok()?
    }

    /// The address that a lane sends from, if it has one of the peer's family.
    pub(crate) fn source(&self, spec: &Spec, peer: IpAddr) -> Option<IpAddr> {
        let same = |ip: &IpAddr| ip.is_ipv4() == peer.is_ipv4();
        match &spec.local {
            LocalEnd::Address(ip) => Some(*ip).filter(same),
            LocalEnd::Interface(name) => {
                let own = self.0.iter().filter(|own| own.interface == *name);
                own.map(|own| own.ip).find(same)
            }
        }
    }

    /// The longest datagram that the interface of this lane carries, if the lane is an address.
    pub(crate) fn interface_datagram(&self, spec: &Spec, peer: SocketAddr) -> Option<usize> {
        let LocalEnd::Address(ip) = spec.local else { return None };
        let name = self.interface(ip)?.to_owned();
        let at = Spec { local: LocalEnd::Interface(name), port: None, ..spec.clone() }.at();
        Udp::connect(&at, peer).ok().map(|lane| lane.max_datagram())
    }

    /// Another interface than that of its address by which packets from `source` to `to` leave: then the lane
    /// shares a link with others. None if it leaves by its own or has none, or this is unknown.
    pub(crate) fn detour(&self, source: IpAddr, to: IpAddr) -> Option<Detour> {
        if self.has(to) {
            return None;
        }
        let OwnAddress { interface: own, .. } = self.find(source).filter(|own| own.has_link)?;
        let leaves = interface_towards(source, to).ok()??;
        (*own != leaves).then(|| Detour { own: own.to_owned(), leaves })
    }

    /// The address at which this host is reached from `source`, the address of a lane of the peer whose control
    /// connection is `control`: the first of its own addresses and the peer's.
    pub(crate) fn towards(&self, source: IpAddr, control: (IpAddr, IpAddr)) -> IpAddr {
        let (local, peer) = control;
        let is_other = source != peer && !source.is_unspecified() && !self.has(source);
        if !is_other || source.is_ipv4() != local.is_ipv4() || local.is_loopback() {
            return local;
        }
        let any = IpAddr::from(Ipv4Addr::UNSPECIFIED);
        let any = if source.is_ipv4() { any } else { Ipv6Addr::UNSPECIFIED.into() };
        let towards = UdpSocket::bind((any, 0)).and_then(|socket| {
            socket.connect((source, ANY_PORT))?;
            Ok(socket.local_addr()?.ip())
        });
        towards.ok().filter(|ip| !ip.is_loopback() && !ip.is_unspecified()).unwrap_or(local)
    }
}

/// A lane that leaves by another interface than that of its address.
#[derive(Debug)]
pub(crate) struct Detour {
    /// The interface that has the lane's address.
    pub(crate) own: String,
    /// The interface by which its packets leave.
    pub(crate) leaves: String,
}

/// The receiver, as the sender has reached it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer {
    /// The address of the control connection's other end.
    pub(crate) ip: IpAddr,
    /// Nothing is encrypted.
    pub(crate) is_plain: bool,
}

impl Peer {
    /// Where to connect a lane for which the receiver has named `address`: it may leave out where it is.
    pub(crate) fn reach(self, address: SocketAddr) -> SocketAddr {
        let ip = address.ip();
        SocketAddr::new(if ip.is_unspecified() { self.ip } else { ip }, address.port())
    }

    /// Why no lane is connected to `address`, which the receiver has named; none if it may be the receiver's.
    /// `source` is the lane's own address.
    pub(crate) fn refuses(
        self,
        address: SocketAddr,
        source: Option<IpAddr>,
        own: &Own,
    ) -> Option<&'static str> {
        let ip = address.ip();
        if address.port() == 0 {
            return Some("it has no port");
        }
        if ip == self.ip {
            return None;
        }
        let near = is_link_local(self.ip) || source.is_some_and(is_link_local);
        if ip.is_multicast() || ip == IpAddr::V4(Ipv4Addr::BROADCAST) {
            Some("it is not an address of one host")
        } else if own.has(ip) && !own.has(self.ip) {
            Some("it is an address of this host")
        } else if is_link_local(ip) && !near {
            Some("it is an address of one link, and not of a link between the two hosts")
        } else if self.is_plain && !ip.is_loopback() {
            Some("without keys, only addresses of this machine are sent to")
        } else {
            None
        }
    }
}

const fn is_link_local(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    }
}

/// The interface by which packets from `source` to `to` leave, as the kernel routes them.
fn interface_towards(source: IpAddr, to: IpAddr) -> io::Result<Option<String>> {
    let (family, kind) = (AddressFamily::NETLINK, SocketType::RAW);
    // Protocol 0 of this family is NETLINK_ROUTE.
    let kernel = rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None)?;
    let request = request(source, to);
    let address = SocketAddrNetlink::new(0, 0);
    rustix::net::sendto(&kernel, &request, SendFlags::empty(), &address)?;
    let mut answer = [0; 4_096];
    // The kernel has answered when the request returns.
    let (bytes, _) = rustix::net::recv(&kernel, &mut answer[..], RecvFlags::DONTWAIT)?;
    let Some(index) = interface_in(&answer[..bytes]) else { return Ok(None) };
    Ok(Some(rustix::net::netdevice::index_to_name(&kernel, index)?))
}

/// Asks for the route of one packet.
fn request(source: IpAddr, to: IpAddr) -> Vec<u8> {
    let octets = |ip: IpAddr| match ip {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    };
    let (source, to) = (octets(source), octets(to));
    let family = if to.len() == 4 { libc::AF_INET } else { libc::AF_INET6 } as u8;
    let mut request = vec![0; HEAD_BYTES + ROUTE_BYTES];
    request[4..6].copy_from_slice(&GET_ROUTE.to_ne_bytes());
    request[6..8].copy_from_slice(&REQUEST.to_ne_bytes());
    request[HEAD_BYTES..HEAD_BYTES + 3].copy_from_slice(&[
        family,
        8 * to.len() as u8,
        8 * source.len() as u8,
    ]);
    for (kind, value) in [(DESTINATION, to), (SOURCE, source)] {
        request.extend((4 + value.len() as u16).to_ne_bytes());
        request.extend(kind.to_ne_bytes());
        request.extend(value);
    }
    let bytes = request.len() as u32;
    request[..4].copy_from_slice(&bytes.to_ne_bytes());
    request
}

/// The number of the interface in an answer; none if there is no route.
fn interface_in(answer: &[u8]) -> Option<u32> {
    let number = |bytes: &[u8]| Some(u16::from_ne_bytes(*bytes.first_chunk()?));
    if number(answer.get(4..)?)? != NEW_ROUTE {
        return None;
    }
    let mut rest = answer.get(HEAD_BYTES + ROUTE_BYTES..)?;
    while rest.len() >= 4 {
        let (bytes, kind) = (usize::from(number(rest)?), number(&rest[2..])?);
        let value = rest.get(4..bytes)?;
        if kind == INTERFACE {
            return value.first_chunk().map(|index| u32::from_ne_bytes(*index));
        }
        rest = rest.get(bytes.next_multiple_of(4)..)?;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn address(interface: &str, address: &str) -> OwnAddress {
        let (interface, has_link) = (interface.to_owned(), interface != "lo");
        OwnAddress { interface, ip: ip(address), has_link, is_up: true }
    }

    fn own() -> Own {
        Own(vec![address("lo", "127.0.0.1"), address("eth1", "10.9.1.1")])
    }

    #[test]
    fn a_lane_is_connected_only_to_what_may_be_the_receiver() {
        let refused = |peer: &str, address: &str| {
            let peer = Peer { ip: ip(peer), is_plain: false };
            peer.refuses(address.parse().unwrap(), Some(ip("10.9.1.1")), &own()).is_some()
        };
        for address in [
            "127.0.0.1:25",
            "127.9.9.9:7000",
            "[::1]:7000",
            "10.9.1.1:7000",
            "224.0.0.1:7000",
            "255.255.255.255:7000",
            "[ff02::1]:7000",
            "169.254.169.254:80",
            "[fe80::1]:7000",
            "10.9.1.2:0",
        ] {
            assert!(refused("10.9.1.2", address), "{address}");
        }
        for address in ["10.9.1.2:7000", "10.9.2.2:7000", "[2001:db8::1]:7000"] {
            assert!(!refused("10.9.1.2", address), "{address}");
        }
        // Within one machine, and on one link.
        assert!(!refused("127.0.0.1", "127.0.0.2:7000") && !refused("10.9.1.1", "127.0.0.1:7000"));
        assert!(!refused("169.254.0.1", "169.254.0.2:7000"));
        let plain = Peer { ip: ip("127.0.0.1"), is_plain: true };
        let beyond = "10.9.1.2:7000".parse().unwrap();
        assert!(plain.refuses(beyond, None, &own()).is_some());
    }

    #[test]
    fn a_receiver_may_leave_out_where_it_is() {
        let peer = Peer { ip: ip("10.9.1.2"), is_plain: false };
        let reached = |address: &str| peer.reach(address.parse().unwrap()).to_string();
        assert_eq!(reached("0.0.0.0:7000"), "10.9.1.2:7000");
        assert_eq!(reached("10.9.2.2:7000"), "10.9.2.2:7000");
    }

    #[test]
    fn other_interfaces_are_offered_once_each() {
        let mut own = own();
        for (name, text) in [
            ("eth1", "10.9.1.9"),
            ("lo", "10.9.77.1"),
            ("eth2", "10.9.2.1"),
            ("eth2", "2001:db8::1"),
            ("eth3", "10.9.3.1"),
        ] {
            own.0.push(address(name, text));
        }
        let beside = |used: &[&str], peer: &str| {
            let used: Vec<_> = used.iter().map(|used| (ip(used), ip(peer))).collect();
            own.beside(&used, ip(peer))
        };
        assert_eq!(beside(&["10.9.1.1"], "10.9.1.2"), [ip("10.9.2.1"), ip("10.9.3.1")]);
        assert_eq!(beside(&["10.9.1.1", "10.9.2.1"], "10.9.1.2"), [ip("10.9.3.1")]);
        for (used, peer) in [("127.0.0.1", "127.0.0.2"), ("10.9.1.1", "10.9.2.1")] {
            assert!(beside(&[used], peer).is_empty(), "{used} {peer}");
        }
    }

    #[test]
    fn an_address_that_is_gone_has_another_of_its_kind_in_its_place() {
        let mut own = own();
        let next = |own: &Own, before: &str| own.next(ip(before), "eth1");
        assert_eq!(next(&own, "10.9.1.1"), None, "it is there");
        own.0 = vec![address("eth0", "10.9.9.9")];
        assert_eq!(next(&own, "10.9.1.1"), None, "nothing is there");
        for text in ["fe80::1", "169.254.0.1", "10.9.7.7", "10.9.1.5", "2001:db8::1"] {
            own.0.push(address("eth1", text));
        }
        for (before, after) in [("10.9.1.1", "10.9.7.7"), ("2001:db8::9", "2001:db8::1")] {
            assert_eq!(next(&own, before), Some(ip(after)));
        }
    }

    #[test]
    fn the_kernel_is_asked_for_the_interface() {
        let loopback = interface_towards(ip("127.0.0.1"), ip("127.0.0.1")).unwrap();
        assert_eq!(loopback.as_deref(), Some("lo"));
        assert!(own().detour(ip("127.0.0.1"), ip("127.0.0.1")).is_none());
    }

    #[test]
    fn lanes_on_the_way_of_the_control_connection_stay_there() {
        let control = (ip("10.9.1.1"), ip("10.9.1.2"));
        for source in ["10.9.1.2", "0.0.0.0", "127.0.0.1", "10.9.1.1", "::1"] {
            assert_eq!(own().towards(ip(source), control), control.0, "{source}");
        }
    }
}
