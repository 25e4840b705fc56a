//! `linecard plan`.

use crate::account;
use crate::codes::all_exit_codes;
use crate::flags::Flags;
use crate::interrupt;
use crate::page::PageArguments;
use crate::progress::{ROUNDS, shown};
use clap::Args;
use linecard_app::plan::{self, Planning, Verify, VerifyConfig};
use linecard_app::{Error, Failure};
use linecard_app::{Job, finish};
use linecard_config::Document;
use std::path::PathBuf;
use std::sync::Arc;

#[derive(Debug, Args)]
#[command(after_long_help = all_exit_codes())]
pub(crate) struct PlanArguments {
    /// Scenario file (TOML): the demand, the machine, the stages; see scenarios/plan-*.toml.
    #[arg(required_unless_present = "verify", conflicts_with = "verify")]
    pub(crate) scenario: Option<PathBuf>,
    /// Set a value of the scenario, as `demand.goodput=10G`; may be repeated.
    #[arg(long = "set", value_name = "KEY=VALUE", conflicts_with = "verify")]
    sets: Vec<String>,
    #[command(flatten)]
    options: Flags<plan::Config>,
    #[command(flatten)]
    verify: Flags<VerifyConfig>,
    #[command(flatten)]
    page: PageArguments,
    /// Print the plan as JSON.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) fn command(arguments: &PlanArguments) -> Result<(), Error> {
    let PlanArguments { scenario, sets, options, verify, page, json } = arguments;
    interrupt::remove_incomplete_output()?;
    let page = page.check(&scenario.iter().map(PathBuf::as_path).collect::<Vec<_>>())?;
    let progress = Arc::default();
    let other = if scenario.is_some() { verify.first() } else { options.first() };
    if let Some(option) = other {
        let so = if scenario.is_some() { "without a scenario" } else { "with a scenario" };
        return Err(Failure::Usage.with(format!("--{option}: {so} only: leave it out")));
    }
    let finished = match scenario {
        Some(path) => {
            let mut document = Document::read(path)?;
            sets.iter().try_for_each(|set| document.set(set))?;
            options.set(&mut document)?;
            finish::<Planning>(Planning::NAME, &document, &progress)?
        }
        None => {
            let name = match verify.value("verify") {
                Some("transfer") => "plan verify transfer",
                _ => Verify::NAME,
            };
            let document = verify.document()?;
            shown(ROUNDS, &progress, || finish::<Verify>(name, &document, &progress))?
        }
    };
    account::show(finished, *json, None, &page)
}
