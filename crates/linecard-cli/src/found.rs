//! What a job has found and how it ends: the command line prints it, other faces take it as it is.

use crate::account;
use crate::failure::Failure;
use crate::page::{self, PageFile};
use linecard_report::{Page, Report};
use std::path::Path;

/// What a job has found.
#[derive(Debug)]
pub(crate) struct Found {
    /// All figures.
    pub(crate) report: Report,
    /// The same for a browser, with charts where there are any.
    pub(crate) page: Page,
    /// A failure leaves what was found until then.
    pub(crate) ending: Result<(), Failure>,
}

impl Found {
    /// A report, which is its whole page.
    pub(crate) fn new(title: impl Into<String>, report: Report) -> Self {
        let page = page::of(title, &report);
        Self { report, page, ending: Ok(()) }
    }

    /// Prints the report to stdout, or to stderr when data goes to stdout, and writes the page if one is
    /// asked for.
    pub(crate) fn show(
        self,
        json: bool,
        output: Option<&Path>,
        page: &PageFile,
    ) -> Result<(), Failure> {
        account::print(&self.report, json, output)?;
        page.write(|| self.page, self.ending)
    }
}
