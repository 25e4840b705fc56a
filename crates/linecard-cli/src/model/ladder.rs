//! `linecard model ladder`: what limits now, and what limits next.

use super::scenario::Scenario;
use super::settings::{Protocol, Settings};
use super::{ScenarioArguments, firmware, values};
use crate::failure::{EXIT_CODES, Failure};
use crate::found;
use crate::page::PageFile;
use crate::watch;
use clap::Args;
use linecard_app::Finished;
use linecard_model::rv32::Image;
use linecard_model::solve::{
    ClockLimits, Firmware, Flow, Phase, Question, Resource, Step, Traffic, measure,
};
use linecard_model::transmit::{Design, Kind};
use linecard_report::{Report, Section, Value};

/// Steps that are shown at most.
const MAX_STEPS: u64 = 100;

#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct LadderArguments {
    #[command(flatten)]
    from: ScenarioArguments,
    /// Steps at most, 1 to 100; it ends earlier where the line's rate is carried.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..=MAX_STEPS))]
    steps: u64,
    /// The rate to climb to, in place of the line's; the line becomes a resource like others.
    #[arg(long, value_name = "RATE", value_parser = super::solve::rate)]
    rate: Option<u64>,
    #[command(flatten)]
    clocks: ClockArguments,
    /// Print the account as JSON.
    #[arg(long)]
    json: bool,
}

/// How fast clocks may be.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct ClockArguments {
    /// The fastest clock that a core may have, in MHz; beyond it more cores are taken.
    #[arg(long, value_name = "MHZ", default_value = "3000", value_parser = values::mhz)]
    pub(crate) max_core: u64,
    /// The fastest clock that a DMA may have, in MHz; beyond it a wider bus, then more cores are taken.
    #[arg(long, value_name = "MHZ", default_value = "3000", value_parser = values::mhz)]
    pub(crate) max_dma: u64,
}

/// Runs the command.
pub(crate) fn command(arguments: &LadderArguments) -> Result<(), Failure> {
    found::show(find(arguments)?, arguments.json, None, &PageFile::default())
}

/// Climbs.
pub(crate) fn find(arguments: &LadderArguments) -> Result<Finished, Failure> {
    let scenario = Scenario::read(&arguments.from.scenario, &arguments.from.sets)?;
    let image = firmware::load(&scenario)?.image().clone();
    let design = scenario.design(0)?;
    let costs = Firmware::measure(&image, design.bubbles).map_err(|e| scenario.failure(&e))?;
    let wanted = arguments.rate.or(design.line_bits_per_second).unwrap_or(u64::MAX);
    let question = Question {
        firmware: costs,
        traffic: traffic(&scenario.settings),
        bits_per_second: wanted,
        phase: Phase::Typical,
        design,
    };
    let refuse = |error| scenario.refuse("bus.policy", &format!("{error}"));
    let ladder = question.ladder(arguments.steps as usize, arguments.clocks.limits());
    let ladder = ladder.map_err(refuse)?;
    if let (Some(limit), Some(last)) = (ladder.infeasible, ladder.steps.last()) {
        return Err(infeasible(limit, last, wanted));
    }
    let mut report = Report::new("model ladder");
    let mut section = Section::list("steps", "What limits, and what next");
    for (number, step) in ladder.steps.iter().enumerate() {
        watch::go_on()?;
        let measured = run(&step.design, &image, &question.traffic);
        let measured = measured.map_err(|e| scenario.failure(&e))?;
        let (words, fields) = row(step, measured, &ladder.steps[0].design);
        section.add("", format!("{}", number + 1), Value::Fields(words, fields));
    }
    report.push(section);
    report.note(
        "Carried: computed, and by a run of the firmware; bits on the line, overhead included. Gains are \
         computed for each resource made a quarter faster; the one that gives most is the limit, and the \
         next line has it a quarter faster; from the limit of a clock on the bus twice as wide, then twice as \
         many cores.",
    );
    if let Some(last) = ladder.steps.last().filter(|last| last.wire_bits_per_second < wanted as f64)
        && arguments.rate.is_some()
    {
        report.note(format!(
            "{} steps end at {:.1} Gbit/s, below the {:.1} Gbit/s that were asked for: --steps takes more.",
            ladder.steps.len(),
            last.wire_bits_per_second / 1e9,
            wanted as f64 / 1e9
        ));
    }
    Ok(Finished::of_report("What limits, and what limits next", report))
}

impl ClockArguments {
    pub(super) fn limits(self) -> ClockLimits {
        ClockLimits { core_hz: self.max_core, dma_hz: self.max_dma }
    }
}

/// Nothing within the limits carries the rate.
fn infeasible(limit: Resource, last: &Step, wanted: u64) -> Failure {
    let design = &last.design;
    let mhz = |hz: u64| hz as f64 / 1e6;
    Failure::Infeasible(format!(
        "{:.1} Gbit/s cannot be carried within the limits: {} limits at {:.1} Gbit/s with {} cores at {} MHz, \
         DMA at {} MHz and a bus of {} bits; raise --max-core or --max-dma",
        wanted as f64 / 1e9,
        name(limit),
        last.wire_bits_per_second / 1e9,
        design.cores,
        mhz(design.core.hz()),
        mhz(design.dma.hz()),
        design.bus_bits,
    ))
}

/// The scenario's load, as a mix.
pub(super) fn traffic(settings: &Settings) -> Traffic {
    let kinds: &[Kind] = match settings.protocol {
        Protocol::Tcp => &[Kind::Tcp],
        Protocol::Udp => &[Kind::Udp],
        Protocol::Mix => &[Kind::Tcp, Kind::Udp],
    };
    let flow = |kind, size: &usize| {
        // Fragments carry the UDP header too.
        let payload = *size as u64 + if kind == Kind::Udp { 8 } else { 0 };
        Flow { kind, payload, weight: 1 }
    };
    let flows = kinds.iter().flat_map(|kind| settings.sizes.iter().map(move |s| flow(*kind, s)));
    Traffic { flows: flows.collect() }
}

fn run(
    design: &Design,
    image: &Image,
    traffic: &Traffic,
) -> Result<f64, linecard_model::transmit::TransmitError> {
    measure(design, image, traffic).map(|measured| measured.wire_bits_per_second)
}

pub(super) fn name(of: Resource) -> &'static str {
    match of {
        Resource::Core => "core clock",
        Resource::Dma => "DMA",
        Resource::Line => "line",
    }
}

fn row(step: &Step, measured: f64, first: &Design) -> (String, Vec<(&'static str, Value)>) {
    let design = &step.design;
    let mhz = |hz: u64| hz as f64 / 1e6;
    let line = design.line_bits_per_second.map(|rate| rate as f64);
    let gains = step.reliefs.iter().map(|relief| {
        let gain = (relief.gain - 1.0) * 100.0;
        format!("{} {gain:+.1} %", name(relief.of))
    });
    let cores =
        if design.cores == first.cores { "core" } else { &format!("{} cores", design.cores) };
    let bus = match design.bus_bits == first.bus_bits {
        true => String::new(),
        false => format!(" on {} bits", design.bus_bits),
    };
    let words = format!(
        "{cores} {:.1} MHz, DMA {:.1} MHz{bus}, line {}: carries {:.2} Gbit/s (run: {:.2}); limit: {} ({})",
        mhz(design.core.hz()),
        mhz(design.dma.hz()),
        line.map_or("unlimited".to_owned(), |rate| format!("{:.1} Gbit/s", rate / 1e9)),
        step.wire_bits_per_second / 1e9,
        measured / 1e9,
        name(step.limit),
        gains.collect::<Vec<_>>().join(", "),
    );
    let mut fields = vec![
        ("cores", Value::Count(design.cores as u64)),
        ("bus_bits", Value::Count(design.bus_bits.into())),
        ("core_mhz", Value::Number(mhz(design.core.hz()))),
        ("dma_mhz", Value::Number(mhz(design.dma.hz()))),
        ("carried", Value::BitRate(step.wire_bits_per_second)),
        ("carried_by_run", Value::BitRate(measured)),
        ("limit", Value::Text(name(step.limit).to_owned())),
    ];
    fields.extend(line.map(|rate| ("line", Value::BitRate(rate))));
    (words, fields)
}
