//! How long data take, and what would make it faster: the first answer of a plan.

use linecard_plan::{Infeasible, Plan, PlanInput, Remedy, plan};
use linecard_report::{ByteCount, Nanoseconds, Value};
use schemars::JsonSchema;
use serde::Serialize;

/// A higher goodput by less than this share is none.
const WORTH: f64 = 0.02;

/// The time that data take.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct MoveTime {
    /// data
    pub bytes: ByteCount,
    /// at the goodput that was asked for
    pub asked_ns: Option<Nanoseconds>,
    /// at the most that is possible
    pub least_ns: Option<Nanoseconds>,
    /// limited by
    pub limited_by: String,
    /// faster with
    pub faster_with: Option<String>,
}

impl MoveTime {
    pub(super) fn new(
        bytes: u64,
        input: &PlanInput,
        answer: &Result<Plan, Box<Infeasible>>,
    ) -> Self {
        let asked = input.demand.goodput_bits_per_second;
        let time = |bits_per_second: f64| Nanoseconds(bytes as f64 * 8e9 / bits_per_second);
        let (is_met, most, limited_by, faster_with) = match answer {
            Ok(plan) => {
                let most = plan.most_goodput_bits_per_second;
                (true, Some(most), busiest_core(input, plan), faster(input, plan))
            }
            Err(why) => {
                let most = why.help.iter().find_map(|help| match help {
                    Remedy::Goodput(most) => Some(*most),
                    _ => None,
                });
                let cores = why.help.iter().find_map(|help| match help {
                    Remedy::Cores(cores) => Some(format!("{cores} cores, as fast as asked for")),
                    _ => None,
                });
                (false, most, largest_stage(input), cores)
            }
        };
        Self {
            bytes: ByteCount(bytes),
            asked_ns: is_met.then(|| time(asked)),
            least_ns: most.map(time),
            limited_by,
            faster_with,
        }
    }
}

/// The core that has most to do, and its stages.
fn busiest_core(input: &PlanInput, plan: &Plan) -> String {
    let cores = plan.cores.iter().enumerate();
    let Some((number, core)) = cores.max_by(|(_, a), (_, b)| a.used.total_cmp(&b.used)) else {
        return "nothing".to_owned();
    };
    let names: Vec<&str> =
        core.stages.iter().map(|&stage| input.stages[stage].name.as_str()).collect();
    format!("core {number}: {}", names.join(", "))
}

/// The stage that needs most of the cores.
fn largest_stage(input: &PlanInput) -> String {
    let stages = 0..input.stages.len();
    let largest = stages.max_by(|&a, &b| input.used(a, 1).total_cmp(&input.used(b, 1)));
    largest.map_or_else(|| "nothing".to_owned(), |stage| input.stages[stage].name.clone())
}

/// Cores that are there and not used, or one more.
fn faster(input: &PlanInput, now: &Plan) -> Option<String> {
    let (cores, used) = (input.machine.cores, now.cores.len());
    if used < cores {
        return Some(format!(
            "a higher goodput asked for: {} of {cores} cores are left",
            cores - used
        ));
    }
    let mut more = input.clone();
    more.machine.cores += 1;
    more.demand.goodput_bits_per_second = now.most_goodput_bits_per_second;
    let most = plan(&more).ok()?.ok()?.most_goodput_bits_per_second;
    (most > now.most_goodput_bits_per_second * (1.0 + WORTH))
        .then(|| format!("{} cores: {}", cores + 1, Value::BitRate(most)))
}
