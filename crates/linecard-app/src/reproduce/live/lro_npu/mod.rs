//! papers/lro-npu.toml on live interfaces: throughput over connections, starvation, active acknowledgment.

mod active_ack;
mod scenario;
mod session;
mod starvation;
mod throughput;

use super::{Say, section};
use crate::Error;
use linecard_report::Report;
use scenario::Scenario;
use serde_json::json;
use std::path::Path;

/// Refuses what cannot be measured.
pub(super) fn check(own: Option<&Path>) -> Result<(), Error> {
    read(own).map(drop)
}

fn read(own: Option<&Path>) -> Result<Scenario, Error> {
    Ok(section("lro-npu", own)?.config()?)
}

/// Adds real traffic where that can be had. It has no figures that must be met.
pub(super) fn add(own: Option<&Path>, say: Say<'_>, report: &mut Report) -> Result<(), Error> {
    let scenario = read(own)?;
    report.add_config(&json!({ "live": scenario }));
    if let Some(why) = session::missing() {
        say(&format!("live interfaces are left out: {why}"));
        report.note(format!("Live interfaces were left out: {why}"));
        return Ok(());
    }
    throughput::add(&scenario, say, report)?;
    starvation::add(&scenario, say, report)?;
    active_ack::add(&scenario, say, report)?;
    report.note(
        "Live: kernel TCP in two network namespaces on this machine, with linecard between a veth \
         cable and a TAP device.",
    );
    Ok(())
}
