//! `linecard plan`: from what is asked to what runs where.

mod lanes;
mod measured;
mod report;
mod scenario;
mod settings;
mod transfers;

use crate::account;
use crate::calibrate::Only;
use crate::calibrate::lines::PAYLOADS;
use crate::failure::{EXIT_CODES, Failure};
use crate::found;
use crate::page::PageArguments;
use clap::Args;
use linecard::plan;
use linecard_app::Finished;
use std::path::{Path, PathBuf};

#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct PlanArguments {
    /// Scenario file (TOML): what is asked, the machine, the stages; see scenarios/plan-*.toml.
    #[arg(required_unless_present = "verify")]
    pub(crate) scenario: Option<PathBuf>,
    /// Costs measured by `linecard calibrate`, for stages that have none in the scenario
    /// [default: where that command keeps them].
    #[arg(long, value_name = "FILE")]
    calibration: Option<PathBuf>,
    /// Run the stages on the engine too, on as many cores as planned, and put what they do beside what
    /// was predicted. Stages of the offloads only.
    #[arg(long)]
    measure: bool,
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
    let Some(path) = &arguments.scenario else {
        let report = match arguments.verify {
            Some(Only::Transfer) => transfers::verify(arguments.rounds, arguments.payload)?,
            _ => measured::verify(arguments.rounds)?,
        };
        return account::print(&report, arguments.json, None);
    };
    let page = arguments.page.check(&[path])?;
    found::show(find(arguments, path)?, arguments.json, None, &page)
}

/// Plans what a scenario asks for.
pub(crate) fn find(arguments: &PlanArguments, path: &Path) -> Result<Finished, Failure> {
    let asked = settings::read(path, arguments.calibration.as_deref())?;
    let question = &asked.question;
    let answer = plan::plan(question).map_err(|error| asked.refuse(&error))?;
    let mut text = report::asked(&asked);
    match &answer {
        Ok(plan) => report::add_plan(&mut text, question, plan),
        Err(why) => report::add_infeasible(&mut text, question, why),
    }
    if arguments.measure {
        measured::add(&mut text, &asked, answer.as_ref().ok())?;
    }
    let page = report::page(&text, question);
    let failure = answer.err().map(|why| Failure::Infeasible(why.text));
    Ok(Finished { page, failure, ..Finished::of_report("", text) })
}
