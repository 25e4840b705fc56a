//! Settings of the host that can be read, changed, and restored byte for byte.
//!
//! They are files of `/proc` and `/sys`, coalescing parameters, features and time stamps of interfaces, and the
//! CPU affinity of kernel threads; each also in another network namespace. Changes that end with
//! the process (affinity and priority of its own threads, `/dev/cpu_dma_latency` held open) are not
//! settings. Only a [`Journal`](super::journal::Journal) writes settings.

mod affinity;
mod device;
mod error;
mod fields;
mod form;
mod namespace;
mod thread;

pub(crate) use device::number as coalescing_number;
pub use error::SettingError;
pub(crate) use fields::{escape, unescape};
pub use form::{Form, cpus, list, mask};
pub(crate) use namespace::Detached;
pub use namespace::Namespace;

use std::fmt;
use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

/// Maximum bytes of a value: what `/proc` and `/sys` return in one read.
const MAX_VALUE: usize = 4_096;

/// The mount point of debugfs, if it is mounted.
const DEBUG: &str = "/sys/kernel/debug";

/// Paths that differ between network namespaces.
const OF_NETWORK: [&str; 2] = ["/sys/class/net", "/proc/sys/net"];

/// The value of a setting, as the kernel reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State(Vec<u8>);

impl State {
    /// A value of these bytes.
    #[must_use]
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Self(bytes.into())
    }

    /// The bytes as the kernel reported them.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    fn text(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(&self.0)
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text().trim())
    }
}

/// Location of a setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Target {
    File { path: PathBuf, form: Form },
    Coalescing { interface: String },
    Feature { interface: String, feature: String },
    Stamps { interface: String },
    Thread { thread: u32, started: u64 },
}

/// A setting of the host.
///
/// ```
/// use linecard_jitter::linux::setting::{Form, Setting};
/// let setting = Setting::file("/proc/sys/kernel/threads-max", Form::Plain);
/// assert_eq!(setting.to_string(), "/proc/sys/kernel/threads-max");
/// assert!(!setting.read()?.bytes().is_empty());
/// # Ok::<(), linecard_jitter::linux::setting::SettingError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    place: Target,
    namespace: Option<Namespace>,
}

impl Setting {
    /// A file of `/proc` or `/sys`.
    #[must_use]
    pub fn file(path: impl Into<PathBuf>, form: Form) -> Self {
        Self::at(Target::File { path: path.into(), form })
    }

    /// Interrupt coalescing of an interface. Values are written as `adaptive-rx=0 rx-usecs=0`, with
    /// the names that `ethtool -C` uses; parameters that are left out stay unchanged.
    #[must_use]
    pub fn coalescing(interface: impl Into<String>) -> Self {
        Self::at(Target::Coalescing { interface: interface.into() })
    }

    /// A feature of an interface by its kernel name, such as `rx-gro`, `tx-tcp-segmentation` or
    /// `tx-generic-segmentation`: `on` or `off`.
    #[must_use]
    pub fn feature(interface: impl Into<String>, feature: impl Into<String>) -> Self {
        Self::at(Target::Feature { interface: interface.into(), feature: feature.into() })
    }

    /// Which packets an interface stamps by its own clock: `rx-filter=1 tx-type=0`, with the numbers of
    /// `linux/net_tstamp.h`; omitted flags stay unchanged.
    #[must_use]
    pub fn stamps(interface: impl Into<String>) -> Self {
        Self::at(Target::Stamps { interface: interface.into() })
    }

    /// CPU affinity, as `0-1,4`, of a thread of the kernel or another process, by its id.
    ///
    /// # Errors
    ///
    /// The thread does not exist.
    pub fn thread(thread: u32) -> Result<Self, SettingError> {
        Ok(Self::at(Target::Thread { thread, started: thread::started(thread)? }))
    }

    fn at(place: Target) -> Self {
        Self { place, namespace: None }
    }

    /// The same setting in another network namespace.
    #[must_use]
    pub fn within(self, namespace: Option<Namespace>) -> Self {
        Self { namespace, ..self }
    }

    /// The same setting with its namespace made explicit, so that it can be found from another
    /// namespace.
    pub(super) fn anchored(&self) -> Self {
        let is_of_network = match &self.place {
            Target::File { path, .. } => OF_NETWORK.iter().any(|folder| path.starts_with(folder)),
            Target::Coalescing { .. } | Target::Feature { .. } | Target::Stamps { .. } => true,
            Target::Thread { .. } => false,
        };
        let own = || is_of_network.then(Namespace::own).flatten();
        Self { namespace: self.namespace.clone().or_else(own), ..self.clone() }
    }

    /// Reads the setting.
    ///
    /// # Errors
    ///
    /// See [`SettingError`].
    pub fn read(&self) -> Result<State, SettingError> {
        self.inside(|| match &self.place {
            Target::File { path, form: Form::Affinity } => self.open(path, "read", affinity::read),
            Target::File { path, .. } => self.open(path, "read", read_file),
            Target::Coalescing { interface } => device::coalescing(interface),
            Target::Feature { interface, feature } => device::feature(interface, feature),
            Target::Stamps { interface } => device::stamps(interface),
            Target::Thread { thread, started } => thread::cpus_of(*thread, *started),
        })
    }

    /// Whether it has this value now.
    ///
    /// # Errors
    ///
    /// See [`SettingError`].
    pub fn reads(&self, value: &str) -> Result<bool, SettingError> {
        let now = self.read()?;
        Ok(self.is_same(&now, &self.with(&now, value)?))
    }

    /// Its content after writing this value, if it reads `now`.
    pub(super) fn with(&self, now: &State, value: &str) -> Result<State, SettingError> {
        let text = now.text();
        let with = match &self.place {
            Target::File { form, .. } => form.with(&text, value),
            Target::Coalescing { .. } => device::with_numbers(&text, value),
            Target::Feature { .. } => device::with_feature(value),
            Target::Stamps { .. } => device::with_stamps(&text, value),
            Target::Thread { .. } => cpus(value).map(|_| format!("{value}\n")),
        };
        let refused = || SettingError::Value {
            what: self.to_string(),
            value: value.to_owned(),
            now: now.to_string(),
        };
        with.map(State::new).ok_or_else(refused)
    }

    /// Whether two readings stand for the same value.
    pub(super) fn is_same(&self, left: &State, right: &State) -> bool {
        let form = match &self.place {
            Target::File { form, .. } => *form,
            Target::Thread { .. } => Form::List,
            Target::Coalescing { .. } | Target::Feature { .. } | Target::Stamps { .. } => {
                Form::Plain
            }
        };
        left == right || form.same(&left.text(), &right.text())
    }

    /// Whether it is an interrupt's affinity: the set of CPUs can be written, and the kernel
    /// chooses the CPU it fires on.
    #[must_use]
    pub fn is_affinity(&self) -> bool {
        matches!(self.place, Target::File { form: Form::Affinity, .. })
    }

    /// Writes what makes it read `state`.
    pub(super) fn put(&self, state: &State) -> Result<(), SettingError> {
        self.inside(|| match &self.place {
            Target::File { path, form: Form::Affinity } => {
                self.open(path, "write", |file| affinity::write(file, state))
            }
            Target::File { path, form } => {
                let text = state.text();
                // Bytes that are not text are written as they are.
                let written =
                    if *form == Form::Choice { form.written(&text).as_bytes() } else { &state.0 };
                self.open(path, "write", |file| write_file(file, written))
            }
            Target::Coalescing { interface } => device::set_coalescing(interface, &state.text()),
            Target::Feature { interface, feature } => {
                device::set_feature(interface, feature, &state.text())
            }
            Target::Stamps { interface } => device::set_stamps(interface, &state.text()),
            Target::Thread { thread, started } => {
                thread::set_cpus(*thread, *started, &state.text())
            }
        })
    }

    /// Runs a closure in the setting's namespace.
    fn inside<T: Send>(
        &self,
        work: impl FnOnce() -> Result<T, SettingError> + Send,
    ) -> Result<T, SettingError> {
        match &self.namespace {
            Some(namespace) if !namespace.is_entered() => namespace.enter(work)?,
            _ => work(),
        }
    }

    /// Opens a file: in another namespace, of a sysfs instance of its own; in debugfs, also when
    /// that is not mounted.
    fn open<T>(
        &self,
        path: &Path,
        doing: &'static str,
        work: impl FnOnce(&Path) -> std::io::Result<T>,
    ) -> Result<T, SettingError> {
        let about = |source| SettingError::system(doing, &path.display(), source);
        let detached = match (path.strip_prefix(DEBUG), path.strip_prefix("/sys")) {
            (Ok(inside), _) if !path.exists() => Some(("debugfs", inside)),
            (Err(_), Ok(inside)) if self.namespace.is_some() => Some(("sysfs", inside)),
            _ => None,
        };
        let Some((kind, inside)) = detached else { return work(path).map_err(about) };
        match Detached::open(kind) {
            Ok(mounted) => work(&mounted.path(inside)).map_err(about),
            // Without the right to mount, uses the mounted file system if it belongs to this
            // namespace.
            Err(_) if self.namespace.as_ref().is_some_and(Namespace::is_entered) => {
                work(path).map_err(about)
            }
            Err(error) => Err(about(error)),
        }
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Target::File { path, .. } => write!(f, "{}", path.display())?,
            Target::Coalescing { interface } => write!(f, "coalescing of {interface}")?,
            Target::Feature { interface, feature } => write!(f, "{feature} of {interface}")?,
            Target::Stamps { interface } => write!(f, "stamping of {interface}")?,
            Target::Thread { thread, .. } => write!(f, "CPUs of thread {thread}")?,
        }
        match &self.namespace {
            Some(namespace) if !namespace.is_entered() => write!(f, " in {namespace}"),
            _ => Ok(()),
        }
    }
}

fn read_file(path: &Path) -> std::io::Result<State> {
    let file = OpenOptions::new().read(true).open(path)?;
    let mut bytes = Vec::new();
    file.take(MAX_VALUE as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > MAX_VALUE {
        return Err(std::io::Error::other(format!("over {MAX_VALUE} bytes, which no setting has")));
    }
    Ok(State(bytes))
}

/// Writes all bytes in one call, as files of the kernel require.
fn write_file(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    OpenOptions::new().write(true).truncate(true).open(path)?.write_all(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_changed_and_put_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        std::fs::write(&path, "5\n").unwrap();
        let setting = Setting::file(&path, Form::Plain);
        let old = setting.read().unwrap();
        let new = setting.with(&old, "7").unwrap();
        setting.put(&new).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"7\n");
        setting.put(&old).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"5\n");
    }

    #[test]
    fn what_is_not_there_is_missing() {
        let error = Setting::file("/proc/sys/no/such", Form::Plain).read().unwrap_err();
        assert!(error.is_gone() && error.to_string().contains("/proc/sys/no/such"), "{error}");
        for setting in [Setting::coalescing("no-such-if"), Setting::stamps("lo")] {
            let error = setting.read().unwrap_err();
            assert!(error.is_gone(), "{error}");
        }
        assert!(Setting::thread(u32::MAX).unwrap_err().is_gone());
        assert!(Namespace::at("/run/netns/no-such-one").is_err());
    }

    #[test]
    fn values_that_are_none_are_refused() {
        let now = State::new("always [madvise] never\n");
        let error = Setting::file("/x", Form::Choice).with(&now, "no").unwrap_err().to_string();
        assert_eq!(error, "/x does not take \"no\": it reads \"always [madvise] never\"");
        assert!(Setting::feature("x", "rx-gro").with(&now, "perhaps").is_err());
    }
}
