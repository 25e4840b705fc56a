//! The files that a page is written to.

use crate::page::Page;
use std::fs::{self, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use tempfile::{Builder, NamedTempFile};
use thiserror::Error;

/// The two files of a page, checked to be writable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    html: PathBuf,
    json: PathBuf,
}

/// Why a page cannot be written there.
#[derive(Debug, Error)]
pub enum ReportError {
    /// The name has another extension, or is missing.
    #[error("{} names no page: choose a name that ends in .html; its JSON is written beside it", path.display())]
    Name {
        /// The given path.
        path: PathBuf,
    },
    /// The folder does not exist.
    #[error("{} cannot be written: there is no folder {}: create it first, or write \
         elsewhere", path.display(), folder.display())]
    NoFolder {
        /// The file.
        path: PathBuf,
        /// The missing folder.
        folder: PathBuf,
    },
    /// The path is a folder, a device or a pipe.
    #[error("{} is not a regular file, so a page cannot replace it: choose another \
         name", path.display())]
    NoFile {
        /// The path.
        path: PathBuf,
    },
    /// The user may not write there.
    #[error("{} may not be written: choose a folder of yours, or change its permissions", path.display())]
    Denied {
        /// The file.
        path: PathBuf,
    },
    /// The disk is full.
    #[error("{} does not fit: free some space, or write elsewhere", path.display())]
    Full {
        /// The file.
        path: PathBuf,
    },
    /// Another error.
    #[error("{} cannot be written: {source}", path.display())]
    Other {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

impl Target {
    /// Checks that a page can be written to this path, by creating a temporary file next to it. The
    /// name ends in `.html`, or gets this extension if it has none.
    ///
    /// # Errors
    ///
    /// The error that writing the page would have.
    pub fn new(path: &Path) -> Result<Self, ReportError> {
        let html = named(path)?;
        let json = html.with_extension("json");
        for path in [&html, &json] {
            replaceable(path).and_then(|()| Partial::new(path)).map(drop)?;
        }
        Ok(Self { html, json })
    }

    /// The page's file.
    #[must_use]
    pub fn html(&self) -> &Path {
        &self.html
    }

    /// The file of its JSON.
    #[must_use]
    pub fn json(&self) -> &Path {
        &self.json
    }

    /// Writes a page: both files completely under temporary names, then renamed.
    ///
    /// # Errors
    ///
    /// The disk is full, or the state that [`Target::new`] found has changed.
    pub fn write(&self, page: &Page) -> Result<(), ReportError> {
        self.fill(&page.html(), |out| Ok(serde_json::to_writer(out, page)?))
    }

    /// Writes the results of [`Page::html`] and [`Page::json`] in the same way.
    ///
    /// # Errors
    ///
    /// As [`Target::write`].
    pub fn write_texts(&self, html: &str, json: &str) -> Result<(), ReportError> {
        self.fill(html, |out| out.write_all(json.as_bytes()))
    }

    fn fill(
        &self,
        html: &str,
        json: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<(), ReportError> {
        let json = Partial::new(&self.json)?.filled(json)?;
        let html = Partial::new(&self.html)?.filled(|out| out.write_all(html.as_bytes()))?;
        json.finish()?;
        html.finish()
    }
}

/// The file name of a page.
fn named(path: &Path) -> Result<PathBuf, ReportError> {
    let wrong = || ReportError::Name { path: path.into() };
    let name = path.file_name().filter(|name| *name != "-").ok_or_else(wrong)?;
    match path.extension() {
        // `folder/` is a folder, although its last part would be a valid file name.
        _ if path.as_os_str().as_encoded_bytes().ends_with(b"/") => Err(wrong()),
        None => Ok(path.with_file_name(name).with_extension("html")),
        Some(ending) if ending.eq_ignore_ascii_case("html") => Ok(path.into()),
        Some(_) => Err(wrong()),
    }
}

/// Whether an existing file may be replaced.
fn replaceable(path: &Path) -> Result<(), ReportError> {
    match fs::metadata(path) {
        Ok(there) if !there.is_file() => Err(ReportError::NoFile { path: path.into() }),
        // A rename does not check whether the old file is writable; opening it does.
        Ok(_) => OpenOptions::new().write(true).open(path).map(drop).map_err(|e| because(path, e)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(because(path, error)),
    }
}

/// A file under a temporary name, which is removed unless it is renamed.
struct Partial {
    file: NamedTempFile,
    target: PathBuf,
}

impl Partial {
    fn new(path: &Path) -> Result<Self, ReportError> {
        // Follows a symbolic link to its target.
        let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let mut prefix = target.file_name().unwrap_or_default().to_owned();
        prefix.push(".");
        let file = Builder::new()
            .prefix(&prefix)
            .suffix(".partial")
            // With the permissions of a normal file, not only for its owner.
            .make_in(folder(&target), |path| {
                OpenOptions::new().write(true).create_new(true).open(path)
            })
            .map_err(|error| because(path, error))?;
        Ok(Self { file, target })
    }

    /// Writes the whole text and syncs it to disk.
    fn filled(
        self,
        fill: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<Self, ReportError> {
        let mut out = BufWriter::new(self.file.as_file());
        let filled = fill(&mut out).and_then(|()| out.flush());
        drop(out);
        filled
            .and_then(|()| self.file.as_file().sync_all())
            .map_err(|error| because(&self.target, error))?;
        Ok(self)
    }

    /// Renames it to its final name.
    fn finish(self) -> Result<(), ReportError> {
        let Self { file, target } = self;
        file.persist(&target).map(drop).map_err(|failed| because(&target, failed.error))
    }
}

fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// Converts the system's error.
fn because(path: &Path, source: io::Error) -> ReportError {
    let path = path.to_owned();
    match source.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
            ReportError::NoFolder { folder: folder(&path).to_owned(), path }
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            ReportError::Denied { path }
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ReportError::Full { path },
        io::ErrorKind::IsADirectory => ReportError::NoFile { path },
        _ => ReportError::Other { path, source },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_end_in_html() {
        let name = |path: &str| named(Path::new(path)).ok();
        for (given, expected) in [
            ("a.html", Some("a.html")),
            ("a.HTML", Some("a.HTML")),
            ("b/a", Some("b/a.html")),
            ("a.pdf", None),
            ("a.json", None),
            ("-", None),
            ("a/", None),
            ("/", None),
            ("..", None),
            ("", None),
        ] {
            assert_eq!(name(given), expected.map(PathBuf::from), "{given}");
        }
    }

    #[test]
    fn both_files_appear_and_nothing_else() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("run");
        let mut page = Page::new("one");
        page.write(&path).expect("written");
        page.note("two").write(&path).expect("written again");
        let mut names: Vec<_> = fs::read_dir(folder.path())
            .expect("readable")
            .map(|entry| entry.expect("an entry").file_name())
            .collect();
        names.sort();
        assert_eq!(names, ["run.html", "run.json"]);
        let html = fs::read_to_string(folder.path().join("run.html")).expect("readable");
        assert!(html.contains("two") && html.starts_with("<!DOCTYPE html>"));
    }

    #[test]
    fn what_is_wrong_is_said_in_one_line() {
        let folder = tempfile::tempdir().expect("a folder");
        let inside = |name: &str| folder.path().join(name);
        fs::create_dir(inside("folder.html")).expect("made");
        fs::create_dir(inside("taken.json")).expect("made");
        fs::write(inside("file"), "").expect("written");
        for (name, words) in [
            ("none/a.html", "there is no folder"),
            ("file/a.html", "there is no folder"),
            ("folder.html", "is not a regular file"),
            ("taken.html", "is not a regular file"),
            ("a.pdf", "ends in .html"),
        ] {
            let error = Target::new(&inside(name)).expect_err(name).to_string();
            assert!(error.contains(words) && error.lines().count() == 1, "{name}: {error}");
        }
        assert_eq!(fs::read_dir(folder.path()).expect("readable").count(), 3);
        for (kind, words) in [
            (io::ErrorKind::StorageFull, "free some space"),
            (io::ErrorKind::PermissionDenied, "change its permissions"),
            (io::ErrorKind::Other, "cannot be written"),
        ] {
            assert!(because(Path::new("a.html"), kind.into()).to_string().contains(words));
        }
    }

    #[test]
    fn a_disk_that_is_full_leaves_nothing() {
        let Ok(full) = OpenOptions::new().write(true).open("/dev/full") else {
            linecard_testkit::skip("a full disk", "no /dev/full here");
            return;
        };
        let failed = (&full).write_all(b"x").expect_err("no space");
        assert!(matches!(because(Path::new("a"), failed), ReportError::Full { .. }));
    }
}
