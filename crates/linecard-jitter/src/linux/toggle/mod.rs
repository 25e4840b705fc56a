//! The toggles of A/B: one source of lateness each, switched on or off.
//!
//! Arm A is the host as found, arm B the host with the toggle. Each toggle says how it is checked that it
//! had any effect at all: an effect on packets of what was never switched is none.

mod table;
mod witness;

pub use table::{ALL, napi_threads};
pub use witness::{Expect, Witness};

use super::setting::{Form, Namespace, Setting, SettingError};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::PathBuf;

/// Something that is switched.
#[derive(Debug)]
pub struct Toggle {
    /// Its name, stable.
    pub name: &'static str,
    /// What arm B is.
    pub switches: &'static str,
    /// Whether it is the thing itself.
    pub tag: Tag,
    /// What it acts on.
    pub scope: Scope,
    /// How it is checked that it took effect, in words.
    pub check: &'static str,
    /// The same for the machine.
    pub witness: Witness,
    pub(super) steps: fn(&Target) -> Result<Vec<Step>, ToggleError>,
}

/// Whether something is what it stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tag {
    /// The same mechanism as on hardware.
    Real,
    /// Another mechanism with the same effect.
    Emulated,
}

impl Tag {
    /// A word for tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Real => "real",
            Self::Emulated => "emulated",
        }
    }
}

/// What a toggle acts on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// The interface that packets come by: in the lab, that of its namespace.
    Interface,
    /// The whole host.
    Host,
    /// The sink alone.
    Sink,
    /// Nothing.
    Nothing,
}

impl Scope {
    /// A word for tables.
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

/// What is measured on, and how far toggles go.
#[derive(Debug, Clone)]
pub struct Target {
    /// The sink's core.
    pub core: usize,
    /// The interface that packets come by.
    pub interface: Option<String>,
    /// Its namespace, if that is another one.
    pub namespace: Option<Namespace>,
    /// How long interrupts are held back, in nanoseconds. Default: the paper's 100 µs.
    pub throttle_ns: u64,
    /// How long a busy-polling sink polls, in microseconds. Default: 50.
    pub busy_poll_us: u32,
    /// The sink's priority under `SCHED_FIFO`, 1 … 99. Default: 50.
    pub priority: u8,
    root: PathBuf,
}

impl Target {
    /// A sink on this core, without interface.
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

    /// Packets come by this interface.
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

/// Why a toggle cannot be switched here.
#[derive(Debug, thiserror::Error)]
pub enum ToggleError {
    /// No such toggle.
    #[error("there is no toggle \"{name}\"; there are {}", names())]
    Unknown {
        /// What was asked for.
        name: String,
    },
    /// It acts on an interface.
    #[error("it acts on an interface, and none is given")]
    Interface,
    /// It is so already.
    #[error("{what} is as the toggle would have it: there is nothing to switch")]
    Already {
        /// The setting.
        what: String,
    },
    /// This machine has too little for it.
    #[error("not testable here: {why}")]
    NotTestable {
        /// What is missing.
        why: &'static str,
    },
    /// A setting cannot be read.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// Something cannot be held.
    #[error("cannot hold {}: {source}; it needs root", path.display())]
    Hold {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
}

/// A toggle by its name.
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
/// There is none.
pub fn named(name: &str) -> Result<&'static Toggle, ToggleError> {
    let found = ALL.iter().find(|toggle| toggle.name == name);
    found.ok_or_else(|| ToggleError::Unknown { name: name.to_owned() })
}

fn names() -> String {
    ALL.iter().map(|toggle| toggle.name).collect::<Vec<_>>().join(", ")
}

/// A part of what a toggle does.
#[derive(Debug, Clone)]
pub(super) enum Step {
    /// A setting, through the journal.
    Change { setting: Setting, value: String },
    /// `/dev/cpu_dma_latency`, held at 0: goes with the process.
    NoSleep,
    /// The sink runs differently.
    Sink(SinkChange),
}

/// How the sink is to run in an arm: for who starts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SinkChange {
    /// It blocks in the call that receives, instead of polling.
    Block,
    /// It asks the kernel to poll the interface's queue, for so long (`SO_BUSY_POLL`).
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

/// `/dev/cpu_dma_latency`, open: as long as it lives, no core sleeps in a way that takes longer to leave
/// than polling does (`admin-guide/pm/cpuidle.rst`).
#[derive(Debug)]
pub struct NoSleep {
    _open: File,
}

impl NoSleep {
    /// Where it is.
    const PATH: &'static str = "/dev/cpu_dma_latency";

    /// Begins it, for all cores of the host.
    ///
    /// # Errors
    ///
    /// No permission, or a kernel without.
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
