//! Bulk data over n lanes of 10 Gbit/s, each with a core, and a shared device for forward error
//! correction (Büchner, Nolte, Lopacinski and Kraemer, "100 Gbit/s End-to-End Communication", 2017;
//! papers/end2end100.txt).
//!
//! Data is divided into chunks, chunks into packets. Either each lane carries its own chunks, so
//! that the gaps between chunks of one lane overlap with the other lanes; or all lanes carry the
//! same chunk, which arrives sooner, but the gaps between chunks do not overlap. Bounds: one packet
//! in a core, one in the device, one on each wire; a core runs at most one packet ahead of its
//! wire.

use crate::Ps;
use alloc::vec;
use alloc::vec::Vec;
use linecard::watch::{Pulse, Watch};

/// The distribution of chunks over lanes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spreading {
    /// A chunk on each lane: stable throughput.
    ChunkPerLane,
    /// A chunk over all lanes: low latency.
    ChunkOverAll,
}

/// Lanes and what they carry. Rates in bits per second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// 1 … 64 lanes.
    pub lanes: usize,
    /// Of each.
    pub lane_bps: u64,
    /// The distribution of chunks.
    pub spreading: Spreading,
    /// Bytes of a chunk: 16 MiB in the paper.
    pub chunk_bytes: u64,
    /// Bytes of data in a packet, and of all else on the wire. Not in the paper: 4096 and 64 leave the
    /// 98.46 % that its rates and overheads add up to.
    pub packet_bytes: u64,
    /// Bytes per packet on the wire besides its data.
    pub overhead_bytes: u64,
    /// Time that a core takes per packet.
    pub core: Ps,
    /// Time per chunk that a lane loses on the wire for announcement and acknowledgment. Fitted to
    /// the paper's 0.50 % of a lane.
    pub per_chunk: Ps,
    /// Time that all lanes wait between two chunks that go over all lanes. Fitted to the 34 µs by
    /// which the paper deviates from optimal scaling at 8 lanes.
    pub between: Ps,
    /// Throughput of the shared device; none without it.
    pub fec_bps: Option<u64>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            lanes: 8,
            lane_bps: 10_000_000_000,
            spreading: Spreading::ChunkPerLane,
            chunk_bytes: 16 << 20,
            packet_bytes: 4_096,
            overhead_bytes: 64,
            core: Ps::from_ns(2_500),
            per_chunk: Ps::from_ns(68_000),
            between: Ps::from_ns(34_000),
            fec_bps: None,
        }
    }
}

/// The result of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Bytes of data received.
    pub bytes: u64,
    /// From the start to the last byte.
    pub time: Ps,
    /// The mean time from the first bit of a chunk to its last.
    pub chunk_latency: Ps,
}

impl Outcome {
    /// Data rate in bits per second.
    #[must_use]
    pub fn bps(&self) -> f64 {
        self.bytes as f64 * 8.0 / self.time.as_secs_f64().max(1e-12)
    }
}

/// Why a configuration is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{name} is {value}: choose {low} to {high}")]
pub struct ConfigError {
    /// The name of the value.
    pub name: &'static str,
    /// The given value.
    pub value: u64,
    /// The least.
    pub low: u64,
    /// The most.
    pub high: u64,
}

/// Sends `chunks` chunks.
///
/// ```
/// use linecard_model::lanes::{Config, simulate};
/// let outcome = simulate(&Config::default(), 32)?;
/// assert!(outcome.bps() > 78e9 && outcome.bytes == 32 << 24);
/// # Ok::<(), linecard_model::lanes::ConfigError>(())
/// ```
///
/// # Errors
/// A value out of its range.
pub fn simulate(config: &Config, chunks: u64) -> Result<Outcome, ConfigError> {
    simulate_watched(config, chunks, &Watch::new())
}

/// [`simulate`] with progress in bytes; on cancellation it ends with the results so far.
///
/// # Errors
/// A value out of its range.
pub fn simulate_watched(
    config: &Config,
    chunks: u64,
    watch: &Watch,
) -> Result<Outcome, ConfigError> {
    for (name, value, high) in [
        ("lanes", config.lanes as u64, 64),
        ("lane_bps", config.lane_bps, 1_000_000_000_000),
        ("packet_bytes", config.packet_bytes, 65_536),
        ("chunk_bytes", config.chunk_bytes, 1 << 32),
        ("fec_bps", config.fec_bps.unwrap_or(1), 1_000_000_000_000_000),
    ] {
        if !(1..=high).contains(&value) {
            return Err(ConfigError { name, value, low: 1, high });
        }
    }
    let lanes = vec![Lane::default(); config.lanes];
    let pulse = Pulse::new(watch, chunks.saturating_mul(config.chunk_bytes) as usize);
    let mut lanes = Lanes { config, lanes, fec_free: Ps::ZERO, watch, pulse };
    Ok(match config.spreading {
        Spreading::ChunkPerLane => lanes.each(chunks),
        Spreading::ChunkOverAll => lanes.together(chunks),
    })
}

#[derive(Debug, Clone, Copy, Default)]
struct Lane {
    core_free: Ps,
    wire_free: Ps,
    /// Bytes left of its chunk, and when the chunk began.
    left: u64,
    began: Ps,
}

struct Lanes<'c> {
    config: &'c Config,
    lanes: Vec<Lane>,
    fec_free: Ps,
    watch: &'c Watch,
    pulse: Pulse<'c>,
}

impl Lanes<'_> {
    /// Each lane has its own chunks; the lane that is free first sends next.
    fn each(&mut self, chunks: u64) -> Outcome {
        let (mut begun, mut outcome, mut latency) = (0, Outcome::default(), 0);
        while self.pulse.goes_on(outcome.bytes as usize) {
            let next = (0..self.lanes.len())
                .filter(|&lane| self.lanes[lane].left > 0 || begun < chunks)
                .min_by_key(|&lane| self.lanes[lane].wire_free);
            let Some(lane) = next else { break };
            if self.lanes[lane].left == 0 {
                begun += 1;
                let began = self.lanes[lane].wire_free;
                let wire_free = began + self.config.per_chunk;
                let left = self.config.chunk_bytes;
                self.lanes[lane] = Lane { left, began, wire_free, ..self.lanes[lane] };
            }
            outcome.bytes += self.packet(lane);
            let Lane { left, began, wire_free, .. } = self.lanes[lane];
            if left == 0 {
                latency += wire_free.since(began).0;
                outcome.time = outcome.time.max(wire_free);
            }
        }
        outcome.chunk_latency = Ps(latency / chunks.max(1));
        outcome
    }

    /// All lanes carry the same chunk, and wait for each other at its end.
    fn together(&mut self, chunks: u64) -> Outcome {
        let count = self.lanes.len() as u64;
        let (mut now, mut outcome) = (Ps::ZERO, Outcome::default());
        for _ in 0..chunks {
            if self.watch.is_stopped() {
                break;
            }
            let begins = now + Ps(self.config.per_chunk.0 / count);
            for (index, lane) in self.lanes.iter_mut().enumerate() {
                let share = self.config.chunk_bytes / count;
                let rest = u64::from((index as u64) < self.config.chunk_bytes % count);
                *lane =
                    Lane { core_free: begins, wire_free: begins, left: share + rest, began: now };
            }
            while let Some(lane) = (0..self.lanes.len())
                .filter(|&lane| self.lanes[lane].left > 0)
                .min_by_key(|&lane| self.lanes[lane].wire_free)
                && self.pulse.goes_on(outcome.bytes as usize)
            {
                outcome.bytes += self.packet(lane);
            }
            let last = self.lanes.iter().map(|lane| lane.wire_free).max().unwrap_or(begins);
            // A single lane need not wait.
            now = if count > 1 { last + self.config.between } else { last };
        }
        outcome.time = now;
        outcome.chunk_latency = Ps(now.0 / chunks.max(1));
        outcome
    }

    /// Sends a lane's next packet through core, device and wire: its bytes of data.
    fn packet(&mut self, index: usize) -> u64 {
        let (config, lane) = (self.config, &mut self.lanes[index]);
        let bytes = config.packet_bytes.min(lane.left);
        lane.left -= bytes;
        lane.core_free += config.core;
        let mut ready = lane.core_free;
        if let Some(fec_bps) = config.fec_bps {
            self.fec_free = self.fec_free.max(ready) + Ps::of_bits(bytes * 8, fec_bps);
            ready = self.fec_free;
        }
        let begins = ready.max(lane.wire_free);
        // The core takes the next packet when this one leaves.
        lane.core_free = begins;
        lane.wire_free = begins + Ps::of_bits((bytes + config.overhead_bytes) * 8, config.lane_bps);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(config: Config) -> Outcome {
        let outcome = simulate(&config, 64).unwrap();
        assert_eq!(outcome.bytes, 64 * config.chunk_bytes);
        outcome
    }

    fn near(ours: f64, paper: f64) -> bool {
        (ours / paper - 1.0).abs() < 0.01
    }

    /// Throughput and latency of the evaluation, without FEC, within 1 %.
    #[test]
    fn both_ways_to_spread_are_as_measured() {
        let at = |lanes, spreading| run(Config { lanes, spreading, ..Config::default() });
        let stable = at(8, Spreading::ChunkPerLane);
        assert!(near(stable.bps(), 78.315e9), "{stable:?}");
        let low = at(8, Spreading::ChunkOverAll);
        assert!(near(low.bps(), 76.73e9) && near(low.chunk_latency.as_secs_f64(), 1.748e-3));
        let single = at(1, Spreading::ChunkOverAll);
        assert!(near(single.chunk_latency.as_secs_f64(), 13.714e-3), "{single:?}");
        // "Almost constant latency".
        let one = at(1, Spreading::ChunkPerLane).chunk_latency;
        assert!(near(stable.chunk_latency.as_secs_f64(), one.as_secs_f64()));
    }

    #[test]
    fn a_device_or_a_core_that_is_slower_decides() {
        let fec = run(Config { fec_bps: Some(40_000_000_000), ..Config::default() });
        assert!(fec.bps() <= 40e9 && near(fec.bps(), 40e9), "{}", fec.bps());
        let slow = Config { core: Ps::from_ns(6_660), ..Config::default() };
        let half = run(slow);
        assert!(near(half.bps(), 8.0 * 4_096.0 * 8.0 / 6.66e-6), "{}", half.bps());
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let error = simulate(&Config { lanes: 0, ..Config::default() }, 1).unwrap_err();
        assert_eq!(error.to_string(), "lanes is 0: choose 1 to 64");
        assert!(simulate(&Config { packet_bytes: 0, ..Config::default() }, 1).is_err());
    }
}
