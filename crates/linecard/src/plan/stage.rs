//! What is to be planned: stages, what is asked of them, and the machine.

use super::cost::Cost;
use super::graph::Token;
use alloc::string::String;
use alloc::vec::Vec;
use thiserror::Error;

/// What a stage keeps between firings, which says how it may be replicated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum State {
    /// Nothing: any replica may do any token.
    #[default]
    None,
    /// Of a chunk: at most as many replicas as chunks are in flight.
    PerChunk,
    /// Of a lane: at most as many replicas as lanes.
    PerLane,
    /// Of everything: one only.
    Global,
}

/// A stage of a graph, by the same number there.
#[derive(Debug, Clone, PartialEq)]
pub struct StageSpec {
    /// Its name, as in the graph.
    pub name: String,
    /// What a firing handles.
    pub unit: Token,
    /// Whether it handles what is on the wire, repair packets and retransmissions included, and not
    /// each payload once.
    pub on_wire: bool,
    /// Firings in a call, least and most, at least 1.
    pub batch: [u32; 2],
    /// What it keeps.
    pub state: State,
    /// What a call costs.
    pub cost: Cost,
    /// `D`: how long a call may be put off, nanoseconds; infinite for "no matter".
    pub deadline_ns: f64,
    /// `ε`: share of cycles that may be longer than deadline or arrivals allow, 0 to 0.5; 0 plans for
    /// the longest.
    pub miss: f64,
    /// Stages that have to be on the same core.
    pub beside: Vec<usize>,
}

impl StageSpec {
    /// A stage for packets on the wire with batches of up to 64, no state, no deadline and 1 % of
    /// misses.
    #[must_use]
    pub fn new(name: impl Into<String>, cost: Cost) -> Self {
        Self {
            name: name.into(),
            unit: Token::Packet,
            on_wire: true,
            batch: [1, 64],
            state: State::None,
            cost,
            deadline_ns: f64::INFINITY,
            miss: 0.01,
            beside: Vec::new(),
        }
    }
}

/// What is asked of all stages together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Demand {
    /// `G`: goodput, bits of payload per second.
    pub goodput_bps: f64,
    /// `P`: bytes of payload in a packet.
    pub payload: f64,
    /// The stage that fires once for each packet of payload, by its number.
    pub payload_stage: usize,
    /// `k` and `m`: so many repair packets to so many data packets. None where the graph has the stage
    /// that makes them, or where there are none.
    pub fec: Option<(u32, u32)>,
    /// `p`: share of packets that are lost and sent again, 0 to less than 1.
    pub loss: f64,
    /// Lanes.
    pub lanes: u32,
    /// Chunks in flight.
    pub chunks: u32,
}

impl Demand {
    /// Packets of payload per second: `G / 8P`.
    #[must_use]
    pub fn packets_per_second(&self) -> f64 {
        self.goodput_bps / (8.0 * self.payload)
    }

    /// Packets on the wire for each packet of payload: `(k+m)/k · 1/(1−p)`.
    #[must_use]
    pub fn on_wire(&self) -> f64 {
        let fec = self.fec.map_or(1.0, |(k, m)| (f64::from(k) + f64::from(m)) / f64::from(k));
        fec / (1.0 - self.loss)
    }

    /// Replicas that a state allows.
    #[must_use]
    pub fn most_replicas(&self, state: State) -> u32 {
        match state {
            State::None => u32::MAX,
            State::PerChunk => self.chunks,
            State::PerLane => self.lanes,
            State::Global => 1,
        }
    }
}

/// What stages run on.
#[derive(Debug, Clone, PartialEq)]
pub struct Machine {
    /// Cores, equal ones.
    pub cores: usize,
    /// `U_max`: share of a core that may be used, above 0, at most 1.
    pub most_used: f64,
    /// What a cycle costs besides its stages, nanoseconds: the clock is read, for example.
    pub cycle_ns: f64,
    /// What a token costs the giving and the taking stage more when it goes to another core,
    /// nanoseconds.
    pub crossing_ns: [f64; 2],
    /// What is best among mappings that fit.
    pub prefer: Prefer,
}

impl Machine {
    /// So many equal cores, used for up to 80 %; nothing besides stages costs time.
    #[must_use]
    pub fn new(cores: usize) -> Self {
        Self {
            cores,
            most_used: 0.8,
            cycle_ns: 0.0,
            crossing_ns: [0.0; 2],
            prefer: Prefer::Balance,
        }
    }
}

/// What is best among mappings that fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Prefer {
    /// The least used of the most used cores, then the fewest crossings, then the fewest cores.
    #[default]
    Balance,
    /// The fewest cores first: the others stay free.
    FewCores,
}

/// What cannot be planned, as it is no question.
#[derive(Debug, Clone, PartialEq, Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum PlanError {
    #[error("{specs} stages are described, and the graph has {stages}")]
    Stages { specs: usize, stages: usize },
    #[error("stage {stage}: {what}")]
    Stage { stage: String, what: &'static str },
    #[error("{what}: {value}")]
    Value { what: &'static str, value: f64 },
    #[error("{0} cores: 1 to {MAX_CORES} are planned for")]
    Cores(usize),
}

/// Cores that are planned for at most.
pub const MAX_CORES: usize = 256;
/// Firings in a call at most.
pub const MAX_BATCH: u32 = 65_536;

impl StageSpec {
    pub(super) fn check(&self, stages: usize) -> Result<(), PlanError> {
        let [least, most] = self.batch;
        let wrong = if least == 0 || least > most || most > MAX_BATCH {
            "batches are 1 to 65536 firings, the least first"
        } else if self.deadline_ns.is_nan() || self.deadline_ns <= 0.0 {
            "a deadline is a time above 0"
        } else if !(0.0..=0.5).contains(&self.miss) {
            "the share of misses is 0 to 0.5"
        } else if self.beside.iter().any(|&other| other >= stages) {
            "it is to be beside a stage that does not exist"
        } else if Cost::new(self.cost.fixed_ns, self.cost.each_ns).is_err() {
            "a cost is a number of nanoseconds, 0 or more, and not both parts are 0"
        } else {
            return Ok(());
        };
        Err(PlanError::Stage { stage: self.name.clone(), what: wrong })
    }
}

impl Demand {
    pub(super) fn check(&self, stages: usize) -> Result<(), PlanError> {
        let positive = |x: f64| x.is_finite() && x > 0.0;
        let wrong = |what, value| Err(PlanError::Value { what, value });
        match *self {
            Self { goodput_bps: g, .. } if !positive(g) => wrong("goodput is above 0", g),
            Self { payload: p, .. } if !positive(p) => wrong("payload is above 0 bytes", p),
            Self { loss, .. } if !(0.0..1.0).contains(&loss) => {
                wrong("loss is 0 to less than 1", loss)
            }
            Self { fec: Some((0, _)), .. } => wrong("FEC needs data packets", 0.0),
            Self { lanes, chunks, .. } if lanes == 0 || chunks == 0 => {
                wrong("lanes and chunks in flight are at least 1", 0.0)
            }
            Self { payload_stage: s, .. } if s >= stages => {
                wrong("the stage of payload packets does not exist", s as f64)
            }
            _ => Ok(()),
        }
    }
}

impl Machine {
    pub(super) fn check(&self) -> Result<(), PlanError> {
        let wrong = |what, value| Err(PlanError::Value { what, value });
        if self.cores == 0 || self.cores > MAX_CORES {
            return Err(PlanError::Cores(self.cores));
        }
        if !(self.most_used > 0.0 && self.most_used <= 1.0) {
            return wrong("the share of a core is above 0, at most 1", self.most_used);
        }
        let costs = [self.cycle_ns, self.crossing_ns[0], self.crossing_ns[1]];
        let negative = costs.into_iter().find(|ns| !ns.is_finite() || *ns < 0.0);
        negative.map_or(Ok(()), |ns| wrong("a cycle's and a crossing's cost is 0 ns or more", ns))
    }
}
