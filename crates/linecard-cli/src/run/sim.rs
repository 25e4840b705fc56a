//! `linecard run --lanes sim`: a transfer in virtual time ([`linecard_app::model::transfer`]).

use crate::args::RunArguments;
use crate::failure::Failure;
use crate::flags::Flags;
use crate::watch;
use linecard_app::Finished;
use linecard_app::finish;
use linecard_app::model::transfer::{Config, TransferModel};

/// The options of lanes in virtual time; without further ones they are those of a published experiment, 8 lanes of
/// 10-Gbit/s Ethernet (see `linecard reproduce end2end100`).
pub(crate) type SimFlags = Flags<Config>;

/// Transfers, and says how long that took.
pub(super) fn find(arguments: &RunArguments, lanes: Option<u64>) -> Result<Finished, Failure> {
    let other = [
        ("a scenario", arguments.scenario.is_some()),
        ("--flows", arguments.flows.is_some()),
        ("--mtu", arguments.mtu.is_some()),
        ("--size", arguments.size.is_some()),
        ("--seconds", arguments.seconds.is_some()),
    ];
    if let Some((option, _)) = other.iter().find(|(_, is_given)| *is_given) {
        let what = format!("{option} is for lanes in memory: leave it away with --lanes sim");
        return Err(Failure::Usage(what));
    }
    let mut document = arguments.sim.document()?;
    for (option, parameter, value) in [
        ("lanes", "lanes.count", lanes.map(|count| count.to_string())),
        ("loss", "lanes.loss", arguments.loss.map(|share| share.to_string())),
        ("reorder", "lanes.reorder", arguments.reorder.map(|share| share.to_string())),
        ("seed", "run.seed", arguments.seed.map(|seed| seed.to_string())),
    ] {
        if let Some(value) = value {
            document.set_by(option, parameter, &value)?;
        }
    }
    Ok(finish::<TransferModel>("run", &document, &watch::any())?)
}

/// Refuses options that lanes in memory do not have.
pub(super) fn refuse(flags: &SimFlags) -> Result<(), Failure> {
    let refused = |option| format!("--{option} is for lanes in virtual time: add --lanes sim");
    flags.first().map_or(Ok(()), |option| Err(Failure::Usage(refused(option))))
}
