//! A file of lines to which several processes add.

use super::{KeyError, private};
use rustix::fs::FlockOperation;
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::io::{self, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

/// Waits for another process that adds a line, and how long each takes.
const WAITS: u32 = 100;
const WAIT: Duration = Duration::from_millis(50);

/// The list, open for more: a process that has given up its rights can still add lines.
#[derive(Debug)]
pub struct ListFile {
    path: PathBuf,
    file: File,
}

impl ListFile {
    /// Opens it; a missing one is made for its owner only, as is its folder.
    ///
    /// # Errors
    ///
    /// [`KeyError::File`].
    pub fn open(path: PathBuf) -> Result<Self, KeyError> {
        let opened = private::make_parent(&path).and_then(|()| {
            OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(&path)
        });
        match opened {
            Ok(file) => Ok(Self { path, file }),
            Err(cause) => Err(KeyError::File { path, cause }),
        }
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Adds the line that `decide` gives of the present content, if it gives one. Meanwhile no other process adds any, so
    /// that two of them do not add the same.
    ///
    /// # Errors
    ///
    /// That of `decide`; [`KeyError`] if the file cannot be read or written, if others can write it, or if another process
    /// holds it for five seconds.
    pub fn add<T>(
        &self,
        decide: impl FnOnce(&str) -> Result<(Option<String>, T), KeyError>,
    ) -> Result<T, KeyError> {
        self.lock()?;
        let added = self.add_locked(decide);
        // Otherwise the lock would last as long as the file is open.
        let _unlocked = rustix::fs::flock(&self.file, FlockOperation::Unlock);
        added
    }

    fn add_locked<T>(
        &self,
        decide: impl FnOnce(&str) -> Result<(Option<String>, T), KeyError>,
    ) -> Result<T, KeyError> {
        let failed = |cause| KeyError::file(&self.path, cause);
        (&self.file).rewind().map_err(failed)?;
        let text = private::read_open(&self.path, &self.file)?;
        let (line, decided) = decide(&text)?;
        if let Some(line) = line {
            // An editor may have left the last line open.
            let open = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
            let written = (&self.file).write_all(format!("{open}{line}\n").as_bytes());
            written.and_then(|()| self.file.sync_all()).map_err(failed)?;
        }
        Ok(decided)
    }

    fn lock(&self) -> Result<(), KeyError> {
        for _ in 0..WAITS {
            match rustix::fs::flock(&self.file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(()),
                Err(Errno::WOULDBLOCK | Errno::INTR) => thread::sleep(WAIT),
                // Some network file systems have no locks: then two may add the same line.
                Err(Errno::NOSYS | Errno::OPNOTSUPP | Errno::NOLCK) => return Ok(()),
                Err(error) => return Err(KeyError::file(&self.path, io::Error::from(error))),
            }
        }
        let what = "another program has locked it for five seconds: end that, and try again";
        Err(KeyError::content(&self.path, what))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// Two that pair at the same time listed a key twice, and such a list lets nobody in.
    #[test]
    fn a_line_is_added_once_however_many_add_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config/authorized");
        let add = || {
            let list = ListFile::open(path.clone()).unwrap();
            let add = |line: &'static str| {
                list.add(|text| {
                    let is_new = !text.lines().any(|other| other == line);
                    Ok((is_new.then(|| line.to_owned()), is_new))
                })
            };
            u32::from(add("one").unwrap()) + u32::from(add("two").unwrap())
        };
        let added: u32 = thread::scope(|scope| {
            let all: Vec<_> = (0..20).map(|_| scope.spawn(add)).collect();
            all.into_iter().map(|one| one.join().unwrap()).sum()
        });
        assert_eq!(added, 2);
        let text = fs::read_to_string(&path).unwrap();
        assert!(text == "one\ntwo\n" || text == "two\none\n", "{text}");
    }

    #[test]
    fn an_open_last_line_is_ended_first() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("list");
        fs::write(&path, "one").unwrap();
        let list = ListFile::open(path.clone()).unwrap();
        list.add(|_| Ok((Some("two".to_owned()), ()))).unwrap();
        list.add(|text| Ok((None, assert_eq!(text, "one\ntwo\n")))).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "one\ntwo\n");
    }
}
