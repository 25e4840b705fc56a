//! One process attaches an interface: with two, each packet would have two receivers.
//!
//! Sockets of packets may be several, and the kernel refuses a second one only for AF_XDP. So each process takes a name
//! in the abstract namespace of Unix sockets, of which each network namespace has its own, and which ends with the process.

use super::AttachError;
use super::settings::PortSpec;
use linecard_tun::sys::device;
use std::io::ErrorKind;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// An interface that this process alone attaches, as long as this exists.
#[derive(Debug)]
pub(super) struct Claim {
    _socket: UnixDatagram,
}

impl Claim {
    /// Claims the interface of a port that takes its packets; none for other ports. Opening says what is wrong with an
    /// interface.
    pub(super) fn of(port: &PortSpec) -> Option<Result<Self, AttachError>> {
        let interface = port.interface().filter(|_| !port.mirror)?;
        let index = device::index(interface).ok()?;
        let name = SocketAddr::from_abstract_name(format!("linecard-attach-{index}")).ok()?;
        match UnixDatagram::bind_addr(&name) {
            Ok(socket) => Some(Ok(Self { _socket: socket })),
            Err(error) if error.kind() == ErrorKind::AddrInUse => {
                Some(Err(AttachError::Claimed { port: Box::new(port.clone()) }))
            }
            // Where Unix sockets are forbidden, two are not noticed.
            Err(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linecard_testkit::lab::Namespace;

    #[test]
    fn one_interface_is_claimed_once() {
        let Ok(network) = Namespace::new() else {
            return linecard_testkit::skip("claims of interfaces", "no network namespace");
        };
        network.inside(|| {
            let claim = |text: &str| Claim::of(&text.parse().expect("a port"));
            let held = claim("packet:lo").expect("an interface").expect("free");
            let refused = claim("xdp:lo").expect("an interface").expect_err("taken").to_string();
            assert!(refused.starts_with("another process has attached xdp:lo"), "{refused}");
            assert!(claim("packet:lo,mirror").is_none() && claim("tap:lo").is_none());
            drop(held);
            assert!(claim("xdp:lo").expect("an interface").is_ok());
        });
    }
}
