//! Round-robin scheduling of one core: each stage in turn processes what has arrived; checks
//! whether all keep up.
//!
//! A cycle calls every stage once. It keeps up if, for each of its stages, it takes no longer than
//! the time in which a batch arrives, and it meets the deadlines if it takes no longer than those:
//! `ΣC(b) ≤ min(D, b/λ)`. Larger batches share the fixed part of a call among more firings, until
//! the cycle is too long.
//!
//! The smallest batches that keep up are a least fixed point: what arrives during a cycle has to be
//! processed in the next, so `b = ⌈λ·W(b)⌉`, where `W` is the cycle's time. `W` does not decrease
//! when a batch grows; so an iteration from the smallest batches never exceeds the smallest
//! solution in any stage, and ends there. (The same argument as for response times: M. Joseph and
//! P. Pandya, "Finding response times in a real-time system", 1986.)

use super::cost::Cost;
use super::distribution::Distribution;
use alloc::vec::Vec;

/// Cycle times are resolved up to this multiple of their mean.
const LONGEST: f64 = 16.0;

/// A stage, or a replica of it, on one core.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Load<'s> {
    /// Costs of calls.
    pub cost: &'s Cost,
    /// Additional cost per firing, nanoseconds.
    pub extra_ns: f64,
    /// `λ`: firings per second.
    pub rate: f64,
    /// `D`, nanoseconds.
    pub deadline_ns: f64,
    /// `ε`, 0 to 0.5.
    pub miss: f64,
    /// Firings per call: minimum and maximum.
    pub batch: [u32; 2],
}

/// The cycle that a core repeats.
#[derive(Debug, Clone, PartialEq)]
pub struct Cycle {
    /// Firings per call of each stage: the smallest that keep up.
    pub batches: Vec<u32>,
    /// Mean cycle time, nanoseconds.
    pub mean_ns: f64,
    /// Cycle time that is exceeded in at most a fraction `ε` of cycles, nanoseconds.
    pub bound_ns: f64,
    /// Predicted fraction of cycles that are too long for each stage.
    pub misses: Vec<f64>,
}

/// Why a core cannot serve its stages in turn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Overrun {
    /// No cycle keeps up: the core would be overloaded.
    Overload {
        /// Utilisation with the longest batches.
        used: f64,
    },
    /// A stage would need a longer batch than allowed.
    Batch {
        /// Its number on the core.
        stage: usize,
        /// Firings that arrive in a cycle, at least.
        needed: u64,
    },
    /// The shortest cycle that keeps up is longer than a stage's deadline.
    Deadline {
        /// Its number on the core.
        stage: usize,
        /// The length of that cycle, nanoseconds.
        cycle_ns: f64,
    },
}

impl Load<'_> {
    fn mean_ns(&self, batch: u32) -> f64 {
        self.cost.at(batch.into()) + self.extra_ns * f64::from(batch)
    }

    fn add_to(&self, batch: u32, cycle: &mut Distribution) {
        let mean = self.mean_ns(batch);
        let points = self.cost.spread.points();
        let times: Vec<_> = points.iter().map(|(ratio, share)| (ratio * mean, *share)).collect();
        cycle.add(&times);
    }

    /// The longest cycle that is in time, with this batch.
    fn limit_ns(&self, batch: u32) -> f64 {
        self.deadline_ns.min(f64::from(batch) * 1e9 / self.rate)
    }

    /// Utilisation with the longest batches.
    fn used(&self) -> f64 {
        let batch = self.batch[1];
        self.rate * self.mean_ns(batch) / (f64::from(batch) * 1e9)
    }
}

/// The shortest cycle over these stages that keeps up; `other_ns` is the time per cycle for
/// anything else.
///
/// ```
/// use linecard_plan::{Cost, Load, round_robin};
/// // 2 µs a call and 100 ns a packet, for a million packets a second: 2.2 packets come while two are
/// // done, but only 2.3 while three are.
/// let cost = Cost::new(2_000.0, 100.0)?;
/// let load = Load {
///     cost: &cost, extra_ns: 0.0, rate: 1e6, deadline_ns: f64::INFINITY, miss: 0.01, batch: [1, 64],
/// };
/// let cycle = round_robin(&[load], 0.0).expect("it keeps up");
/// assert_eq!((cycle.batches[0], cycle.mean_ns), (3, 2_300.0));
/// # Ok::<(), linecard_plan::CostError>(())
/// ```
///
/// # Errors
///
/// The reason why there is none.
pub fn round_robin(loads: &[Load<'_>], other_ns: f64) -> Result<Cycle, Overrun> {
    let mut batches: Vec<u32> = loads.iter().map(|load| load.batch[0]).collect();
    // Means first: they are quick, and no cycle can be shorter.
    grow(loads, &mut batches, |batches| mean_ns(loads, batches, other_ns))?;
    let needed = |batches: &[u32]| bound_ns(loads, batches, other_ns);
    grow(loads, &mut batches, needed)?;
    let (mean_ns, bound_ns) = (mean_ns(loads, &batches, other_ns), needed(&batches));
    let late = loads.iter().position(|load| bound_ns > load.deadline_ns);
    if let Some(stage) = late {
        return Err(Overrun::Deadline { stage, cycle_ns: bound_ns });
    }
    let misses = misses(loads, &batches, other_ns);
    Ok(Cycle { batches, mean_ns, bound_ns, misses })
}

/// Fraction of cycles that are too long for each stage.
fn misses(loads: &[Load<'_>], batches: &[u32], other_ns: f64) -> Vec<f64> {
    if !is_uneven(loads) {
        // All cycles are equal, and this one keeps up.
        return alloc::vec![0.0; loads.len()];
    }
    let cycle = distribution(loads, batches, other_ns);
    let limits = loads.iter().zip(batches).map(|(load, batch)| load.limit_ns(*batch));
    limits.map(|limit| cycle.tail(limit - other_ns)).collect()
}

fn is_uneven(loads: &[Load<'_>]) -> bool {
    loads.iter().any(|load| load.cost.spread.points().len() > 1)
}

/// Enlarges batches to what has arrived, until no more arrives than is processed.
fn grow(
    loads: &[Load<'_>],
    batches: &mut [u32],
    cycle_ns: impl Fn(&[u32]) -> f64,
) -> Result<(), Overrun> {
    // Each iteration but the last enlarges a batch, which has a limit.
    loop {
        let cycle = cycle_ns(batches);
        let mut is_over = true;
        for (stage, load) in loads.iter().enumerate() {
            let needed = super::ceil(load.rate * cycle / 1e9);
            if needed > load.batch[1].into() {
                return Err(too_much(loads, stage, needed));
            }
            if needed > batches[stage].into() {
                batches[stage] = needed as u32;
                is_over = false;
            }
        }
        if is_over {
            return Ok(());
        }
    }
}

fn too_much(loads: &[Load<'_>], stage: usize, needed: u64) -> Overrun {
    let used = loads.iter().map(Load::used).sum();
    // Without any fixed part no batch would help.
    if used > 1.0 { Overrun::Overload { used } } else { Overrun::Batch { stage, needed } }
}

fn mean_ns(loads: &[Load<'_>], batches: &[u32], other_ns: f64) -> f64 {
    other_ns + loads.iter().zip(batches).map(|(load, batch)| load.mean_ns(*batch)).sum::<f64>()
}

/// The cycle time that is exceeded in at most the fraction that the strictest stage allows, and
/// never less than the mean: otherwise more would arrive in the long run than is processed.
fn bound_ns(loads: &[Load<'_>], batches: &[u32], other_ns: f64) -> f64 {
    let mean = mean_ns(loads, batches, other_ns);
    if !is_uneven(loads) {
        return mean;
    }
    let miss = loads.iter().map(|load| load.miss).fold(0.5, f64::min);
    let longest: f64 = if miss > 0.0 { f64::INFINITY } else { longest_ns(loads, batches) };
    let bound = distribution(loads, batches, other_ns).bound(miss).unwrap_or(f64::INFINITY);
    (other_ns + bound.min(longest)).max(mean)
}

/// The cycle time if all calls take their longest time.
fn longest_ns(loads: &[Load<'_>], batches: &[u32]) -> f64 {
    let all = loads.iter().zip(batches);
    all.map(|(load, batch)| load.mean_ns(*batch) * load.cost.spread.quantile(1.0)).sum()
}

/// The distribution of the stages' part of a cycle.
fn distribution(loads: &[Load<'_>], batches: &[u32], other_ns: f64) -> Distribution {
    let mean = mean_ns(loads, batches, other_ns) - other_ns;
    let longest = longest_ns(loads, batches).min(LONGEST * mean);
    let mut cycle = Distribution::zero(longest * 1.01);
    loads.iter().zip(batches).for_each(|(load, batch)| load.add_to(*batch, &mut cycle));
    cycle
}

#[cfg(test)]
mod tests {
    use super::super::cost::Spread;
    use super::*;
    use linecard::rng::Rng;

    fn unit(rng: &mut Rng) -> f64 {
        rng.below(1 << 30) as f64 / (1_u64 << 30) as f64
    }

    fn random_cost(rng: &mut Rng, has_spread: bool) -> Cost {
        let cost = Cost::new(unit(rng) * 500.0, 1.0 + unit(rng) * 60.0).expect("a cost");
        if !has_spread {
            return cost;
        }
        cost.with_spread(Spread::new(&[(0.9, 0.6), (1.1, 0.37), (1.6, 0.03)]).expect("a spread"))
    }

    /// Whether a cycle with these batches is in time for all stages: the definition, without a search.
    fn keeps_up(loads: &[Load<'_>], batches: &[u32], other_ns: f64) -> bool {
        let cycle = bound_ns(loads, batches, other_ns);
        // Arrivals and work per cycle may be equal despite rounding.
        loads.iter().zip(batches).all(|(load, batch)| cycle <= load.limit_ns(*batch) * (1.0 + 1e-9))
    }

    /// All batches of up to 10 firings, tried one after the other.
    fn least_by_trying(loads: &[Load<'_>]) -> Option<Vec<u32>> {
        let mut found: Option<Vec<u32>> = None;
        let mut batches: Vec<u32> = loads.iter().map(|load| load.batch[0]).collect();
        loop {
            if keeps_up(loads, &batches, 7.0) {
                let least = found.get_or_insert_with(|| batches.clone());
                least
                    .iter_mut()
                    .zip(&batches)
                    .for_each(|(least, batch)| *least = (*least).min(*batch));
            }
            let Some(at) = (0..batches.len()).find(|&at| batches[at] < loads[at].batch[1]) else {
                return found;
            };
            batches[at] += 1;
            (0..at).for_each(|below| batches[below] = loads[below].batch[0]);
        }
    }

    /// The smallest batches, componentwise, are what the search finds, or there are none.
    #[test]
    fn no_smaller_batches_keep_up() {
        let mut rng = Rng::new(11);
        let (mut fit, mut unfit) = (0, 0);
        for round in 0..400 {
            let stages = 1 + rng.below(3) as usize;
            let costs: Vec<Cost> =
                (0..stages).map(|_| random_cost(&mut rng, round % 2 == 0)).collect();
            let loads: Vec<Load<'_>> = costs
                .iter()
                .map(|cost| Load {
                    cost,
                    extra_ns: unit(&mut rng) * 5.0,
                    rate: 1e6 + unit(&mut rng) * 6e6,
                    deadline_ns: if rng.chance(0.5) {
                        f64::INFINITY
                    } else {
                        300.0 + unit(&mut rng) * 4e3
                    },
                    miss: 0.05,
                    batch: [1, 10],
                })
                .collect();
            let expected = least_by_trying(&loads);
            match round_robin(&loads, 7.0) {
                Ok(cycle) => {
                    assert_eq!(Some(&cycle.batches), expected.as_ref());
                    assert!(keeps_up(&loads, &cycle.batches, 7.0));
                    assert!(cycle.misses.iter().all(|miss| *miss <= 0.05 + 1e-9), "{cycle:?}");
                    fit += 1;
                }
                Err(why) => {
                    assert_eq!(expected, None, "{why:?} {loads:?}");
                    unfit += 1;
                }
            }
        }
        assert!(fit > 50 && unfit > 50, "{fit} {unfit}");
    }

    #[test]
    fn why_it_is_late() {
        let cost = Cost::new(1_000.0, 100.0).expect("a cost");
        let load = |rate, deadline_ns, most| Load {
            cost: &cost,
            extra_ns: 0.0,
            rate,
            deadline_ns,
            miss: 0.0,
            batch: [1, most],
        };
        let late = |load| round_robin(&[load], 0.0).expect_err("late");
        assert!(matches!(late(load(1.1e7, 1e9, 64)), Overrun::Overload { used } if used > 1.2));
        assert!(matches!(late(load(5e6, 1e9, 8)), Overrun::Overload { .. }));
        // 64 at a time are enough in the mean, but the cycle has twice the work now and then.
        let spread = Spread::new(&[(0.9, 0.9), (1.9, 0.1)]).expect("a spread");
        let uneven = cost.clone().with_spread(spread);
        let often = Load { cost: &uneven, ..load(6e6, 1e9, 64) };
        assert!(matches!(late(often), Overrun::Batch { stage: 0, needed } if needed > 64));
        assert!(matches!(
            late(load(5e6, 1_500.0, 64)),
            Overrun::Deadline { stage: 0, cycle_ns } if cycle_ns == 2_000.0
        ));
        assert_eq!(round_robin(&[load(5e6, 2_000.0, 64)], 0.0).map(|c| c.batches), Ok([10].into()));
    }

    /// Cycles drawn at random are too long about as often as predicted.
    #[test]
    fn misses_are_those_that_chance_gives() {
        let mut rng = Rng::new(12);
        for _ in 0..10 {
            let costs: Vec<Cost> = (0..3).map(|_| random_cost(&mut rng, true)).collect();
            let load = |cost| Load {
                cost,
                extra_ns: 0.0,
                rate: 2e6,
                deadline_ns: f64::INFINITY,
                miss: 0.2,
                batch: [1, 4_096],
            };
            let loads: Vec<Load<'_>> = costs.iter().map(load).collect();
            let cycle = round_robin(&loads, 50.0).expect("it keeps up");
            let limit = loads[0].limit_ns(cycle.batches[0]);
            let mut late = 0;
            for _ in 0..50_000 {
                let mut time = 50.0;
                for (load, batch) in loads.iter().zip(&cycle.batches) {
                    let chance = unit(&mut rng);
                    time += load.mean_ns(*batch) * load.cost.spread.quantile(chance);
                }
                late += u32::from(time > limit);
            }
            let drawn = f64::from(late) / 50_000.0;
            // Rounding up to bins may only see too many: a step of the distribution at most.
            assert!(drawn <= cycle.misses[0] + 0.01, "{drawn} {:?}", cycle.misses);
            assert!(drawn >= cycle.misses[0] - 0.2, "{drawn} {:?}", cycle.misses);
        }
    }
}
