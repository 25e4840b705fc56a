//! Scenario files: raw values as TOML has them, each with its place in the file.

use crate::failure::Failure;
use serde::Deserialize;
use std::ops::Range;
use std::path::{Path, PathBuf};
use toml::Spanned;

/// A scenario of `linecard run`. Keys that are not known are refused.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Scenario {
    /// What applications send.
    pub(crate) load: Load,
    /// The way.
    pub(crate) lanes: Lanes,
    /// The receiving offload.
    pub(crate) coalesce: Coalesce,
    /// The run itself.
    pub(crate) run: Run,
}

/// `[load]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Load {
    pub(crate) flows: Option<Spanned<i64>>,
    pub(crate) size: Option<Spanned<toml::Value>>,
    pub(crate) mtu: Option<Spanned<toml::Value>>,
    pub(crate) family: Option<Spanned<String>>,
}

/// `[lanes]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Lanes {
    pub(crate) count: Option<Spanned<i64>>,
    pub(crate) loss: Option<Spanned<toml::Value>>,
    pub(crate) reorder: Option<Spanned<toml::Value>>,
    pub(crate) corrupt: Option<Spanned<toml::Value>>,
}

/// `[coalesce]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Coalesce {
    pub(crate) hold: Option<Spanned<String>>,
    pub(crate) checksum: Option<Spanned<String>>,
}

/// `[run]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Run {
    pub(crate) seconds: Option<Spanned<f64>>,
    pub(crate) seed: Option<Spanned<i64>>,
}

/// A scenario's file, to point into.
#[derive(Debug, Default)]
pub(crate) struct Source {
    path: PathBuf,
    text: String,
}

impl Source {
    /// Reads a scenario.
    pub(crate) fn read(path: &Path) -> Result<(Scenario, Self), Failure> {
        let bytes =
            std::fs::read(path).map_err(|source| Failure::Open { path: path.into(), source })?;
        let whole = std::str::from_utf8(&bytes).map_err(|error| error.valid_up_to());
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let source = Self { path: path.into(), text };
        if let Err(at) = whole {
            return Err(source.refuse(at..at, "this is no UTF-8 text: a scenario is TOML"));
        }
        match toml::from_str(&source.text) {
            Ok(scenario) => Ok((scenario, source)),
            Err(error) => Err(source.refuse(error.span().unwrap_or(0..0), &plain(error.message()))),
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
