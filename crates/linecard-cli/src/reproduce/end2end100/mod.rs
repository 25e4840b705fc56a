//! papers/end2end100.txt: 16 MiB chunks over one to eight lanes of 10-Gbit/s Ethernet, in virtual time.
//!
//! The transfer is the real one; lanes are made up ([`linecard_transfer::sim`]).

#[cfg(target_os = "linux")]
mod live;
mod measured;
mod published;
mod scenario;
mod tables;

use super::Reproduced;
use super::comparison::add_all;
use crate::failure::Failure;
use linecard_report::Report;
use measured::Measured;
use scenario::Scenario;
use std::path::Path;

/// Virtual time, and real lanes where they can be had. Real lanes have no figures that must be met.
#[cfg(target_os = "linux")]
pub(super) fn modelled_and_live(path: Option<&Path>) -> Result<Reproduced, Failure> {
    let mut reproduced = modelled(path)?;
    live::add(&mut reproduced.report)?;
    Ok(reproduced)
}

/// Runs the scenario, paper and ours side by side.
pub(super) fn modelled(path: Option<&Path>) -> Result<Reproduced, Failure> {
    let scenario = Scenario::read(path)?;
    let measured = Measured::run(&scenario)?;
    let mut report = Report::new("reproduce end2end100");
    let unexplained = add_all(&tables::all(&scenario, &measured), &mut report);
    measured.sections().for_each(|section| report.push(section));
    report.note(
        "Management overhead of ours: 1 - goodput / bound, where the bound is what framing leaves for \
         data, and repair, where there is any. The paper's is what is missing to a bound of its own, \
         in per cent of the lines' 10 Gbit/s each. Latency: from a chunk's first packet until the \
         sender knows that it is whole, the median.",
    );
    report.note(
        "Not in the paper, and chosen by us: 4096 bytes of data in a packet, 78 bytes beside them, \
         5 µs of delay, and the code. Fitted to it: 26 µs to begin a chunk on a lane.",
    );
    Ok(Reproduced { report, unexplained })
}
