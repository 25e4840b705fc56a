//! Measures the cost of calls: what to call, how often, and how to evaluate the times.
//!
//! Visits to all benches and batch sizes alternate, so that a disturbance affects each a little and
//! the median of none. During a visit, calls are timed one by one, minus the cost of reading the
//! clock. A visit during which the thread was preempted is discarded as long as others remain.

use super::clock::{Pauses, clock_ns};
use linecard_plan::{Cost, CostError, Spread, Token, fit};
use std::time::{Duration, Instant};

/// Times kept per visit, for the spread.
const KEPT: usize = 512;
/// Times kept per bench in total.
const MOST_KEPT: usize = 65_536;

/// Something whose calls are measured.
pub trait Bench {
    /// Untimed preparation of the next call with this batch.
    fn prepare(&mut self, batch: u32) {
        let _ = batch;
    }

    /// The timed call; returns the number of firings.
    fn work(&mut self, batch: u32) -> u32;
}

/// A call without preparation.
#[derive(Debug)]
pub struct Call<F>(pub F);

impl<F: FnMut(u32)> Bench for Call<F> {
    fn work(&mut self, batch: u32) -> u32 {
        (self.0)(batch);
        batch
    }
}

/// A bench with its description.
pub struct Entry<'b> {
    /// Name of the stage, such as `segment@1500`.
    pub name: String,
    /// The unit of a firing.
    pub unit: Token,
    /// Batches to measure.
    pub batches: Vec<u32>,
    /// The code under measurement.
    pub bench: Box<dyn Bench + 'b>,
}

/// Duration of a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MeasureConfig {
    /// Visits to each bench and batch. At least 1.
    pub rounds: u32,
    /// Duration of a visit.
    pub visit: Duration,
}

/// The measured cost of a stage.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// Name of the stage.
    pub name: String,
    /// The unit of a firing.
    pub unit: Token,
    /// The cost, with its spread.
    pub cost: Cost,
    /// The largest relative deviation of a batch's median from the fit.
    pub residual: f64,
    /// Firings per call, and the median of the mean time of a call in nanoseconds, for each batch.
    pub points: Vec<(f64, f64)>,
}

/// Stages that run in a loop on one thread, each with the output of those before.
pub trait StageLoop {
    /// Names and units, by number.
    fn stages(&self) -> Vec<(String, Token)>;

    /// Untimed: selects the next stage that has work.
    fn next(&mut self) -> Option<usize>;

    /// Calls that stage; returns the number of firings.
    fn call(&mut self, stage: usize) -> u32;
}

/// A bench under measurement, or a stage of a [`StageLoop`], which is not a bench by itself.
struct Record<'b> {
    name: String,
    unit: Token,
    batches: Vec<u32>,
    bench: Option<Box<dyn Bench + 'b>>,
    visits: Vec<Visit>,
    /// Times of calls relative to their visit's mean.
    ratios: Vec<f64>,
}

/// A series of calls.
struct Visit {
    batch: u32,
    /// Mean firings per call: stages that process groups fire less often than requested.
    firings: f64,
    /// Mean time per call.
    ns: f64,
    /// Whether the thread ran without preemption.
    is_quiet: bool,
}

/// Several benches, visited in turn.
#[derive(Default)]
pub struct Series<'b> {
    records: Vec<Record<'b>>,
}

impl<'b> Series<'b> {
    /// A series of these benches.
    #[must_use]
    pub fn new(entries: Vec<Entry<'b>>) -> Self {
        let record = |entry| {
            let Entry { name, unit, batches, bench } = entry;
            Record { batches, ..Record::new(name, unit, Some(bench)) }
        };
        Self { records: entries.into_iter().map(record).collect() }
    }

    /// One visit to each bench and batch.
    pub fn round(&mut self, visit: Duration) {
        let clock = clock_ns();
        for record in &mut self.records {
            for batch in record.batches.clone() {
                record.visit(batch, visit, clock);
            }
        }
    }

    /// One visit to all stages of a loop, which is set to this batch: the loop runs for `visit`,
    /// and each call is timed. So stages find their data in the caches as they do in a run.
    pub fn measure_loop(&mut self, circle: &mut dyn StageLoop, batch: u32, visit: Duration) {
        let clock = clock_ns();
        let stages = circle.stages();
        let mut calls: Vec<Calls> = stages.iter().map(|_| Calls::default()).collect();
        let (begun, pauses) = (Instant::now(), Pauses::so_far());
        while begun.elapsed() < visit {
            let Some(stage) = circle.next() else { break };
            let before = Instant::now();
            let done = circle.call(stage);
            let ns = before.elapsed().as_nanos() as f64;
            if done > 0 {
                calls[stage].firings += u64::from(done);
                calls[stage].times.push((ns - clock).max(0.0));
            }
        }
        let is_quiet = Pauses::so_far() == pauses;
        for ((name, unit), calls) in stages.into_iter().zip(calls) {
            if !calls.times.is_empty() {
                self.record(name, unit).note(batch, &calls, is_quiet);
            }
        }
    }

    fn record(&mut self, name: String, unit: Token) -> &mut Record<'b> {
        let known = self.records.iter().position(|record| record.name == name);
        let at = known.unwrap_or(self.records.len());
        if known.is_none() {
            self.records.push(Record::new(name, unit, None));
        }
        &mut self.records[at]
    }

    /// The results so far.
    ///
    /// # Errors
    ///
    /// If a bench took no measurable time, or was not visited.
    pub fn results(&self) -> Result<Vec<Measured>, CostError> {
        self.records.iter().map(Record::result).collect()
    }
}

/// The times of a visit's calls.
#[derive(Default)]
struct Calls {
    firings: u64,
    times: Vec<f64>,
}

impl<'b> Record<'b> {
    fn new(name: String, unit: Token, bench: Option<Box<dyn Bench + 'b>>) -> Self {
        Self { name, unit, batches: Vec::new(), bench, visits: Vec::new(), ratios: Vec::new() }
    }

    fn visit(&mut self, batch: u32, time: Duration, clock: f64) {
        let Some(bench) = &mut self.bench else { return };
        // Warms up caches and branch predictor.
        for _ in 0..3 {
            bench.prepare(batch);
            bench.work(batch);
        }
        let (begun, pauses) = (Instant::now(), Pauses::so_far());
        let mut calls = Calls::default();
        while begun.elapsed() < time || calls.times.len() < 8 {
            bench.prepare(batch);
            let before = Instant::now();
            let done = bench.work(batch);
            let ns = before.elapsed().as_nanos() as f64;
            if done > 0 {
                calls.firings += u64::from(done);
                calls.times.push((ns - clock).max(0.0));
            }
        }
        let is_quiet = Pauses::so_far() == pauses;
        self.note(batch, &calls, is_quiet);
    }

    fn note(&mut self, batch: u32, Calls { firings, times }: &Calls, is_quiet: bool) {
        if !self.batches.contains(&batch) {
            self.batches.push(batch);
        }
        let each = times.iter().sum::<f64>() / times.len() as f64;
        let firings = *firings as f64 / times.len() as f64;
        self.visits.push(Visit { batch, firings, ns: each, is_quiet });
        if is_quiet && each > 0.0 && self.ratios.len() < MOST_KEPT {
            let step = times.len().div_ceil(KEPT);
            self.ratios.extend(times.iter().step_by(step).map(|ns| ns / each));
        }
    }

    fn result(&self) -> Result<Measured, CostError> {
        let mut points = Vec::new();
        for &batch in &self.batches {
            let visits = || self.visits.iter().filter(|visit| visit.batch == batch);
            let is_calm = visits().any(|visit| visit.is_quiet);
            let counted: Vec<&Visit> =
                visits().filter(|visit| visit.is_quiet || !is_calm).collect();
            let ns = median(counted.iter().map(|visit| visit.ns).collect());
            let firings = median(counted.iter().map(|visit| visit.firings).collect());
            let (Some(ns), Some(firings)) = (ns, firings) else { return Err(CostError::NoSample) };
            // A time below the clock's resolution still counts as something.
            points.push((firings, ns.max(0.1)));
        }
        let found = fit(&points)?;
        let spread = Spread::of(&self.ratios).unwrap_or_default();
        Ok(Measured {
            name: self.name.clone(),
            unit: self.unit,
            cost: found.cost.with_spread(spread),
            residual: found.residual,
            points,
        })
    }
}

/// Measures benches on the calling thread, which should be pinned to a core.
///
/// ```
/// use linecard_plan::Token;
/// use linecard_io::calibrate::{Call, MeasureConfig, Entry, measure};
/// use std::time::Duration;
///
/// let data = vec![1_u8; 65_536];
/// let sum = |batch: u32| {
///     std::hint::black_box(data[..batch as usize * 1_024].iter().map(|b| u64::from(*b)).sum::<u64>());
/// };
/// let entry = Entry {
///     name: "sum".into(), unit: Token::Packet, batches: vec![1, 8, 64], bench: Box::new(Call(sum)),
/// };
/// let effort = MeasureConfig { rounds: 3, visit: Duration::from_millis(1) };
/// let found = measure(vec![entry], effort).expect("it takes time");
/// assert!(found[0].cost.at(64.0) > found[0].cost.at(1.0));
/// ```
///
/// # Errors
///
/// If there is nothing to fit a cost to.
pub fn measure(entries: Vec<Entry<'_>>, effort: MeasureConfig) -> Result<Vec<Measured>, CostError> {
    let mut series = Series::new(entries);
    for _ in 0..effort.rounds.max(1) {
        series.round(effort.visit);
    }
    series.results()
}

/// The value in the middle, the upper one of two.
#[must_use]
pub fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

impl std::fmt::Debug for Entry<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Entry({}, {} of {:?})", self.name, self.unit, self.batches)
    }
}

impl std::fmt::Debug for Series<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.records.iter().map(|record| &record.name)).finish()
    }
}
