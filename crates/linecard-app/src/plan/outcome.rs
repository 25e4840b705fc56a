//! A plan, or the reason why none fits.

use super::input::Query;
use super::time::MoveTime;
use linecard_config::Bytes;
use linecard_plan::{Infeasible, Plan, PlanInput};
use linecard_report::{BitRate, ByteCount, Item, Named, Nanoseconds, Outcome, Share, Value};
use schemars::JsonSchema;
use serde::Serialize;

/// A measurement within this share of the prediction counts as agreement.
pub(super) const NEAR: f64 = 0.10;
/// Less than this share of the offered load is a miss.
pub(super) const KEPT: f64 = 0.97;

/// A plan, or the shortage.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct PlanOutcome {
    /// How long it takes
    pub time: MoveTime,
    /// Asked for
    pub demand: DemandOutcome,
    /// Stages: asked λ, a core's capacity h, utilisation U, replicas, batch, cores
    pub stages: Named<PlannedStage>,
    /// Cores: what they do in turn, how much they are used, how long a cycle takes
    pub cores: Named<PlannedCore>,
    /// Rings between cores
    pub rings: Vec<Item<PlannedRing>>,
    /// To be expected
    pub prediction: Option<Prediction>,
    /// Measured on the engine
    pub measured: Option<Observed>,
    /// Why there is no plan.
    #[serde(skip)]
    pub infeasible: Option<String>,
    /// Load of each stage on a core.
    #[serde(skip)]
    pub(super) used: Vec<f64>,
    #[serde(skip)]
    pub(super) notes: Vec<String>,
}

/// The demand, also if it cannot be met.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct DemandOutcome {
    /// goodput
    pub goodput: BitRate,
    /// payload of a packet
    pub payload: ByteCount,
    /// packets of payload a second
    pub packets: PacketRate,
    /// packets on the wire for each
    pub on_wire: f64,
    /// cores
    pub cores: usize,
    /// of which may be used
    pub used: Share,
}

/// A number per second.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct PacketRate {
    per_second: f64,
}

/// A stage: what follows `used` only if there is a plan.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct PlannedStage {
    /// Firings a second that are asked of it.
    pub rate: f64,
    /// Firings a second that a core can do.
    pub capacity: f64,
    /// Utilisation.
    pub used: Share,
    /// How it is placed.
    #[serde(flatten)]
    pub placed: Option<Placed>,
}

/// How a stage is placed.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Placed {
    /// Replicas.
    pub replicas: u32,
    /// Firings of a call.
    pub batch: u32,
    /// Its cores, with commas between them.
    pub cores: String,
}

/// A core.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct PlannedCore {
    /// Names of its stages, with commas between them.
    pub stages: String,
    /// Utilisation.
    pub used: Share,
    /// A cycle in the mean.
    pub cycle_mean_ns: Nanoseconds,
    /// The longest cycle.
    pub cycle_bound_ns: Nanoseconds,
    /// The most packets of a cycle.
    pub most_packets: f64,
}

/// A ring between two cores.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct PlannedRing {
    /// Its slots.
    pub slots: u64,
    /// The longest time in it.
    pub delay_ns: Nanoseconds,
}

/// Rates that a plan carries.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Prediction {
    /// goodput at most
    pub most_goodput: BitRate,
    /// most used core, full batches
    pub most_used: Share,
    /// cores that would do, were work divisible
    pub least_cores: u64,
    /// latency at most
    pub latency_ns: Nanoseconds,
    /// share of cycles that are too long
    pub miss: Share,
}

/// Rates of the engine with the same stages.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Observed {
    /// cores
    pub cores: usize,
    /// goodput at most, predicted
    pub predicted: Option<BitRate>,
    /// goodput at most, measured
    pub most_goodput: Option<BitRate>,
    /// difference
    pub difference: Option<Share>,
    /// packets offered a second
    pub offered: u64,
    /// packets done a second
    pub achieved: u64,
    /// share done
    pub achieved_share: Share,
    /// misses the offered load
    pub misses: bool,
}

/// Predicted and measured rates of many configurations.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
pub struct Verified {
    /// Goodput at most: predicted, measured, difference, spread of the runs
    pub configurations: Vec<Item<Compared>>,
    /// Goodput at most: predicted, measured, difference, spread of the runs; packets sent again; what other programs had
    /// of the cores
    pub transfers: Vec<Item<Compared>>,
    /// Offered below and above what was predicted: share offered, share of it done
    pub offered: Vec<Item<Offer>>,
    #[serde(skip)]
    pub(super) notes: Vec<String>,
}

/// A predicted rate beside a measured one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Compared {
    /// Goodput at most, predicted.
    pub predicted: BitRate,
    /// The same, measured.
    pub measured: BitRate,
    /// Of runs to what was predicted for each.
    pub difference: Share,
    /// From the least to the greatest.
    pub spread: Share,
    /// Further values of a transfer.
    #[serde(flatten)]
    pub transfer: Option<Disturbed>,
}

/// Losses of a transfer over loopback.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Disturbed {
    /// Packets sent again, of all.
    pub resent: Share,
    /// Share of the time of the cores in use that other programs took.
    pub others: Share,
}

/// Handled rate as a share of the offered one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Offer {
    /// Of what was predicted.
    pub offered: Share,
    /// Of what was offered.
    pub done: Share,
    /// Whether that is a miss.
    pub misses: bool,
}

impl PlanOutcome {
    pub(super) fn new(query: &Query, answer: &Result<Plan, Box<Infeasible>>, bytes: Bytes) -> Self {
        let Query { input, remark, .. } = query;
        let PlanInput { demand, machine, stages, .. } = input;
        let remark = remark.as_ref();
        let mut outcome = Self {
            time: MoveTime::new(bytes.get(), input, answer),
            demand: DemandOutcome {
                goodput: BitRate(demand.goodput_bits_per_second),
                payload: ByteCount(demand.payload as u64),
                packets: PacketRate { per_second: demand.packets_per_second() },
                on_wire: demand.on_wire(),
                cores: machine.cores,
                used: Share(machine.most_used),
            },
            stages: Named(Vec::new()),
            cores: Named(Vec::new()),
            rings: Vec::new(),
            prediction: None,
            measured: None,
            infeasible: None,
            used: (0..stages.len()).map(|number| input.used(number, 1)).collect(),
            notes: remark
                .map(|remark| format!("Costs were measured under other conditions: {remark}."))
                .into_iter()
                .collect(),
        };
        match answer {
            Ok(plan) => outcome.add_plan(input, plan),
            Err(why) => {
                let needs = (0..stages.len()).map(|number| {
                    let (rate, used) = (input.rate(number), outcome.used[number]);
                    let capacity = rate / used;
                    let needs = PlannedStage { rate, capacity, used: Share(used), placed: None };
                    (stages[number].name.clone(), needs)
                });
                outcome.stages = Named(needs.collect());
                outcome.notes.push(format!("Infeasible: {}.", why.text));
                outcome.infeasible = Some(why.text.clone());
            }
        }
        outcome
    }

    fn add_plan(&mut self, input: &PlanInput, plan: &Plan) {
        let name = |stage: usize| input.stages[stage].name.as_str();
        let stages = input.stages.iter().zip(&plan.stages).map(|(spec, stage)| {
            let placed = Placed {
                replicas: stage.replicas,
                batch: stage.batch,
                cores: joined(stage.cores.iter(), ","),
            };
            let (rate, capacity, used) = (stage.rate, stage.capacity, Share(stage.used));
            let placed = Some(placed);
            (spec.name.clone(), PlannedStage { rate, capacity, used, placed })
        });
        self.stages = Named(stages.collect());
        let cores = plan.cores.iter().enumerate().map(|(number, core)| {
            let planned = PlannedCore {
                stages: joined(core.stages.iter().map(|&stage| name(stage)), ","),
                used: Share(core.used),
                cycle_mean_ns: Nanoseconds(core.cycle.mean_ns),
                cycle_bound_ns: Nanoseconds(core.cycle.bound_ns),
                most_packets: core.most_packets,
            };
            (format!("core_{number}"), planned)
        });
        self.cores = Named(cores.collect());
        let rings = plan.rings.iter().map(|ring| {
            let edge = input.graph.edges()[ring.edge];
            let (from, to) = (name(edge.from), name(edge.to));
            Item {
                label: format!("{from}, core {} → {to}, core {}", ring.from_core, ring.to_core),
                value: PlannedRing { slots: ring.slots, delay_ns: Nanoseconds(ring.delay_ns) },
            }
        });
        self.rings = rings.collect();
        self.prediction = Some(Prediction {
            most_goodput: BitRate(plan.most_goodput_bits_per_second),
            most_used: Share(plan.most_used),
            least_cores: plan.least_cores,
            latency_ns: Nanoseconds(plan.latency_ns),
            miss: Share(plan.miss),
        });
    }
}

impl Outcome for PlanOutcome {
    fn title(&self, section: &str) -> Option<String> {
        let is_short = section == "stages" && self.infeasible.is_some();
        is_short.then(|| "Stages: asked λ, a core's capacity h, utilisation U".to_owned())
    }

    fn label(&self, section: &str, key: &str) -> Option<String> {
        (section == "cores").then(|| key.replace('_', " "))
    }

    fn text(&self, section: &str, key: &str) -> Option<String> {
        match section {
            "demand" if key == "packets" => {
                Some(format!("{}/s", short(self.demand.packets.per_second)))
            }
            "stages" => self.stages.get(key).map(PlannedStage::text),
            "cores" => self.cores.get(key).map(PlannedCore::text),
            _ => None,
        }
    }

    fn item(&self, _: &str, index: usize) -> Option<String> {
        let PlannedRing { slots, delay_ns } = self.rings.get(index)?.value;
        Some(format!("{slots} slots, waits {} at most", Value::Ns(delay_ns.0)))
    }

    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }
}

impl Outcome for Verified {
    fn title(&self, section: &str) -> Option<String> {
        let of_transfers = section == "offered" && !self.transfers.is_empty();
        let title = "Lanes paced below and above the prediction: share offered, share of it done";
        of_transfers.then(|| title.to_owned())
    }

    fn item(&self, section: &str, index: usize) -> Option<String> {
        match section {
            "configurations" => self.configurations.get(index).map(|item| item.value.text()),
            "transfers" => self.transfers.get(index).map(|item| item.value.text()),
            _ => self.offered.get(index).map(|item| item.value.text()),
        }
    }

    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }
}

impl PlannedStage {
    fn text(&self) -> String {
        let Self { rate, capacity, used, placed } = self;
        let (rate, capacity, used) = (short(*rate), short(*capacity), used.0 * 100.0);
        let text = format!("λ {rate:>9}/s  h {capacity:>9}/s  U {used:>6.1} %");
        placed.as_ref().map_or(text.clone(), |Placed { replicas, batch, cores }| {
            let cores = cores.replace(',', ", ");
            format!("{text}  × {replicas}  batch {batch:>2}  core {cores}")
        })
    }
}

impl PlannedCore {
    fn text(&self) -> String {
        let [mean, bound] = [self.cycle_mean_ns, self.cycle_bound_ns].map(|ns| Value::Ns(ns.0));
        let (used, stages) = (self.used.0 * 100.0, self.stages.replace(',', ", "));
        format!("{used:>5.1} %  cycle {mean} in the mean, {bound} at most  {stages}")
    }
}

impl Compared {
    fn text(&self) -> String {
        let [predicted, measured] =
            [self.predicted, self.measured].map(|rate| Value::BitRate(rate.0).to_string());
        let (difference, half) = (self.difference.0 * 100.0, self.spread.0 * 50.0);
        let text = format!("{predicted:>11}  {measured:>11}  {difference:>+6.1} %  ± {half:.0} %");
        self.transfer.map_or(text.clone(), |Disturbed { resent, others }| {
            format!("{text}  {:>4.1} %  {:>4.1} %", resent.0 * 100.0, others.0 * 100.0)
        })
    }
}

impl Offer {
    /// Handled rate as a share of the offered one, both as shares.
    pub(super) fn new(offered: f64, done: f64) -> Self {
        Self { offered: Share(offered), done: Share(done), misses: done < KEPT }
    }

    fn text(&self) -> String {
        let word = if self.misses { "misses" } else { "keeps up" };
        format!("{:>4.0} %  {:>5.1} %  {word}", self.offered.0 * 100.0, self.done.0 * 100.0)
    }
}

fn joined(parts: impl Iterator<Item = impl ToString>, between: &str) -> String {
    parts.map(|part| part.to_string()).collect::<Vec<_>>().join(between)
}

/// Three digits and what they count.
fn short(x: f64) -> String {
    match x {
        x if x >= 1e9 => format!("{:.2} G", x / 1e9),
        x if x >= 1e6 => format!("{:.2} M", x / 1e6),
        x if x >= 1e3 => format!("{:.2} k", x / 1e3),
        x => format!("{x:.2} "),
    }
}
