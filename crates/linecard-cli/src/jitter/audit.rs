//! `linecard jitter audit`.

use crate::account;
use crate::flags::Flags;
use crate::page::{PageArguments, PageFile};
use crate::say;
use clap::Args;
use linecard_app::Error;
use linecard_app::jitter::audit::{self, Teller};
use linecard_report::Report;

/// Say what of this host makes packets late, and what to change.
#[derive(Debug, Args)]
pub(crate) struct AuditArguments {
    #[command(flatten)]
    flags: Flags<audit::Config>,
    #[command(flatten)]
    page: PageArguments,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(super) fn command(AuditArguments { flags, page, json }: &AuditArguments) -> Result<(), Error> {
    let page = page.check(&[])?;
    flags.until_signal(|config, context| {
        audit::run(config, *json, context, &mut Terminal { is_json: *json, page: &page })
    })
}

struct Terminal<'a> {
    is_json: bool,
    page: &'a PageFile,
}

impl Teller for Terminal<'_> {
    fn show(&mut self, report: &Report) -> Result<(), Error> {
        let shown = account::print(report, self.is_json, None);
        self.page.write(|| super::lab::of_report("Settings of this host", report), shown)
    }

    fn say(&mut self, line: &str) {
        say(line);
    }
}
