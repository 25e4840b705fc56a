//! The processor in virtual time: what the paper measured, asked of `linecard_model::npu`.

mod active_ack;
mod figure_13;
mod scenario;
mod starvation;

pub(super) use scenario::Settings;

use super::super::comparison::add_all;
use crate::failure::Failure;
use linecard_model::npu::{Config, Outcome, run};
use linecard_report::Report;
use std::thread;

/// Runs all of it, and adds what came out.
pub(super) fn add(settings: &Settings, report: &mut Report) -> Result<usize, Failure> {
    let tables = [
        figure_13::add(settings, report)?,
        starvation::add(settings, report)?,
        active_ack::add(settings, report)?,
    ];
    let unexplained = add_all(&tables, report);
    report.note(
        "Model: every packet has real bytes, and what sorts, merges and acknowledges is what does so \
         live. Calibrated: 32.0 µs of a receive thread for a packet. The paper gives no other times; \
         those in the scenario are ours, and so is where the curves with and without LRO cross.",
    );
    Ok(unexplained)
}

/// Runs scenarios, as many at a time as there are processors; outcomes in their order.
fn run_all(scenarios: &[Config]) -> Result<Vec<Outcome>, Failure> {
    let workers = thread::available_parallelism().map_or(1, usize::from);
    let share = scenarios.len().div_ceil(workers).max(1);
    let outcomes = thread::scope(|scope| {
        let start = |part| scope.spawn(move || part_of(part));
        let started: Vec<_> = scenarios.chunks(share).map(start).collect();
        let join = |worker: thread::ScopedJoinHandle<'_, _>| {
            worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        started.into_iter().map(join).collect::<Result<Vec<Vec<Outcome>>, Failure>>()
    })?;
    Ok(outcomes.into_iter().flatten().collect())
}

fn part_of(scenarios: &[Config]) -> Result<Vec<Outcome>, Failure> {
    let one = |scenario| {
        let outcome = run(scenario).map_err(|error| Failure::Usage(error.to_string()))?;
        if outcome.is_conserved() {
            return Ok(outcome);
        }
        Err(Failure::Wrong(format!(
            "model: {} packets of {} bytes were sent with seed {}, and not all are accounted for",
            outcome.sent.packets, outcome.sent.bytes, scenario.run.seed
        )))
    };
    scenarios.iter().map(one).collect()
}
