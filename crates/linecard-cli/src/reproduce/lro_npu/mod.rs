//! papers/lro-npu.txt on live interfaces: throughput over connections, starvation, active
//! acknowledgment.

mod active_ack;
mod scenario;
mod session;
mod starvation;
mod throughput;

use crate::failure::Failure;
use linecard::report::Report;
use std::path::Path;

/// Runs the scenario; paper and ours side by side.
pub(super) fn reproduce(path: Option<&Path>) -> Result<Report, Failure> {
    let scenario = scenario::read(path)?;
    let mut report = Report::new("reproduce");
    throughput::add(&scenario, &mut report)?;
    starvation::add(&scenario, &mut report)?;
    active_ack::add(&scenario, &mut report)?;
    report.note(
        "Real: kernel TCP in two network namespaces on this machine, with linecard between a veth cable \
         and a TAP device. The paper's network processor is not modelled here.",
    );
    Ok(report)
}
