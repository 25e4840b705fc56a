//! `linecard run`.

pub(crate) mod lanes;

use crate::args::RunArguments;
use crate::failure::Failure;
use crate::found;
use lanes::Lanes;
use linecard::watch::Watch;
use linecard_app::model::transfer::{self, TransferModel};
use linecard_app::run::MemoryRun;
use linecard_app::{Finished, finish};
use linecard_config::Document;
use std::sync::Arc;

/// Runs the command.
pub(crate) fn command(arguments: &RunArguments) -> Result<(), Failure> {
    let scenario: Vec<_> = arguments.scenario.iter().map(AsRef::as_ref).collect();
    let page = arguments.page.check(&scenario)?;
    found::show(find(arguments, &Arc::default())?, arguments.json, None, &page)
}

/// Runs the job, over lanes in memory or in virtual time.
pub(crate) fn find(arguments: &RunArguments, progress: &Arc<Watch>) -> Result<Finished, Failure> {
    let lanes = Lanes::of(&arguments.lanes)?;
    let mut document = match &arguments.scenario {
        Some(path) => Document::read(path)?,
        None => Document::of_text("", "")?,
    };
    let count = |document: &mut Document| match lanes.count {
        Some(count) => document.set_by("lanes", "lanes.count", &count.to_string()),
        None => Ok(()),
    };
    if lanes.are_simulated {
        let other = arguments.flags.set_shared::<transfer::Config>(&mut document)?;
        let other = other.map(|option| format!("--{option}"));
        let scenario = arguments.scenario.as_ref().map(|_| "a scenario".to_owned());
        if let Some(other) = scenario.or(other) {
            let what = format!("{other} is for lanes in memory: leave it away with --lanes sim");
            return Err(Failure::Usage(what));
        }
        arguments.sim.set(&mut document)?;
        count(&mut document)?;
        return finish::<TransferModel>("run", &document, progress);
    }
    if let Some(option) = arguments.sim.first() {
        let what = format!("--{option} is for lanes in virtual time: add --lanes sim");
        return Err(Failure::Usage(what));
    }
    arguments.flags.set(&mut document)?;
    count(&mut document)?;
    finish::<MemoryRun>("run", &document, progress)
}
