//! Plans, or the reason why there is none and what would help: each piece of advice has been tried.

use super::design::{Plan, design};
use super::parts::Question;
use super::schedule::Late;
use super::stage::{MAX_BATCH, MAX_CORES, PlanError};
use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

/// Halvings in the search for the largest goodput: it is exact to a part in 65,536.
const HALVINGS: u32 = 16;
/// Cores more that are tried.
const MORE_CORES: usize = 16;

/// The first reason why nothing fits. Stages are numbers.
#[derive(Debug, Clone, PartialEq)]
pub enum Reason {
    /// Stages that share a core need more replicas than their state allows.
    Replicas {
        /// The stages.
        stages: Vec<usize>,
        /// Cores that they need.
        used: f64,
        /// Replicas that they need.
        needed: u32,
        /// Replicas that they may have.
        allowed: u32,
    },
    /// There are too few cores for all that is to be done.
    Cores {
        /// Cores that would be needed if work could be divided at will and cores used in full.
        used: f64,
        /// Cores that there are.
        cores: usize,
    },
    /// A core cannot do its stages in turn.
    Late {
        /// The stages on the core.
        stages: Vec<usize>,
        /// Why.
        late: Late,
    },
    /// A ring would need more slots than it may have.
    Ring {
        /// The stage that gives.
        from: usize,
        /// The stage that takes.
        to: usize,
    },
}

/// What would help, by itself.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Help {
    /// No more goodput than this, in bits per second.
    Goodput(f64),
    /// So many cores.
    Cores(usize),
    /// Batches of so many firings at most.
    Batch(u32),
    /// No stage with a shorter deadline than this, in nanoseconds.
    Deadline(f64),
    /// So many bytes of payload in a packet, if a packet costs no more then.
    Payload(f64),
}

/// Nothing fits.
#[derive(Debug, Clone, PartialEq)]
pub struct Infeasible {
    /// Why.
    pub reason: Reason,
    /// What would help; each was tried by itself.
    pub help: Vec<Help>,
    /// Both in words.
    pub text: String,
}

/// Plans what is asked: a plan, or why there is none and what would help.
///
/// ```
/// use linecard::plan::{Cost, Demand, Edge, Graph, Machine, Port, Question, StageSpec, Token, plan};
///
/// let packet = Port { token: Token::Packet, rate: 1 };
/// let edge = Edge { from: 0, gives: packet, to: 1, takes: packet };
/// let question = Question {
///     graph: Graph::new(&["seal", "send"], &[edge]).expect("a chain"),
///     stages: vec![
///         StageSpec::new("seal", Cost::new(200.0, 300.0)?),
///         StageSpec::new("send", Cost::new(500.0, 100.0)?),
///     ],
///     demand: Demand {
///         goodput_bps: 20e9, payload: 1_408.0, payload_stage: 0, fec: None, loss: 0.0, lanes: 1,
///         chunks: 1,
///     },
///     machine: Machine::new(2),
/// };
/// let found = plan(&question).expect("a sound question").expect("two cores are enough");
/// assert_eq!((found.cores.len(), found.rings.len()), (2, 1));
///
/// let one = Question { machine: Machine::new(1), ..question };
/// let refused = plan(&one).expect("a sound question").expect_err("one core is not");
/// assert!(refused.text.contains("2 cores"), "{}", refused.text);
/// # Ok::<(), linecard::plan::CostError>(())
/// ```
///
/// # Errors
///
/// When it is no question: a value is out of its range. The inner error is the answer that nothing fits.
pub fn plan(question: &Question) -> Result<Result<Plan, Box<Infeasible>>, PlanError> {
    question.check()?;
    Ok(design(question).map_err(|reason| {
        let help = help(question);
        let text = text(question, &reason, &help);
        Box::new(Infeasible { reason, help, text })
    }))
}

fn help(question: &Question) -> Vec<Help> {
    let mut help = Vec::new();
    help.extend(goodput(question).map(Help::Goodput));
    help.extend(cores(question).map(Help::Cores));
    help.extend(batch(question).map(Help::Batch));
    help.extend(deadline(question).map(Help::Deadline));
    help.extend(payload(question).map(Help::Payload));
    help
}

fn fits(question: &Question) -> bool {
    design(question).is_ok()
}

/// The largest goodput that fits, but for a little; none where even a thousandth does not.
fn goodput(question: &Question) -> Option<f64> {
    let at = |share: f64| {
        let mut less = question.clone();
        less.demand.goodput_bps *= share;
        fits(&less)
    };
    let (mut low, mut high) = (1e-3, 1.0);
    if !at(low) {
        return None;
    }
    for _ in 0..HALVINGS {
        let middle = (low + high) / 2.0;
        if at(middle) { low = middle } else { high = middle }
    }
    Some(low * question.demand.goodput_bps)
}

fn cores(question: &Question) -> Option<usize> {
    let cores = question.machine.cores;
    (cores + 1..=MAX_CORES.min(cores + MORE_CORES)).find(|&cores| {
        let mut more = question.clone();
        more.machine.cores = cores;
        fits(&more)
    })
}

fn batch(question: &Question) -> Option<u32> {
    let longest = question.stages.iter().map(|stage| stage.batch[1]).max()?;
    let doubled = core::iter::successors(longest.checked_mul(2), |batch| batch.checked_mul(2));
    doubled.take_while(|batch| *batch <= MAX_BATCH).find(|&batch| {
        let mut more = question.clone();
        more.stages.iter_mut().for_each(|stage| stage.batch[1] = stage.batch[1].max(batch));
        fits(&more)
    })
}

/// Without deadlines: then the longest cycle is the deadline that would do.
fn deadline(question: &Question) -> Option<f64> {
    let mut free = question.clone();
    free.stages.iter_mut().for_each(|stage| stage.deadline_ns = f64::INFINITY);
    if free.stages == question.stages {
        return None;
    }
    let plan = design(&free).ok()?;
    let late = plan.cores.iter().filter(|core| {
        let deadlines = core.stages.iter().map(|&stage| question.stages[stage].deadline_ns);
        deadlines.fold(f64::INFINITY, f64::min) < core.cycle.bound_ns
    });
    late.map(|core| core.cycle.bound_ns).reduce(f64::max)
}

fn payload(question: &Question) -> Option<f64> {
    // The sizes that frames of usual MTUs carry, as in docs/plan.md.
    [1_408.0, 4_096.0, 8_896.0].into_iter().find(|&payload| {
        let mut larger = question.clone();
        larger.demand.payload = payload;
        payload > question.demand.payload && fits(&larger)
    })
}

fn text(question: &Question, reason: &Reason, help: &[Help]) -> String {
    let names = |stages: &[usize]| {
        let names: Vec<&str> =
            stages.iter().map(|&stage| question.stages[stage].name.as_str()).collect();
        format!("stage{} {}", if names.len() == 1 { "" } else { "s" }, names.join(", "))
    };
    let s = |stages: &[usize]| if stages.len() == 1 { "s" } else { "" };
    let why = match reason {
        Reason::Replicas { stages, used, needed, allowed } => format!(
            "{} need{} {used:.2} cores: {needed} replicas, of which {} state allows {allowed}",
            names(stages),
            s(stages),
            if stages.len() == 1 { "its" } else { "their" },
        ),
        Reason::Cores { used, cores } => format!(
            "all stages together need {used:.2} cores, and {cores} may be used for {:.0} % each",
            question.machine.most_used * 100.0
        ),
        Reason::Late { stages, late } => {
            let name = |stage: usize| &question.stages[stages[stage]].name;
            match *late {
                Late::Overload { used } => {
                    format!("{} need{} {used:.2} of one core", names(stages), s(stages))
                }
                Late::Batch { stage, needed } => format!(
                    "stage {} gets {needed} firings in a cycle of its core, and takes {} at a time",
                    name(stage),
                    question.stages[stages[stage]].batch[1]
                ),
                Late::Deadline { stage, cycle_ns } => format!(
                    "the shortest cycle that keeps up takes {}, and stage {} has to run every {}",
                    time(cycle_ns),
                    name(stage),
                    time(question.stages[stages[stage]].deadline_ns)
                ),
            }
        }
        Reason::Ring { from, to } => format!(
            "the ring from {} to {} would need more than {} slots",
            question.stages[*from].name,
            question.stages[*to].name,
            super::MAX_RING
        ),
    };
    let help: Vec<String> = help.iter().map(ToString::to_string).collect();
    let help = if help.is_empty() { "nothing of one kind".to_string() } else { help.join("; or ") };
    format!("{why}; what helps: {help}")
}

impl fmt::Display for Help {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Goodput(bps) if *bps >= 1e9 => write!(f, "at most {:.2} Gbit/s", bps / 1e9),
            Self::Goodput(bps) => write!(f, "at most {:.2} Mbit/s", bps / 1e6),
            Self::Cores(cores) => write!(f, "{cores} cores"),
            Self::Batch(batch) => write!(f, "batches of up to {batch}"),
            Self::Deadline(ns) => write!(f, "deadlines of {} at least", time(*ns)),
            Self::Payload(bytes) => {
                write!(f, "payloads of {bytes} bytes, if a packet costs no more then")
            }
        }
    }
}

fn time(ns: f64) -> String {
    match ns {
        ns if ns >= 1e6 => format!("{:.2} ms", ns / 1e6),
        ns if ns >= 1e3 => format!("{:.2} µs", ns / 1e3),
        ns => format!("{ns:.0} ns"),
    }
}
