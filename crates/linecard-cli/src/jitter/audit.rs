//! `linecard jitter audit`.

use crate::account;
use crate::flags::Flags;
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
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(super) fn command(AuditArguments { flags, json }: &AuditArguments) -> Result<(), Error> {
    flags.until_signal(|config, context| {
        audit::run(config, *json, context, &mut Terminal { is_json: *json })
    })
}

struct Terminal {
    is_json: bool,
}

impl Teller for Terminal {
    fn show(&mut self, report: &Report) -> Result<(), Error> {
        account::print(report, self.is_json, None)
    }

    fn say(&mut self, line: &str) {
        say(line);
    }
}
