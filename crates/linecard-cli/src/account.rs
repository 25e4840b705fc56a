//! Results, reports and texts on the standard output.

use crate::page::PageFile;
use linecard_app::Error;
use linecard_app::Finished;
use linecard_report::Report;
use serde::Serialize;
use std::io::Write;
use std::path::Path;

/// Prints the report to stdout, or to stderr when data goes to stdout, and writes the page if
/// requested. A failure leaves what was found until then.
pub(crate) fn show(
    finished: Finished,
    json: bool,
    output: Option<&Path>,
    page: &PageFile,
) -> Result<(), Error> {
    print(&finished.report, json, output)?;
    page.write(|| finished.page, finished.failure.map_or(Ok(()), Err))
}

/// Prints a report to stdout, or to stderr when data goes to stdout.
pub(crate) fn print(report: &Report, json: bool, output: Option<&Path>) -> Result<(), Error> {
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
pub(crate) fn print_json(value: &impl Serialize) -> Result<(), Error> {
    unless_seen_enough(std::io::stdout().write_all(pretty(value)?.as_bytes()))
}

/// Prints a value as a line of JSON to stdout.
pub(crate) fn print_line(value: &impl Serialize) -> Result<(), Error> {
    print_text(&(serde_json::to_string(value).map_err(std::io::Error::from)? + "\n"))
}

/// Prints a value as a line of JSON to stderr. Where that is closed, nobody wants to know.
pub(crate) fn say_line(value: &impl Serialize) {
    if let Ok(line) = serde_json::to_string(value) {
        let _closed = std::io::stderr().write_all((line + "\n").as_bytes());
    }
}

/// Prints text to stdout.
pub(crate) fn print_text(text: &str) -> Result<(), Error> {
    unless_seen_enough(std::io::stdout().write_all(text.as_bytes()))
}

fn pretty(value: &impl Serialize) -> Result<String, Error> {
    Ok(serde_json::to_string_pretty(value).map_err(std::io::Error::from)? + "\n")
}

/// A reader that has seen enough is not an error, and hides none that is still to be reported.
fn unless_seen_enough(result: std::io::Result<()>) -> Result<(), Error> {
    match result {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        result => Ok(result?),
    }
}
