//! The toggles of A/B measurements: each switches one source of lateness on or off.
//!
//! Arm A is the host as found, arm B the host with the toggle. Each toggle has a witness that shows
//! whether it took effect at all: a difference between packets means nothing if the toggle did not
//! work.

mod napi;
mod table;
mod witness;

pub use napi::napi_threads;
pub use table::ALL;
pub use witness::{Expect, Witness};

use super::setting::{Form, Namespace, Setting, SettingError};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::PathBuf;

/// A toggle.
#[derive(Debug)]
pub struct Toggle {
    /// Stable name.
    pub name: &'static str,
    /// Description of arm B.
    pub switches: &'static str,
    /// Whether it uses the real mechanism.
    pub tag: Tag,
    /// The settings that it changes.
    pub scope: Scope,
    /// How its effect is verified, in words.
    pub check: &'static str,
    /// How its effect is verified, by program.
    pub witness: Witness,
    pub(super) steps: fn(&Target) -> Result<Vec<Step>, ToggleError>,
}

/// Whether a mechanism is real or emulated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tag {
    /// The same mechanism as on hardware.
    Real,
    /// Another mechanism with the same effect.
    Emulated,
}

impl Tag {
    /// Word for tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Real => "real",
            Self::Emulated => "emulated",
        }
    }
}

/// Settings that a toggle changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// The interface that packets arrive at; in the lab, the one in its namespace.
    Interface,
    /// The whole host.
    Host,
    /// Only the sink.
    Sink,
    /// Nothing.
    Nothing,
}

impl Scope {
    /// Word for tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Interface => "interface",
            Self::Host => "host",
            Self::Sink => "sink",
            Self::Nothing => "nothing",
        }
    }
}

/// The system under measurement, and parameters of toggles.
#[derive(Debug, Clone)]
pub struct Target {
    /// The sink's core.
    pub core: usize,
    /// The interface that packets arrive at.
    pub interface: Option<String>,
    /// Namespace of the interface, if it is another one.
    pub namespace: Option<Namespace>,
    /// Interrupt delay in nanoseconds. Default: the paper's 100 µs.
    pub throttle_ns: u64,
    /// Polling time of a busy-polling sink in microseconds. Default: 50.
    pub busy_poll_us: u32,
    /// The sink's priority under `SCHED_FIFO`, 1 … 99. Default: 50.
    pub priority: u8,
    root: PathBuf,
}

impl Target {
    /// A sink on this core, without an interface.
    #[must_use]
    pub fn new(core: usize) -> Self {
        Self {
            core,
            interface: None,
            namespace: None,
            throttle_ns: 100_000,
            busy_poll_us: 50,
            priority: 50,
            root: PathBuf::from("/"),
        }
    }

    /// Sets the interface that packets arrive at.
    #[must_use]
    pub fn by(self, interface: impl Into<String>, namespace: Option<Namespace>) -> Self {
        Self { interface: Some(interface.into()), namespace, ..self }
    }

    #[cfg(test)]
    pub(super) fn at(self, root: impl Into<PathBuf>) -> Self {
        Self { root: root.into(), ..self }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// A file of the host.
    pub(super) fn file(&self, path: &str, form: Form) -> Setting {
        Setting::file(self.path(path), form)
    }

    fn interface(&self) -> Result<&str, ToggleError> {
        self.interface.as_deref().ok_or(ToggleError::Interface)
    }

    /// A file of the interface.
    fn of_interface(&self, file: &str, form: Form) -> Result<Setting, ToggleError> {
        let path = format!("/sys/class/net/{}/{file}", self.interface()?);
        Ok(self.file(&path, form).within(self.namespace.clone()))
    }
}

/// Why a toggle cannot be switched on this host.
#[derive(Debug, thiserror::Error)]
pub enum ToggleError {
    /// The toggle does not exist.
    #[error("there is no toggle \"{name}\"; there are {}", names())]
    Unknown {
        /// The requested name.
        name: String,
    },
    /// It needs an interface.
    #[error("it acts on an interface, and none is given")]
    Interface,
    /// The host is in that state already.
    #[error("{what} is as the toggle would have it: there is nothing to switch")]
    Already {
        /// The setting.
        what: String,
    },
    /// This machine lacks something it needs.
    #[error("not testable here: {why}")]
    NotTestable {
        /// The missing facility.
        why: &'static str,
    },
    /// A setting cannot be read.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// A file cannot be held open.
    #[error("cannot hold {}: {source}; it needs root", path.display())]
    Hold {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
}

/// The toggle with this name.
///
/// ```
/// use linecard_jitter::linux::toggle::{Scope, named};
/// assert_eq!(named("rps")?.scope, Scope::Interface);
/// assert!(named("no-such").unwrap_err().to_string().contains("napi-defer"));
/// # Ok::<(), linecard_jitter::linux::toggle::ToggleError>(())
/// ```
///
/// # Errors
///
/// The toggle does not exist.
pub fn named(name: &str) -> Result<&'static Toggle, ToggleError> {
    let found = ALL.iter().find(|toggle| toggle.name == name);
    found.ok_or_else(|| ToggleError::Unknown { name: name.to_owned() })
}

fn names() -> String {
    ALL.iter().map(|toggle| toggle.name).collect::<Vec<_>>().join(", ")
}

/// One part of a toggle.
#[derive(Debug, Clone)]
pub(super) enum Step {
    /// A setting, changed through the journal.
    Change { setting: Setting, value: String },
    /// `/dev/cpu_dma_latency`, held at 0; ends with the process.
    NoSleep,
    /// The sink runs differently.
    Sink(SinkChange),
}

/// How the sink has to run in an arm; its starter applies this.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SinkChange {
    /// It blocks in the receiving call instead of polling.
    Block,
    /// It asks the kernel to poll the interface's queue for this time (`SO_BUSY_POLL`).
    BusyPoll {
        /// Microseconds.
        us: u32,
    },
    /// It runs under `SCHED_FIFO`.
    Fifo {
        /// 1 … 99.
        priority: u8,
    },
}

/// Holds `/dev/cpu_dma_latency` open: while it lives, no core enters an idle state that takes
/// longer to leave than polling does (`admin-guide/pm/cpuidle.rst`).
#[derive(Debug)]
pub struct NoSleep {
    _open: File,
}

impl NoSleep {
    /// Path of the device.
    const PATH: &'static str = "/dev/cpu_dma_latency";

    /// Starts it for all cores of the host.
    ///
    /// # Errors
    ///
    /// Permission is missing, or the kernel lacks the device.
    pub fn hold() -> Result<Self, ToggleError> {
        let about = |source| ToggleError::Hold { path: Self::PATH.into(), source };
        let mut file = OpenOptions::new().write(true).open(Self::PATH).map_err(about)?;
        file.write_all(&0_i32.to_ne_bytes()).map_err(about)?;
        Ok(Self { _open: file })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_checks_are_said() {
        let mut names: Vec<&str> = ALL.iter().map(|toggle| toggle.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ALL.len());
        assert!(ALL.iter().all(|toggle| !toggle.switches.is_empty() && !toggle.check.is_empty()));
    }

    #[test]
    fn toggles_of_the_audit_are_there() {
        for check in crate::linux::audit::checks() {
            if let Some(name) = check.toggle {
                assert!(named(name).is_ok(), "{}: {name}", check.id);
            }
        }
    }

    #[test]
    fn what_needs_an_interface_says_so() {
        for toggle in ALL.iter().filter(|toggle| toggle.scope == Scope::Interface) {
            let error = (toggle.steps)(&Target::new(0)).unwrap_err();
            assert!(matches!(error, ToggleError::Interface), "{}", toggle.name);
        }
    }

    #[test]
    fn sleep_is_held_off_or_refused_with_its_reason() {
        match NoSleep::hold() {
            Ok(held) => drop(held),
            Err(error) => assert!(error.to_string().contains("/dev/cpu_dma_latency"), "{error}"),
        }
    }
}
