//! papers/lro-npu.txt in a model, then on live interfaces: throughput over connections, starvation,
//! active acknowledgment.

mod active_ack;
mod model;
mod scenario;
mod session;
mod starvation;
mod throughput;

use crate::failure::Failure;
use crate::say;
use linecard::report::Report;
use std::path::Path;

/// Runs the scenario; paper and ours side by side. The model needs no rights; live interfaces are left
/// out if that is asked for, or this host cannot have them.
pub(super) fn reproduce(path: Option<&Path>, modelled: bool) -> Result<Report, Failure> {
    let scenario = scenario::read(path)?;
    let mut report = Report::new("reproduce");
    model::add(&scenario.model, &mut report)?;
    let missing = if modelled { None } else { session::missing() };
    if let Some(why) = &missing {
        say(&format!("live interfaces are left out: {why}"));
        report.note(format!("Live interfaces were left out: {why}"));
    }
    if !modelled && missing.is_none() {
        throughput::add(&scenario, &mut report)?;
        starvation::add(&scenario, &mut report)?;
        active_ack::add(&scenario, &mut report)?;
        report.note(
            "Live: kernel TCP in two network namespaces on this machine, with linecard between a veth \
             cable and a TAP device.",
        );
    }
    Ok(report)
}
