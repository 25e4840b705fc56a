//! `linecard jitter audit`.

mod change;
mod effects;
mod table;

use crate::account;
use crate::failure::Failure;
use clap::Args;
use linecard_jitter::linux::audit::{Audit, Host, checks};
use linecard_jitter::linux::journal::Store;
use std::path::PathBuf;
use std::time::Duration;

/// Say what of this host makes packets late, and what to change.
#[derive(Debug, Args)]
pub(crate) struct AuditArguments {
    /// Change what can be changed now, verify it, and hold it until Ctrl-C, then put it back.
    #[arg(long)]
    apply: bool,
    /// Put back what `--apply --keep` has left.
    #[arg(long, conflicts_with = "apply")]
    rollback: bool,
    /// With --apply: end at once and leave the settings, until `--rollback` or a restart.
    #[arg(long, requires = "apply", conflicts_with = "seconds")]
    keep: bool,
    /// With --apply: put back after so many seconds.
    #[arg(long = "for", value_name = "SECONDS", requires = "apply", value_parser = seconds)]
    seconds: Option<Duration>,
    /// The interface that packets come by. Default: the only one that is up and has hardware.
    #[arg(long, value_name = "IF")]
    interface: Option<String>,
    /// The sink's core. Default: the first isolated one, else the last.
    #[arg(long, value_name = "N")]
    core: Option<usize>,
    /// Only these checks, by name.
    #[arg(long, value_name = "CHECK", value_delimiter = ',', value_parser = check)]
    only: Vec<String>,
    /// What toggles were measured to do: the JSON of `linecard jitter ab --json`.
    #[arg(long, value_name = "FILE")]
    effects: Option<PathBuf>,
    /// Also what is good or absent, and for each check the cause, the source and the risk.
    #[arg(long)]
    all: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Runs the command. Without `--apply` and `--rollback` there is no journal, so nothing can be changed.
pub(super) fn command(arguments: &AuditArguments, store: &Store) -> Result<(), Failure> {
    if arguments.rollback {
        return change::roll_back(store, arguments.json);
    }
    let host = Host::new(arguments.core, arguments.interface.as_deref());
    let host = host.map_err(|error| Failure::Usage(error.to_string()))?;
    let effects = effects::read(arguments.effects.as_deref())?;
    let audit = Audit::of(&host, &effects);
    if arguments.apply {
        return change::apply(audit.plan(&arguments.only), arguments, store);
    }
    let report = if arguments.json || arguments.all {
        table::whole(&host, &audit, &arguments.only)
    } else {
        table::short(&host, &audit, &arguments.only)
    };
    account::print(&report, arguments.json, None)
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| format!("{text} is no number of seconds"))?;
    // A week: longer is for --keep.
    if !(0.0..=604_800.0).contains(&seconds) {
        return Err("take 0 to 604800 seconds, or --keep".to_owned());
    }
    Ok(Duration::from_secs_f64(seconds))
}

fn check(name: &str) -> Result<String, String> {
    if checks().any(|check| check.id == name) {
        return Ok(name.to_owned());
    }
    let names: Vec<&str> = checks().map(|check| check.id).collect();
    Err(format!("there is no such check; there are {}", names.join(", ")))
}
