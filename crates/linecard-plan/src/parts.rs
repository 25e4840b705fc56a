//! Derives the parts to place from the input: how often each stage fires, how many replicas it
//! needs, and what flows between them.

use super::graph::Graph;
use super::mapping::{Flow, Problem};
use super::stage::{Demand, Machine, PlanError, StageSpec};
use alloc::vec::Vec;

/// The most parts, replicas included, that can be placed.
pub const MAX_PARTS: usize = 128;

/// The input of a plan.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanInput {
    /// How the stages are connected.
    pub graph: Graph,
    /// The stages, by their numbers in the graph.
    pub stages: Vec<StageSpec>,
    /// The required performance.
    pub demand: Demand,
    /// The machine that they run on.
    pub machine: Machine,
}

impl PlanInput {
    pub(super) fn check(&self) -> Result<(), PlanError> {
        let (specs, stages) = (self.stages.len(), self.graph.names().len());
        if specs != stages {
            return Err(PlanError::Stages { specs, stages });
        }
        self.stages.iter().try_for_each(|stage| stage.check(stages))?;
        self.demand.check(stages)?;
        self.machine.check()
    }

    /// Firings of a stage per payload packet: its repetitions relative to those of the payload
    /// stage, and more if the stage processes everything on the wire.
    #[must_use]
    pub fn firings(&self, stage: usize) -> f64 {
        let q = self.graph.repetitions();
        let each = q[stage] as f64 / q[self.demand.payload_stage] as f64;
        if self.stages[stage].on_wire { each * self.demand.on_wire() } else { each }
    }

    /// `λ`: firings of a stage per second.
    #[must_use]
    pub fn rate(&self, stage: usize) -> f64 {
        self.firings(stage) * self.demand.packets_per_second()
    }

    /// The longest useful batch for a stage of which one replica fires at this rate: a longer one
    /// would miss its deadline.
    #[must_use]
    pub fn longest_batch(&self, stage: usize, rate: f64) -> f64 {
        let StageSpec { batch: [least, most], deadline_ns, .. } = self.stages[stage];
        (rate * deadline_ns / 1e9).clamp(least.into(), most.into())
    }

    /// `U = λ·C(b)/b` of a replica, with the longest batch.
    #[must_use]
    pub fn used(&self, stage: usize, replicas: u32) -> f64 {
        let rate = self.rate(stage) / f64::from(replicas);
        let batch = self.longest_batch(stage, rate);
        rate * self.stages[stage].cost.at(batch) / (batch * 1e9)
    }
}

/// Stages that share a core, as one part with replicas.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Cluster {
    /// In token order.
    pub(super) stages: Vec<usize>,
    pub(super) replicas: u32,
}

impl Cluster {
    /// Utilisation of a core by one replica.
    pub(super) fn used(&self, input: &PlanInput, replicas: u32) -> f64 {
        self.stages.iter().map(|&stage| input.used(stage, replicas)).sum()
    }

    /// Replicas that the states of its stages allow.
    pub(super) fn most_replicas(&self, input: &PlanInput) -> u32 {
        let allowed = |&stage: &usize| input.demand.most_replicas(input.stages[stage].state);
        self.stages.iter().map(allowed).min().unwrap_or(1)
    }

    /// The smallest number of replicas of which each fits on a core.
    pub(super) fn needed(&self, input: &PlanInput) -> u32 {
        let ratio = self.used(input, 1) / input.machine.most_used;
        // A number that does not fit 32 bits exceeds what any state or machine allows.
        u32::try_from(super::ceil(ratio)).unwrap_or(u32::MAX).max(1)
    }
}

/// The stages, grouped by those that have to share a core; one replica of each.
pub(super) fn clusters(input: &PlanInput) -> Vec<Cluster> {
    let mut of: Vec<usize> = (0..input.stages.len()).collect();
    for (stage, spec) in input.stages.iter().enumerate() {
        for &other in &spec.beside {
            let (from, to) = (of[stage].max(of[other]), of[stage].min(of[other]));
            of.iter_mut().filter(|cluster| **cluster == from).for_each(|cluster| *cluster = to);
        }
    }
    let mut clusters: Vec<(usize, Cluster)> = Vec::new();
    for &stage in input.graph.order() {
        match clusters.iter_mut().find(|(number, _)| *number == of[stage]) {
            Some((_, cluster)) => cluster.stages.push(stage),
            None => {
                let cluster = Cluster { stages: alloc::vec![stage], replicas: 1 };
                clusters.push((of[stage], cluster));
            }
        }
    }
    clusters.into_iter().map(|(_, cluster)| cluster).collect()
}

/// A flow between replicas, and the edge that it belongs to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct PartFlow {
    pub(super) edge: usize,
    /// Tokens per second.
    pub(super) rate: f64,
    /// Replicas that feed the consuming one.
    pub(super) givers: u32,
    pub(super) flow: Flow,
}

/// The parts to place: replica `r` of cluster `c` is part `first[c] + r`.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Parts {
    pub(super) first: Vec<usize>,
    /// Cluster of each part.
    pub(super) cluster_of: Vec<usize>,
    pub(super) flows: Vec<PartFlow>,
    pub(super) loads: Vec<f64>,
}

impl Parts {
    pub(super) fn new(input: &PlanInput, clusters: &[Cluster]) -> Self {
        let (mut first, mut cluster_of, mut loads) = (Vec::new(), Vec::new(), Vec::new());
        for (number, cluster) in clusters.iter().enumerate() {
            first.push(loads.len());
            let used = cluster.used(input, cluster.replicas);
            for _ in 0..cluster.replicas {
                cluster_of.push(number);
                loads.push(used);
            }
        }
        let mut parts = Self { first, cluster_of, flows: Vec::new(), loads };
        for edge in 0..input.graph.edges().len() {
            parts.add_flows(input, clusters, edge);
        }
        parts
    }

    /// Equal numbers of replicas are connected one to one, as lanes are; otherwise each to each.
    fn add_flows(&mut self, input: &PlanInput, clusters: &[Cluster], number: usize) {
        let edge = input.graph.edges()[number];
        let cluster = |stage: usize| clusters.iter().position(|c| c.stages.contains(&stage));
        let (Some(from), Some(to)) = (cluster(edge.from), cluster(edge.to)) else { return };
        if from == to {
            return;
        }
        let (gives, takes) = (clusters[from].replicas, clusters[to].replicas);
        let tokens = input.rate(edge.to) * f64::from(edge.takes.rate);
        let is_parallel = gives == takes;
        let (pairs, givers) = if is_parallel { (gives, 1) } else { (gives * takes, gives) };
        let rate = tokens / f64::from(pairs);
        let crossing = input.machine.crossing_ns.map(|ns| rate * ns / 1e9);
        for giver in 0..gives as usize {
            for taker in 0..takes as usize {
                if is_parallel && giver != taker {
                    continue;
                }
                let flow =
                    Flow { from: self.first[from] + giver, to: self.first[to] + taker, crossing };
                self.flows.push(PartFlow { edge: number, rate, givers, flow });
            }
        }
    }

    pub(super) fn problem(&self, machine: &Machine) -> Problem {
        Problem {
            loads: self.loads.clone(),
            flows: self.flows.iter().map(|flow| flow.flow).collect(),
            cores: machine.cores,
            prefer: machine.prefer,
            most_used: machine.most_used,
        }
    }
}
