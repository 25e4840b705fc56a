//! Why a port cannot be opened.

use crate::sys;
use std::error::Error;
use std::{fmt, io};

/// Why a port cannot be opened, in one line with what to do.
#[derive(Debug)]
#[non_exhaustive]
pub enum PortError {
    /// A privilege is missing.
    NoPermission {
        /// The operation that failed.
        doing: &'static str,
        /// The capability that allows it.
        capability: &'static str,
    },
    /// The device file cannot be opened.
    NoAccess {
        /// The file.
        path: &'static str,
    },
    /// There is no interface of this name.
    NoInterface {
        /// The name.
        name: String,
    },
    /// The name is not valid for an interface.
    BadName {
        /// The name.
        name: String,
    },
    /// The device exists, but is in use.
    InUse {
        /// The name.
        name: String,
    },
    /// An interface of this name exists, but is another kind of device.
    OtherKind {
        /// The name.
        name: String,
    },
    /// The kernel lacks a required feature.
    Lacks {
        /// The missing feature.
        what: &'static str,
        /// The advice.
        advice: &'static str,
    },
    /// An interface whose frames are not Ethernet or IP.
    LinkType {
        /// The name.
        name: String,
        /// Its `ARPHRD_*`.
        hardware: u16,
    },
    /// An interface without a MAC address.
    NoMac {
        /// The name.
        name: String,
    },
    /// The MAC address is not valid for an interface.
    BadMac {
        /// The address.
        mac: [u8; 6],
    },
    /// The buffers of the pool are too short.
    ShortBuffers {
        /// Bytes of each.
        given: usize,
        /// Bytes needed.
        needed: usize,
    },
    /// A setting is out of range.
    Setting {
        /// Its name.
        setting: &'static str,
        /// Its value.
        value: usize,
        /// The values allowed.
        range: &'static str,
    },
    /// A fanout group that this port cannot join.
    Fanout {
        /// The group.
        group: u16,
    },
    /// Any other error of the system.
    System {
        /// The operation that failed.
        doing: &'static str,
        /// The system's error.
        source: io::Error,
    },
}

impl fmt::Display for PortError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoPermission { doing, capability } => write!(
                f,
                "no permission to {doing}: it needs {capability} (run as root, or `setcap \
                 {}+ep PROGRAM`)",
                capability.to_lowercase()
            ),
            Self::NoAccess { path } => write!(
                f,
                "no permission to open {path}: it needs to be readable and writable for \
                 this user"
            ),
            Self::NoInterface { name } => {
                write!(f, "no interface `{name}` in this network namespace: `ip link` lists them")
            }
            Self::BadName { name } => write!(
                f,
                "interface name `{name}` of {} bytes is not valid: 1 to {} printable ASCII \
                 characters without `/`, `:` and `%`, except one `%d` for a free number, and none of \
                 `.`, `..`, `all`, `default`",
                name.len(),
                sys::device::MAX_NAME
            ),
            Self::InUse { name } => {
                write!(f, "device `{name}` is in use: another program has it, or all its queues")
            }
            Self::OtherKind { name } => write!(
                f,
                "interface `{name}` exists and is another kind of device: a TUN where a TAP is \
                 asked for (or vice versa), one queue where several are, or neither TUN nor TAP; \
                 `ip -d link show {name}` shows it, take another name"
            ),
            Self::Lacks { what, advice } => write!(f, "the kernel lacks {what}: {advice}"),
            Self::LinkType { name, hardware } => write!(
                f,
                "interface `{name}` has link type {hardware}: Ethernet (1) and plain IP \
                 (65534) are known"
            ),
            Self::NoMac { name } => {
                write!(f, "interface `{name}` has no MAC address: it is not an Ethernet device")
            }
            Self::BadMac { mac } => write!(
                f,
                "{mac:02x?} cannot be the MAC address of an interface: not all zeros, and \
                 the first byte even"
            ),
            Self::ShortBuffers { given, needed } => write!(
                f,
                "pool buffers of {given} bytes are too short: large packets need {needed}"
            ),
            Self::Setting { setting, value, range } => {
                write!(f, "{setting} {value} is out of range: {range}")
            }
            Self::Fanout { group } => write!(
                f,
                "fanout group {group} cannot be joined: its members spread frames in \
                 another way, or by another interface; take another number"
            ),
            Self::System { doing, source } => write!(f, "cannot {doing}: {source}"),
        }
    }
}

impl Error for PortError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::System { source, .. } => Some(source),
            _ => None,
        }
    }
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
        assert!(name.contains("of 23 bytes") && !name.contains('\n'));
    }
}
