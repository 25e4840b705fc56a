//! Reports and texts on the standard output.

use crate::failure::Failure;
use linecard_report::Report;
use serde::Serialize;
use std::io::Write;
use std::path::Path;

/// Prints a report to stdout, or to stderr when data goes to stdout.
pub(crate) fn print(report: &Report, json: bool, output: Option<&Path>) -> Result<(), Failure> {
    if json && output != Some(Path::new("-")) {
        return print_json(report);
    }
    let text = if json { pretty(report)? } else { report.to_string() };
    let result = if output == Some(Path::new("-")) {
        std::io::stderr().write_all(text.as_bytes())
    } else {
        std::io::stdout().write_all(text.as_bytes())
    };
    unless_seen_enough(result)
}

/// Prints a value as JSON to stdout.
pub(crate) fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    unless_seen_enough(std::io::stdout().write_all(pretty(value)?.as_bytes()))
}

/// Prints text to stdout.
pub(crate) fn print_text(text: &str) -> Result<(), Failure> {
    unless_seen_enough(std::io::stdout().write_all(text.as_bytes()))
}

fn pretty(value: &impl Serialize) -> Result<String, Failure> {
    Ok(serde_json::to_string_pretty(value).map_err(std::io::Error::from)? + "\n")
}

/// A reader that has seen enough is not an error, and hides none that is still to be said.
fn unless_seen_enough(result: std::io::Result<()>) -> Result<(), Failure> {
    match result {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        result => Ok(result?),
    }
}
