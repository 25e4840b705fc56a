//! `linecard plan`.

use crate::account;
use crate::calibrate::Only;
use crate::failure::{EXIT_CODES, Failure};
use crate::flags::Flags;
use crate::found;
use crate::interrupt;
use crate::page::PageArguments;
use crate::progress::{ROUNDS, shown};
use clap::Args;
use linecard_app::Context;
use linecard_app::plan::{self, Options, PAYLOADS};
use std::path::PathBuf;
use std::sync::Arc;

#[derive(Debug, Args)]
#[command(after_long_help = EXIT_CODES)]
pub(crate) struct PlanArguments {
    /// Scenario file (TOML): what is asked, the machine, the stages; see scenarios/plan-*.toml.
    #[arg(required_unless_present = "verify")]
    pub(crate) scenario: Option<PathBuf>,
    #[command(flatten)]
    options: Flags<Options>,
    /// Calibrate, and measure many configurations in turn, of the offloads or of transfers over loopback:
    /// predicted and measured rates in a table. Takes minutes, in which other programs get less of the
    /// cores.
    #[arg(
        long,
        value_name = "WHAT",
        num_args = 0..=1,
        default_missing_value = "offload",
        conflicts_with_all = ["scenario", "calibration", "measure", "report"]
    )]
    verify: Option<Only>,
    /// Rounds of `--verify`, 1 to 100.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 5,
        requires = "verify",
        value_parser = clap::value_parser!(u64).range(1..=100)
    )]
    rounds: u64,
    /// Packets of `--verify transfer`: data bytes of one kind only [default: all kinds].
    #[arg(long, value_name = "BYTES", requires = "verify", value_parser = payload)]
    payload: Option<u32>,
    #[command(flatten)]
    page: PageArguments,
    /// Print the plan as JSON.
    #[arg(long)]
    json: bool,
}

/// A payload that stages are measured for.
fn payload(text: &str) -> Result<u32, String> {
    let known = PAYLOADS.into_iter().find(|payload| payload.to_string() == text);
    known.ok_or_else(|| "choose 1408, 4096 or 8896".to_owned())
}

/// Runs the command.
pub(crate) fn command(arguments: &PlanArguments) -> Result<(), Failure> {
    let &PlanArguments { ref scenario, verify, rounds, payload, json, .. } = arguments;
    interrupt::remove_incomplete_output()?;
    let Some(path) = scenario else {
        let (what, progress) = (verify.unwrap_or(Only::Offload).into(), Arc::default());
        let verify = || plan::verify(what, rounds, payload, &Context::new(&progress));
        return account::print(&shown(ROUNDS, &progress, verify)?, json, None);
    };
    let page = arguments.page.check(&[path])?;
    let options = arguments.options.document()?.config()?;
    found::show(plan::plan(path, &options)?, json, None, &page)
}
