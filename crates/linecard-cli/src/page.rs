//! `--report FILE`: the results of a command as a page for a browser, with JSON beside it.

use crate::say;
use clap::Args;
use linecard_app::{Error, Failure};
use linecard_report::{Origin, Page, Target};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

#[derive(Debug, Clone, Args)]
pub(crate) struct PageArguments {
    /// Also write the results as a self-contained HTML page. FILE ends in .html, which is appended
    /// to a name without an extension; a .json file of the same name beside it has every figure.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

impl PageArguments {
    /// Refuses a page that is asked for in front of a command that has pages of its own.
    #[cfg(target_os = "linux")]
    pub(crate) fn refuse_before(&self, command: &str) -> Result<(), Error> {
        let Some(path) = &self.report else { return Ok(()) };
        let what =
            format!("--report {} stands before `{command}`: write it behind", path.display());
        Err(Failure::Usage.with(what))
    }

    /// Finds out whether the page can be written, before a job that may be long. `others` are the
    /// files that the job has: a page replaces none of them.
    pub(crate) fn check(&self, others: &[&Path]) -> Result<PageFile, Error> {
        let Some(path) = &self.report else { return Ok(PageFile(None)) };
        let target = Target::new(path)?;
        for page in [target.html(), target.json()] {
            if let Some(other) = others.iter().find(|other| is_same(page, other)) {
                let (page, other) = (page.display(), other.display());
                let what = format!("--report: {page} would replace {other}: choose another name");
                return Err(Failure::Usage.with(what));
            }
        }
        Ok(PageFile(Some(target)))
    }
}

/// The path of the page, if requested.
#[derive(Debug, Default)]
#[must_use]
pub(crate) struct PageFile(Option<Target>);

impl PageFile {
    /// The files, if there are to be any.
    #[cfg(target_os = "linux")]
    pub(crate) fn files(&self) -> impl Iterator<Item = &Path> {
        self.0.iter().flat_map(|target| [target.html(), target.json()])
    }

    /// Writes the page, whatever the job's `ending` is, which is what counts when both fail.
    pub(crate) fn write(
        &self,
        page: impl FnOnce() -> Page,
        ending: Result<(), Error>,
    ) -> Result<(), Error> {
        let Some(target) = &self.0 else { return ending };
        match (target.write(page().origin(origin())), ending) {
            (Ok(()), ending) => ending,
            (Err(error), Ok(())) => Err(error.into()),
            (Err(error), Err(failure)) => {
                say(&error.to_string());
                Err(failure)
            }
        }
    }
}

/// Now, this host, and the command line of this process.
pub(crate) fn origin() -> Origin {
    let unix_seconds =
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let arguments = std::env::args_os().skip(1).map(|text| text.to_string_lossy().into_owned());
    let origin = Origin::new(unix_seconds, std::iter::once("linecard".to_owned()).chain(arguments));
    // Where there is no such file, a page is of no host.
    let line = |file: &str| fs::read_to_string(Path::new("/proc/sys/kernel").join(file)).ok();
    match (line("hostname"), line("ostype"), line("osrelease")) {
        (Some(name), Some(system), Some(release)) => {
            origin.on(name.trim(), &format!("{} {}", system.trim(), release.trim()))
        }
        _ => origin,
    }
}

/// Whether two names are, or would be, of one file.
fn is_same(page: &Path, other: &Path) -> bool {
    // A path that does not exist yet is in a folder that does.
    let whole = |path: &Path| {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let inside =
            |name| Some(fs::canonicalize(folder.unwrap_or(Path::new("."))).ok()?.join(name));
        fs::canonicalize(path).ok().or_else(|| path.file_name().and_then(inside))
    };
    whole(page).is_some_and(|page| Some(page) == whole(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_replaces_no_file_of_the_job() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        fs::write(at("in.json"), "").expect("written");
        let check = |report: &str, other: &str| {
            let arguments = PageArguments { report: Some(at(report)) };
            arguments.check(&[&at(other)]).map(drop).map_err(|failure| failure.to_string())
        };
        assert_eq!(check("run.html", "in.json"), Ok(()));
        for (report, other) in [("in", "in.json"), ("in.html", "./in.json"), ("out", "out.html")] {
            let refused = check(report, other).expect_err(report);
            assert!(refused.contains("would replace"), "{refused}");
        }
    }
}
