//! A network namespace owned by this process.

use super::{LabError, ip, run};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

/// Where `ip` keeps namespaces.
const NAMESPACES: &str = "/run/netns";
/// Prefix of our namespaces' names; the process id follows.
const PREFIX: &str = "linecard-";
/// How often `ip` is asked to remove one: another process that makes one at the same moment keeps
/// it busy.
const TRIES: usize = 3;

/// A network namespace with a unique name, removed with all its devices on drop.
///
/// ```no_run
/// use linecard_io::lab::Namespace;
/// let namespace = Namespace::new("test")?;
/// namespace.ip(&["link", "set", "lo", "up"])?;
/// let bound = namespace.enter(|| std::net::TcpListener::bind("127.0.0.1:0"))??;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Namespace {
    name: String,
}

impl Namespace {
    /// Makes one; `part` distinguishes those of this process.
    ///
    /// # Errors
    ///
    /// See [`LabError`].
    pub fn new(part: &str) -> Result<Self, LabError> {
        let namespace = Self::named(part);
        namespace.make()?;
        Ok(namespace)
    }

    /// A namespace that is still to be made.
    pub(super) fn named(part: &str) -> Self {
        Self { name: format!("{PREFIX}{}-{part}", std::process::id()) }
    }

    pub(super) fn make(&self) -> Result<(), LabError> {
        ip(&["netns", "add", &self.name])
    }

    /// Its name, as `ip netns` knows it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its file.
    #[must_use]
    pub fn file(&self) -> PathBuf {
        Path::new(NAMESPACES).join(&self.name)
    }

    /// A command to be run in it; it sees this network in /sys.
    #[must_use]
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name]).arg(program);
        command
    }

    /// Runs `ip` with these arguments in it.
    ///
    /// # Errors
    ///
    /// The error of `ip`.
    pub fn ip(&self, arguments: &[&str]) -> Result<(), LabError> {
        ip(&[&["-n", &self.name], arguments].concat())
    }

    /// Switches features of an interface, with the names of `ethtool -K`.
    ///
    /// # Errors
    ///
    /// If the interface or the feature does not exist.
    pub fn features(&self, interface: &str, wanted: &[&str]) -> Result<(), LabError> {
        let mut ethtool = self.command("ethtool");
        run(ethtool.args(["-K", interface]).args(wanted), "ethtool", "ethtool")
    }

    /// Writes a network setting: a file of /sys or /proc.
    ///
    /// # Errors
    ///
    /// If the setting or the value does not exist.
    pub fn set(&self, path: &str, value: &str) -> Result<(), LabError> {
        // /sys shows the network of the process that mounted it, and `ip netns exec` mounts it
        // again.
        let mut shell = self.command("sh");
        run(shell.args(["-c", "printf %s \"$1\" > \"$0\"", path, value]), "sh", "dash")
    }

    /// Runs `work` in it, on a thread of its own. Sockets stay in the namespace in which they were
    /// opened.
    ///
    /// # Errors
    ///
    /// If it cannot be entered.
    pub fn enter<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, LabError> {
        thread::scope(|scope| {
            let entered = scope.spawn(move || {
                self.enter_for_good()?;
                Ok(work())
            });
            entered.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Moves the calling thread, and no other, into it permanently.
    ///
    /// # Errors
    ///
    /// If it cannot be entered.
    pub fn enter_for_good(&self) -> io::Result<()> {
        let file = File::open(self.file())?;
        move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))?;
        Ok(())
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // A namespace that could not be made need not be removed.
        let is_there = self.file().exists();
        let _removed = is_there && (0..TRIES).any(|_| ip(&["netns", "del", &self.name]).is_ok());
    }
}

/// Removes the namespaces of processes that no longer exist.
pub fn remove_leftovers() {
    let Ok(entries) = fs::read_dir(NAMESPACES) else { return };
    for name in entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()) {
        let process = name.strip_prefix(PREFIX).and_then(|rest| rest.split_once('-'));
        let Some((process, _)) = process else { continue };
        let is_gone = process.parse::<u32>().is_ok() && !Path::new("/proc").join(process).exists();
        if is_gone {
            let _removed = ip(&["netns", "del", &name]);
        }
    }
}
