//! Errors of reading or changing a setting.

use std::io;

/// Why a setting cannot be read or changed. The text names what to blame.
#[derive(Debug, thiserror::Error)]
pub enum SettingError {
    /// The object that had the setting no longer exists: an interface, a namespace, a thread.
    #[error("{what} no longer exists")]
    Gone {
        /// The object.
        what: String,
    },
    /// This kernel, machine or interface does not have it.
    #[error("{what} does not exist: this kernel, machine or interface has no such setting")]
    Missing {
        /// The missing facility.
        what: String,
    },
    /// Permission is missing.
    #[error("cannot {doing} {what}: {source}; {}", rights())]
    Permission {
        /// The operation.
        doing: &'static str,
        /// Its object.
        what: String,
        /// The system's error.
        source: io::Error,
    },
    /// A system call failed.
    #[error("cannot {doing} {what}: {source}")]
    System {
        /// The operation.
        doing: &'static str,
        /// Its object.
        what: String,
        /// The system's error.
        source: io::Error,
    },
    /// The setting does not offer this value.
    #[error("{what} does not take \"{value}\": it reads \"{now}\"")]
    Value {
        /// The setting.
        what: String,
        /// The requested value.
        value: String,
        /// Its present value.
        now: String,
    },
    /// It accepted the value, and reads differently.
    #[error(
        "{what} was set to \"{value}\" and reads \"{now}\": the kernel or device does not follow"
    )]
    NotFollowed {
        /// The setting.
        what: String,
        /// The written value.
        value: String,
        /// Its present value.
        now: String,
    },
}

/// How to get a missing right.
fn rights() -> &'static str {
    if rustix::process::geteuid().is_root() {
        "root is not enough: this kernel or a container forbids it"
    } else {
        "it needs root"
    }
}

impl SettingError {
    /// Makes an error of a failed system call.
    pub(in crate::linux) fn system(
        doing: &'static str,
        what: &dyn std::fmt::Display,
        source: io::Error,
    ) -> Self {
        let what = what.to_string();
        match (source.kind(), source.raw_os_error()) {
            (io::ErrorKind::NotFound, _) | (_, Some(libc::EOPNOTSUPP)) => Self::Missing { what },
            (_, Some(libc::ENODEV | libc::ESRCH | libc::ENXIO)) => Self::Gone { what },
            (io::ErrorKind::PermissionDenied, _) => Self::Permission { doing, what, source },
            _ => Self::System { doing, what, source },
        }
    }

    /// Whether the setting no longer exists, so that there is nothing to restore.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        matches!(self, Self::Gone { .. } | Self::Missing { .. })
    }
}
