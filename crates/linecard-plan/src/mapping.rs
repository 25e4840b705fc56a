//! Assigns parts to cores: a search that is exact as long as it is small.
//!
//! Parts are placed in turn, the heaviest first, on each core in use and on one empty core (cores
//! are equal, so other empty ones add nothing). A branch is abandoned as soon as it cannot beat the
//! best mapping so far. A token that crosses cores costs both cores more. If there are too many
//! parts for the search's budget of steps, the initial solution is the result: each part on the
//! least used core, improved by moves and exchanges.

use super::stage::Objective;
use alloc::vec::Vec;
use core::cmp::Ordering;

/// Steps of a search: some tens of milliseconds, and more than eight parts on eight cores need.
const MAX_STEPS: u32 = 200_000;
/// Rounds of moves and exchanges before the search: each applies the best one.
const MAX_ROUNDS: u32 = 16;
/// Utilisations that differ by less than this count as equal.
const EQUAL: f64 = 1e-9;

/// The parts to place, and the costs of doing so.
#[derive(Debug, Clone, PartialEq)]
pub struct Problem {
    /// Utilisation of a core by each part.
    pub loads: Vec<f64>,
    /// Flows of tokens between parts.
    pub flows: Vec<Flow>,
    /// Number of equal cores, at least 1.
    pub cores: usize,
    /// The objective.
    pub prefer: Objective,
    /// The highest allowed utilisation of a core: mappings above it are worse than any below.
    pub most_used: f64,
}

/// Tokens that flow from one part to another.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Flow {
    /// The producing part.
    pub from: usize,
    /// The consuming part.
    pub to: usize,
    /// Additional utilisation of the producing and of the consuming core if they differ.
    pub crossing: [f64; 2],
}

/// The quality of a mapping.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Score {
    /// Utilisation of the most used core.
    pub most_used: f64,
    /// Flows between cores.
    pub crossings: usize,
    /// Cores in use.
    pub cores: usize,
}

/// The core of each part, and the quality of that.
#[derive(Debug, Clone, PartialEq)]
pub struct Mapping {
    /// Core of each part; those in use are numbered from 0.
    pub core_of: Vec<usize>,
    /// Its quality.
    pub score: Score,
}

impl Problem {
    /// The score of an assignment of parts to cores.
    #[must_use]
    pub fn score(&self, core_of: &[usize]) -> Score {
        let mut used = alloc::vec![0.0; self.cores];
        let mut has_part = alloc::vec![false; self.cores];
        for (load, core) in self.loads.iter().zip(core_of) {
            used[*core] += load;
            has_part[*core] = true;
        }
        let crosses = |flow: &&Flow| core_of[flow.from] != core_of[flow.to];
        for flow in self.flows.iter().filter(crosses) {
            used[core_of[flow.from]] += flow.crossing[0];
            used[core_of[flow.to]] += flow.crossing[1];
        }
        Score {
            most_used: used.iter().copied().fold(0.0, f64::max),
            crossings: self.flows.iter().filter(crosses).count(),
            cores: has_part.iter().filter(|has| **has).count(),
        }
    }

    /// `Less` if the first is better.
    #[must_use]
    pub fn compare(&self, a: Score, b: Score) -> Ordering {
        let over = |score: Score| (score.most_used - self.most_used).max(0.0);
        let used = near(a.most_used, b.most_used);
        let fits = near(over(a), over(b));
        let few = (a.crossings, a.cores).cmp(&(b.crossings, b.cores));
        match self.prefer {
            Objective::Balance => fits.then(used).then(few),
            Objective::FewCores => fits.then(a.cores.cmp(&b.cores)).then(used).then(few),
        }
    }

    /// The best mapping that the search finds.
    ///
    /// ```
    /// use linecard_plan::{Objective, Problem};
    /// let problem = Problem {
    ///     loads: vec![0.5, 0.4, 0.3, 0.2],
    ///     flows: Vec::new(),
    ///     cores: 2,
    ///     prefer: Objective::Balance,
    ///     most_used: 1.0,
    /// };
    /// assert!((problem.solve().score.most_used - 0.7).abs() < 1e-9);
    /// ```
    #[must_use]
    pub fn solve(&self) -> Mapping {
        let mut order: Vec<usize> = (0..self.loads.len()).collect();
        order.sort_by(|&a, &b| self.loads[b].total_cmp(&self.loads[a]));
        let mut start = self.spread(&order);
        self.improve(&mut start);
        let packed = alloc::vec![0; self.loads.len()];
        let mut best = Mapping { score: self.score(&start), core_of: start };
        let together = self.score(&packed);
        if self.compare(together, best.score) == Ordering::Less {
            best = Mapping { core_of: packed, score: together };
        }
        let mut search = Search::new(self, order, best);
        search.place(0, 0);
        search.best.renumbered()
    }

    /// Assigns each part to the least used core.
    fn spread(&self, order: &[usize]) -> Vec<usize> {
        let mut used = alloc::vec![0.0; self.cores];
        let mut core_of = alloc::vec![0; self.loads.len()];
        for &part in order {
            let least = (0..self.cores).min_by(|&a, &b| f64::total_cmp(&used[a], &used[b]));
            core_of[part] = least.unwrap_or(0);
            used[core_of[part]] += self.loads[part];
        }
        core_of
    }

    /// Moves and exchanges parts as long as that helps, for a limited number of rounds.
    fn improve(&self, core_of: &mut Vec<usize>) {
        for _ in 0..MAX_ROUNDS {
            let before = self.score(core_of);
            let mut best = (before, core_of.clone());
            for part in 0..self.loads.len() {
                let moves = (0..self.cores).map(|core| {
                    let mut moved = core_of.clone();
                    moved[part] = core;
                    moved
                });
                let exchanges = (0..part).map(|other| {
                    let mut moved = core_of.clone();
                    moved.swap(part, other);
                    moved
                });
                for moved in moves.chain(exchanges) {
                    let score = self.score(&moved);
                    if self.compare(score, best.0) == Ordering::Less {
                        best = (score, moved);
                    }
                }
            }
            if self.compare(best.0, before) != Ordering::Less {
                return;
            }
            *core_of = best.1;
        }
    }
}

impl Mapping {
    /// Renumbers cores in the order in which parts use them.
    fn renumbered(mut self) -> Self {
        let mut known: Vec<usize> = Vec::new();
        for core in &mut self.core_of {
            let at = known.iter().position(|other| other == core);
            *core = at.unwrap_or_else(|| {
                known.push(*core);
                known.len() - 1
            });
        }
        self
    }
}

/// The state of a search.
struct Search<'p> {
    problem: &'p Problem,
    order: Vec<usize>,
    /// Core of each part placed so far.
    core_of: Vec<Option<usize>>,
    used: Vec<f64>,
    crossings: usize,
    best: Mapping,
    steps: u32,
}

impl<'p> Search<'p> {
    fn new(problem: &'p Problem, order: Vec<usize>, best: Mapping) -> Self {
        let (core_of, used) = (alloc::vec![None; order.len()], alloc::vec![0.0; problem.cores]);
        Self { problem, order, core_of, used, crossings: 0, best, steps: 0 }
    }

    /// Places part number `turn` and all after it; `cores` cores are in use.
    fn place(&mut self, turn: usize, cores: usize) {
        let Some(&part) = self.order.get(turn) else { return self.take(cores) };
        for core in 0..(cores + 1).min(self.problem.cores) {
            if self.steps == MAX_STEPS {
                return;
            }
            self.steps += 1;
            let (used, crossings) = (self.used.clone(), self.crossings);
            self.put(part, core);
            if self.may_win(cores.max(core + 1)) {
                self.place(turn + 1, cores.max(core + 1));
            }
            self.core_of[part] = None;
            (self.used, self.crossings) = (used, crossings);
        }
    }

    fn put(&mut self, part: usize, core: usize) {
        self.core_of[part] = Some(core);
        self.used[core] += self.problem.loads[part];
        for flow in &self.problem.flows {
            if flow.from != part && flow.to != part {
                continue;
            }
            let (Some(from), Some(to)) = (self.core_of[flow.from], self.core_of[flow.to]) else {
                continue;
            };
            if from != to {
                self.used[from] += flow.crossing[0];
                self.used[to] += flow.crossing[1];
                self.crossings += 1;
            }
        }
    }

    /// Placing more parts never improves the score, and the most used core has at least the mean
    /// utilisation.
    fn may_win(&self, cores: usize) -> bool {
        let mean = self.problem.loads.iter().sum::<f64>() / self.problem.cores as f64;
        let most_used = self.used.iter().copied().fold(mean, f64::max);
        let least = Score { most_used, crossings: self.crossings, cores };
        self.problem.compare(least, self.best.score) == Ordering::Less
    }

    fn take(&mut self, cores: usize) {
        let most_used = self.used.iter().copied().fold(0.0, f64::max);
        let score = Score { most_used, crossings: self.crossings, cores };
        if self.problem.compare(score, self.best.score) == Ordering::Less {
            let core_of = self.core_of.iter().map(|core| core.unwrap_or(0)).collect();
            self.best = Mapping { core_of, score };
        }
    }
}

fn near(a: f64, b: f64) -> Ordering {
    if (a - b).abs() <= EQUAL { Ordering::Equal } else { a.total_cmp(&b) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linecard::rng::Rng;

    /// Every mapping, cores told apart by their first part only.
    fn exhaustive(problem: &Problem) -> Mapping {
        fn all(problem: &Problem, core_of: &mut Vec<usize>, best: &mut Option<Mapping>) {
            if core_of.len() == problem.loads.len() {
                let score = problem.score(core_of);
                let better = |best: &Mapping| problem.compare(score, best.score) == Ordering::Less;
                if best.as_ref().is_none_or(better) {
                    *best = Some(Mapping { core_of: core_of.clone(), score });
                }
                return;
            }
            let cores = core_of.iter().max().map_or(0, |core| core + 1);
            for core in 0..(cores + 1).min(problem.cores) {
                core_of.push(core);
                all(problem, core_of, best);
                core_of.pop();
            }
        }
        let mut best = None;
        all(problem, &mut Vec::new(), &mut best);
        best.expect("there is a mapping")
    }

    fn random(rng: &mut Rng, parts: usize, cores: usize) -> Problem {
        let unit = |rng: &mut Rng| rng.below(1_000) as f64 / 1_000.0;
        let loads = (0..parts).map(|_| 0.01 + unit(rng) * 0.6).collect();
        let crossing = if rng.chance(0.5) { 0.0 } else { 0.1 };
        let mut flows = Vec::new();
        for to in 1..parts {
            let from = if rng.chance(0.7) { to - 1 } else { rng.below(to as u64) as usize };
            flows.push(Flow { from, to, crossing: [crossing * unit(rng), crossing * unit(rng)] });
        }
        let prefer = if rng.chance(0.3) { Objective::FewCores } else { Objective::Balance };
        Problem { loads, flows, cores, prefer, most_used: 0.5 + unit(rng) }
    }

    /// Promise (Plans): Mappings of up to eight parts on eight cores are optimal.
    #[test]
    fn up_to_eight_parts_on_eight_cores_are_placed_as_well_as_can_be() {
        let mut rng = Rng::new(21);
        for round in 0..300 {
            let (parts, cores) = (1 + rng.below(8) as usize, 1 + rng.below(8) as usize);
            let (parts, cores) = if round < 10 { (8, 8) } else { (parts, cores) };
            let problem = random(&mut rng, parts, cores);
            let (best, found) = (exhaustive(&problem), problem.solve());
            let told = problem.compare(found.score, problem.score(&found.core_of));
            assert_eq!(told, Ordering::Equal, "{found:?}");
            let order = problem.compare(found.score, best.score);
            assert_eq!(order, Ordering::Equal, "{problem:?}\n{found:?}\n{best:?}");
        }
    }

    /// Also beyond the size that is searched in full: never worse than the start, and within its known bound.
    #[test]
    fn many_parts_are_placed_in_bounded_time() {
        let mut rng = Rng::new(22);
        for _ in 0..4 {
            let problem = Problem { prefer: Objective::Balance, ..random(&mut rng, 40, 12) };
            let problem = Problem { flows: Vec::new(), ..problem };
            let found = problem.solve();
            let all: f64 = problem.loads.iter().sum();
            let longest = problem.loads.iter().copied().fold(0.0, f64::max);
            // Graham's bound for the least used core first is mean + longest·(1 − 1/m).
            assert!(found.score.most_used <= all / 12.0 + longest, "{found:?}");
            assert!(found.score.most_used >= (all / 12.0).max(longest) - 1e-9);
        }
    }

    #[test]
    fn few_cores_are_used_where_they_are_enough() {
        let problem = Problem {
            loads: alloc::vec![0.2, 0.2, 0.2],
            flows: alloc::vec![Flow { from: 0, to: 1, crossing: [0.0; 2] }],
            cores: 3,
            prefer: Objective::FewCores,
            most_used: 0.8,
        };
        assert_eq!(problem.solve().core_of, [0, 0, 0]);
        let tight = Problem { most_used: 0.5, ..problem.clone() };
        assert_eq!(tight.solve().score.cores, 2);
        assert_eq!(tight.solve().core_of[..2], [0, 0], "who talks stays together");
        let balanced = Problem { prefer: Objective::Balance, ..problem };
        assert_eq!(balanced.solve().score.cores, 3);
    }
}
