//! The tracefs file system, and instances in it.

use super::TracefsError;
use crate::linux::setting::{Detached, mask};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// Usual mount points.
const MOUNTED: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
/// Prefix of our instances' names; the process id and a counter follow.
const PREFIX: &str = "linecard-";
/// Buffer size of cores that are not traced, in kilobytes.
const IDLE_KILOBYTES: &str = "8";
/// Maximum bytes of a file: ten times the largest.
const MAX_TEXT: usize = 1 << 16;
/// Number of instances this process has created.
static INSTANCES: AtomicU32 = AtomicU32::new(0);

/// A tracefs: the mounted one, or a detached mount of our own that no other process sees.
pub(in crate::linux::trace) struct Folder {
    path: PathBuf,
    /// Keeps our own mount open; its path goes through the descriptor.
    _mount: Option<Detached>,
}

impl Folder {
    /// Finds the mount point, or mounts a tracefs.
    pub(in crate::linux::trace) fn open() -> Result<Self, TracefsError> {
        let is_there = |path: &&str| Path::new(path).join("instances").is_dir();
        if let Some(path) = MOUNTED.iter().find(|path| is_there(path)) {
            return Ok(Self { path: path.into(), _mount: None });
        }
        let mount = Detached::open("tracefs").map_err(TracefsError::Mount)?;
        Ok(Self { path: mount.path(Path::new("")), _mount: Some(mount) })
    }

    /// Reads a file as text.
    pub(in crate::linux::trace) fn read(&self, name: &str) -> Result<String, TracefsError> {
        text(&self.path.join(name)).map_err(|source| refused(name, source))
    }

    /// Removes instances of dead processes.
    fn remove_leftovers(&self) {
        let Ok(entries) = fs::read_dir(self.path.join("instances")) else { return };
        for entry in entries.filter_map(Result::ok) {
            let name = entry.file_name();
            let rest = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
            let Some(process) = rest.and_then(|rest| rest.split('-').next()) else { continue };
            let is_number = process.parse::<u32>().is_ok();
            if is_number && !Path::new("/proc").join(process).exists() {
                // Another process may remove it at the same time.
                let _removed = fs::remove_dir(entry.path());
            }
        }
    }
}

fn refused(name: &str, source: io::Error) -> TracefsError {
    TracefsError::File { name: name.to_owned(), source }
}

/// An instance with its own buffers, events and filters; dropping it removes it.
pub(in crate::linux::trace) struct Instance {
    folder: Folder,
    path: PathBuf,
}

impl Instance {
    /// Creates an instance that records nothing, and removes those of dead processes.
    pub(in crate::linux::trace) fn new() -> Result<Self, TracefsError> {
        let folder = Folder::open()?;
        folder.remove_leftovers();
        let number = INSTANCES.fetch_add(1, Ordering::Relaxed);
        let name = format!("instances/{PREFIX}{}-{number}", std::process::id());
        let path = folder.path.join(&name);
        fs::create_dir(&path).map_err(|source| refused(&name, source))?;
        let instance = Self { folder, path };
        instance.write("tracing_on", "0")?;
        Ok(instance)
    }

    /// Sets the clock, and buffers for these cores.
    pub(in crate::linux::trace) fn prepare(
        &self,
        cores: &[u16],
        kilobytes: usize,
    ) -> Result<(), TracefsError> {
        self.write("trace_clock", "mono")?;
        // When a buffer is full, new events are counted and old ones stay.
        self.write("options/overwrite", "0")?;
        let numbers: Vec<usize> = cores.iter().map(|core| usize::from(*core)).collect();
        self.write("tracing_cpumask", &mask(&numbers))?;
        self.write("buffer_size_kb", IDLE_KILOBYTES)?;
        for core in cores {
            let name = format!("per_cpu/cpu{core}/buffer_size_kb");
            self.write(&name, &kilobytes.to_string())?;
        }
        Ok(())
    }

    /// Reads a file as text; a file that instances lack is read from tracefs itself.
    pub(in crate::linux::trace) fn read(&self, name: &str) -> Result<String, TracefsError> {
        match text(&self.path.join(name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.folder.read(name),
            result => result.map_err(|source| refused(name, source)),
        }
    }

    /// Writes a setting.
    pub(in crate::linux::trace) fn write(
        &self,
        name: &str,
        value: &str,
    ) -> Result<(), TracefsError> {
        // Creates no file: tracefs contains a fixed set.
        fs::write(self.path.join(name), value).map_err(|source| refused(name, source))
    }

    /// A core's buffer, read page by page; reading an empty one fails at once.
    pub(super) fn pipe(&self, core: u16) -> Result<File, TracefsError> {
        let name = format!("per_cpu/cpu{core}/trace_pipe_raw");
        let nonblocking = libc::O_NONBLOCK;
        let open =
            OpenOptions::new().read(true).custom_flags(nonblocking).open(self.path.join(&name));
        open.map_err(|source| refused(&name, source))
    }

    /// Events that did not fit into a core's buffer.
    pub(super) fn lost(&self, core: u16) -> Result<u64, TracefsError> {
        let text = self.read(&format!("per_cpu/cpu{core}/stats"))?;
        let names = ["overrun", "commit overrun", "dropped events"];
        Ok(names.map(|name| statistic(&text, name)).iter().sum())
    }

    /// Events that a core has recorded.
    pub(in crate::linux::trace) fn recorded(&self, core: u16) -> Result<u64, TracefsError> {
        let text = self.read(&format!("per_cpu/cpu{core}/stats"))?;
        Ok(["entries", "overrun"].map(|name| statistic(&text, name)).iter().sum())
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        let _stopped = self.write("tracing_on", "0");
        let _removed = fs::remove_dir(&self.path);
    }
}

/// Reads a whole file in small reads, until one returns nothing: `events/header_page` returns its
/// beginning once, and then nothing.
fn text(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut text = vec![0; MAX_TEXT];
    let mut len = 0;
    while len < MAX_TEXT {
        match file.read(&mut text[len..])? {
            0 => break,
            read => len += read,
        }
    }
    text.truncate(len);
    String::from_utf8(text).map_err(|_| io::ErrorKind::InvalidData.into())
}

/// A number from a `stats` file.
fn statistic(text: &str, name: &str) -> u64 {
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    value.and_then(|value| value.trim().parse().ok()).unwrap_or(0)
}
