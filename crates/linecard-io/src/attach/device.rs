//! The interfaces of both ports at the start: TUN and TAP devices are configured, and obstacles to packets are
//! reported.

use super::settings::{PortSpec, Settings};
use linecard_tun::interface::{self, State, format_mac};
use linecard_tun::sys::device;
use linecard_tun::{PortError, interface::addresses};
use std::net::IpAddr;
use std::path::Path;

/// TUN and TAP devices among the ports, and the near interface, which new devices are to resemble.
pub(super) struct Devices {
    ports: [PortSpec; 2],
    /// Whether the port is a device that does not exist yet.
    is_new: [bool; 2],
}

impl Devices {
    /// Before the ports are opened.
    pub(super) fn of(settings: &Settings) -> Self {
        let ports = [settings.near.clone(), settings.far.clone()];
        let is_new = |port: &PortSpec| {
            port.device().is_some_and(|name| interface::exists(name).is_ok_and(|exists| !exists))
        };
        Self { is_new: [is_new(&ports[0]), is_new(&ports[1])], ports }
    }

    /// Once the ports are open. A new far device gets the near interface's MTU and address; every
    /// device is brought up. Returns what to say about that.
    pub(super) fn configure(&self) -> Result<Vec<String>, PortError> {
        let [near, far] = &self.ports;
        let mut lines = Vec::new();
        for (port, is_new) in [near, far].into_iter().zip(self.is_new) {
            let Some(name) =
                port.device().filter(|name| interface::exists(name).is_ok_and(|exists| exists))
            else {
                continue;
            };
            let like = near.interface().filter(|_| std::ptr::eq(port, far));
            match (like, is_new) {
                (Some(like), true) => resemble(name, like, near.promiscuous)?,
                (Some(like), false) => lines.extend(differences(name, like, near.promiscuous)?),
                (None, _) => {}
            }
            if interface::state(name)? == State::Down {
                interface::set_up(name, true)?;
                lines.extend((!is_new).then(|| format!("{name} was down, and is up now")));
            }
        }
        Ok(lines)
    }

    /// Obstacles to packets that others have to remove.
    pub(super) fn obstacles(&self) -> Vec<String> {
        let [near, far] = &self.ports;
        let both = [(near, far), (far, near)].into_iter();
        let found =
            both.flat_map(|(port, other)| [down(port), belongs(port), kept_addresses(port, other)]);
        found.flatten().collect()
    }
}

/// Gives a new device the MTU of an interface, and its MAC address: a TUN device has none, and a
/// promiscuous port receives frames for any.
fn resemble(device: &str, like: &str, promiscuous: bool) -> Result<(), PortError> {
    interface::set_mtu(device, interface::mtu(like)?)?;
    if !promiscuous && interface::mac(device).is_ok() {
        interface::set_mac(device, interface::mac(like)?)?;
    }
    Ok(())
}

/// Where a device that existed before differs from an interface: it stays as its owner has set it.
fn differences(device: &str, like: &str, promiscuous: bool) -> Result<Vec<String>, PortError> {
    let mut lines = Vec::new();
    let (mtu, wanted) = (interface::mtu(device)?, interface::mtu(like)?);
    if mtu != wanted {
        lines.push(format!(
            "{device} has an MTU of {mtu} bytes, and {like} one of {wanted}: `ip link set {device} mtu \
             {wanted}`"
        ));
    }
    if let (Ok(mac), Ok(wanted)) = (interface::mac(device), interface::mac(like))
        && mac != wanted
        && !promiscuous
    {
        let (mac, wanted) = (format_mac(mac), format_mac(wanted));
        lines.push(format!(
            "{device} has the MAC address {mac}, and {like} {wanted}, for which alone it takes frames: \
             `ip link set {device} address {wanted}`"
        ));
    }
    Ok(lines)
}

/// An interface that has to be brought up by its owner.
fn down(port: &PortSpec) -> Option<String> {
    let name = port.interface()?;
    let is_down = matches!(interface::state(name), Ok(State::Down));
    is_down.then(|| format!("{name} is down, and nothing passes: `ip link set {name} up`"))
}

/// The bridge, bond or VRF that an interface belongs to.
pub(super) fn master(name: &str) -> Option<String> {
    let entry = |entry| Path::new("/sys/class/net").join(name).join(entry);
    let read = |name| std::fs::read_to_string(entry(name)).ok();
    // It may show the interfaces of another network namespace.
    let (index, mac) = (read("ifindex")?, read("address")?);
    let is_own = index.trim().parse().ok() == device::index(name).ok()
        && interface::mac(name).is_ok_and(|own| format_mac(own) == mac.trim());
    let master = std::fs::read_link(entry("master")).ok().filter(|_| is_own)?;
    Some(master.file_name()?.to_string_lossy().into_owned())
}

/// A bridge or a bond gets nothing from an interface that is taken from the kernel.
fn belongs(port: &PortSpec) -> Option<String> {
    let name = port.interface().filter(|_| !port.mirror)?;
    let master = master(name)?;
    Some(format!(
        "{name} belongs to {master}, which receives nothing from it now: attach {master}, or `ip link set {name} nomaster`"
    ))
}

/// The addresses of an interface that is taken from the kernel, which continues to use them.
fn kept_addresses(port: &PortSpec, other: &PortSpec) -> Option<String> {
    let name = port.interface().filter(|_| !port.mirror)?;
    let mut kept = addresses(name).ok()?;
    kept.retain(|(address, _)| !is_link_local(address));
    let list: Vec<String> =
        kept.iter().map(|(address, bits)| format!("{address}/{bits}")).collect();
    let heir = other.device().map_or(String::new(), |device| {
        list.iter().map(|address| format!("; ip addr add {address} dev {device}")).collect()
    });
    (!list.is_empty()).then(|| {
        format!(
            "{name} still has the address {}: the kernel sends from it, and gets no answers. \
             `--take-addresses` moves it with its routes; by hand, without them: `ip addr flush dev {name}{heir}`",
            list.join(" and ")
        )
    })
}

/// Every interface has such an address by itself.
fn is_link_local(address: &IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.is_unicast_link_local())
}
