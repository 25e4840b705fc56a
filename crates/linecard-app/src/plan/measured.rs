//! Plans compared with the engine: the same stages on real cores, predicted and measured side by side.

use super::error::PlanningError;
use super::input::Query;
use super::outcome::{Compared, KEPT, NEAR, Observed, Offer, PlanOutcome, Verified};
use crate::calibrate::{self, disturbed, thread, undisturbed};
use crate::{Context, Error, Failure};
use linecard_io::calibrate::deployed::{self, Deployment, Stages, run};
use linecard_io::calibrate::offload::{PACKETS, group, payload};
use linecard_io::calibrate::{Calibration, Identity, Survey, measure_halves, median, predict};
use linecard_plan::{Plan, PlanInput, StageSpec};
use linecard_report::{BitRate, Item, Share};
use std::thread::sleep;
use std::time::Duration;

/// Runs of a deployment; what counts is their median.
const RUNS: usize = 5;
/// How long a run counts packets.
const TIME: Duration = Duration::from_millis(20);
/// Between runs, as no other thread has the cores during one.
const PAUSE: Duration = Duration::from_millis(10);
/// Batches of the table.
const BATCHES: [u32; 3] = [1, 8, 64];
/// Visits of a round.
const VISIT: Duration = Duration::from_millis(4);
/// Shares of the predicted rate at which packets are offered: what should fit, and what should not.
const OFFERED: [f64; 2] = [0.7, 1.3];

/// Stages of the engine, by name.
pub(super) const KNOWN: [(Stages, &[&str]); 3] = [
    (Stages::Segment, &["application", "segment", "discard"]),
    (Stages::Coalesce, &["replay", "coalesce", "release"]),
    (Stages::Both, &["application", "segment", "wire", "take", "coalesce", "verify"]),
];

/// Runs a scenario's stages and puts what was seen beside what was predicted.
pub(super) fn add(
    outcome: &mut PlanOutcome,
    query: &Query,
    plan: Option<&Plan>,
) -> Result<(), Error> {
    let deployment = deployment(query, plan)?;
    let demand = &query.input.demand;
    let offered = demand.packets_per_second();
    let (saturated, alone) = seen(&deployment)?;
    let (kept, _) = seen(&Deployment { offered: Some(offered), ..deployment })?;
    let goodput = saturated * 8.0 * demand.payload;
    let predicted = plan.map(|plan| plan.most_goodput_bits_per_second);
    let share = kept / offered;
    outcome.measured = Some(Observed {
        cores: deployment.used_cores,
        predicted: predicted.map(BitRate),
        most_goodput: predicted.map(|_| BitRate(goodput)),
        difference: predicted.map(|predicted| Share(goodput / predicted - 1.0)),
        offered: offered as u64,
        achieved: kept as u64,
        achieved_share: Share(share),
        misses: share < KEPT,
    });
    outcome.notes.extend(disturbed(alone));
    Ok(())
}

/// The deployment that a scenario's stages stand for, on as many cores as are planned.
fn deployment(query: &Query, plan: Option<&Plan>) -> Result<Deployment, Error> {
    let PlanInput { stages, machine, .. } = &query.input;
    let names: Vec<&str> = stages.iter().map(|stage| stage.name.as_str()).collect();
    let Some((known, _)) = KNOWN.iter().find(|(_, known)| *known == names) else {
        return Err(PlanningError::OtherStages.into());
    };
    if !PACKETS.contains(&query.packet) {
        return Err(PlanningError::Packet { bytes: query.packet }.into());
    }
    check_groups(query)?;
    let there = Identity::of_this_host().cores.min(2);
    let used_cores = plan.map_or(machine.cores.min(there), |plan| plan.cores.len());
    if used_cores > there {
        return Err(PlanningError::Cores { planned: used_cores, available: there }.into());
    }
    if let (Stages::Both, 2, Some(plan)) = (known, used_cores, plan) {
        let core = |stage: usize| plan.stages[stage].cores.as_slice();
        let halves = [&[0, 1, 2][..], &[3, 4, 5]].iter().all(|half| {
            half.iter().all(|stage| core(*stage) == core(half[0]) && core(*stage).len() == 1)
        });
        if !halves {
            return Err(PlanningError::Halves.into());
        }
    }
    let of_packets = |stage: &&StageSpec| stage.name == "segment" || stage.name == "coalesce";
    let batch = stages.iter().filter(of_packets).map(|stage| stage.batch[1]).min();
    Ok(Deployment {
        stages: *known,
        packet: query.packet,
        batch: batch.unwrap_or(64).min(64),
        cores: [0, 1],
        used_cores,
        offered: None,
        time: TIME,
    })
}

/// Rates of the scenario have to be those of the engine.
fn check_groups(query: &Query) -> Result<(), Error> {
    let (input, size) = (&query.input, group(query.packet));
    for (number, stage) in input.stages.iter().enumerate() {
        let is_group = ["application", "release", "verify"].contains(&stage.name.as_str());
        let expected = if is_group { 1.0 / f64::from(size) } else { 1.0 };
        let firings = input.firings(number) / input.demand.on_wire();
        let firings = if stage.on_wire { firings } else { input.firings(number) };
        if (firings / expected - 1.0).abs() > 1e-6 {
            let (stage, packet) = (stage.name.clone(), query.packet);
            return Err(
                PlanningError::Firings { stage, firings, expected, group: size, packet }.into()
            );
        }
    }
    Ok(())
}

/// Median of some runs.
fn seen(deployment: &Deployment) -> Result<(f64, Result<(), String>), Error> {
    let mut rates = Vec::new();
    let mut all = Ok(());
    for _ in 0..RUNS {
        sleep(PAUSE);
        let (rate, alone) = once(deployment)?;
        rates.push(rate);
        all = alone;
    }
    Ok((median(rates).unwrap_or(0.0), all))
}

fn once(deployment: &Deployment) -> Result<(f64, Result<(), String>), Error> {
    let (seen, alone): (deployed::Observed, _) =
        undisturbed(None, || run(deployment).map_err(thread))?;
    if seen.wrong > 0 {
        let deployment = *deployment;
        return Err(PlanningError::Wrong { wrong: seen.wrong, deployment }.into());
    }
    Ok((seen.packets_per_second, alone))
}

/// A deployment of the table, and what was seen of it.
struct Row {
    deployment: Deployment,
    /// Of each run, and the time of a packet in both halves just before it, where it has halves: what
    /// another core costs changes from second to second where a hypervisor moves cores.
    runs: Vec<(f64, Option<[f64; 2]>)>,
}

impl Row {
    fn run(&mut self) -> Result<Result<(), String>, Error> {
        let halves = self.halves_now()?;
        let (rate, alone) = once(&self.deployment)?;
        self.runs.push((rate, halves));
        Ok(alone)
    }

    /// Time of a packet in both halves, where it has halves.
    fn halves_now(&self) -> Result<Option<[f64; 2]>, Error> {
        let Deployment { stages, packet, cores, used_cores, .. } = self.deployment;
        sleep(PAUSE);
        if stages != Stages::Both || used_cores != 2 {
            return Ok(None);
        }
        let look = || measure_halves(cores, packet, TIME).map_err(thread);
        undisturbed(None, look).map(|(halves, _)| halves)
    }

    /// Packets per second.
    fn predicted(&self, calibration: &Calibration, halves: Option<[f64; 2]>) -> f64 {
        let packet = self.deployment.packet;
        let now = halves.map(|halves| calibration.clone().with_halves(packet, halves));
        predict(now.as_ref().unwrap_or(calibration), &self.deployment).unwrap_or(f64::NAN)
    }

    /// Medians over its runs.
    fn compared(&self, calibration: &Calibration) -> Compared {
        let run = |(rate, halves): &(f64, Option<[f64; 2]>)| {
            (*rate, self.predicted(calibration, *halves))
        };
        let all: Vec<(f64, f64)> = self.runs.iter().map(run).collect();
        let middle = |value: fn(&(f64, f64)) -> f64| {
            median(all.iter().map(value).collect()).unwrap_or(f64::NAN)
        };
        let measured = middle(|run| run.0);
        let rates = || all.iter().map(|run| run.0);
        let (low, high) = (rates().fold(f64::INFINITY, f64::min), rates().fold(0.0, f64::max));
        let bits = 8.0 * payload(self.deployment.packet) as f64;
        Compared {
            predicted: BitRate(middle(|run| run.1) * bits),
            measured: BitRate(measured * bits),
            difference: Share(middle(|run| run.0 / run.1) - 1.0),
            spread: Share((high - low) / measured),
            transfer: None,
        }
    }
}

/// The table of all deployments: `--verify`.
pub(super) fn verify(rounds: u64, context: &Context<'_>) -> Result<Verified, Error> {
    let cores = calibrate::cores(0, None)?;
    let mut rows = deployments(if cores.is_some() { 2 } else { 1 });
    let mut survey = Survey::new(cores);
    context.progress.expect(rounds as usize + OFFERED.len());
    let mut all = Ok(());
    for round in 0..rounds {
        context.go_on()?;
        context.progress.reach(round as usize);
        let ((), _) = undisturbed(Some(0), || survey.round(VISIT).map_err(thread))?;
        for row in &mut rows {
            all = row.run()?;
        }
    }
    let calibration = survey.calibration();
    let calibration = calibration.map_err(|error| Failure::Thread.with(error))?;
    let compared = rows
        .iter()
        .map(|row| Item { label: label(&row.deployment), value: row.compared(&calibration) });
    let configurations: Vec<Item<Compared>> = compared.collect();
    let offered = offers(&calibration, &rows, rounds, context)?;
    let near = configurations.iter().filter(|row| row.value.difference.0.abs() <= NEAR).count();
    let note = format!(
        "{near} of {} configurations are within {:.0} % of the prediction; {rounds} rounds of \
         calibration and measurement in turn, medians.",
        rows.len(),
        NEAR * 100.0
    );
    let notes = [note].into_iter().chain(disturbed(all)).collect();
    Ok(Verified { configurations, offered, notes, ..Verified::default() })
}

fn deployments(most_cores: usize) -> Vec<Row> {
    let mut rows = Vec::new();
    for (stages, _) in KNOWN {
        for packet in PACKETS {
            for batch in BATCHES {
                for used_cores in 1..=most_cores {
                    let cores = [0, 1];
                    let deployment = Deployment {
                        stages,
                        packet,
                        batch,
                        cores,
                        used_cores,
                        offered: None,
                        time: TIME,
                    };
                    rows.push(Row { deployment, runs: Vec::new() });
                }
            }
        }
    }
    rows
}

fn label(deployment: &Deployment) -> String {
    let Deployment { stages, packet, batch, used_cores, .. } = deployment;
    let name = match stages {
        Stages::Segment => "segment",
        Stages::Coalesce => "coalesce",
        Stages::Both => "segment → coalesce",
    };
    let s = if *used_cores == 1 { "" } else { "s" };
    format!("{name}, {packet} bytes, batch {batch}, {used_cores} core{s}")
}

/// Share of an offered rate that is handled, below and above the predicted rate, with batches of 8.
fn offers(
    calibration: &Calibration,
    rows: &[Row],
    rounds: u64,
    context: &Context<'_>,
) -> Result<Vec<Item<Offer>>, Error> {
    let mut offers = Vec::new();
    for (step, share) in OFFERED.into_iter().enumerate() {
        context.go_on()?;
        context.progress.reach(rounds as usize + step);
        for row in rows.iter().filter(|row| row.deployment.batch == 8) {
            let offered = share * row.predicted(calibration, row.halves_now()?);
            let deployment = Deployment { offered: Some(offered), ..row.deployment };
            let (rate, _) = seen(&deployment)?;
            let value = Offer::new(share, rate / offered);
            offers.push(Item { label: label(&deployment), value });
        }
    }
    Ok(offers)
}
