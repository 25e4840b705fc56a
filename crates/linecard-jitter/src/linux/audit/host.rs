//! Values that an audit reads from the host. It writes nothing.

use crate::linux::setting::{Form, Setting, SettingError, cpus};
use std::cell::OnceCell;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Maximum bytes read from one file; the largest is the kernel's configuration of about 300 kB.
const MAX_FILE: u64 = 4 << 20;
/// Maximum entries read from one folder: interrupts, processes.
const MAX_ENTRIES: usize = 65_536;

/// Why a value is not known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unreadable(pub(super) String);

impl From<SettingError> for Unreadable {
    fn from(error: SettingError) -> Self {
        Self(error.to_string())
    }
}

/// A host as an audit sees it: its files, and the core and interface under audit.
#[derive(Debug)]
pub struct Host {
    root: PathBuf,
    core: usize,
    online: Vec<usize>,
    interface: Result<String, String>,
    config: OnceCell<Result<String, Unreadable>>,
}

impl Host {
    /// This host. Without `core`, the sink's core is the first isolated one, or the last one if
    /// none is isolated; without `interface`, it is the only one that is up and has hardware.
    ///
    /// # Errors
    ///
    /// The core or the interface does not exist, or `/sys` does not list the cores.
    pub fn new(core: Option<usize>, interface: Option<&str>) -> Result<Self, Unreadable> {
        Self::at("/", core, interface)
    }

    /// A host whose `/proc` and `/sys` are below a folder, for tests.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub fn at(
        root: impl Into<PathBuf>,
        core: Option<usize>,
        interface: Option<&str>,
    ) -> Result<Self, Unreadable> {
        let mut host = Self {
            root: root.into(),
            core: 0,
            online: Vec::new(),
            interface: interface.map(str::to_owned).ok_or_else(String::new),
            config: OnceCell::new(),
        };
        host.online = host.cpus("/sys/devices/system/cpu/online")?;
        host.core = host.choose(core)?;
        match interface {
            Some(name) => host.exists(name)?,
            None => host.interface = host.only_interface(),
        }
        Ok(host)
    }

    /// Refuses an interface that is not there: all checks of it would say that they cannot read it.
    fn exists(&self, name: &str) -> Result<(), Unreadable> {
        let names = self.entries("/sys/class/net");
        if names.iter().any(|other| other == name) {
            return Ok(());
        }
        let there = names.join(", ");
        Err(Unreadable(format!("interface {name} does not exist: there are {there}")))
    }

    fn choose(&self, core: Option<usize>) -> Result<usize, Unreadable> {
        let isolated = || self.cpus("/sys/devices/system/cpu/isolated").unwrap_or_default();
        let chosen = core.or_else(|| isolated().first().copied()).or(self.online.last().copied());
        let chosen = chosen.unwrap_or(0);
        if self.online.contains(&chosen) {
            return Ok(chosen);
        }
        let online = crate::linux::setting::list(&self.online);
        Err(Unreadable(format!("core {chosen} does not exist: the online cores are {online}")))
    }

    fn only_interface(&self) -> Result<String, String> {
        let is_up = |name: &String| {
            let folder = format!("/sys/class/net/{name}");
            let has_device = self.path(&format!("{folder}/device")).exists();
            has_device && self.text(&format!("{folder}/operstate")).is_ok_and(|state| state == "up")
        };
        let mut names: Vec<String> =
            self.entries("/sys/class/net").into_iter().filter(is_up).collect();
        match (names.pop(), names.len()) {
            (Some(name), 0) => Ok(name),
            (Some(_), more) => {
                Err(format!("{} interfaces are up: name one with --interface", more + 1))
            }
            (None, _) => {
                Err("no interface with hardware is up: name one with --interface".to_owned())
            }
        }
    }

    /// The sink's core.
    #[must_use]
    pub fn core(&self) -> usize {
        self.core
    }

    /// The interface that packets arrive at.
    ///
    /// # Errors
    ///
    /// Why no interface is known.
    pub fn interface(&self) -> Result<&str, &str> {
        self.interface.as_deref().map_err(String::as_str)
    }

    /// All online cores except the sink's.
    pub(super) fn others(&self) -> Vec<usize> {
        self.online.iter().copied().filter(|cpu| *cpu != self.core).collect()
    }

    pub(super) fn path(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// A file as a setting.
    pub(super) fn setting(&self, path: &str, form: Form) -> Setting {
        Setting::file(self.path(path), form)
    }

    /// Reads a small file, trimmed.
    pub(super) fn text(&self, path: &str) -> Result<String, Unreadable> {
        let text =
            read(&self.path(path)).map_err(|error| Unreadable(format!("{path}: {error}")))?;
        Ok(text.trim().to_owned())
    }

    /// Reads a debugfs file, wherever debugfs is mounted.
    pub(super) fn debug(&self, path: &str) -> Result<String, SettingError> {
        let setting = self.setting(&format!("/sys/kernel/debug/{path}"), Form::Plain);
        setting.read().map(|state| state.to_string())
    }

    pub(super) fn number(&self, path: &str) -> Result<i64, Unreadable> {
        let text = self.text(path)?;
        text.parse()
            .map_err(|_| Unreadable(format!("{path} reads \"{text}\", which is not a number")))
    }

    pub(super) fn cpus(&self, path: &str) -> Result<Vec<usize>, Unreadable> {
        let text = self.text(path)?;
        cpus(&text).ok_or_else(|| {
            Unreadable(format!("{path} reads \"{text}\", which is not a list of CPUs"))
        })
    }

    /// Whether a file or folder exists.
    pub(super) fn has(&self, path: &str) -> bool {
        self.path(path).exists()
    }

    /// Names in a folder, sorted; empty if the folder does not exist.
    pub(super) fn entries(&self, path: &str) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.path(path)) else { return Vec::new() };
        let names = entries
            .flatten()
            .take(MAX_ENTRIES)
            .filter_map(|entry| entry.file_name().into_string().ok());
        let mut names: Vec<String> = names.collect();
        names.sort_by_key(|name| (name.len(), name.clone()));
        names
    }

    /// A parameter of the kernel's command line; empty for one without a value.
    pub(super) fn parameter(&self, name: &str) -> Result<Option<String>, Unreadable> {
        let line = self.text("/proc/cmdline")?;
        // The last one applies.
        let found = line.split_whitespace().rev().find_map(|word| {
            let (key, value) = word.split_once('=').unwrap_or((word, ""));
            (key == name).then(|| value.to_owned())
        });
        Ok(found)
    }

    /// Whether the kernel was built with an option such as `NO_HZ_FULL`.
    pub(super) fn built_with(&self, option: &str) -> Result<bool, Unreadable> {
        Ok(self.config(option)?.is_some_and(|value| value == "y"))
    }

    /// The value of an option of the kernel's configuration.
    pub(super) fn config(&self, option: &str) -> Result<Option<String>, Unreadable> {
        let config =
            self.config.get_or_init(|| self.configuration()).as_ref().map_err(Clone::clone)?;
        let key = format!("CONFIG_{option}=");
        Ok(config.lines().find_map(|line| line.strip_prefix(&key)).map(str::to_owned))
    }

    fn configuration(&self) -> Result<String, Unreadable> {
        let release = self.text("/proc/sys/kernel/osrelease").unwrap_or_default();
        if let Ok(text) = read(&self.path(&format!("/boot/config-{release}"))) {
            return Ok(text);
        }
        let packed = self.path("/proc/config.gz");
        let why = format!("neither /boot/config-{release} nor /proc/config.gz can be read");
        if !packed.exists() {
            return Err(Unreadable(why));
        }
        let unpacked = Command::new("gzip").arg("-dc").arg(&packed).stdin(Stdio::null()).output();
        match unpacked {
            Ok(output) if output.status.success() => {
                Ok(String::from_utf8_lossy(&output.stdout).into_owned())
            }
            Ok(_) => Err(Unreadable(why)),
            Err(error) => Err(Unreadable(format!("/proc/config.gz: gzip: {error}"))),
        }
    }
}

fn read(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    fs::File::open(path)?.take(MAX_FILE).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
