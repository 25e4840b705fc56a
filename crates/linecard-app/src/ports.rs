//! Capabilities of this host: kinds of ports, found by trying, and interfaces.

use crate::{Context, Error, Job};
use garde::Validate;
use linecard_io::port::{probe, xdp};
use linecard_io::sys::ethtool::{self, Stamping};
use linecard_report::{ByteCount, Item, Named};
use linecard_tun::interface::{self, Interface, State, format_mac};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The job: finds out which kinds of ports can be opened with the privileges of the process, what the kernel lacks, and
/// which interfaces there are. Opens sockets on the loopback interface and makes a TAP device, for a moment. Whatever is
/// lacking is part of the outcome and no error.
#[derive(Debug)]
pub struct Ports;

/// There is nothing to choose.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(deny_unknown_fields)]
pub struct PortsConfig {}

/// Kinds of ports, and interfaces.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct PortsOutcome {
    /// Kinds of ports
    pub kinds: Kinds,
    /// Missing facilities
    pub lacking: Vec<Lack>,
    /// Interfaces of this network namespace
    pub interfaces: Named<InterfaceOutcome>,
    /// Why the interfaces cannot be listed, if so.
    #[serde(skip)]
    pub unlisted: Option<String>,
}

/// Kinds of ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Kinds {
    /// xdp
    pub xdp: XdpKind,
    /// packet
    pub packet: PacketKind,
    /// tap
    pub tap: TapKind,
    /// tun
    pub tun: PlainKind,
    /// vhost
    pub vhost: PlainKind,
    /// file
    pub capture: PlainKind,
    /// memory
    pub memory: PlainKind,
}

/// All packets of an interface, by AF_XDP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct XdpKind {
    /// Whether such ports can be opened.
    pub usable: bool,
    /// Packets longer than a frame.
    pub multi_buffer: bool,
    /// The kernel signals when it has to be woken.
    pub need_wakeup: bool,
}

/// All packets of an interface, by a packet socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PacketKind {
    /// Whether such ports can be opened.
    pub usable: bool,
    /// Large packets are exchanged whole.
    pub large_packets: bool,
    /// Several sockets may share an interface.
    pub fanout: bool,
    /// Sending may bypass the queueing discipline.
    pub qdisc_bypass: bool,
    /// Packets may be kept from the kernel's stack.
    pub takeover: bool,
}

/// TAP and TUN devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TapKind {
    /// Whether such ports can be opened.
    pub usable: bool,
    /// A device may have several queues.
    pub multi_queue: bool,
    /// Large TCP packets are exchanged whole.
    pub large_tcp: bool,
    /// Large UDP packets too.
    pub large_udp: bool,
    /// Also in UDP tunnels.
    pub large_tunnels: bool,
}

/// A kind of which nothing else is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PlainKind {
    /// Whether such ports can be opened.
    pub usable: bool,
}

/// Something that a kind of ports lacks.
pub type Lack = Item<String>;

/// A network interface.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct InterfaceOutcome {
    /// "up", "no carrier" or "down".
    pub state: String,
    /// Bytes of its largest IP packet.
    pub mtu: ByteCount,
    /// Its MAC address, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mac: Option<String>,
    /// Queues that receive, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rx_queues: Option<u64>,
    /// Queues that send.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tx_queues: Option<u64>,
    /// Its driver.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// The number of its clock, `/dev/ptpN`, if it stamps received packets itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ptp_clock: Option<u32>,
    /// Whether it can stamp every packet, not only those of PTP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stamps_every_packet: Option<bool>,
    /// The ports that fit it, the best first.
    pub ports: String,
    /// Its link type (`ARPHRD_*`).
    #[serde(skip)]
    pub hardware: u16,
}

impl Job for Ports {
    const NAME: &'static str = "ports";
    type Config = PortsConfig;
    type Outcome = PortsOutcome;

    fn title(_: &PortsConfig) -> String {
        "Ports of this host".to_owned()
    }

    fn run(_: &PortsConfig, _: &Context<'_>) -> Result<PortsOutcome, Error> {
        let (xdp, packet, tap) = (xdp::probe(), probe::packet(), probe::tap());
        let lacking = [
            ("xdp", xdp.lacking()),
            ("packet", packet.lacking()),
            ("tap", tap.lacking()),
            ("tun", tap.lacking()),
        ];
        let lack = |(kind, lines): (&str, Vec<String>)| {
            let label = kind.to_owned();
            lines.into_iter().map(move |value| Lack { label: label.clone(), value })
        };
        let (interfaces, unlisted) = match interface::list() {
            Ok(interfaces) => (interfaces, None),
            Err(error) => (Vec::new(), Some(error.to_string())),
        };
        let named = |interface: &Interface| {
            let stamping = ethtool::stamping(&interface.name).ok().flatten();
            (interface.name.clone(), InterfaceOutcome::new(interface, stamping))
        };
        Ok(PortsOutcome {
            kinds: Kinds {
                xdp: XdpKind {
                    usable: xdp.is_usable(),
                    multi_buffer: xdp.multi_buffer,
                    need_wakeup: xdp.need_wakeup,
                },
                packet: PacketKind {
                    usable: packet.sockets.is_ok(),
                    large_packets: packet.virtio_headers,
                    fanout: packet.fanout,
                    qdisc_bypass: packet.qdisc_bypass,
                    takeover: packet.takeover,
                },
                tap: TapKind {
                    usable: tap.devices.is_ok(),
                    multi_queue: tap.multi_queue,
                    large_tcp: tap.tcp,
                    large_udp: tap.udp,
                    large_tunnels: tap.tunnels,
                },
                tun: PlainKind { usable: tap.devices.is_ok() },
                vhost: PlainKind { usable: true },
                capture: PlainKind { usable: true },
                memory: PlainKind { usable: true },
            },
            lacking: lacking.into_iter().flat_map(lack).collect(),
            interfaces: Named(interfaces.iter().map(named).collect()),
            unlisted,
        })
    }
}

impl linecard_report::Outcome for PortsOutcome {
    fn text(&self, section: &str, key: &str) -> Option<String> {
        if section == "kinds" {
            return self.kinds.text(key);
        }
        let found = self.interfaces.0.iter().find(|(name, _)| name == key);
        found.map(|(_, interface)| interface.text())
    }

    fn notes(&self) -> Vec<String> {
        let unlisted = self.unlisted.as_ref();
        let unlisted = unlisted.map(|error| format!("The interfaces cannot be listed: {error}."));
        let zero_copy = "Whether a driver gives AF_XDP its packets without a copy is tested when the port is \
             opened.";
        let stamps = "Received packets have time stamps of the kernel, and of an interface's own clock where one is \
             listed (ptpN).";
        unlisted.into_iter().chain([zero_copy, stamps].map(str::to_owned)).collect()
    }
}

impl Kinds {
    /// Whether a kind is usable, and what it has then.
    fn text(&self, kind: &str) -> Option<String> {
        let Self { xdp, packet, tap, .. } = self;
        let (usable, features): (bool, &[(bool, &str)]) = match kind {
            "xdp" => (
                xdp.usable,
                &[
                    (xdp.multi_buffer, "packets longer than a frame"),
                    (xdp.need_wakeup, "need-wakeup"),
                ],
            ),
            "packet" => (
                packet.usable,
                &[
                    (packet.large_packets, "large packets whole"),
                    (packet.fanout, "fanout"),
                    (packet.qdisc_bypass, "past the queueing discipline"),
                    (packet.takeover, "kept from the kernel"),
                ],
            ),
            "tap" => (
                tap.usable,
                &[
                    (tap.multi_queue, "several queues"),
                    (tap.large_tcp, "large TCP packets whole"),
                    (tap.large_udp, "large UDP packets"),
                    (tap.large_tunnels, "both in UDP tunnels"),
                ],
            ),
            "tun" => (self.tun.usable, &[(true, "as tap, for IP packets")]),
            "vhost" => (self.vhost.usable, &[(true, "virtual machines, by a Unix socket")]),
            "capture" => (self.capture.usable, &[(true, "captures")]),
            "memory" => (self.memory.usable, &[]),
            _ => return None,
        };
        let has: Vec<&str> =
            features.iter().filter(|(has, _)| *has).map(|(_, what)| *what).collect();
        Some(match (usable, has.as_slice()) {
            (false, _) => "no".to_owned(),
            (true, []) => "yes".to_owned(),
            (true, has) => format!("yes: {}", has.join(", ")),
        })
    }
}

impl InterfaceOutcome {
    fn new(interface: &Interface, stamping: Option<Stamping>) -> Self {
        let device = interface.device.as_ref();
        let state = match interface.state {
            State::Up => "up",
            State::NoCarrier => "no carrier",
            State::Down => "down",
        };
        Self {
            state: state.to_owned(),
            mtu: ByteCount(interface.mtu as u64),
            mac: interface.mac.map(format_mac),
            rx_queues: device.map(|device| device.rx_queues as u64),
            tx_queues: device.map(|device| device.tx_queues as u64),
            driver: device.and_then(|device| device.driver.clone()),
            ptp_clock: stamping.map(|stamping| stamping.clock),
            stamps_every_packet: stamping.map(|stamping| stamping.every),
            ports: specs(interface),
            hardware: interface.hardware,
        }
    }

    fn text(&self) -> String {
        let mut parts = vec![self.state.clone(), format!("MTU {}", self.mtu.0)];
        parts.extend(self.mac.clone());
        if let (Some(rx), Some(tx)) = (self.rx_queues, self.tx_queues) {
            parts.push(format!("{rx} rx and {tx} tx queues"));
        }
        parts.extend(self.driver.clone());
        parts.extend(self.ptp_clock.map(|clock| match self.stamps_every_packet {
            Some(true) => format!("time stamps of ptp{clock}"),
            _ => format!("time stamps of ptp{clock} for PTP only"),
        }));

        let ports = match self.ports.as_str() {
            "" => format!("no port for link type {}", self.hardware),
            ports => ports.to_owned(),
        };
        format!("{}: {ports}", parts.join(", "))
    }
}

/// The ports that fit it, the best first.
fn specs(interface: &Interface) -> String {
    let is_tap = interface.device.as_ref().is_some_and(|device| device.is_tap);
    let (ethernet, ip) = (interface.is_ethernet(), interface.is_ip());
    let device = if ethernet { "tap" } else { "tun" };
    let kinds = [(device, is_tap), ("xdp", ethernet), ("packet", ethernet || ip)];
    let kinds = kinds.iter().filter(|(_, fits)| *fits);
    kinds.map(|(kind, _)| format!("{kind}:{}", interface.name)).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use linecard_tun::interface::Device;

    fn words(interface: &Interface) -> String {
        InterfaceOutcome::new(interface, None).text()
    }

    fn card(device: Option<Device>) -> Interface {
        Interface {
            name: "eth0".to_owned(),
            state: State::Up,
            mtu: 1_500,
            hardware: 1,
            mac: Some([2, 0, 0, 0, 0, 10]),
            device,
        }
    }

    #[test]
    fn an_interface_is_one_line() {
        let driver = Some("virtio_net".to_owned());
        let device = Device { rx_queues: 4, tx_queues: 2, driver, is_tap: false };
        assert_eq!(
            words(&card(Some(device))),
            "up, MTU 1500, 02:00:00:00:00:0a, 4 rx and 2 tx queues, virtio_net: xdp:eth0 packet:eth0"
        );
        assert_eq!(words(&card(None)), "up, MTU 1500, 02:00:00:00:00:0a: xdp:eth0 packet:eth0");
        for (every, stamps) in [(true, "ptp3"), (false, "ptp3 for PTP only")] {
            let stamping = Some(Stamping { clock: 3, every });
            assert_eq!(
                InterfaceOutcome::new(&card(None), stamping).text(),
                format!(
                    "up, MTU 1500, 02:00:00:00:00:0a, time stamps of {stamps}: xdp:eth0 packet:eth0"
                )
            );
        }
    }

    #[test]
    fn what_fits_an_interface_depends_on_its_kind() {
        let tun = Interface {
            hardware: 65_534,
            mac: None,
            ..card(Some(Device { is_tap: true, ..Device::default() }))
        };
        assert_eq!(specs(&tun), "tun:eth0 packet:eth0");
        let tunnel = Interface { hardware: 768, mac: None, ..card(None) };
        assert_eq!(words(&tunnel), "up, MTU 1500: no port for link type 768");
    }

    #[test]
    fn a_kind_that_cannot_be_used_says_no_more() {
        let xdp = XdpKind { usable: false, multi_buffer: false, need_wakeup: true };
        let tap = TapKind {
            usable: true,
            multi_queue: true,
            large_tcp: true,
            large_udp: false,
            large_tunnels: false,
        };
        let packet = PacketKind {
            usable: true,
            large_packets: false,
            fanout: false,
            qdisc_bypass: false,
            takeover: false,
        };
        let plain = PlainKind { usable: true };
        let kinds =
            Kinds { xdp, packet, tap, tun: plain, vhost: plain, capture: plain, memory: plain };
        assert_eq!(kinds.text("xdp").as_deref(), Some("no"));
        assert_eq!(kinds.text("packet").as_deref(), Some("yes"));
        let tap = "yes: several queues, large TCP packets whole";
        assert_eq!(kinds.text("tap").as_deref(), Some(tap));
    }
}
