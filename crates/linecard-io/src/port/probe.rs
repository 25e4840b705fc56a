//! Detects what TAP devices and packet sockets support here, by opening them instead of comparing
//! versions. [`xdp::probe`](super::xdp::probe) does so for AF_XDP.

use super::{PacketConfig, PacketSocket, Takeover};
use crate::sys;
use crate::sys::socket::PacketFd;
use linecard::offload::virtio::Format;
use linecard::packet::Pool;
use linecard_tun::sys::device;
use linecard_tun::{BUFFER_LEN, DeviceConfig, PortError, Tap};
use std::os::fd::AsFd;

/// Exists in every network namespace.
const LOOPBACK: &str = "lo";
/// The scratch device; the kernel chooses the number.
const SCRATCH: &str = "lcprobe%d";

/// The kernel's support of TUN and TAP devices for this process.
#[derive(Debug)]
pub struct TapFeatures {
    /// Why no device can be made, if so; all other fields are false then.
    pub devices: Result<(), PortError>,
    /// A device may have several queues (Linux 3.8).
    pub multi_queue: bool,
    /// Large TCP packets are exchanged whole.
    pub tcp: bool,
    /// Large UDP packets too (Linux 6.2).
    pub udp: bool,
    /// Also in UDP tunnels (Linux 6.17).
    pub tunnels: bool,
}

/// The kernel's support of packet sockets for this process.
#[derive(Debug)]
pub struct PacketFeatures {
    /// Why no socket with a receive ring can be opened, if so; all other fields are false then.
    pub sockets: Result<(), PortError>,
    /// Large packets are exchanged whole, behind virtio headers in the ring (Linux 4.6).
    pub virtio_headers: bool,
    /// Several sockets may share an interface (Linux 3.1).
    pub fanout: bool,
    /// Sending may bypass the queueing discipline (Linux 3.14).
    pub qdisc_bypass: bool,
    /// An interface's packets may be kept from the kernel's stack (Linux 6.6).
    pub takeover: bool,
}

/// Detects what TAP devices support. Temporarily makes a device, which is never up.
///
/// ```no_run
/// for line in linecard_io::port::probe::tap().lacking() {
///     eprintln!("{line}");
/// }
/// ```
#[must_use]
pub fn tap() -> TapFeatures {
    let tap = match Tap::open(&DeviceConfig::tap(SCRATCH), Pool::new(0, BUFFER_LEN)) {
        Ok(tap) => tap,
        Err(error) => {
            let (multi_queue, tcp, udp, tunnels) = (false, false, false, false);
            return TapFeatures { devices: Err(error), multi_queue, tcp, udp, tunnels };
        }
    };
    let features = device::tun_features(tap.as_fd()).unwrap_or(0);
    let takes = |offload: u32| tap.offloads() & offload == offload;
    TapFeatures {
        devices: Ok(()),
        multi_queue: features & libc::IFF_MULTI_QUEUE as libc::c_uint != 0,
        tcp: takes(libc::TUN_F_TSO4 | libc::TUN_F_TSO6),
        udp: takes(libc::TUN_F_USO4 | libc::TUN_F_USO6),
        tunnels: tap.format() == Format::Tunnel,
    }
}

/// Detects what packet sockets support. Temporarily opens some on the loopback interface.
///
/// ```no_run
/// let features = linecard_io::port::probe::packet();
/// println!("{}", if features.sockets.is_ok() { "yes" } else { "no" });
/// ```
#[must_use]
pub fn packet() -> PacketFeatures {
    let smallest = PacketConfig { receive_buffer: 64 << 10, ..PacketConfig::new(LOOPBACK) };
    match PacketSocket::open(&smallest, Pool::new(0, BUFFER_LEN)) {
        Ok(socket) => PacketFeatures {
            sockets: Ok(()),
            virtio_headers: socket.offloads(),
            fanout: knows(libc::PACKET_FANOUT, group()),
            qdisc_bypass: knows(libc::PACKET_QDISC_BYPASS, 1),
            takeover: Takeover::is_known(),
        },
        Err(error) => PacketFeatures {
            sockets: Err(error),
            virtio_headers: false,
            fanout: false,
            qdisc_bypass: false,
            takeover: false,
        },
    }
}

/// A fanout group by flow hash. If another process uses its number, the kernel reports that, which
/// shows that it supports groups.
fn group() -> libc::c_int {
    (std::process::id() & 0xFFFF | libc::PACKET_FANOUT_HASH << 16) as libc::c_int
}

/// Whether packet sockets have this option, regardless of the result for this value.
fn knows(option: libc::c_int, value: libc::c_int) -> bool {
    let set = || {
        let socket = PacketFd::open()?;
        socket.bind(device::index(LOOPBACK)?)?;
        socket.set(option, value)
    };
    !set().is_err_and(|error| sys::is(&error, libc::ENOPROTOOPT))
}

impl TapFeatures {
    /// One line per missing feature; none if all are available.
    #[must_use]
    pub fn lacking(&self) -> Vec<String> {
        let rest = [
            (self.multi_queue, "one queue for a device: several take Linux 3.8 or newer"),
            (self.tcp, "no large TCP packets: all are segmented before they are sent"),
            (self.udp, "no large UDP packets: they take Linux 6.2 or newer"),
            (self.tunnels, "no large packets in UDP tunnels: they take Linux 6.17 or newer"),
        ];
        lines(&self.devices, &rest)
    }
}

impl PacketFeatures {
    /// One line per missing feature; none if all are available.
    #[must_use]
    pub fn lacking(&self) -> Vec<String> {
        let rest = [
            (self.virtio_headers, "no large packets: they take Linux 2.6.37 or newer"),
            (self.fanout, "no fanout, one port for an interface: it takes Linux 3.1 or newer"),
            (
                self.takeover,
                "the kernel gets all packets too: keeping them takes Linux 6.6 or newer",
            ),
            (self.qdisc_bypass, "no way by the queueing discipline: it takes Linux 3.14 or newer"),
        ];
        lines(&self.sockets, &rest)
    }
}

/// Why nothing is available, or else which of the other features are missing.
fn lines(opened: &Result<(), PortError>, rest: &[(bool, &str)]) -> Vec<String> {
    match opened {
        Err(error) => vec![error.to_string()],
        Ok(()) => {
            let lacking = rest.iter().filter(|(is_there, _)| !is_there);
            lacking.map(|(_, line)| (*line).to_owned()).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lacking_is_said_in_one_line_each() {
        let old = TapFeatures {
            devices: Ok(()),
            multi_queue: true,
            tcp: true,
            udp: false,
            tunnels: false,
        };
        assert_eq!(
            old.lacking(),
            [
                "no large UDP packets: they take Linux 6.2 or newer",
                "no large packets in UDP tunnels: they take Linux 6.17 or newer"
            ]
        );
        let denied = PortError::NoPermission { doing: "open it", capability: "CAP_NET_RAW" };
        let none = PacketFeatures {
            sockets: Err(denied),
            virtio_headers: false,
            fanout: false,
            qdisc_bypass: false,
            takeover: false,
        };
        assert_eq!(none.lacking().len(), 1);
        assert!(none.lacking()[0].contains("CAP_NET_RAW"));
    }

    #[test]
    fn an_option_that_nobody_has_is_not_known() {
        if PacketFd::open().is_ok() {
            assert!(!knows(9_999, 1));
        }
    }
}
