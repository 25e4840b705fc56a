//! Why a port cannot be opened.

use crate::sys;
use std::io;

/// Why a port cannot be opened, in one line with what to do.
#[derive(Debug, thiserror::Error)]
pub enum PortError {
    /// A privilege is missing.
    #[error(
        "no permission to {doing}: it needs {capability} (run as root, or `setcap {}+ep PROGRAM`)",
        capability.to_lowercase()
    )]
    NoPermission {
        /// What was tried.
        doing: &'static str,
        /// The capability that allows it.
        capability: &'static str,
    },
    /// The device file cannot be opened.
    #[error("no permission to open {path}: it needs to be readable and writable for this user")]
    NoAccess {
        /// The file.
        path: &'static str,
    },
    /// There is no interface of this name.
    #[error("no interface `{name}` in this network namespace: `ip link` lists them")]
    NoInterface {
        /// The name.
        name: String,
    },
    /// The name is not valid for an interface.
    #[error(
        "interface name `{name}` has {} bytes or a character that names do not have: 1 to {} bytes \
         without `/`, `:` and white space",
        name.len(),
        sys::device::MAX_NAME
    )]
    BadName {
        /// The name.
        name: String,
    },
    /// The device exists, but is in use.
    #[error("device `{name}` is in use: another program has it, or all its queues")]
    InUse {
        /// The name.
        name: String,
    },
    /// An interface of this name exists, but is another kind of device.
    #[error(
        "interface `{name}` exists and is no such device: a TUN where a TAP is asked for, one queue \
         where several are, or neither TUN nor TAP"
    )]
    OtherKind {
        /// The name.
        name: String,
    },
    /// The kernel lacks a required feature.
    #[error("the kernel lacks {what}: {advice}")]
    Lacks {
        /// What it lacks.
        what: &'static str,
        /// What to do.
        advice: &'static str,
    },
    /// An interface whose frames are not Ethernet or IP.
    #[error(
        "interface `{name}` has link type {hardware}: Ethernet (1) and plain IP (65534) are known"
    )]
    LinkType {
        /// The name.
        name: String,
        /// Its `ARPHRD_*`.
        hardware: u16,
    },
    /// An interface without a MAC address.
    #[error("interface `{name}` has no MAC address: it is not an Ethernet device")]
    NoMac {
        /// The name.
        name: String,
    },
    /// The MAC address is not valid for an interface.
    #[error(
        "{mac:02x?} cannot be the MAC address of an interface: not all zeros, and the first byte even"
    )]
    BadMac {
        /// The address.
        mac: [u8; 6],
    },
    /// The buffers of the pool are too short.
    #[error("pool buffers of {given} bytes are too short: large packets need {needed}")]
    ShortBuffers {
        /// Bytes of each.
        given: usize,
        /// Bytes needed.
        needed: usize,
    },
    /// A setting is out of range.
    #[error("{setting} {value} is out of range: {range}")]
    Setting {
        /// Its name.
        setting: &'static str,
        /// Its value.
        value: usize,
        /// What it may be.
        range: &'static str,
    },
    /// A fanout group that this port cannot join.
    #[error(
        "fanout group {group} cannot be joined: its members spread frames in another way, or by \
         another interface; take another number"
    )]
    Fanout {
        /// The group.
        group: u16,
    },
    /// Any other error of the system.
    #[error("cannot {doing}: {source}")]
    System {
        /// What was tried.
        doing: &'static str,
        /// The system's error.
        source: io::Error,
    },
}

impl PortError {
    /// The error of an operation that may require a capability, such as `CAP_NET_ADMIN`.
    #[must_use]
    pub fn of(doing: &'static str, capability: &'static str, source: io::Error) -> Self {
        if source.kind() == io::ErrorKind::PermissionDenied {
            return Self::NoPermission { doing, capability };
        }
        Self::System { doing, source }
    }

    /// As [`PortError::of`], about the interface `name`, which may not exist.
    #[must_use]
    pub fn about(
        name: &str,
        doing: &'static str,
        capability: &'static str,
        source: io::Error,
    ) -> Self {
        if sys::is(&source, libc::ENODEV) || sys::is(&source, libc::ENXIO) {
            return Self::NoInterface { name: name.to_owned() };
        }
        Self::of(doing, capability, source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interface::check_name;

    #[test]
    fn an_error_is_one_line_with_what_to_do() {
        let denied = io::Error::from_raw_os_error(libc::EPERM);
        let error = PortError::of("open a packet socket", "CAP_NET_RAW", denied);
        assert_eq!(
            error.to_string(),
            "no permission to open a packet socket: it needs CAP_NET_RAW (run as root, or `setcap \
             cap_net_raw+ep PROGRAM`)"
        );
        let gone = io::Error::from_raw_os_error(libc::ENODEV);
        let error = PortError::about("eth9", "read", "CAP_NET_RAW", gone);
        assert!(error.to_string().starts_with("no interface `eth9`"));
        let name = check_name("a name that is too long").expect_err("it is").to_string();
        assert!(name.contains("has 23 bytes") && !name.contains('\n'));
    }
}
