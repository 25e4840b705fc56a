//! The input of a plan: stages, required performance, and the machine.

use super::cost::Cost;
use super::graph::Token;
use alloc::string::String;
use alloc::vec::Vec;

/// The state that a stage keeps between firings, which limits its replication.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum State {
    /// None: any replica may process any token.
    #[default]
    None,
    /// Per chunk: at most as many replicas as chunks in flight.
    PerChunk,
    /// Per lane: at most as many replicas as lanes.
    PerLane,
    /// Global: one replica only.
    Global,
}

/// A stage; its number is that in the graph.
#[derive(Debug, Clone, PartialEq)]
pub struct StageSpec {
    /// Its name, as in the graph.
    pub name: String,
    /// The unit that one firing processes.
    pub unit: Token,
    /// Whether it processes everything on the wire, including repair packets and retransmissions,
    /// or each payload only once.
    pub on_wire: bool,
    /// Firings per call: minimum and maximum, at least 1.
    pub batch: [u32; 2],
    /// The state that it keeps.
    pub state: State,
    /// The cost of a call.
    pub cost: Cost,
    /// `D`: how long a call may be delayed, nanoseconds; infinite for no deadline.
    pub deadline_ns: f64,
    /// `ε`: fraction of cycles that may be longer than deadline or arrivals allow, 0 to 0.5; 0
    /// plans for the longest.
    pub miss: f64,
    /// Stages that have to run on the same core.
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

/// The required performance of all stages together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Demand {
    /// `G`: goodput, bits of payload per second.
    pub goodput_bits_per_second: f64,
    /// `P`: bytes of payload per packet.
    pub payload: f64,
    /// The stage that fires once per payload packet, by number.
    pub payload_stage: usize,
    /// `k` and `m`: data packets and repair packets per group. None without FEC, or if the graph
    /// contains the stage that makes repair packets.
    pub fec: Option<(u32, u32)>,
    /// `p`: fraction of packets that are lost and retransmitted, 0 to less than 1.
    pub loss: f64,
    /// Lanes.
    pub lanes: u32,
    /// Chunks in flight.
    pub chunks: u32,
}

impl Demand {
    /// Payload packets per second: `G / 8P`.
    #[must_use]
    pub fn packets_per_second(&self) -> f64 {
        self.goodput_bits_per_second / (8.0 * self.payload)
    }

    /// Packets on the wire per payload packet: `(k+m)/k · 1/(1−p)`.
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

/// The machine that stages run on.
#[derive(Debug, Clone, PartialEq)]
pub struct Machine {
    /// Number of equal cores.
    pub cores: usize,
    /// `U_max`: the highest allowed utilisation of a core, above 0, at most 1.
    pub most_used: f64,
    /// Time per cycle besides the stages, nanoseconds, such as reading the clock.
    pub cycle_ns: f64,
    /// Additional cost of a token for the producing and the consuming stage if it goes to another
    /// core, nanoseconds.
    pub crossing_ns: [f64; 2],
    /// The objective among mappings that fit.
    pub prefer: Objective,
}

impl Machine {
    /// A number of equal cores with at most 80 % utilisation, and no costs besides those of stages.
    #[must_use]
    pub fn new(cores: usize) -> Self {
        Self {
            cores,
            most_used: 0.8,
            cycle_ns: 0.0,
            crossing_ns: [0.0; 2],
            prefer: Objective::Balance,
        }
    }
}

/// The objective among mappings that fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Objective {
    /// Minimise the highest utilisation, then the number of crossings, then the number of cores.
    #[default]
    Balance,
    /// Minimise the number of cores first.
    FewCores,
}

/// Why the input of a plan is invalid.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
#[non_exhaustive]
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

/// The most cores of a plan.
pub const MAX_CORES: usize = 256;
/// The most firings of a call.
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
            Self { goodput_bits_per_second: g, .. } if !positive(g) => {
                wrong("goodput is above 0", g)
            }
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
