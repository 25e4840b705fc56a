//! Scenario files: read whole, and pointed into where a value is refused.

use crate::Error;
use linecard_config::{Document, read};
use serde::de::DeserializeOwned;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// A scenario's file, to point into.
#[derive(Debug, Clone, Default)]
pub struct Source {
    path: PathBuf,
    text: String,
}

impl Source {
    /// Reads a scenario.
    ///
    /// # Errors
    ///
    /// A file that cannot be read, or is not a scenario.
    pub fn read<T: DeserializeOwned>(path: &Path) -> Result<(T, Self), Error> {
        let bytes =
            std::fs::read(path).map_err(|source| Error::Open { path: path.into(), source })?;
        let whole = std::str::from_utf8(&bytes).map_err(|error| error.valid_up_to());
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let source = Self { path: path.into(), text };
        if let Err(at) = whole {
            return Err(source.refuse(at..at, "this is not UTF-8 text: a scenario is TOML"));
        }
        source.parsed()
    }

    /// A scenario that comes with the command, by its name in the project.
    ///
    /// # Errors
    ///
    /// A text that is not a scenario.
    pub fn built_in<T: DeserializeOwned>(name: &str, text: &str) -> Result<(T, Self), Error> {
        Self { path: name.into(), text: text.to_owned() }.parsed()
    }

    /// The same for a job.
    ///
    /// # Errors
    ///
    /// A text that is not TOML.
    pub fn document(&self) -> Result<Document, Error> {
        Ok(Document::of_text(&self.path, self.text.as_str())?)
    }

    fn parsed<T: DeserializeOwned>(self) -> Result<(T, Self), Error> {
        match read(&self.text) {
            Ok(scenario) => Ok((scenario, self)),
            Err(error) => {
                let at = error.at.unwrap_or_default();
                Err(self.refuse(at..at, &plain(&error.message)))
            }
        }
    }

    /// An error at a place in the file: file, line, text of the line, what is wrong.
    #[must_use]
    pub fn refuse(&self, at: Range<usize>, what: &str) -> Error {
        let before = self.text.get(..at.start).unwrap_or(&self.text);
        let line = before.matches('\n').count() + 1;
        let content = self.text.lines().nth(line - 1).unwrap_or_default().trim();
        let what = what.replace('\n', " ");
        Error::Usage(format!("{}:{line}: `{content}`: {what}", self.path.display()))
    }
}

/// The types by the names that users know.
fn plain(message: &str) -> String {
    message
        .replace("expected i64", "expected a whole number")
        .replace("expected f64", "expected a number")
}
