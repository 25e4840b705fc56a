//! Finds a plan that fits, or the first reason why there is none.

use super::curve::{Arrival, Service};
use super::graph::Edge;
use super::mapping::Mapping;
use super::parts::{Cluster, MAX_PARTS, PartFlow, Parts, PlanInput, clusters};
use super::saturation::saturation;
use super::schedule::{Cycle, Load, Overrun, round_robin};
use alloc::vec::Vec;

/// The plan for a stage.
#[derive(Debug, Clone, PartialEq)]
pub struct StagePlan {
    /// `λ`: required firings per second.
    pub rate: f64,
    /// `h`: firings per second of one core with the longest batches.
    pub capacity: f64,
    /// `U = λ/h`.
    pub used: f64,
    /// Replicas.
    pub replicas: u32,
    /// Firings per call: the smallest batch that keeps up, of any replica.
    pub batch: u32,
    /// The core of each replica.
    pub cores: Vec<usize>,
}

/// The plan for a core.
#[derive(Debug, Clone, PartialEq)]
pub struct CorePlan {
    /// Stages by number, in the order of their calls.
    pub stages: Vec<usize>,
    /// Utilisation of the core with the longest batches.
    pub used: f64,
    /// The cycle that the core repeats.
    pub cycle: Cycle,
    /// The most payload packets per second that it can process.
    pub most_packets: f64,
}

/// A ring between two cores.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RingPlan {
    /// The edge of the graph, by number.
    pub edge: usize,
    /// The producing core.
    pub from_core: usize,
    /// The consuming core.
    pub to_core: usize,
    /// Slots: a power of two, sufficient for the worst case of the curves.
    pub slots: u64,
    /// The longest time that a token waits in it, nanoseconds.
    pub delay_ns: f64,
}

/// Which stage runs on which core, and the predicted performance.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The stages, by number.
    pub stages: Vec<StagePlan>,
    /// Cores with at least one stage, by number.
    pub cores: Vec<CorePlan>,
    /// Rings between them.
    pub rings: Vec<RingPlan>,
    /// `ΣU`, rounded up: cores needed if work could be divided at will.
    pub least_cores: u64,
    /// Utilisation of the most used core.
    pub most_used: f64,
    /// The highest goodput that this mapping can carry, bits per second.
    pub most_goodput_bits_per_second: f64,
    /// The longest time from the first stage to the last, except in a fraction `miss` of cycles,
    /// nanoseconds.
    pub latency_ns: f64,
    /// Predicted fraction of cycles that are too long, for the worst stage.
    pub miss: f64,
}

/// The first reason why no plan fits. Stages are given by number.
#[derive(Debug, Clone, PartialEq)]
pub enum Reason {
    /// Stages that share a core need more replicas than their state allows.
    Replicas {
        /// The stages.
        stages: Vec<usize>,
        /// Cores needed.
        used: f64,
        /// Replicas needed.
        needed: u32,
        /// Replicas allowed.
        allowed: u32,
    },
    /// There are too few cores for all the work.
    Cores {
        /// Cores needed if work could be divided at will and cores used in full.
        used: f64,
        /// Cores available.
        cores: usize,
    },
    /// A core cannot serve its stages in turn.
    Overrun {
        /// The stages on the core.
        stages: Vec<usize>,
        /// Why.
        late: Overrun,
    },
    /// A ring would need more slots than it may have.
    Ring {
        /// The producing stage.
        from: usize,
        /// The consuming stage.
        to: usize,
    },
}

/// Computes a plan, without advice.
pub(super) fn design(input: &PlanInput) -> Result<Plan, Reason> {
    let mut clusters = clusters(input);
    let all: f64 = (0..input.stages.len()).map(|stage| input.used(stage, 1)).sum();
    let cores = input.machine.cores;
    for cluster in &mut clusters {
        let (needed, allowed) = (cluster.needed(input), cluster.most_replicas(input));
        if needed > allowed {
            let used = cluster.used(input, 1);
            return Err(Reason::Replicas { stages: cluster.stages.clone(), used, needed, allowed });
        }
        if needed as usize > cores {
            return Err(Reason::Cores { used: all, cores });
        }
        cluster.replicas = needed;
    }
    let (parts, mapping) = place(input, &mut clusters, all)?;
    Design { input, clusters: &clusters, parts: &parts, mapping: &mapping }.plan(all)
}

/// Places the fewest parts that fit. If parts are too coarse, the heaviest gets one more replica.
fn place(
    input: &PlanInput,
    clusters: &mut [Cluster],
    all: f64,
) -> Result<(Parts, Mapping), Reason> {
    let (cores, most_used) = (input.machine.cores, input.machine.most_used);
    // Each round adds a replica, and their number is bounded.
    for _ in 0..MAX_PARTS {
        if clusters.iter().map(|cluster| cluster.replicas as usize).sum::<usize>() > MAX_PARTS {
            break;
        }
        let parts = Parts::new(input, clusters);
        let mapping = parts.problem(&input.machine).solve();
        if mapping.score.most_used <= most_used + 1e-9 {
            return Ok((parts, mapping));
        }
        let may_grow = |cluster: &&mut Cluster| {
            cluster.replicas < cluster.most_replicas(input).min(cores as u32)
        };
        let heaviest = clusters
            .iter_mut()
            .filter(may_grow)
            .max_by(|a, b| a.used(input, a.replicas).total_cmp(&b.used(input, b.replicas)));
        let Some(heaviest) = heaviest.filter(|_| all <= cores as f64 * most_used) else { break };
        heaviest.replicas += 1;
    }
    Err(Reason::Cores { used: all, cores })
}

/// A mapping that fits on average.
struct Design<'q> {
    input: &'q PlanInput,
    clusters: &'q [Cluster],
    parts: &'q Parts,
    mapping: &'q Mapping,
}

impl Design<'_> {
    fn plan(&self, all: f64) -> Result<Plan, Reason> {
        let cores: Result<Vec<CorePlan>, Reason> =
            (0..self.mapping.score.cores).map(|core| self.core(core)).collect();
        let cores = cores?;
        let stages: Vec<StagePlan> =
            (0..self.input.stages.len()).map(|stage| self.stage(stage, &cores)).collect();
        let rings: Result<Vec<RingPlan>, Reason> =
            self.crossings().map(|flow| self.ring(flow, &stages, &cores)).collect();
        let rings = rings?;
        let packets = cores.iter().map(|core| core.most_packets).fold(f64::INFINITY, f64::min);
        let misses = cores.iter().flat_map(|core| core.cycle.misses.iter().copied());
        Ok(Plan {
            latency_ns: self.latency_ns(&stages, &cores, &rings),
            least_cores: super::ceil(all).max(1),
            most_used: self.mapping.score.most_used,
            most_goodput_bits_per_second: packets * 8.0 * self.input.demand.payload,
            miss: misses.fold(0.0, f64::max),
            stages,
            cores,
            rings,
        })
    }

    /// Stages on a core in token order, and the part that each belongs to.
    fn stages_on(&self, core: usize) -> Vec<(usize, usize)> {
        let here = |part: &usize| self.mapping.core_of[*part] == core;
        let parts: Vec<usize> = (0..self.mapping.core_of.len()).filter(here).collect();
        let mut stages = Vec::new();
        for &stage in self.input.graph.order() {
            let has = |part: &&usize| {
                self.clusters[self.parts.cluster_of[**part]].stages.contains(&stage)
            };
            stages.extend(parts.iter().filter(has).map(|&part| (stage, part)));
        }
        stages
    }

    fn crossings(&self) -> impl Iterator<Item = &PartFlow> {
        let core_of = &self.mapping.core_of;
        self.parts.flows.iter().filter(|f| core_of[f.flow.from] != core_of[f.flow.to])
    }

    /// The additional cost of a firing, for tokens exchanged with other cores.
    fn extra_ns(&self, stage: usize, part: usize) -> f64 {
        let [giving, taking] = self.input.machine.crossing_ns;
        let edges = self.input.graph.edges();
        let each_second = self.crossings().map(|PartFlow { edge, rate, flow, .. }| {
            let gives = flow.from == part && edges[*edge].from == stage;
            let takes = flow.to == part && edges[*edge].to == stage;
            rate * (giving * f64::from(u8::from(gives)) + taking * f64::from(u8::from(takes)))
        });
        each_second.sum::<f64>() / self.rate(stage)
    }

    /// Firings of one replica per second.
    fn rate(&self, stage: usize) -> f64 {
        self.input.rate(stage) / f64::from(self.replicas(stage))
    }

    fn replicas(&self, stage: usize) -> u32 {
        let cluster = self.clusters.iter().find(|cluster| cluster.stages.contains(&stage));
        cluster.map_or(1, |cluster| cluster.replicas)
    }

    fn core(&self, core: usize) -> Result<CorePlan, Reason> {
        let stages = self.stages_on(core);
        let input = self.input;
        let load = |&(stage, part): &(usize, usize)| {
            let spec = &input.stages[stage];
            Load {
                cost: &spec.cost,
                extra_ns: self.extra_ns(stage, part),
                rate: self.rate(stage),
                deadline_ns: spec.deadline_ns,
                miss: spec.miss,
                batch: spec.batch,
            }
        };
        let loads: Vec<Load<'_>> = stages.iter().map(load).collect();
        let other_ns = input.machine.cycle_ns;
        let late =
            |late| Reason::Overrun { stages: stages.iter().map(|(s, _)| *s).collect(), late };
        let cycle = round_robin(&loads, other_ns).map_err(late)?;
        let used = stages.iter().zip(&loads).map(|(&(stage, _), load)| {
            let extra = load.rate * load.extra_ns / 1e9;
            input.used(stage, self.replicas(stage)) + extra
        });
        let packets = input.demand.packets_per_second();
        let most: Vec<_> = loads
            .iter()
            .map(|load| (load.cost, load.rate / packets, load.batch[1], load.extra_ns))
            .collect();
        Ok(CorePlan {
            used: used.sum(),
            cycle,
            most_packets: saturation(&most, other_ns).unwrap_or(f64::INFINITY),
            stages: stages.iter().map(|(stage, _)| *stage).collect(),
        })
    }

    fn stage(&self, stage: usize, cores: &[CorePlan]) -> StagePlan {
        let replicas = self.replicas(stage);
        let rate = self.input.rate(stage);
        let longest = self.input.longest_batch(stage, rate / f64::from(replicas));
        let capacity = self.input.stages[stage].cost.capacity(longest);
        let mut plan = StagePlan {
            rate,
            capacity,
            used: rate / capacity,
            replicas,
            batch: 0,
            cores: Vec::new(),
        };
        for (number, core) in cores.iter().enumerate() {
            let calls = core.stages.iter().zip(&core.cycle.batches);
            for (_, &batch) in calls.filter(|(other, _)| **other == stage) {
                plan.cores.push(number);
                plan.batch = plan.batch.max(batch);
            }
        }
        plan
    }

    /// The producer finishes with a call; the consumer gets its turn once per cycle.
    fn ring(
        &self,
        part: &PartFlow,
        stages: &[StagePlan],
        cores: &[CorePlan],
    ) -> Result<RingPlan, Reason> {
        let Edge { from, gives, to, takes, .. } = self.input.graph.edges()[part.edge];
        let core_of = &self.mapping.core_of;
        let (from_core, to_core) = (core_of[part.flow.from], core_of[part.flow.to]);
        let cycle_ns = cores[to_core].cycle.bound_ns;
        let tokens = f64::from(stages[to].batch) * f64::from(takes.rate);
        let service = Service {
            rate: (tokens * 1e9 / cycle_ns / f64::from(part.givers)).max(part.rate),
            latency_ns: cycle_ns,
        };
        let burst = f64::from(stages[from].batch) * f64::from(gives.rate);
        let arrival = Arrival { burst, rate: part.rate };
        let (Some(slots), Some(delay_ns)) = (arrival.ring(service), arrival.delay_ns(service))
        else {
            return Err(Reason::Ring { from, to });
        };
        Ok(RingPlan { edge: part.edge, from_core, to_core, slots, delay_ns })
    }

    /// Along the longest path: a token waits for the next cycle and is processed in it; it passes
    /// consecutive stages of a core in one cycle, and waits in each ring.
    fn latency_ns(&self, stages: &[StagePlan], cores: &[CorePlan], rings: &[RingPlan]) -> f64 {
        let longest = |stage: usize| {
            let bounds = stages[stage].cores.iter().map(|core| cores[*core].cycle.bound_ns);
            bounds.fold(0.0, f64::max)
        };
        let mut until = alloc::vec![0.0_f64; stages.len()];
        for &stage in self.input.graph.order() {
            let edges = self.input.graph.edges().iter().enumerate();
            let mut begins: Option<f64> = None;
            for (number, edge) in edges.filter(|(_, edge)| edge.to == stage) {
                let waits = rings.iter().filter(|ring| ring.edge == number);
                let wait = waits.map(|ring| ring.delay_ns).reduce(f64::max);
                let comes = until[edge.from] + wait.map_or(0.0, |wait| wait + longest(stage));
                begins = Some(begins.map_or(comes, |begins| begins.max(comes)));
            }
            until[stage] = begins.unwrap_or(2.0 * longest(stage));
        }
        until.into_iter().fold(0.0, f64::max)
    }
}
