//! Where files of a measurement are: best in memory.

use rustix::fs::statvfs;
use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Name of folders, before the number of their process.
const PREFIX: &str = ".linecard-stages-";

/// A folder of our own, which other users may not read, removed at the end.
#[derive(Debug)]
pub struct Folder(TempDir);

impl Folder {
    /// A new one: in memory where that has room for `bytes`, else among temporary files. Folders of killed processes
    /// are removed.
    ///
    /// # Errors
    ///
    /// The error of the operating system.
    pub fn with_room(bytes: u64) -> io::Result<Self> {
        let memory = Path::new("/dev/shm");
        let base = if room(memory) >= bytes { memory.into() } else { std::env::temp_dir() };
        sweep(&base);
        let prefix = format!("{PREFIX}{}-", std::process::id());
        let own = Permissions::from_mode(0o700);
        let made = tempfile::Builder::new().prefix(&prefix).permissions(own).tempdir_in(base);
        made.map(Self)
    }

    /// Writes `bytes` here and removes them, so that the next write by this thread on this core finds
    /// available memory.
    ///
    /// A hypervisor gives a guest its memory when it is first used, and may take it back when the guest has
    /// freed it. A page then costs ten microseconds instead of one: ten times what a stage of a transfer
    /// takes for it. Freed pages are used again first, by the core that freed them.
    ///
    /// # Errors
    ///
    /// The error of the operating system.
    pub fn warm(&self, bytes: u64) -> io::Result<()> {
        let path = self.0.path().join("scratch");
        let piece = vec![1; 1 << 20];
        let write = |mut file: File| {
            (0..bytes.div_ceil(piece.len() as u64)).try_for_each(|_| file.write_all(&piece))
        };
        let written = File::create(&path).and_then(write);
        fs::remove_file(&path).and(written)
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

/// Free bytes below `folder`; none if the folder does not exist.
fn room(folder: &Path) -> u64 {
    statvfs(folder).map_or(0, |found| found.f_bavail.saturating_mul(found.f_frsize))
}

/// Removes folders of this user whose processes are gone. Folders that cannot be removed stay.
fn sweep(base: &Path) {
    let own = rustix::process::geteuid().as_raw();
    let entries = fs::read_dir(base).into_iter().flatten().flatten();
    for entry in entries {
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        let number = number.and_then(|rest| rest.split('-').next()?.parse::<u32>().ok());
        let is_own = entry.metadata().is_ok_and(|found| found.is_dir() && found.uid() == own);
        let is_gone = |number| !PathBuf::from(format!("/proc/{number}")).exists();
        if is_own && number.is_some_and(is_gone) {
            let _removed = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_goes_and_what_the_dead_left_goes_too() -> io::Result<()> {
        let base = tempfile::tempdir()?;
        // No process has a number beyond 2^22 (proc_sys_kernel(5)).
        let left = base.path().join(format!("{PREFIX}4194999-x"));
        let other = base.path().join("something");
        fs::create_dir(&left)?;
        fs::write(left.join("from"), b"x")?;
        fs::create_dir(&other)?;
        sweep(base.path());
        assert!(!left.exists() && other.exists());
        let folder = Folder::with_room(1)?;
        let path = folder.path().to_path_buf();
        assert_eq!(fs::metadata(&path)?.mode() & 0o777, 0o700);
        folder.warm(3 << 20)?;
        assert_eq!(fs::read_dir(&path)?.count(), 0);
        drop(folder);
        assert!(!path.exists());
        Ok(())
    }
}
