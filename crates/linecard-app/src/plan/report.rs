//! A plan, or what is lacking, as a report.

use super::settings::Query;
use linecard_plan::{Infeasible, Plan, PlanInput};
use linecard_report::{Axis, Ledger, Page, Report, Section, Unit, Value};

/// What is within this share of what was predicted is as predicted.
pub(super) const NEAR: f64 = 0.10;
/// Less than this of what is offered is a miss.
pub(super) const KEPT: f64 = 0.97;

/// What is asked, whatever comes of it.
pub(super) fn asked(asked: &Query) -> Report {
    let mut report = Report::new("plan");
    let PlanInput { demand, machine, .. } = &asked.question;
    let mut section = Section::new("demand", "Asked for");
    section.add("goodput", "goodput", Value::BitRate(demand.goodput_bps));
    section.add("payload", "payload of a packet", Value::Bytes(demand.payload as u64));
    section.add("packets", "packets of payload a second", rate(demand.packets_per_second()));
    section.add("on_wire", "packets on the wire for each", Value::Number(demand.on_wire()));
    section.add("cores", "cores", Value::Count(machine.cores as u64));
    section.add("used", "of which may be used", Value::Share(machine.most_used));
    report.push(section);
    if let Some(remark) = &asked.remark {
        report.note(format!("Costs were measured under other conditions: {remark}."));
    }
    report
}

/// What a plan says.
pub(super) fn add_plan(report: &mut Report, question: &PlanInput, plan: &Plan) {
    report.push(stages(question, plan));
    report.push(cores(question, plan));
    report.push(rings(question, plan));
    let mut section = Section::new("prediction", "To be expected");
    section.add("most_goodput", "goodput at most", Value::BitRate(plan.most_goodput_bps));
    section.add("most_used", "most used core, full batches", Value::Share(plan.most_used));
    let least = "cores that would do, were work divisible";
    section.add("least_cores", least, Value::Count(plan.least_cores));
    section.add("latency_ns", "latency at most", Value::Ns(plan.latency_ns));
    section.add("miss", "share of cycles that are too long", Value::Share(plan.miss));
    report.push(section);
}

fn stages(question: &PlanInput, plan: &Plan) -> Section {
    let title = "Stages: asked λ, a core's capacity h, utilisation U, replicas, batch, cores";
    let mut section = Section::new("stages", title);
    for (spec, stage) in question.stages.iter().zip(&plan.stages) {
        let cores: Vec<String> = stage.cores.iter().map(ToString::to_string).collect();
        let text = format!(
            "λ {:>9}/s  h {:>9}/s  U {:>6.1} %  × {}  batch {:>2}  core {}",
            short(stage.rate),
            short(stage.capacity),
            stage.used * 100.0,
            stage.replicas,
            stage.batch,
            cores.join(", ")
        );
        let fields = vec![
            ("rate", Value::Number(stage.rate)),
            ("capacity", Value::Number(stage.capacity)),
            ("used", Value::Share(stage.used)),
            ("replicas", Value::Count(stage.replicas.into())),
            ("batch", Value::Count(stage.batch.into())),
            ("cores", Value::Text(cores.join(","))),
        ];
        section.add(spec.name.clone(), spec.name.clone(), Value::Fields(text, fields));
    }
    section
}

fn cores(question: &PlanInput, plan: &Plan) -> Section {
    let title = "Cores: what they do in turn, how much they are used, how long a cycle takes";
    let mut section = Section::new("cores", title);
    for (number, core) in plan.cores.iter().enumerate() {
        let names: Vec<&str> =
            core.stages.iter().map(|&stage| question.stages[stage].name.as_str()).collect();
        let cycle = &core.cycle;
        let text = format!(
            "{:>5.1} %  cycle {} in the mean, {} at most  {}",
            core.used * 100.0,
            Value::Ns(cycle.mean_ns),
            Value::Ns(cycle.bound_ns),
            names.join(", ")
        );
        let fields = vec![
            ("stages", Value::Text(names.join(","))),
            ("used", Value::Share(core.used)),
            ("cycle_mean_ns", Value::Ns(cycle.mean_ns)),
            ("cycle_bound_ns", Value::Ns(cycle.bound_ns)),
            ("most_packets", Value::Number(core.most_packets)),
        ];
        section.add(
            format!("core_{number}"),
            format!("core {number}"),
            Value::Fields(text, fields),
        );
    }
    section
}

fn rings(question: &PlanInput, plan: &Plan) -> Section {
    let mut section = Section::list("rings", "Rings between cores");
    for ring in &plan.rings {
        let edge = question.graph.edges()[ring.edge];
        let [from, to] = [edge.from, edge.to].map(|stage| &question.stages[stage].name);
        let label = format!("{from}, core {} → {to}, core {}", ring.from_core, ring.to_core);
        let text = format!("{} slots, waits {} at most", ring.slots, Value::Ns(ring.delay_ns));
        let fields =
            vec![("slots", Value::Count(ring.slots)), ("delay_ns", Value::Ns(ring.delay_ns))];
        section.add("", label, Value::Fields(text, fields));
    }
    section
}

/// What each stage would need.
pub(super) fn add_infeasible(report: &mut Report, question: &PlanInput, why: &Infeasible) {
    let title = "Stages: asked λ, a core's capacity h, utilisation U";
    let mut section = Section::new("stages", title);
    for (number, spec) in question.stages.iter().enumerate() {
        let (rate, used) = (question.rate(number), question.used(number, 1));
        let text = format!(
            "λ {:>9}/s  h {:>9}/s  U {:>6.1} %",
            short(rate),
            short(rate / used),
            used * 100.0
        );
        let fields = vec![
            ("rate", Value::Number(rate)),
            ("capacity", Value::Number(rate / used)),
            ("used", Value::Share(used)),
        ];
        section.add(spec.name.clone(), spec.name.clone(), Value::Fields(text, fields));
    }
    report.push(section);
    report.note(format!("Infeasible: {}.", why.text));
}

/// The page of `--report`.
pub(super) fn page(report: &Report, question: &PlanInput) -> Page {
    let mut page = Page::new("Stages, cores, and what is to be expected");
    page.summary(report);
    let axis = Axis::new("share of a core", Unit::Share);
    let mut used = Ledger::new("used", "What each stage needs of a core", axis);
    for (number, spec) in question.stages.iter().enumerate() {
        used.cause(spec.name.as_str(), question.used(number, 1), None);
    }
    page.chart(used);
    page
}

fn rate(per_second: f64) -> Value {
    Value::Fields(
        format!("{}/s", short(per_second)),
        vec![("per_second", Value::Number(per_second))],
    )
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

/// What of an offered rate was done, both as shares.
pub(super) fn offer(share: f64, done: f64) -> Value {
    let misses = done < KEPT;
    let word = if misses { "misses" } else { "keeps up" };
    let text = format!("{:>4.0} %  {:>5.1} %  {word}", share * 100.0, done * 100.0);
    let fields = vec![
        ("offered", Value::Share(share)),
        ("done", Value::Share(done)),
        ("misses", Value::Flag(misses)),
    ];
    Value::Fields(text, fields)
}
