//! Section V.C: merging waits for more than the sender may have outstanding.

use super::run_all;
use super::scenario::Settings;
use crate::failure::Failure;
use crate::reproduce::comparison::{Comparison, Row};
use linecard_config::{Duration, Maybe};
use linecard_model::npu::{ActiveAck, Config, Outcome, Run};
use linecard_report::{Report, Section, Value};

/// How long a transfer has: many timers of the sender.
const PATIENCE: Duration = Duration::from_secs(5);
/// What a flow that pauses is held for where the unit's timer is to be out of the way.
const NO_TIMER_NS: u64 = 4_000_000_000;

impl Settings {
    /// One transfer that merging holds back.
    pub(super) fn held_back(&self, active_ack: ActiveAck) -> Config {
        let wanted = &self.active_ack;
        let mut scenario = self.base();
        scenario.npu.active_ack = active_ack;
        scenario.npu.max_bytes = wanted.max_bytes;
        scenario.npu.idle_floor_ns = NO_TIMER_NS;
        scenario.client.connections = 1;
        scenario.client.bytes = Maybe::from(wanted.bytes);
        scenario.client.send_window = wanted.outstanding;
        let run = Run { warm_up: Duration::ZERO, duration: PATIENCE, ..scenario.run };
        Config { run, ..scenario }
    }

    /// The same with the published timer, and a receiver that reads slowly.
    pub(super) fn slow(&self, active_ack: ActiveAck) -> Config {
        let mut scenario = self.published(active_ack);
        scenario.host.receive_buffer = self.active_ack.slow_buffer;
        scenario.host.read_rate = Maybe::from(self.active_ack.slow_rate);
        scenario.client.send_window = self.base().client.send_window;
        scenario
    }

    fn published(&self, active_ack: ActiveAck) -> Config {
        let mut scenario = self.held_back(active_ack);
        scenario.npu.idle_floor_ns = self.base().npu.idle_floor_ns;
        scenario
    }
}

pub(super) fn add(settings: &Settings, report: &mut Report) -> Result<Comparison, Failure> {
    let (off, paper, honest) = (ActiveAck::Off, ActiveAck::Paper, ActiveAck::Honest);
    let questions = [
        ("no active ACK, no timer", settings.held_back(off)),
        ("no active ACK, timer of ten intervals (IV.E)", settings.published(off)),
        ("active ACK, window 0xFFFF", settings.held_back(paper)),
        ("active ACK, window of the receiver", settings.held_back(honest)),
        ("slow receiver, window 0xFFFF", settings.slow(paper)),
        ("slow receiver, window of the receiver", settings.slow(honest)),
    ];
    let outcomes = run_all(&questions.each_ref().map(|(_, scenario)| scenario.clone()))?;
    let title = format!(
        "Section V.C in the model: {} sent, {} outstanding at most, merged up to {}",
        Value::Bytes(settings.active_ack.bytes),
        Value::Bytes(settings.active_ack.outstanding.into()),
        Value::Bytes(settings.active_ack.max_bytes as u64)
    );
    let mut section = Section::list("model_active_ack", title);
    for ((name, _), outcome) in questions.iter().zip(&outcomes) {
        section.add("", *name, value(outcome));
    }
    report.push(section);
    Ok(compare(&outcomes))
}

fn value(outcome: &Outcome) -> Value {
    let done = outcome.client.finished_at.map(|at| at.as_ns() as f64 / 1e6);
    let end = done.map_or_else(|| "not done in 5 s".to_owned(), |ms| format!("done in {ms:.1} ms"));
    let text = format!(
        "{end}: {} of {} bytes accepted, {} timeouts, {} sent again, {} discarded as duplicates, {} \
         bytes overran the receiver",
        outcome.host.accepted,
        outcome.sent.bytes,
        outcome.client.timeouts,
        outcome.client.retransmitted,
        outcome.duplicates,
        outcome.host.overrun
    );
    let fields = vec![
        ("done", Value::Flag(done.is_some())),
        ("milliseconds", Value::Number(done.unwrap_or(PATIENCE.as_ns() as f64 / 1e6))),
        ("accepted_bytes", Value::Bytes(outcome.host.accepted)),
        ("timeouts", Value::Count(outcome.client.timeouts)),
        ("retransmitted", Value::Count(outcome.client.retransmitted)),
        ("duplicates", Value::Count(outcome.duplicates)),
        ("overrun_bytes", Value::Bytes(outcome.host.overrun)),
    ];
    Value::Fields(text, fields)
}

fn compare(outcomes: &[Outcome]) -> Comparison {
    let mut table = Comparison::new("model_section_v_c", "Section V.C, paper and model");
    let [stalled, timer, paper, honest, overrun, slow] = outcomes else { return table };
    let client = &stalled.client;
    let text = format!("{} timeouts, {} bytes get through", client.timeouts, stalled.host.accepted);
    let holds = client.timeouts > 0 && client.finished == 0;
    table.add(Row::shape("no active ACK", "unpracticable", text, holds));
    let text = format!("{} of {} discarded", stalled.duplicates, client.retransmitted);
    let holds = stalled.duplicates == client.retransmitted && stalled.duplicates > 0;
    table.add(Row::shape("retransmitted packets", "considered as redundant", text, holds));
    let text = format!("{} timeouts", timer.client.timeouts);
    let row = Row::shape(
        "the same, with the timer of IV.E",
        "unpracticable",
        text,
        timer.client.timeouts > 0,
    );
    table.add(row.because_measured(
        "ten average intervals pass long before the sender's timer fires, so that each window waits for \
         them only",
        (timer.client.timeouts as f64, "timeouts"),
        0.0..=0.0,
    ));
    let text = format!("{} timeouts", paper.client.timeouts + honest.client.timeouts);
    let holds = [paper, honest].iter().all(|one| one.client.finished == 1 && one.duplicates == 0);
    table.add(Row::shape("active ACK", "solves it", text, holds));
    let text =
        format!("{} bytes lost, {} with an honest one", overrun.host.overrun, slow.host.overrun);
    let row = Row::shape("window 0xFFFF", "transmits data faster", text, overrun.host.overrun == 0);
    // An honest window loses nothing: then it is the window, and nothing else, that loses.
    table.add(row.because_measured(
        "a receiver with less room loses what was acknowledged for it",
        (slow.host.overrun as f64, "bytes lost with an honest one"),
        0.0..=0.0,
    ));
    table
}
