//! What this host can do: kinds of ports, found by trying, and interfaces.

use crate::Finished;
use linecard_io::port::interface::{self, Device, Interface, State, mac_text};
use linecard_io::port::{probe, xdp};
use linecard_report::{Report, Section, Value};

/// Finds out which kinds of ports can be opened with the privileges of the process, what the kernel lacks, and which
/// interfaces there are. Opens sockets on the loopback interface and makes a TAP device, for a moment. Whatever is
/// lacking is part of the result: there is no failure.
#[must_use]
pub fn ports() -> Finished {
    let kinds = [xdp_kind(), packet_kind(), tap_kind(), plain("capture"), plain("memory")];
    let mut report = Report::new("ports");
    let (mut usable, mut lacking) =
        (Section::new("kinds", "Kinds of ports"), Section::list("lacking", "What is lacking"));
    for kind in kinds {
        for line in &kind.lacking {
            lacking.add("", kind.name, Value::Text(line.clone()));
        }
        usable.add(kind.name, kind.name, kind.value());
    }
    report.push(usable);
    report.push(lacking);
    match interface::list() {
        Ok(interfaces) => report.push(section(&interfaces)),
        Err(error) => report.note(format!("The interfaces cannot be listed: {error}.")),
    }
    report.note("Whether a driver gives AF_XDP its packets without a copy is tried when opened.");
    Finished::of_report("Ports of this host", report)
}

/// A kind of port, what it has, and what it lacks.
struct Kind {
    name: &'static str,
    is_usable: bool,
    /// Key, words, and whether it is there.
    features: Vec<(&'static str, &'static str, bool)>,
    lacking: Vec<String>,
}

impl Kind {
    fn value(&self) -> Value {
        let has: Vec<&str> =
            self.features.iter().filter(|feature| feature.2).map(|feature| feature.1).collect();
        let mut text = Value::Flag(self.is_usable).to_string();
        if self.is_usable && !has.is_empty() {
            text += ": ";
            text += &has.join(", ");
        }
        let features = self.features.iter().map(|&(key, _, so)| (key, Value::Flag(so)));
        let usable = ("usable", Value::Flag(self.is_usable));
        Value::Fields(text, std::iter::once(usable).chain(features).collect())
    }
}

/// One that takes no rights and nothing of the kernel.
fn plain(name: &'static str) -> Kind {
    Kind { name, is_usable: true, features: Vec::new(), lacking: Vec::new() }
}

fn xdp_kind() -> Kind {
    let found = xdp::probe();
    Kind {
        name: "xdp",
        is_usable: found.is_usable(),
        features: vec![
            ("multi_buffer", "packets longer than a frame", found.multi_buffer),
            ("need_wakeup", "need-wakeup", found.need_wakeup),
        ],
        lacking: found.lacking(),
    }
}

fn packet_kind() -> Kind {
    let found = probe::packet();
    Kind {
        name: "packet",
        is_usable: found.sockets.is_ok(),
        features: vec![
            ("large_packets", "large packets whole", found.virtio_headers),
            ("fanout", "fanout", found.fanout),
            ("qdisc_bypass", "past the queueing discipline", found.qdisc_bypass),
            ("takeover", "kept from the kernel", found.takeover),
        ],
        lacking: found.lacking(),
    }
}

fn tap_kind() -> Kind {
    let found = probe::tap();
    Kind {
        name: "tap",
        is_usable: found.devices.is_ok(),
        features: vec![
            ("multi_queue", "several queues", found.multi_queue),
            ("large_tcp", "large TCP packets whole", found.tcp),
            ("large_udp", "large UDP packets", found.udp),
            ("large_tunnels", "both in UDP tunnels", found.tunnels),
        ],
        lacking: found.lacking(),
    }
}

fn section(interfaces: &[Interface]) -> Section {
    let mut section = Section::new("interfaces", "Interfaces of this network namespace");
    for interface in interfaces {
        let value = Value::Fields(words(interface), fields(interface));
        section.add(interface.name.clone(), interface.name.clone(), value);
    }
    section
}

fn state(interface: &Interface) -> &'static str {
    match interface.state {
        State::Up => "up",
        State::NoCarrier => "no carrier",
        State::Down => "down",
    }
}

/// The ports that fit it, the best first.
fn specs(interface: &Interface) -> String {
    let is_tap = interface.device.as_ref().is_some_and(|device| device.is_tap);
    let (ethernet, ip) = (interface.is_ethernet(), interface.is_ip());
    let kinds = [("tap", is_tap), ("xdp", ethernet), ("packet", ethernet || ip)];
    let kinds = kinds.iter().filter(|(_, fits)| *fits);
    kinds.map(|(kind, _)| format!("{kind}:{}", interface.name)).collect::<Vec<_>>().join(" ")
}

fn words(interface: &Interface) -> String {
    let mut parts = vec![state(interface).to_owned(), format!("MTU {}", interface.mtu)];
    parts.extend(interface.mac.map(mac_text));
    if let Some(Device { rx_queues, tx_queues, driver, .. }) = &interface.device {
        parts.push(format!("{rx_queues} rx and {tx_queues} tx queues"));
        parts.extend(driver.clone());
    }
    let specs = match specs(interface) {
        none if none.is_empty() => format!("no port for link type {}", interface.hardware),
        specs => specs,
    };
    format!("{}: {specs}", parts.join(", "))
}

fn fields(interface: &Interface) -> Vec<(&'static str, Value)> {
    let mut fields = vec![
        ("state", Value::Text(state(interface).to_owned())),
        ("mtu", Value::Bytes(interface.mtu as u64)),
    ];
    fields.extend(interface.mac.map(|mac| ("mac", Value::Text(mac_text(mac)))));
    if let Some(Device { rx_queues, tx_queues, driver, .. }) = &interface.device {
        fields.push(("rx_queues", Value::Count(*rx_queues as u64)));
        fields.push(("tx_queues", Value::Count(*tx_queues as u64)));
        fields.extend(driver.clone().map(|driver| ("driver", Value::Text(driver))));
    }
    fields.push(("ports", Value::Text(specs(interface))));
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

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
    }

    #[test]
    fn what_fits_an_interface_depends_on_its_kind() {
        let tun = Interface {
            hardware: 65_534,
            mac: None,
            ..card(Some(Device { is_tap: true, ..Device::default() }))
        };
        assert_eq!(specs(&tun), "tap:eth0 packet:eth0");
        let tunnel = Interface { hardware: 768, mac: None, ..card(None) };
        assert_eq!(words(&tunnel), "up, MTU 1500: no port for link type 768");
    }

    #[test]
    fn a_kind_that_cannot_be_used_says_no_more() {
        let features = vec![("fanout", "fanout", false)];
        let kind = Kind { name: "packet", is_usable: false, features, lacking: Vec::new() };
        assert_eq!(kind.value().to_string(), "no");
        assert_eq!(plain("memory").value().to_string(), "yes");
    }
}
