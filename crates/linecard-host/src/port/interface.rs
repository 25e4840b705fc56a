//! The little that tests and tools ask of an interface, by name. Addresses and routes are `ip`'s.

use super::PortError;
use super::error::check_name;
use crate::sys::device;

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
    let doing = "read an interface's MTU";
    let mtu =
        device::mtu(name).map_err(|error| PortError::about(name, doing, "CAP_NET_ADMIN", error))?;
    Ok(usize::try_from(mtu).unwrap_or(0))
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
    let doing = "bring an interface up or down";
    device::set_up(name, up).map_err(|error| PortError::about(name, doing, "CAP_NET_ADMIN", error))
}
