//! Bottleneck analysis of the sending side: what limits a scenario, and what limits next when that is relieved.

use super::core::{Load, MAX_CLOCK, MIN_CLOCK, Protocol};
use super::error::ModelError;
use super::transmit::{Config, firmware, refused_design, refused_run};
use crate::{Context, Error, Finished};
use garde::Validate;
use linecard_config::{ConfigError, Frequency, Maybe, Rate};
use linecard_model::solve::{
    Bottleneck, BottleneckAnalysis, ClockLimits, Firmware, Flow, Phase, Resource, SolveError,
    SolveInput, Traffic, measure,
};
use linecard_model::transmit::{Design, Kind};
use linecard_report::{Axis, BitRate, Item, Ledger, Outcome, Page, Unit, report_of};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;

/// Options beside the scenario.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// steps at most; it ends earlier where the rate is carried
    #[default(100)]
    #[garde(range(min = 1, max = 100))]
    #[schemars(extend("x-flag" = "steps"))]
    pub steps: usize,
    /// the rate to reach, in place of the line's, or of 1.6T where it is unlimited; the line becomes a resource like
    /// others
    #[garde(range(min = Rate::KILO, max = Rate::tera(100)))]
    #[schemars(extend("x-flag" = "rate"))]
    pub rate: Maybe<Rate>,
    /// How fast clocks may be.
    #[garde(dive)]
    pub limits: Limits,
}

/// The rate to reach where neither the line nor the question has one: the fastest Ethernet that is specified.
const FASTEST_ETHERNET: u64 = 1_600_000_000_000;

/// How fast clocks may be.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// the fastest clock of a core in MHz; beyond it more cores are used
    #[default(Frequency::from_mhz(3_000))]
    #[garde(range(min = MIN_CLOCK, max = MAX_CLOCK))]
    #[schemars(extend("x-flag" = "max-core"))]
    pub max_core: Frequency,
    /// the fastest clock of a DMA in MHz; beyond it a wider bus, then more cores are used
    #[default(Frequency::from_mhz(3_000))]
    #[garde(range(min = MIN_CLOCK, max = MAX_CLOCK))]
    #[schemars(extend("x-flag" = "max-dma"))]
    pub max_dma: Frequency,
}

impl Limits {
    pub(super) const fn clocks(&self) -> ClockLimits {
        ClockLimits { core_hz: self.max_core.hz(), dma_hz: self.max_dma.hz() }
    }
}

/// The steps.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct BottlenecksOutcome {
    /// Bottlenecks, in order
    pub steps: Vec<Numbered>,
    /// The number of steps, if they end below the target rate.
    #[serde(skip)]
    short: Option<String>,
}

/// A step with its number.
pub type Numbered = Item<Carried>;

/// A design and what it carries.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Carried {
    /// cores
    pub cores: usize,
    /// width of the bus
    pub bus_bits: u32,
    /// the cores' clock
    pub core_mhz: f64,
    /// the DMA's clock
    pub dma_mhz: f64,
    /// computed
    pub carried: BitRate,
    /// by a run of the firmware
    pub carried_by_run: BitRate,
    /// bottleneck
    pub limit: String,
    /// the line, if it limits
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<BitRate>,
    #[serde(skip)]
    text: String,
}

impl Outcome for BottlenecksOutcome {
    fn item(&self, _: &str, index: usize) -> Option<String> {
        self.steps.get(index).map(|step| step.value.text.clone())
    }

    fn notes(&self) -> Vec<String> {
        let note = "Carried: computed, and by a run of the firmware; bits on the line, overhead included. Gains are computed \
                    for each resource made a quarter faster; the one that gives most is the limit, and the next line has it a \
                    quarter faster; from the limit of a clock on the bus twice as wide, then twice as many cores.";
        std::iter::once(note.to_owned()).chain(self.short.clone()).collect()
    }
}

impl BottlenecksOutcome {
    /// The rate of each step, named after its limit.
    fn draw(&self, page: &mut Page) {
        let mut rates =
            Ledger::new("carried", "Carried, and what limits it", Axis::new("rate", Unit::BitRate));
        let most = self.steps.iter().map(|step| step.value.carried.0).fold(0.0, f64::max);
        rates.whole(most);
        for Item { label, value } in &self.steps {
            rates.cause(format!("{label}: {}", value.limit), value.carried.0, None);
        }
        page.chart(rates);
    }
}

/// Makes the resource that limits a quarter faster, step by step; what each gives is computed, and confirmed by a run.
///
/// # Errors
///
/// A policy of the bus without a closed form, a rate that nothing within the limits carries, firmware that fails, and
/// cancellation.
pub fn run(
    config: &Config,
    options: &Options,
    context: &Context<'_>,
) -> Result<BottlenecksOutcome, Error> {
    let program = firmware::load(config, context)?;
    let image = program.image();
    let design = config.design(0)?;
    let failure = |error| refused_run(&program, error);
    let wanted = options.rate.0.map(Rate::bits_per_second);
    let target = wanted.or(design.line_bits_per_second).unwrap_or(FASTEST_ETHERNET);
    let question = SolveInput {
        firmware: Firmware::measure(image, design.timing).map_err(failure)?,
        traffic: traffic(&config.load),
        bits_per_second: target,
        phase: Phase::Typical,
        design,
    };
    let analysis = question.bottlenecks(options.steps, options.limits.clocks());
    let analysis = analysis.map_err(refused)?;
    if let (Some(limit), Some(last)) = (analysis.infeasible, analysis.steps.last()) {
        let last = Box::new(last.clone());
        return Err(ModelError::Infeasible { wanted_bits_per_second: target, limit, last }.into());
    }
    let mut steps = Vec::new();
    for (number, step) in analysis.steps.iter().enumerate() {
        context.go_on()?;
        let measured = measure(&step.design, image, &question.traffic).map_err(failure)?;
        let value = Carried::new(step, measured.wire_bits_per_second, &analysis.steps[0].design);
        steps.push(Numbered { label: (number + 1).to_string(), value });
    }
    Ok(BottlenecksOutcome { steps, short: short(&analysis, target) })
}

/// The same for a front end.
///
/// # Errors
///
/// As [`run`], with places in the scenario.
pub fn finish(options: &Options, context: &Context<'_>) -> Result<Finished, Error> {
    let config = context.config()?;
    let outcome = run(&config, options, context).map_err(|error| context.placed(error))?;
    let report = report_of("model bottlenecks", &outcome);
    let mut finished = Finished::of_report("Bottlenecks, in order", report);
    outcome.draw(&mut finished.page);
    Ok(finished.of_config(&config, context.document).of_config(options, None))
}

/// A question without an answer, as an error about the parameter that makes it one.
fn refused(error: SolveError) -> Error {
    let parameter = match error {
        SolveError::Design(error) => return refused_design(error),
        SolveError::Buffer { .. } => "line.sbi",
        SolveError::NoTraffic => "load.size",
        SolveError::Dma { .. } => "dma.mhz",
        SolveError::Core { .. } => "core.mhz",
        SolveError::NoClosedForm => "bus.policy",
    };
    ConfigError::of_parameter(parameter, error).into()
}

/// Reports steps that end below the target rate.
fn short(analysis: &BottleneckAnalysis, wanted: u64) -> Option<String> {
    let last = analysis.steps.last().filter(|last| last.wire_bits_per_second < wanted as f64)?;
    Some(format!(
        "{} steps end at {:.1} Gbit/s, below the target of {:.1} Gbit/s: choose more with --steps.",
        analysis.steps.len(),
        last.wire_bits_per_second / 1e9,
        wanted as f64 / 1e9
    ))
}

/// The load, as a mix.
pub(super) fn traffic(load: &Load) -> Traffic {
    let kinds: &[Kind] = match load.protocol {
        Protocol::Tcp => &[Kind::Tcp],
        Protocol::Udp => &[Kind::Udp],
        Protocol::Mix => &[Kind::Tcp, Kind::Udp],
    };
    let flow = |kind, size: u64| {
        // Fragments carry the UDP header too.
        let payload = size + if kind == Kind::Udp { 8 } else { 0 };
        Flow { kind, payload, weight: 1 }
    };
    let sizes = |kind| load.size.iter().map(move |size| flow(kind, size.get()));
    Traffic { flows: kinds.iter().flat_map(|kind| sizes(*kind)).collect() }
}

pub(super) const fn name(of: Resource) -> &'static str {
    match of {
        Resource::Core => "core clock",
        Resource::Dma => "DMA",
        Resource::Line => "line",
    }
}

impl Carried {
    fn new(step: &Bottleneck, measured: f64, first: &Design) -> Self {
        let design = &step.design;
        let line = design.line_bits_per_second.map(|rate| BitRate(rate as f64));
        Self {
            cores: design.cores,
            bus_bits: design.bus_bits,
            core_mhz: design.core.hz() as f64 / 1e6,
            dma_mhz: design.dma.hz() as f64 / 1e6,
            carried: BitRate(step.wire_bits_per_second),
            carried_by_run: BitRate(measured),
            limit: name(step.limit).to_owned(),
            line,
            text: String::new(),
        }
        .with_text(step, first)
    }

    fn with_text(mut self, step: &Bottleneck, first: &Design) -> Self {
        let gains = step.reliefs.iter().map(|relief| {
            let gain = (relief.gain - 1.0) * 100.0;
            format!("{} {gain:+.1} %", name(relief.of))
        });
        let cores = match self.cores == first.cores {
            true => "core".to_owned(),
            false => format!("{} cores", self.cores),
        };
        let bus = match self.bus_bits == first.bus_bits {
            true => String::new(),
            false => format!(" on {} bits", self.bus_bits),
        };
        let line = self.line.map(|rate| format!("{:.1} Gbit/s", rate.0 / 1e9));
        self.text = format!(
            "{cores} {:.1} MHz, DMA {:.1} MHz{bus}, line {}: carries {:.2} Gbit/s (run: {:.2}); limit: {} ({})",
            self.core_mhz,
            self.dma_mhz,
            line.unwrap_or_else(|| "unlimited".to_owned()),
            self.carried.0 / 1e9,
            self.carried_by_run.0 / 1e9,
            self.limit,
            gains.collect::<Vec<_>>().join(", "),
        );
        self
    }
}
