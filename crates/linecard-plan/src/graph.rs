//! A graph of stages whose edges carry tokens at fixed rates: synchronous data flow.
//!
//! Source: E. A. Lee and D. G. Messerschmitt, "Synchronous data flow", 1987: a graph has a periodic
//! schedule iff its balance equations have a solution, the repetition vector.

use super::ratio::{Ratio, integers};
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

/// The most stages of a graph: more than any protocol here has.
pub const MAX_STAGES: usize = 64;
/// The most edges of a graph: four per stage.
pub const MAX_EDGES: usize = 4 * MAX_STAGES;

/// The unit that passes on an edge, and that one firing of a stage processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Token {
    /// A packet on the wire.
    Packet,
    /// Packets that belong together: a large packet with its segments, a FEC group.
    Group,
    /// A piece of an object, 16 MiB for example.
    Chunk,
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Packet => "packet",
            Self::Group => "group",
            Self::Chunk => "chunk",
        })
    }
}

/// One end of an edge: the tokens that one firing of its stage produces or consumes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Port {
    /// The kind of token.
    pub token: Token,
    /// Tokens per firing, at least 1.
    pub rate: u32,
}

/// A connection from an output of one stage to an input of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Edge {
    /// The producing stage, by number.
    pub from: usize,
    /// Output of one firing.
    pub gives: Port,
    /// The consuming stage.
    pub to: usize,
    /// Input of one firing.
    pub takes: Port,
}

/// Why stages and edges do not form a graph that can run forever in bounded memory.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
#[non_exhaustive]
pub enum GraphError {
    #[error("there is no stage: name at least one")]
    Empty,
    #[error("{stages} stages and {edges} edges: at most {MAX_STAGES} and {MAX_EDGES} are planned")]
    TooLarge { stages: usize, edges: usize },
    #[error("two stages are named {0}: give each a name of its own")]
    Duplicate(String),
    #[error("an edge names stage number {0}, which does not exist")]
    Unknown(usize),
    #[error("the edge from {from} to {to} moves no token in a firing: rates are at least 1")]
    ZeroRate { from: String, to: String },
    #[error("{from} gives tokens of kind {gives} where {to} takes {takes}")]
    Token { from: String, gives: Token, to: String, takes: Token },
    #[error(
        "the rates contradict each other at the edge from {from} to {to}: over another way {to} \
         would have to fire at another rate, and tokens would accumulate without bound"
    )]
    Inconsistent { from: String, to: String },
    #[error("{0} is in a cycle: feedback goes by acknowledgments and timers, not by edges")]
    Cycle(String),
    #[error("{0} is not connected: give it an edge, or leave it out")]
    Unconnected(String),
    #[error("the rates up to {0} multiply to more than 64 bits hold")]
    Overflow(String),
}

impl GraphError {
    /// The stage that it is about: of an edge the one that takes.
    #[must_use]
    pub fn stage(&self) -> Option<&str> {
        match self {
            Self::Duplicate(name)
            | Self::Cycle(name)
            | Self::Unconnected(name)
            | Self::Overflow(name)
            | Self::ZeroRate { to: name, .. }
            | Self::Token { to: name, .. }
            | Self::Inconsistent { to: name, .. } => Some(name),
            Self::Empty | Self::TooLarge { .. } | Self::Unknown(_) => None,
        }
    }
}

/// An acyclic, connected, consistent graph of stages.
///
/// ```
/// use linecard_plan::{Edge, Graph, Port, Token};
///
/// let group = Port { token: Token::Packet, rate: 32 };
/// let packet = Port { token: Token::Packet, rate: 1 };
/// let edge = Edge { from: 0, gives: group, to: 1, takes: packet };
/// let graph = Graph::new(&["segment", "seal"], &[edge])?;
/// assert_eq!(graph.repetitions(), [1, 32]);
/// # Ok::<(), linecard_plan::GraphError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Graph {
    names: Vec<String>,
    edges: Vec<Edge>,
    repetitions: Vec<u64>,
    order: Vec<usize>,
}

impl Graph {
    /// Connects stages, which are identified by their index in `names`.
    ///
    /// # Errors
    ///
    /// The reason why it cannot run forever in bounded memory.
    pub fn new<S: ToString>(names: &[S], edges: &[Edge]) -> Result<Self, GraphError> {
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        check_size(&names, edges)?;
        check_edges(&names, edges)?;
        let order = order(&names, edges)?;
        let repetitions = repetitions(&names, edges)?;
        Ok(Self { names, edges: edges.to_vec(), repetitions, order })
    }

    /// Firings of each stage in one iteration, after which every edge has as many tokens as before:
    /// smallest integers.
    #[must_use]
    pub fn repetitions(&self) -> &[u64] {
        &self.repetitions
    }

    /// Names of stages, by number.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The edges, as given.
    #[must_use]
    pub fn edges(&self) -> &[Edge] {
        &self.edges
    }

    /// Stages by number in topological order.
    #[must_use]
    pub fn order(&self) -> &[usize] {
        &self.order
    }
}

fn check_size(names: &[String], edges: &[Edge]) -> Result<(), GraphError> {
    if names.is_empty() {
        return Err(GraphError::Empty);
    }
    if names.len() > MAX_STAGES || edges.len() > MAX_EDGES {
        return Err(GraphError::TooLarge { stages: names.len(), edges: edges.len() });
    }
    let twice = names.iter().enumerate().find(|(at, name)| names[..*at].contains(name));
    twice.map_or(Ok(()), |(_, name)| Err(GraphError::Duplicate(name.clone())))
}

fn check_edges(names: &[String], edges: &[Edge]) -> Result<(), GraphError> {
    let name = |stage: usize| names.get(stage).cloned().ok_or(GraphError::Unknown(stage));
    for edge in edges {
        let (from, to) = (name(edge.from)?, name(edge.to)?);
        if edge.gives.rate == 0 || edge.takes.rate == 0 {
            return Err(GraphError::ZeroRate { from, to });
        }
        let (gives, takes) = (edge.gives.token, edge.takes.token);
        if gives != takes {
            return Err(GraphError::Token { from, gives, to, takes });
        }
    }
    Ok(())
}

/// Stages in topological order (Kahn's algorithm); ties go to the first named.
fn order(names: &[String], edges: &[Edge]) -> Result<Vec<usize>, GraphError> {
    let mut order = Vec::new();
    let mut is_placed = alloc::vec![false; names.len()];
    while order.len() < names.len() {
        let waits = |stage: usize| edges.iter().any(|e| e.to == stage && !is_placed[e.from]);
        let next = (0..names.len()).find(|&stage| !is_placed[stage] && !waits(stage));
        let Some(stage) = next else { return Err(GraphError::Cycle(in_cycle(names, edges))) };
        is_placed[stage] = true;
        order.push(stage);
    }
    Ok(order)
}

/// The first stage that is part of a cycle.
fn in_cycle(names: &[String], edges: &[Edge]) -> String {
    let returns = |&stage: &usize| {
        let mut reached = alloc::vec![false; names.len()];
        // As many rounds as there are stages reach everything that is reachable.
        for _ in 0..names.len() {
            for edge in edges {
                reached[edge.to] |= edge.from == stage || reached[edge.from];
            }
        }
        reached[stage]
    };
    let stage = (0..names.len()).find(returns);
    stage.map(|stage| names[stage].clone()).unwrap_or_default()
}

/// Solves `firings(from) · gives = firings(to) · takes` for all edges.
fn repetitions(names: &[String], edges: &[Edge]) -> Result<Vec<u64>, GraphError> {
    let mut ratios: Vec<Option<Ratio>> = alloc::vec![None; names.len()];
    ratios[0] = Some(Ratio::ONE);
    let too_large = |stage: usize| GraphError::Overflow(names[stage].clone());
    // Each round reaches the neighbours of known stages.
    for _ in 0..names.len() {
        for edge in edges {
            let (gives, takes) = (edge.gives.rate, edge.takes.rate);
            match (ratios[edge.from], ratios[edge.to]) {
                (Some(from), None) => {
                    let to = from.scaled(gives, takes).ok_or_else(|| too_large(edge.to))?;
                    ratios[edge.to] = Some(to);
                }
                (None, Some(to)) => {
                    let from = to.scaled(takes, gives).ok_or_else(|| too_large(edge.from))?;
                    ratios[edge.from] = Some(from);
                }
                (Some(from), Some(to)) if from.scaled(gives, takes) != Some(to) => {
                    let (from, to) = (names[edge.from].clone(), names[edge.to].clone());
                    return Err(GraphError::Inconsistent { from, to });
                }
                _ => {}
            }
        }
    }
    let alone = ratios.iter().position(Option::is_none);
    if let Some(stage) = alone {
        return Err(GraphError::Unconnected(names[stage].clone()));
    }
    let ratios: Vec<Ratio> = ratios.into_iter().flatten().collect();
    integers(&ratios).ok_or_else(|| too_large(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use linecard::rng::Rng;

    fn edge(from: usize, gives: u32, to: usize, takes: u32) -> Edge {
        let port = |rate| Port { token: Token::Packet, rate };
        Edge { from, gives: port(gives), to, takes: port(takes) }
    }

    #[test]
    fn fec_groups_are_balanced() {
        // 28 packets in, 32 out; 4 lanes take in turn.
        let edges = [edge(0, 1, 1, 28), edge(1, 32, 2, 1)];
        let graph = Graph::new(&["split", "encode", "seal"], &edges).expect("consistent");
        assert_eq!(graph.repetitions(), [28, 1, 32]);
        assert_eq!(graph.order(), [0, 1, 2]);
    }

    #[test]
    fn what_cannot_run_for_ever_is_refused() {
        let three = ["a", "b", "c"];
        let refused = |edges: &[Edge]| Graph::new(&three, edges).expect_err("refused").to_string();
        let diamond = [edge(0, 1, 1, 1), edge(1, 2, 2, 1), edge(0, 1, 2, 1)];
        assert!(refused(&diamond).contains("contradict each other at the edge from a to c"));
        let cycle = [edge(0, 1, 1, 1), edge(1, 1, 2, 1), edge(2, 1, 1, 1)];
        assert!(refused(&cycle).starts_with("b is in a cycle"));
        assert!(refused(&[edge(0, 1, 0, 1)]).starts_with("a is in a cycle"));
        assert!(refused(&[edge(0, 1, 1, 1)]).starts_with("c is not connected"));
        assert!(refused(&[edge(0, 0, 1, 1)]).contains("at least 1"));
        assert!(refused(&[edge(0, 1, 7, 1)]).contains("number 7"));
        let kinds = Edge { takes: Port { token: Token::Chunk, rate: 1 }, ..edge(0, 1, 1, 1) };
        assert!(refused(&[kinds]).contains("gives tokens of kind packet where b takes chunk"));
        assert_eq!(Graph::new(&["a", "a"], &[]), Err(GraphError::Duplicate("a".into())));
        assert_eq!(Graph::new::<&str>(&[], &[]), Err(GraphError::Empty));
        let many: Vec<usize> = (0..=MAX_STAGES).collect();
        assert!(matches!(Graph::new(&many, &[]), Err(GraphError::TooLarge { .. })));
        let steep: Vec<Edge> = (0..30).map(|n| edge(n, u32::MAX, n + 1, 1)).collect();
        let names: Vec<usize> = (0..31).collect();
        assert!(matches!(Graph::new(&names, &steep), Err(GraphError::Overflow(_))));
        assert_eq!(Graph::new(&["alone"], &[]).map(|g| g.repetitions().to_vec()), Ok([1].into()));
    }

    /// Rates made from repetitions have them as their solution, and no longer when one is changed.
    #[test]
    fn random_graphs_have_the_repetitions_that_they_were_made_from() {
        let mut rng = Rng::new(1);
        for _ in 0..2_000 {
            let stages = 2 + rng.below(8) as usize;
            let wanted: Vec<u64> = (0..stages).map(|_| 1 + rng.below(12)).collect();
            let mut edges = Vec::new();
            for to in 1..stages {
                for _ in 0..=rng.below(2) {
                    let from = rng.below(to as u64) as usize;
                    let k = 1 + rng.below(3) as u32;
                    edges.push(edge(from, k * wanted[to] as u32, to, k * wanted[from] as u32));
                }
            }
            let names: Vec<usize> = (0..stages).collect();
            let graph = Graph::new(&names, &edges).expect("consistent by construction");
            let got = graph.repetitions();
            assert!((1..stages).all(|s| got[s] * wanted[0] == wanted[s] * got[0]), "{edges:?}");
            let twice =
                edge(edges[0].from, 1 + edges[0].gives.rate, edges[0].to, edges[0].takes.rate);
            assert!(matches!(
                Graph::new(&names, &[&edges[..], &[twice]].concat()),
                Err(GraphError::Inconsistent { .. })
            ));
        }
    }
}
