//! Why a setting cannot be read or changed.

use std::io;

/// Why a setting cannot be read or changed: who is to blame is in the words.
#[derive(Debug, thiserror::Error)]
pub enum SettingError {
    /// What had the setting is there no more: an interface, a namespace, a thread.
    #[error("{what} is there no more")]
    Gone {
        /// What it was.
        what: String,
    },
    /// This kernel, machine or interface does not have it.
    #[error("{what} is not there: this kernel, machine or interface has no such setting")]
    Missing {
        /// What is missing.
        what: String,
    },
    /// No permission.
    #[error("cannot {doing} {what}: {source}; {}", rights())]
    Permission {
        /// What was to be done.
        doing: &'static str,
        /// With what.
        what: String,
        /// What the system says.
        source: io::Error,
    },
    /// The system refuses.
    #[error("cannot {doing} {what}: {source}")]
    System {
        /// What was to be done.
        doing: &'static str,
        /// With what.
        what: String,
        /// What the system says.
        source: io::Error,
    },
    /// It does not offer this value.
    #[error("{what} does not take \"{value}\": it reads \"{now}\"")]
    Value {
        /// The setting.
        what: String,
        /// What was asked for.
        value: String,
        /// What it reads.
        now: String,
    },
    /// It took the value and reads differently.
    #[error(
        "{what} was set to \"{value}\" and reads \"{now}\": the kernel or device does not follow"
    )]
    NotFollowed {
        /// The setting.
        what: String,
        /// What was written.
        value: String,
        /// What it reads.
        now: String,
    },
}

/// What would help against a missing right.
fn rights() -> &'static str {
    if rustix::process::geteuid().is_root() {
        "root is not enough: this kernel or a container forbids it"
    } else {
        "it needs root"
    }
}

impl SettingError {
    /// What the system has said.
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

    /// Whether there is nothing to be put back any more.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        matches!(self, Self::Gone { .. } | Self::Missing { .. })
    }
}
