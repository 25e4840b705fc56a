//! `linecard run`.

pub(crate) mod lanes;

use crate::account;
use crate::args::RunArguments;
use crate::interrupt;
use lanes::Lanes;
use linecard_app::model::transfer::{self, TransferModel};
use linecard_app::run::MemoryRun;
use linecard_app::{Error, Failure};
use linecard_app::{Finished, finish};
use linecard_config::Document;

/// Runs the job, over lanes in memory or in virtual time.
pub(crate) fn command(arguments: &RunArguments) -> Result<(), Error> {
    let scenario: Vec<_> = arguments.scenario.iter().map(AsRef::as_ref).collect();
    let page = arguments.page.check(&scenario)?;
    let lanes = Lanes::of(&arguments.lanes)?;
    interrupt::remove_incomplete_output()?;
    let finished = match lanes.are_simulated {
        true => simulated(arguments, &lanes)?,
        false => in_memory(arguments, &lanes)?,
    };
    account::show(finished, arguments.json, None, &page)
}

fn in_memory(arguments: &RunArguments, lanes: &Lanes) -> Result<Finished, Error> {
    if let Some(option) = arguments.sim.first() {
        let what = format!("--{option} is for lanes in virtual time: add --lanes sim");
        return Err(Failure::Usage.with(what));
    }
    let scenario = arguments.scenario.as_deref().map(Document::read);
    let mut document = scenario.transpose()?.unwrap_or_default();
    arguments.flags.set(&mut document)?;
    lanes.set(&mut document)?;
    finish::<MemoryRun>("run", &document, &Default::default())
}

fn simulated(arguments: &RunArguments, lanes: &Lanes) -> Result<Finished, Error> {
    let mut document = Document::default();
    let other = arguments.flags.set_shared::<transfer::Config>(&mut document)?;
    let other = other.map(|option| format!("--{option}"));
    if let Some(other) = arguments.scenario.as_ref().map(|_| "a scenario".to_owned()).or(other) {
        let what = format!("{other} is for lanes in memory: leave it out with --lanes sim");
        return Err(Failure::Usage.with(what));
    }
    arguments.sim.set(&mut document)?;
    lanes.set(&mut document)?;
    finish::<TransferModel>("run", &document, &Default::default())
}
