//! Measures this machine: every stage, the cost of a cycle, and the cost of crossing to another
//! core.

use super::deployed::{self, Deployment, Stages};
use super::identity::Identity;
use super::measure::{Series, median};
use super::offload::{self, BATCHES, PACKETS};
use super::{Calibration, Crossing, StageCost, VERSION};
use crate::engine::Failure;
use linecard_plan::{CostError, saturation};
use std::time::{Duration, Instant};
use thiserror::Error;

/// Batch size at which crossings are measured.
const CROSSING_BATCH: u32 = 32;
/// Turns timed together.
const TURNS: u32 = 1_000;

/// Why there is no calibration.
#[derive(Debug, Error)]
pub enum SurveyError {
    /// Nothing was measured.
    #[error("the stages could not be measured: {0}")]
    Cost(#[from] CostError),
    /// A thread failed.
    #[error(transparent)]
    Thread(#[from] Failure),
}

/// A survey in progress. Rounds may alternate with other work; the results are medians over rounds.
#[derive(Debug)]
pub struct Survey {
    series: Series<'static>,
    cores: Option<[usize; 2]>,
    /// Per size: time per packet in both halves, per round.
    halves: Vec<Vec<[f64; 2]>>,
    turns_ns: Vec<f64>,
}

impl Survey {
    /// A survey of the offloads' stages, and of two cores if given.
    #[must_use]
    pub fn new(cores: Option<[usize; 2]>) -> Self {
        let entries = PACKETS.iter().flat_map(|packet| offload::entries(*packet, &BATCHES));
        let series = Series::new(entries.collect());
        Self { series, cores, halves: vec![Vec::new(); PACKETS.len()], turns_ns: Vec::new() }
    }

    /// One visit to all, on the calling thread, which should be pinned; other cores work a little
    /// too.
    ///
    /// # Errors
    ///
    /// If a thread cannot be started or pinned.
    pub fn round(&mut self, visit: Duration) -> Result<(), Failure> {
        self.series.round(visit);
        self.turns_ns.push(turn_ns());
        let Some(cores) = self.cores else { return Ok(()) };
        for (size, packet) in PACKETS.iter().enumerate() {
            self.halves[size].extend(measure_halves(cores, *packet, 6 * visit)?);
        }
        Ok(())
    }

    /// The results so far.
    ///
    /// # Errors
    ///
    /// Before the first round.
    pub fn calibration(&self) -> Result<Calibration, CostError> {
        let stages = self.series.results()?.into_iter().map(StageCost::from).collect();
        let cycle_ns = median(self.turns_ns.clone()).ok_or(CostError::NoSample)?;
        let mut calibration = Calibration { stages, cycle_ns, ..Calibration::bare() };
        for (size, packet) in PACKETS.iter().enumerate() {
            let seen = |half: usize| {
                let full = self.halves[size].iter().map(|halves| halves[half]);
                median(full.collect())
            };
            if let (Some(giving), Some(taking)) = (seen(0), seen(1)) {
                calibration = calibration.with_halves(*packet, [giving, taking]);
            }
        }
        Ok(calibration)
    }
}

/// Time per packet in the sending and the receiving half of the whole path, on two cores, in full
/// turns; 0 if no turn was full.
///
/// # Errors
///
/// When a thread cannot be started or pinned.
pub fn measure_halves(
    cores: [usize; 2],
    packet: u32,
    time: Duration,
) -> Result<Option<[f64; 2]>, Failure> {
    let seen = deployed::run(&Deployment {
        stages: Stages::Both,
        packet,
        batch: CROSSING_BATCH,
        cores,
        used_cores: 2,
        offered: None,
        time,
    })?;
    Ok(match seen.busy_ns[..] {
        [sending, receiving] if sending > 0.0 && receiving > 0.0 => Some([sending, receiving]),
        _ => None,
    })
}

impl Calibration {
    /// The identity of this machine without any stage.
    #[must_use]
    pub fn bare() -> Self {
        Self {
            version: VERSION,
            identity: Identity::of_this_host(),
            stages: Vec::new(),
            cycle_ns: turn_ns(),
            crossings: Vec::new(),
        }
    }

    /// Adds the crossing cost of packets of this size: the difference between the observed times of
    /// both halves and the cost of their stages on one core.
    #[must_use]
    pub fn with_halves(mut self, packet: u32, seen: [f64; 2]) -> Self {
        let Some(alone) = expected(&self, packet, CROSSING_BATCH) else { return self };
        let [giving_ns, taking_ns] = [0, 1].map(|half| (seen[half] - alone[half]).max(0.0));
        self.crossings.retain(|crossing| crossing.packet != packet);
        self.crossings.push(Crossing { packet, giving_ns, taking_ns });
        self
    }
}

/// Time per packet in both halves if crossing were free.
fn expected(calibration: &Calibration, packet: u32, batch: u32) -> Option<[f64; 2]> {
    let halves = super::halves(calibration, packet, batch, [0.0; 2])?;
    let time = |loads: &[_]| saturation(loads, calibration.cycle_ns).map(|rate| 1e9 / rate);
    Some([time(&halves[0])?, time(&halves[1])?])
}

/// The cost of a turn of the engine's loop without a task: it reads the clock.
fn turn_ns() -> f64 {
    let (epoch, begun) = (Instant::now(), Instant::now());
    for _ in 0..TURNS {
        std::hint::black_box(epoch.elapsed());
    }
    begun.elapsed().as_nanos() as f64 / f64::from(TURNS)
}
