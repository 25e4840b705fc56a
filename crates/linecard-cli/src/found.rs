//! The result of a job, as the command shows it.

use crate::account;
use crate::failure::Failure;
use crate::page::PageFile;
use linecard_app::Finished;
use std::path::Path;

/// Prints the report to stdout, or to stderr when data goes to stdout, and writes the page if one is
/// asked for. A failure leaves what was found until then.
pub(crate) fn show(
    finished: Finished,
    json: bool,
    output: Option<&Path>,
    page: &PageFile,
) -> Result<(), Failure> {
    account::print(&finished.report, json, output)?;
    page.write(|| finished.page, finished.failure.map_or(Ok(()), Err))
}
