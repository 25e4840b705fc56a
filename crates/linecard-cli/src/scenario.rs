//! Scenario files: read whole, and pointed into where a value is refused.

use crate::failure::Failure;
use serde::de::DeserializeOwned;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// A scenario's file, to point into.
#[derive(Debug, Clone, Default)]
pub(crate) struct Source {
    path: PathBuf,
    text: String,
}

impl Source {
    /// Reads a scenario.
    pub(crate) fn read<T: DeserializeOwned>(path: &Path) -> Result<(T, Self), Failure> {
        let bytes =
            std::fs::read(path).map_err(|source| Failure::Open { path: path.into(), source })?;
        let whole = std::str::from_utf8(&bytes).map_err(|error| error.valid_up_to());
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let source = Self { path: path.into(), text };
        if let Err(at) = whole {
            return Err(source.refuse(at..at, "this is no UTF-8 text: a scenario is TOML"));
        }
        source.parsed()
    }

    /// A scenario that comes with the command, by its name in the project.
    pub(crate) fn built_in<T: DeserializeOwned>(
        name: &str,
        text: &str,
    ) -> Result<(T, Self), Failure> {
        Self { path: name.into(), text: text.to_owned() }.parsed()
    }

    fn parsed<T: DeserializeOwned>(self) -> Result<(T, Self), Failure> {
        match toml::from_str(&self.text) {
            Ok(scenario) => Ok((scenario, self)),
            Err(error) => Err(self.refuse(error.span().unwrap_or(0..0), &plain(error.message()))),
        }
    }

    /// An error at a place in the file: file, line, text of the line, what is wrong.
    pub(crate) fn refuse(&self, at: Range<usize>, what: &str) -> Failure {
        let before = self.text.get(..at.start).unwrap_or(&self.text);
        let line = before.matches('\n').count() + 1;
        let content = self.text.lines().nth(line - 1).unwrap_or_default().trim();
        let what = what.replace('\n', " ");
        Failure::Usage(format!("{}:{line}: `{content}`: {what}", self.path.display()))
    }
}

/// The types by the names that users know.
fn plain(message: &str) -> String {
    message
        .replace("expected i64", "expected a whole number")
        .replace("expected f64", "expected a number")
}
