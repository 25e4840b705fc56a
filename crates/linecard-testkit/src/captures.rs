//! Captures that tests read.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

/// Names the folder of real captures.
const FOLDER: &str = "LINECARD_CAPTURES";
/// The project's own are not fewer.
const OWN: usize = 15;

/// The captures of `testdata/`.
///
/// # Panics
///
/// Some are missing.
#[must_use]
pub fn own() -> Vec<PathBuf> {
    let files = files(&crate::root().join("testdata/captures"));
    assert!(files.len() >= OWN, "testdata/captures is incomplete");
    files
}

/// Real captures, in the folder that `LINECARD_CAPTURES` names or in the one beside the project; none, and said so,
/// where there is none.
#[must_use]
pub fn real() -> Option<Vec<PathBuf>> {
    let files = files(&folder());
    if files.is_empty() {
        skip();
    }
    (!files.is_empty()).then_some(files)
}

/// One of the real captures; none, and said so, where it is not there.
#[must_use]
pub fn real_named(path: impl AsRef<Path>) -> Option<PathBuf> {
    let path = folder().join(path);
    if !path.is_file() {
        skip();
        return None;
    }
    if path.is_absolute() { Some(path) } else { path.canonicalize().ok() }
}

fn folder() -> PathBuf {
    env::var_os(FOLDER).map_or_else(|| crate::root().join("../shared/captures"), PathBuf::from)
}

fn skip() {
    crate::skip("real captures", format_args!("set {FOLDER} to a folder of them"));
}

/// All files of a folder and those in it, in order.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let Ok(entries) = fs::read_dir(folder) else { return files };
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.is_dir() { files.extend(self::files(&path)) } else { files.push(path) }
    }
    files.sort();
    files
}
