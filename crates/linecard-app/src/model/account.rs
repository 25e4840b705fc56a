//! Common parts of outcomes of models.

use super::error::ModelError;
use crate::Error;
use linecard_report::{Axis, Ledger, Outcome, Page, Unit, Value, report_of};
use schemars::JsonSchema;
use serde::Serialize;

/// From this share of the time on, a resource is said to limit.
const LIMITS_FROM: f64 = 0.9;

/// Input of a model: it went out, was dropped, or is held at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Conserved {
    /// packets, in
    #[serde(rename = "in")]
    pub came: u64,
    /// packets, out
    #[serde(rename = "out")]
    pub went: u64,
    /// packets, dropped
    pub dropped: u64,
    /// packets, held at the end
    pub held: u64,
}

impl Conserved {
    /// Refuses an outcome in which things were lost without being counted.
    pub(super) fn check(self, is_intact: bool) -> Result<(), Error> {
        let Self { came, went, dropped, held } = self;
        if came == went + dropped + held && is_intact {
            return Ok(());
        }
        Err(ModelError::Lost(self).into())
    }

    /// Labels where packets are frames, in the section `account`.
    pub(super) fn frames(section: &str, key: &str) -> Option<String> {
        let label = match key {
            _ if section != "account" => return None,
            "in" | "out" | "dropped" => format!("frames, {key}"),
            "held" => "frames, held at the end".to_owned(),
            _ => return None,
        };
        Some(label)
    }
}

/// The resource that limits, among shares of the time for which each was busy.
pub(super) fn limit(shares: &[(&str, f64)]) -> String {
    match shares.iter().max_by(|a, b| a.1.total_cmp(&b.1)) {
        Some((name, share)) if *share >= LIMITS_FROM => (*name).to_owned(),
        Some((name, _)) => format!("no single resource; busiest: {name}"),
        None => "nothing".to_owned(),
    }
}

/// A ratio, or 0 where there is nothing to divide by.
pub(super) fn ratio(of: f64, to: f64) -> f64 {
    if to > 0.0 { of / to } else { 0.0 }
}

/// A choice as scenarios name it.
pub(super) fn word(choice: impl Serialize) -> String {
    match serde_json::to_value(choice) {
        Ok(serde_json::Value::String(word)) => word,
        _ => String::new(),
    }
}

/// Draws the shares of the section `busy`, with the resource that limits in the title.
pub(super) fn draw_busy(outcome: &impl Outcome, limit: &str, page: &mut Page) {
    let title = format!("How busy each resource is; bottleneck: {limit}");
    let mut busy = Ledger::new("busy", title, Axis::new("share of the time", Unit::Share));
    busy.whole(1.0);
    page.headline(format!("Bottleneck: {limit}."));
    draw_section(outcome, busy, page);
}

/// Draws the numbers of the section that has the chart's key, as bars.
pub(super) fn draw_section(outcome: &impl Outcome, mut chart: Ledger, page: &mut Page) {
    let report = report_of("", outcome);
    let section = report.sections().iter().find(|section| section.key() == chart.key());
    for row in section.into_iter().flat_map(|section| section.rows()) {
        match row.value() {
            Value::Count(value) => chart.cause(row.label(), *value as f64, *value),
            Value::Number(value) | Value::Share(value) => chart.cause(row.label(), *value, None),
            _ => continue,
        };
    }
    page.chart(chart);
}
