//! papers/lro-npu.toml on live interfaces: throughput over connections, starvation, active acknowledgment.

mod active_ack;
mod scenario;
mod session;
mod starvation;
mod throughput;

use super::{Say, section};
use crate::Error;
use linecard_report::{Item, Outcome, Report, Value, report_of};
use scenario::Scenario;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;
use std::path::Path;

/// Measurements on live interfaces.
#[derive(Serialize, JsonSchema)]
struct Live {
    /// Figure 13: TCP received over connections, merged and as packets come
    throughput: Vec<Item<throughput::Point>>,
    /// Figure 13, paper and ours
    throughput_verdict: Vec<Item<String>>,
    starvation: Vec<Item<starvation::Seen>>,
    active_ack: Vec<Item<active_ack::Seen>>,
    #[serde(skip)]
    scenario: Scenario,
}

impl Outcome for Live {
    fn title(&self, section: &str) -> Option<String> {
        let Scenario { starvation, active_ack, .. } = &self.scenario;
        Some(match section {
            "starvation" => format!(
                "Section V.B: new connections beside {} flows that the output cannot keep up with",
                starvation.flows
            ),
            "active_ack" => format!(
                "Section V.C: transfers of {} on new connections, merged up to 64 KiB or for {}",
                Value::Bytes(active_ack.block.get()),
                active_ack.hold
            ),
            _ => return None,
        })
    }

    fn item(&self, section: &str, index: usize) -> Option<String> {
        Some(match section {
            "throughput" => self.throughput.get(index)?.value.text(),
            "starvation" => self.starvation.get(index)?.value.text(),
            "active_ack" => self.active_ack.get(index)?.value.text(),
            _ => return None,
        })
    }
}

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
    let points = throughput::measure(&scenario, say)?;
    let live = Live {
        throughput_verdict: throughput::compare(&points),
        throughput: points,
        starvation: starvation::measure(&scenario, say)?,
        active_ack: active_ack::measure(&scenario, say)?,
        scenario,
    };
    report_of(report.job(), &live)
        .sections()
        .iter()
        .for_each(|section| report.push(section.clone()));
    report.note(
        "Live: kernel TCP in two network namespaces on this machine, with linecard between a veth \
         cable and a TAP device.",
    );
    Ok(())
}
