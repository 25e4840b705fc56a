//! papers/lro-npu.txt in a model, then on live interfaces: throughput over connections, starvation,
//! active acknowledgment.

mod active_ack;
mod model;
mod scenario;
mod session;
mod starvation;
mod throughput;

use super::Reproduced;
use crate::failure::Failure;
use crate::say;
use linecard_report::Report;
use scenario::Scenario;
use std::path::Path;

/// Runs the scenario in the model, which needs no rights; paper and ours side by side.
pub(super) fn modelled(path: Option<&Path>) -> Result<Reproduced, Failure> {
    in_model(&scenario::read(path)?)
}

/// The model, and real traffic where that can be had. Real traffic has no figures that must be met.
pub(super) fn modelled_and_live(path: Option<&Path>) -> Result<Reproduced, Failure> {
    let scenario = scenario::read(path)?;
    let Reproduced { mut report, unexplained } = in_model(&scenario)?;
    if let Some(why) = session::missing() {
        say(&format!("live interfaces are left out: {why}"));
        report.note(format!("Live interfaces were left out: {why}"));
        return Ok(Reproduced { report, unexplained });
    }
    throughput::add(&scenario, &mut report)?;
    starvation::add(&scenario, &mut report)?;
    active_ack::add(&scenario, &mut report)?;
    report.note(
        "Live: kernel TCP in two network namespaces on this machine, with linecard between a veth \
         cable and a TAP device.",
    );
    Ok(Reproduced { report, unexplained })
}

fn in_model(scenario: &Scenario) -> Result<Reproduced, Failure> {
    let mut report = Report::new("reproduce lro-npu");
    let unexplained = model::add(&scenario.model, &mut report)?;
    Ok(Reproduced { report, unexplained })
}
