//! A folder of its own for every test, and the command run in it.

use crate::support::linecard;
use linecard_testkit::root;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Output};
use tempfile::TempDir;

/// Result of the command.
#[derive(Debug)]
pub(crate) struct CommandOutput {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl From<Output> for CommandOutput {
    fn from(output: Output) -> Self {
        Self {
            code: code(output.status),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

/// None when a signal ended it.
fn code(status: ExitStatus) -> Option<i32> {
    status.code()
}

/// A capture of the project's own.
pub(crate) fn capture(name: &str) -> PathBuf {
    root().join("testdata/captures").join(name)
}

pub(crate) struct Folder(TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// With a copy of one of the project's captures, as `in.pcap`.
    pub(crate) fn with_capture(name: &str) -> Self {
        let folder = Self::new();
        fs::copy(capture(name), folder.path("in.pcap")).unwrap();
        folder
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, bytes: &[u8]) {
        fs::write(self.path(name), bytes).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap()
    }

    /// A copy of the command here, for other users. It is not this process that writes it: a program that starts
    /// meanwhile would hold the file open for a moment, and what is open for writing cannot be run.
    pub(crate) fn copy_of_linecard(&self) -> PathBuf {
        let copy = self.path("linecard");
        let mut cp = Command::new("cp");
        assert!(cp.arg(env!("CARGO_BIN_EXE_linecard")).arg(&copy).status().unwrap().success());
        copy
    }

    /// The command, to be run here.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = linecard();
        command.current_dir(self.0.path()).args(arguments);
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> CommandOutput {
        self.command(arguments).output().unwrap().into()
    }

    /// Runs what must succeed, silently on stderr; gives stdout.
    pub(crate) fn succeeds(&self, arguments: &[&str]) -> String {
        let outcome = self.run(arguments);
        assert_eq!(outcome.code, Some(0), "{arguments:?}: {outcome:?}");
        assert_eq!(outcome.stderr, "", "{arguments:?}");
        outcome.stdout
    }

    /// Runs what must be refused: nothing on stdout, one line on stderr that has all of `parts`,
    /// the exit code, and no change to any file.
    pub(crate) fn refuses(&self, code: i32, arguments: &[&str], parts: &[&str]) {
        let before = self.content();
        let outcome = self.run(arguments);
        assert_eq!(outcome.code, Some(code), "{arguments:?}: {outcome:?}");
        assert_eq!(outcome.stdout, "", "{arguments:?}");
        one_line(&outcome.stderr, parts);
        assert_eq!(self.content(), before, "{arguments:?} changed files");
    }

    /// Every file with its content; folders have none.
    pub(crate) fn content(&self) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
        content(self.0.path())
    }

    pub(crate) fn names(&self) -> Vec<String> {
        let name = |path: PathBuf| path.strip_prefix(self.0.path()).unwrap().display().to_string();
        self.content().into_keys().map(name).collect()
    }
}

fn content(folder: &Path) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(content(&path));
            found.insert(path, None);
        } else {
            // An unreadable file is there all the same.
            found.insert(path.clone(), fs::read(&path).ok());
        }
    }
    found
}

/// Checks that `stderr` is one line, from the command, with all of `parts`.
pub(crate) fn one_line(stderr: &str, parts: &[&str]) {
    assert_eq!(stderr.lines().count(), 1, "one line wanted: {stderr}");
    assert!(stderr.starts_with("linecard: ") && stderr.ends_with('\n'), "{stderr}");
    for part in parts {
        assert!(stderr.contains(part), "no \"{part}\" in: {stderr}");
    }
}
