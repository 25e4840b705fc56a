//! Plans, or the reason why there is none and changes that would help, each of which has been
//! tried.

use super::design::{Plan, Reason, design};
use super::parts::PlanInput;
use super::schedule::Overrun;
use super::stage::{MAX_BATCH, MAX_CORES, PlanError};
use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

/// Halvings in the search for the largest goodput: it is exact to a part in 65,536.
const HALVINGS: u32 = 16;
/// The most additional cores that are tried.
const MORE_CORES: usize = 16;

/// A change that would help by itself.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Remedy {
    /// At most this goodput, in bits per second.
    Goodput(f64),
    /// This number of cores.
    Cores(usize),
    /// Batches of at most this many firings.
    Batch(u32),
    /// No deadline shorter than this, in nanoseconds.
    Deadline(f64),
    /// This many payload bytes per packet, if the cost per packet stays the same.
    Payload(f64),
}

/// No plan fits.
#[derive(Debug, Clone, PartialEq)]
pub struct Infeasible {
    /// Why.
    pub reason: Reason,
    /// Changes that would help; each was tried by itself.
    pub help: Vec<Remedy>,
    /// Both in words.
    pub text: String,
}

/// Computes a plan, or the reason why there is none and what would help.
///
/// ```
/// use linecard_plan::{Cost, Demand, Edge, Graph, Machine, Port, PlanInput, StageSpec, Token, plan};
///
/// let packet = Port { token: Token::Packet, rate: 1 };
/// let edge = Edge { from: 0, gives: packet, to: 1, takes: packet };
/// let input = PlanInput {
///     graph: Graph::new(&["seal", "send"], &[edge]).expect("a chain"),
///     stages: vec![
///         StageSpec::new("seal", Cost::new(200.0, 300.0)?),
///         StageSpec::new("send", Cost::new(500.0, 100.0)?),
///     ],
///     demand: Demand {
///         goodput_bits_per_second: 25e9, payload: 1_408.0, payload_stage: 0, fec: None, loss: 0.0, lanes: 1,
///         chunks: 1,
///     },
///     machine: Machine::new(2),
/// };
/// let found = plan(&input).expect("a sound input").expect("two cores are enough");
/// assert_eq!((found.cores.len(), found.rings.len()), (2, 1));
///
/// let one = PlanInput { machine: Machine::new(1), ..input };
/// let refused = plan(&one).expect("a sound input").expect_err("one core is not");
/// assert!(refused.text.contains("2 cores"), "{}", refused.text);
/// # Ok::<(), linecard_plan::CostError>(())
/// ```
///
/// # Errors
///
/// If a value is out of its range. The inner error is the result that no plan fits.
pub fn plan(input: &PlanInput) -> Result<Result<Plan, Box<Infeasible>>, PlanError> {
    input.check()?;
    Ok(design(input).map_err(|reason| {
        let help = help(input);
        let text = text(input, &reason, &help);
        Box::new(Infeasible { reason, help, text })
    }))
}

fn help(input: &PlanInput) -> Vec<Remedy> {
    let mut help = Vec::new();
    help.extend(goodput(input).map(Remedy::Goodput));
    help.extend(cores(input).map(Remedy::Cores));
    help.extend(batch(input).map(Remedy::Batch));
    help.extend(deadline(input).map(Remedy::Deadline));
    help.extend(payload(input).map(Remedy::Payload));
    help
}

fn fits(input: &PlanInput) -> bool {
    design(input).is_ok()
}

/// The largest goodput that fits, approximately; none if not even a thousandth fits.
fn goodput(input: &PlanInput) -> Option<f64> {
    let at = |share: f64| {
        let mut less = input.clone();
        less.demand.goodput_bits_per_second *= share;
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
    Some(low * input.demand.goodput_bits_per_second)
}

fn cores(input: &PlanInput) -> Option<usize> {
    let cores = input.machine.cores;
    (cores + 1..=MAX_CORES.min(cores + MORE_CORES)).find(|&cores| {
        let mut more = input.clone();
        more.machine.cores = cores;
        fits(&more)
    })
}

fn batch(input: &PlanInput) -> Option<u32> {
    let longest = input.stages.iter().map(|stage| stage.batch[1]).max()?;
    let doubled = core::iter::successors(longest.checked_mul(2), |batch| batch.checked_mul(2));
    doubled.take_while(|batch| *batch <= MAX_BATCH).find(|&batch| {
        let mut more = input.clone();
        more.stages.iter_mut().for_each(|stage| stage.batch[1] = stage.batch[1].max(batch));
        fits(&more)
    })
}

/// The longest cycle without deadlines is a deadline that suffices; if the mapping differs then, up
/// to eight times that is tried.
fn deadline(input: &PlanInput) -> Option<f64> {
    let with = |deadline_ns: f64| {
        let mut later = input.clone();
        let stages = later.stages.iter_mut();
        stages.for_each(|stage| stage.deadline_ns = stage.deadline_ns.max(deadline_ns));
        later
    };
    let plan = design(&with(f64::INFINITY)).ok()?;
    let late = plan.cores.iter().filter(|core| {
        let deadlines = core.stages.iter().map(|&stage| input.stages[stage].deadline_ns);
        deadlines.fold(f64::INFINITY, f64::min) < core.cycle.bound_ns
    });
    let longest = late.map(|core| core.cycle.bound_ns).reduce(f64::max)?;
    [1.0, 2.0, 4.0, 8.0].map(|times| times * longest).into_iter().find(|&ns| fits(&with(ns)))
}

fn payload(input: &PlanInput) -> Option<f64> {
    // The payload sizes of usual MTUs, as in docs/design/plan.md.
    [1_408.0, 4_096.0, 8_896.0].into_iter().find(|&payload| {
        let mut larger = input.clone();
        larger.demand.payload = payload;
        payload > input.demand.payload && fits(&larger)
    })
}

fn text(input: &PlanInput, reason: &Reason, help: &[Remedy]) -> String {
    let names = |stages: &[usize]| {
        let names: Vec<&str> =
            stages.iter().map(|&stage| input.stages[stage].name.as_str()).collect();
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
            input.machine.most_used * 100.0
        ),
        Reason::Overrun { stages, late } => {
            let name = |stage: usize| &input.stages[stages[stage]].name;
            match *late {
                Overrun::Overload { used } => {
                    format!("{} need{} {used:.2} of one core", names(stages), s(stages))
                }
                Overrun::Batch { stage, needed } => format!(
                    "stage {} gets {needed} firings in a cycle of its core, and takes {} at a time",
                    name(stage),
                    input.stages[stages[stage]].batch[1]
                ),
                Overrun::Deadline { stage, cycle_ns } => format!(
                    "the shortest cycle that keeps up takes {}, and stage {} has to run every {}",
                    time(cycle_ns),
                    name(stage),
                    time(input.stages[stages[stage]].deadline_ns)
                ),
            }
        }
        Reason::Ring { from, to } => format!(
            "the ring from {} to {} would need more than {} slots",
            input.stages[*from].name,
            input.stages[*to].name,
            super::MAX_RING
        ),
    };
    let help: Vec<String> = help.iter().map(ToString::to_string).collect();
    let help = if help.is_empty() { "nothing of one kind".to_string() } else { help.join("; or ") };
    format!("{why}; what helps: {help}")
}

impl fmt::Display for Remedy {
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

#[cfg(test)]
mod tests {
    use super::super::*;
    use super::*;
    use linecard::rng::Rng;

    fn edge(from: usize, to: usize, gives: u32, takes: u32) -> Edge {
        let port = |rate| Port { token: Token::Packet, rate };
        Edge { from, gives: port(gives), to, takes: port(takes) }
    }

    /// `read → encode → seal → send`: 28 packets of payload make 32 on the wire.
    fn input(goodput_bits_per_second: f64, cores: usize) -> PlanInput {
        let cost = |fixed, each| Cost::new(fixed, each).expect("a cost");
        let on_wire = |name: &str, cost| StageSpec::new(name, cost);
        let mut stages = alloc::vec![
            StageSpec { on_wire: false, ..on_wire("read", cost(100.0, 50.0)) },
            StageSpec { on_wire: false, ..on_wire("encode", cost(200.0, 2_000.0)) },
            on_wire("seal", cost(100.0, 300.0)),
            on_wire("send", cost(500.0, 100.0)),
        ];
        stages[1].state = State::PerChunk;
        stages[3].state = State::PerLane;
        let edges = [edge(0, 1, 1, 28), edge(1, 2, 32, 1), edge(2, 3, 1, 1)];
        let graph = Graph::new(&["read", "encode", "seal", "send"], &edges).expect("a chain");
        let demand = Demand {
            goodput_bits_per_second,
            payload: 1_408.0,
            payload_stage: 0,
            fec: None,
            loss: 0.01,
            lanes: 2,
            chunks: 2,
        };
        PlanInput { graph, stages, demand, machine: Machine::new(cores) }
    }

    fn planned(input: &PlanInput) -> Result<Plan, Box<Infeasible>> {
        plan(input).expect("a sound question")
    }

    /// Worked by hand: 10 Gbit/s of 1,408-byte packets.
    #[test]
    fn requirements_capacities_and_utilisations_are_those_of_the_formulae() {
        let found = planned(&input(10e9, 4)).expect("it fits");
        let packets = 10e9 / (8.0 * 1_408.0);
        let near = |a: f64, b: f64| (a / b - 1.0).abs() < 1e-9;
        let [read, encode, seal, send] = &found.stages[..] else { unreachable!("four stages") };
        assert!(near(read.rate, packets) && near(encode.rate, packets / 28.0));
        assert!(near(seal.rate, packets * 32.0 / 28.0 / 0.99) && near(send.rate, seal.rate));
        assert!(near(seal.capacity, 64.0 * 1e9 / (100.0 + 64.0 * 300.0)));
        assert!(near(seal.used, seal.rate / seal.capacity));
        let all: f64 = found.stages.iter().map(|stage| stage.used).sum();
        assert_eq!(found.least_cores, ceil(all));
        assert!(found.most_goodput_bits_per_second >= 10e9 && found.latency_ns > 0.0);
    }

    #[test]
    fn fec_and_loss_count_for_what_is_on_the_wire() {
        let mut asked = input(10e9, 4);
        asked.demand = Demand { fec: Some((8, 2)), loss: 0.2, ..asked.demand };
        assert!((asked.demand.on_wire() - 1.25 / 0.8).abs() < 1e-12);
        assert!((asked.firings(0) - 1.0).abs() < 1e-12, "payload is read once");
        assert!((asked.firings(2) - 32.0 / 28.0 * 1.5625).abs() < 1e-12);
    }

    #[test]
    fn stages_are_replicated_as_their_state_allows() {
        // Sealing needs more than a core: any number of replicas. Sending: one a lane.
        let found = planned(&input(40e9, 8)).expect("eight cores are enough");
        assert!(found.stages[2].replicas >= 2, "{found:?}");
        let mut global = input(40e9, 8);
        global.stages[2].state = State::Global;
        let refused = planned(&global).expect_err("one replica only");
        assert!(matches!(refused.reason, Reason::Replicas { allowed: 1, .. }), "{refused:?}");
        let text = "stage seal needs 1.2";
        assert!(
            refused.text.starts_with(text) && refused.text.contains("2 replicas"),
            "{refused:?}"
        );
        assert!(refused.text.contains("Gbit/s"), "{refused:?}");
    }

    #[test]
    fn what_is_no_question_is_refused() {
        let wrong = |change: fn(&mut PlanInput)| {
            let mut asked = input(1e9, 2);
            change(&mut asked);
            plan(&asked).expect_err("no question").to_string()
        };
        assert!(wrong(|q| q.stages.truncate(3)).contains("3 stages"));
        assert!(wrong(|q| q.stages[0].batch = [0, 4]).contains("stage read: batches"));
        assert!(wrong(|q| q.stages[1].deadline_ns = f64::NAN).contains("deadline"));
        assert!(wrong(|q| q.stages[1].miss = 0.7).contains("misses"));
        assert!(wrong(|q| q.stages[1].beside = [9].into()).contains("beside"));
        assert!(wrong(|q| q.stages[1].cost.each_ns = f64::INFINITY).contains("cost"));
        assert!(wrong(|q| q.demand.goodput_bits_per_second = 0.0).contains("goodput"));
        assert!(wrong(|q| q.demand.payload = -1.0).contains("payload"));
        assert!(wrong(|q| q.demand.loss = 1.0).contains("loss"));
        assert!(wrong(|q| q.demand.fec = Some((0, 1))).contains("FEC"));
        assert!(wrong(|q| q.demand.lanes = 0).contains("lanes"));
        assert!(wrong(|q| q.demand.payload_stage = 4).contains("payload"));
        assert!(wrong(|q| q.machine.cores = 0).contains("0 cores"));
        assert!(wrong(|q| q.machine.most_used = 1.5).contains("share of a core"));
        assert!(wrong(|q| q.machine.crossing_ns[1] = -1.0).contains("crossing"));
    }

    fn random(rng: &mut Rng) -> PlanInput {
        let mut asked = input(1e8 + rng.below(20) as f64 * 1e9, 1 + rng.below(6) as usize);
        for stage in &mut asked.stages {
            let (a, e) = (rng.below(1_500) as f64, 1.0 + rng.below(250) as f64);
            stage.cost = Cost::new(a, e).expect("a cost");
            if rng.chance(0.5) {
                let points = [(0.8, 0.5), (1.1, 0.45), (3.0, 0.05)];
                stage.cost.spread = Spread::new(&points).expect("a spread");
            }
            if rng.chance(0.3) {
                stage.deadline_ns = 1e3 + rng.below(100_000) as f64;
            }
            let states = [State::None, State::PerChunk, State::PerLane, State::Global];
            stage.state = states[rng.below(4) as usize];
        }
        asked.stages[1].cost.each_ns *= 10.0;
        if rng.chance(0.3) {
            asked.stages[2].beside = [3].into();
        }
        asked.machine.crossing_ns = [rng.below(30) as f64, rng.below(60) as f64];
        asked.machine.cycle_ns = rng.below(80) as f64;
        asked
    }

    /// Seconds without optimisation.
    const ROUNDS: u32 = 60;

    /// Whatever is planned keeps every promise; whatever is not, fits with any one piece of advice.
    #[test]
    fn plans_and_advice_are_true() {
        let mut rng = Rng::new(31);
        let (mut fit, mut advised) = (0, 0);
        for _ in 0..ROUNDS {
            let asked = random(&mut rng);
            match planned(&asked) {
                Ok(found) => {
                    check_plan(&asked, &found);
                    fit += 1;
                }
                Err(refused) => {
                    for help in &refused.help {
                        check_help(&asked, *help);
                        advised += 1;
                    }
                }
            }
        }
        assert!(fit > ROUNDS / 5 && advised > ROUNDS / 3, "{fit} {advised}");
    }

    fn check_plan(asked: &PlanInput, found: &Plan) {
        assert!(found.most_used <= asked.machine.most_used + 1e-9, "{found:?}");
        assert!(found.cores.len() <= asked.machine.cores);
        for core in &found.cores {
            assert!(core.used <= found.most_used + 1e-9, "{core:?}");
            for ((stage, batch), miss) in
                core.stages.iter().zip(&core.cycle.batches).zip(&core.cycle.misses)
            {
                let spec = &asked.stages[*stage];
                let share = found.stages[*stage].rate / f64::from(found.stages[*stage].replicas);
                assert!(core.cycle.bound_ns <= spec.deadline_ns);
                assert!(core.cycle.bound_ns * share / 1e9 <= f64::from(*batch) * (1.0 + 1e-6));
                assert!(*miss <= spec.miss + 1e-6, "{core:?}");
            }
        }
        for (number, stage) in found.stages.iter().enumerate() {
            let allowed = asked.demand.most_replicas(asked.stages[number].state);
            assert!(stage.replicas <= allowed && stage.cores.len() == stage.replicas as usize);
        }
        if !asked.stages[2].beside.is_empty() {
            assert_eq!(found.stages[2].cores, found.stages[3].cores);
        }
        for ring in &found.rings {
            let edge = asked.graph.edges()[ring.edge];
            let burst = found.stages[edge.from].batch * edge.gives.rate;
            assert!(ring.slots.is_power_of_two() && ring.slots >= burst.into());
            assert!(ring.from_core != ring.to_core && ring.delay_ns > 0.0);
        }
        assert!(
            found.most_goodput_bits_per_second
                >= asked.demand.goodput_bits_per_second * (1.0 - 1e-6),
            "{found:?}"
        );
    }

    fn check_help(asked: &PlanInput, help: Remedy) {
        let mut better = asked.clone();
        match help {
            Remedy::Goodput(bps) => better.demand.goodput_bits_per_second = bps,
            Remedy::Cores(cores) => better.machine.cores = cores,
            Remedy::Batch(batch) => {
                better.stages.iter_mut().for_each(|s| s.batch[1] = s.batch[1].max(batch));
            }
            Remedy::Deadline(ns) => {
                better.stages.iter_mut().for_each(|s| s.deadline_ns = s.deadline_ns.max(ns));
            }
            Remedy::Payload(payload) => better.demand.payload = payload,
        }
        assert!(planned(&better).is_ok(), "{help:?} does not help {asked:?}");
    }
}
