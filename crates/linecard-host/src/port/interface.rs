//! The little that tests and tools ask of an interface, by name. Addresses and routes are `ip`'s.

use super::PortError;
use super::error::check_name;
use crate::sys::{self, device};
use std::io;

/// Changes need it; questions need nothing.
const CAPABILITY: &str = "CAP_NET_ADMIN";

/// Whether there is an interface of this name in the calling thread's network namespace.
///
/// ```
/// assert!(!linecard_host::port::interface::exists("no-such-name")?);
/// # Ok::<(), linecard_host::port::PortError>(())
/// ```
///
/// # Errors
///
/// A name that no interface can have.
pub fn exists(name: &str) -> Result<bool, PortError> {
    check_name(name)?;
    match device::index(name).map_err(about(name, "look for an interface")) {
        Ok(_) => Ok(true),
        Err(PortError::NoInterface { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

/// The bytes of its largest IP packet.
///
/// ```no_run
/// let mtu = linecard_host::port::interface::mtu("eth0")?;
/// # Ok::<(), linecard_host::port::PortError>(())
/// ```
///
/// # Errors
///
/// No such interface in the calling thread's network namespace.
pub fn mtu(name: &str) -> Result<usize, PortError> {
    check_name(name)?;
    let mtu = device::mtu(name).map_err(about(name, "read an interface's MTU"))?;
    Ok(usize::try_from(mtu).unwrap_or(0))
}

/// Sets the bytes of its largest IP packet: 68 … 1,500 for most, and up to 65,535 for some.
///
/// ```no_run
/// linecard_host::port::interface::set_mtu("tap0", 9_000)?;
/// # Ok::<(), linecard_host::port::PortError>(())
/// ```
///
/// # Errors
///
/// No such interface, a size that it does not take, or no permission: it needs `CAP_NET_ADMIN`.
pub fn set_mtu(name: &str, mtu: usize) -> Result<(), PortError> {
    check_name(name)?;
    // What no interface takes stands for what the call could not even say.
    let bytes = i32::try_from(mtu).unwrap_or(-1);
    device::set_mtu(name, bytes).map_err(|error| {
        if !sys::is(&error, libc::EINVAL) {
            return about(name, "set an interface's MTU")(error);
        }
        let range = "what the interface takes: `ip -d link` shows its minmtu and maxmtu";
        PortError::Setting { setting: "mtu", value: mtu, range }
    })
}

/// Its MAC address; all zeros for the loopback interface.
///
/// ```no_run
/// let mac = linecard_host::port::interface::mac("eth0")?;
/// # Ok::<(), linecard_host::port::PortError>(())
/// ```
///
/// # Errors
///
/// No such interface in the calling thread's network namespace, or one without such an address, as
/// TUN devices are.
pub fn mac(name: &str) -> Result<[u8; 6], PortError> {
    ethernet(name).map(|(_, mac)| mac)
}

/// Gives it a MAC address: not all zeros, and none of a group, which has an odd first byte.
///
/// ```no_run
/// // The second bit of the first byte says "chosen, not bought".
/// linecard_host::port::interface::set_mac("tap0", [2, 0, 0, 0, 0, 1])?;
/// # Ok::<(), linecard_host::port::PortError>(())
/// ```
///
/// # Errors
///
/// An address that no interface can have; no such interface, or one without MAC address; no
/// permission: it needs `CAP_NET_ADMIN`. Some devices have to be down for it.
pub fn set_mac(name: &str, mac: [u8; 6]) -> Result<(), PortError> {
    let (kind, _) = ethernet(name)?;
    if mac == [0; 6] || mac[0] & 1 != 0 {
        return Err(PortError::BadMac { mac });
    }
    let doing = "set an interface's MAC address";
    device::set_hardware(name, (kind, mac)).map_err(about(name, doing))
}

/// Brings it up, or down.
///
/// ```no_run
/// linecard_host::port::interface::set_up("tap0", true)?;
/// # Ok::<(), linecard_host::port::PortError>(())
/// ```
///
/// # Errors
///
/// No such interface, or no permission: it needs `CAP_NET_ADMIN`.
pub fn set_up(name: &str, up: bool) -> Result<(), PortError> {
    check_name(name)?;
    device::set_up(name, up).map_err(about(name, "bring an interface up or down"))
}

/// Link type and MAC address.
fn ethernet(name: &str) -> Result<(u16, [u8; 6]), PortError> {
    check_name(name)?;
    let hardware = device::hardware(name);
    match hardware.map_err(about(name, "read an interface's MAC address"))? {
        found @ (libc::ARPHRD_ETHER | libc::ARPHRD_LOOPBACK, _) => Ok(found),
        _ => Err(PortError::NoMac { name: name.to_owned() }),
    }
}

/// What the system has said about an interface.
fn about(name: &str, doing: &'static str) -> impl Fn(io::Error) -> PortError {
    move |error| PortError::about(name, doing, CAPABILITY, error)
}

/// How many queues it receives by; 1 where the system's files do not say.
///
/// ```no_run
/// let queues = linecard_host::port::interface::receive_queues("eth0")?;
/// # Ok::<(), linecard_host::port::PortError>(())
/// ```
///
/// # Errors
///
/// A name that no interface can have.
pub fn receive_queues(name: &str) -> Result<usize, PortError> {
    check_name(name)?;
    let Ok(queues) = std::fs::read_dir(format!("/sys/class/net/{name}/queues")) else {
        return Ok(1);
    };
    let names = queues.filter_map(|queue| queue.ok()?.file_name().into_string().ok());
    Ok(names.filter(|name| name.starts_with("rx-")).count().max(1))
}
