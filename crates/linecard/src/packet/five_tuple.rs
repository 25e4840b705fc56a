//! The five-tuple: addresses, ports and protocol.

use super::header::{self, Ipv4, Ipv6, Udp};
use super::{LayerKind, Layout};
use core::fmt;
use core::net::{IpAddr, SocketAddr};

/// The five-tuple of a packet: the innermost addresses, the ports, and TCP or UDP.
///
/// Identifies flows to people. Flow tables use [`FlowHasher`](super::FlowHasher), which also
/// includes lanes, tags and tunnels.
///
/// ```
/// use linecard::packet::{FiveTuple, Layout, LinkType};
/// let mut bytes = [0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2].to_vec();
/// bytes.extend([0, 7, 0, 53, 0, 8, 0, 0]);
/// let flow = FiveTuple::of(&Layout::parse(LinkType::Raw, &bytes), &bytes).unwrap();
/// assert_eq!(flow.to_string(), "udp 10.0.0.1:7 > 10.0.0.2:53");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FiveTuple {
    /// Source address and port.
    pub source: SocketAddr,
    /// Destination address and port.
    pub destination: SocketAddr,
    /// 6 is TCP, 17 is UDP.
    pub protocol: u8,
}

impl FiveTuple {
    /// The five-tuple of a packet with this layout, given its first `bytes`; none if the ports are
    /// not visible: another protocol, a fragment other than the first, a header that was not
    /// captured.
    #[must_use]
    pub fn of(layout: &Layout, bytes: &[u8]) -> Option<Self> {
        let (network, transport) = (layout.network()?, layout.transport()?);
        // TCP and UDP both start with their ports.
        let ports = header::get::<Udp>(bytes, transport.at())?;
        let (source, destination): (IpAddr, IpAddr) = match network.kind {
            LayerKind::Ipv4 => {
                let ip = header::get::<Ipv4>(bytes, network.at())?;
                (ip.source.into(), ip.destination.into())
            }
            _ => {
                let ip = header::get::<Ipv6>(bytes, network.at())?;
                (ip.source.into(), ip.destination.into())
            }
        };
        Some(Self {
            source: (source, ports.source).into(),
            destination: (destination, ports.destination).into(),
            protocol: layout.protocol(),
        })
    }

    /// Source and destination.
    #[must_use]
    pub const fn ends(self) -> (SocketAddr, SocketAddr) {
        (self.source, self.destination)
    }
}

impl fmt::Display for FiveTuple {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { source, destination, protocol } = self;
        match *protocol {
            header::protocol::TCP => write!(f, "tcp {source} > {destination}"),
            header::protocol::UDP => write!(f, "udp {source} > {destination}"),
            other => write!(f, "{other} {source} > {destination}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::LinkType;
    use alloc::string::ToString;
    use alloc::vec::Vec;

    fn udp6() -> Vec<u8> {
        let mut bytes = Vec::from([0x60, 0, 0, 0, 0, 8, 17, 64]);
        for last in [1, 2] {
            bytes.extend([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]);
        }
        bytes.extend([0x13, 0x88, 0, 53, 0, 8, 1, 1]);
        bytes
    }

    #[test]
    fn ports_and_addresses_are_those_of_the_header() {
        let bytes = udp6();
        let flow = FiveTuple::of(&Layout::parse(LinkType::Raw, &bytes), &bytes).unwrap();
        assert_eq!(flow.to_string(), "udp [fd00::1]:5000 > [fd00::2]:53");
        assert_eq!(flow.ends(), ("[fd00::1]:5000".parse().unwrap(), flow.destination));
    }

    /// A capture with a snap length has the head only; bytes beyond it are not read.
    #[test]
    fn a_head_has_its_flow_if_it_shows_the_ports() {
        let bytes = udp6();
        for there in 0..=bytes.len() {
            let head = &bytes[..there];
            let layout = Layout::parse_head(LinkType::Raw, head, bytes.len());
            assert_eq!(FiveTuple::of(&layout, head).is_some(), there == bytes.len(), "{there}");
        }
    }
}
