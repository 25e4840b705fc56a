//! From a line rate back to the clocks, widths and cores of the sending side that carry it.

mod alternatives;
mod confirm;
mod error;
mod host;
mod outcome;

use self::confirm::{Confirmed, Side};
use self::error::{ClockError, Instead, OpenClock};
pub use self::outcome::{
    Alternative, Answer, CarriedByGiven, ClockAnswer, Confirmation, Confirmations, Correction,
    CountOr, Cycles, Demand, FirmwareCycles, HostLink, Slot, Smallest, SolveOutcome, Utilisation,
};
use super::bottlenecks::{self, Limits};
use super::core::{ETHERNET, MAX_CLOCK, MAX_FRAME, MAX_MTU, MIN_CLOCK, MIN_FRAME, MIN_MTU, mtu_of};
use super::transmit::{firmware, refused_run};
use crate::{Context, Error, Failure, Finished};
use garde::Validate;
use linecard::progress::Progress;
use linecard_config::{Bytes, ConfigError, Frequency, Maybe, Rate, power_of_two};
use linecard_model::elf;
use linecard_model::rv32::CoreKind;
use linecard_model::solve::{
    ClockLimits, Cost, Edge, Firmware, Flow, Measured, Phase, Resource, SolveError, SolveInput,
    Traffic, measure, measure_steady,
};
use linecard_model::transmit::{BusPolicy, Design, HeaderPath, Kind};
use linecard_model::{Clock, Ps};
use linecard_report::{BitRate, ByteCount, Nanoseconds, Share, report_of};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;
use std::path::Path;
use std::sync::Arc;

/// The query: values that are given are fixed, clocks that are not are looked for.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(default, deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct Config {
    /// the line rate, as 100G, with all overhead
    #[garde(range(min = Rate::KILO, max = Rate::tera(100)))]
    #[schemars(extend("x-flag" = "rate", "x-required" = true))]
    pub rate: Rate,
    /// the longest packet, from the IP header on; packets of this size are sent
    #[default(Bytes::new(1_500))]
    #[garde(range(min = MIN_MTU, max = MAX_MTU))]
    #[schemars(extend("x-flag" = "mtu"))]
    pub mtu: Bytes,
    /// in place of the MTU: the longest Ethernet frame, check sequence included, which is 18 bytes more; as testers count
    /// it (RFC 2544)
    #[garde(range(min = MIN_FRAME, max = MAX_FRAME))]
    #[schemars(extend("x-flag" = "frame", "x-conflicts" = ["mtu"]))]
    pub frame: Maybe<Bytes>,
    /// protocol of the messages
    #[schemars(extend("x-flag" = "protocol"))]
    pub protocol: Protocol,
    /// packets of a message; without it a steady stream of full packets
    #[garde(range(min = 1, max = 1_000))]
    #[schemars(extend("x-flag" = "packets", "x-conflicts" = ["mix"]))]
    pub packets: Maybe<u64>,
    /// messages of several kinds, as tcp:44=3,udp:1=1: full packets in each message, and the number of such messages
    #[schemars(extend("x-flag" = "mix", "x-conflicts" = ["protocol"]))]
    pub mix: Maybe<String>,
    /// the cores' clock in MHz; if omitted, the smallest that suffices is computed
    #[garde(range(min = MIN_CLOCK, max = MAX_CLOCK))]
    #[schemars(extend("x-flag" = "core"))]
    pub core: Maybe<Frequency>,
    /// core whose cycles instructions take
    #[schemars(extend("x-flag" = "core-kind"))]
    pub core_kind: CoreKind,
    /// the DMA's clock in MHz; if omitted, the smallest that suffices is computed, or, where the core's clock is
    /// computed, 2115 is used, as published
    #[garde(range(min = MIN_CLOCK, max = MAX_CLOCK))]
    #[schemars(extend("x-flag" = "dma"))]
    pub dma: Maybe<Frequency>,
    /// width of the local bus in bits, a power of two
    #[default(64)]
    #[garde(range(min = 32, max = 1024), custom(power_of_two))]
    #[schemars(extend("x-flag" = "bus"))]
    pub bus: u32,
    /// cores, each with bus and DMA
    #[default(1)]
    #[garde(range(min = 1, max = Design::MAX_CORES))]
    #[schemars(extend("x-flag" = "cores"))]
    pub cores: usize,
    /// DMA cycles for a word
    #[default(1)]
    #[garde(range(min = 1, max = 8))]
    #[schemars(extend("x-flag" = "cycles-per-word"))]
    pub cycles_per_word: u64,
    /// access to the bus while the DMA moves words
    #[schemars(extend("x-flag" = "policy"))]
    pub policy: BusPolicy,
    /// how headers are moved
    #[schemars(extend("x-flag" = "header"))]
    pub header: HeaderPath,
    /// bytes of a packet on the line besides the IP packet; if omitted, 20, as published, or with a frame 38, which is
    /// Ethernet with preamble and gap
    #[garde(range(min = Bytes::new(0), max = Bytes::new(65_535)))]
    #[schemars(extend("x-flag" = "overhead"))]
    pub overhead: Maybe<Bytes>,
    /// firmware: approach-1, approach-2, best, or an ELF file
    #[default("approach-2".to_owned())]
    #[schemars(extend("x-flag" = "firmware"))]
    pub firmware: String,
    /// how the clocks' edges lie beside each other
    #[schemars(extend("x-flag" = "phase"))]
    pub phase: Phase,
    /// margin of the link to the host above the required rate, in per cent
    #[default(10)]
    #[garde(range(min = 0, max = 1_000))]
    #[schemars(extend("x-flag" = "margin"))]
    pub margin: u32,
    /// How fast clocks may be.
    #[garde(dive)]
    pub limits: Limits,
}

impl Config {
    /// Bytes of a packet on the line besides the IP packet.
    fn overhead_bytes(&self) -> u64 {
        let usual = if self.frame.0.is_some() { ETHERNET_LINE } else { PUBLISHED };
        self.overhead.0.map_or(usual, Bytes::get)
    }
}

/// Bytes on the line besides an IP packet: as published, and with Ethernet: header, check sequence, preamble and gap.
const PUBLISHED: u64 = 20;
const ETHERNET_LINE: u64 = ETHERNET.get() + 20;

/// Protocol of the messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    /// segments
    #[default]
    Tcp,
    /// fragments
    Udp,
}

/// `tcp:44=3,udp:1=1`.
fn parse_mix(text: &str, mtu: u16) -> Result<Traffic, ClockError> {
    let flow = |part: &str| -> Option<Flow> {
        let (kind, rest) = part.split_once(':')?;
        let (packets, weight) = rest.split_once('=').unwrap_or((rest, "1"));
        let kind = match kind {
            "tcp" => Kind::Tcp,
            "udp" => Kind::Udp,
            _ => return None,
        };
        let packets = packets.parse::<u64>().ok().filter(|count| (1..=1000).contains(count))?;
        let weight = weight.parse().ok().filter(|count| (1..=1000).contains(count))?;
        let payload = Traffic::mss(kind, mtu) as u64 * packets;
        (payload <= MAX_PAYLOAD).then_some(Flow { kind, payload, weight })
    };
    let flows = text.split(',').map(|part| flow(part).ok_or(part)).collect::<Result<Vec<_>, _>>();
    let flows = flows.map_err(|part| ClockError::Mix { part: part.to_owned() })?;
    Ok(Traffic { flows })
}

/// Payload of an IP packet behind the longest headers here.
const MAX_PAYLOAD: u64 = 65_495;

/// The query, with the firmware that confirms answers.
struct Solving {
    question: SolveInput,
    program: elf::Firmware,
    kind: Kind,
    steady: bool,
    /// Clocks beyond these are not an answer.
    limits: ClockLimits,
    /// Margin of the link to the host above the required rate, in per cent.
    margin: u32,
    /// Whether the core's and the DMA's clock are looked for.
    is_open: (bool, bool),
    progress: Arc<Progress>,
}

/// Looks for the clocks that are not given.
///
/// # Errors
///
/// Values that do not fit each other, firmware that is not there or fails, a rate that nothing within the limits carries,
/// and cancellation.
pub fn run(config: &Config, context: &Context<'_>) -> Result<SolveOutcome, Error> {
    let solving = solving(config, context)?;
    let answer = match (config.core.0, config.dma.0) {
        (None, _) => solving.core_clock()?,
        (Some(_), None) => solving.dma_clock()?,
        (Some(_), Some(_)) => solving.both()?,
    };
    Ok(SolveOutcome {
        demand: solving.demand(),
        firmware: solving.cycles(),
        answer,
        host_link: solving.host_link(),
        notes: solving.contradictions(),
    })
}

/// The same for a front end.
///
/// # Errors
///
/// As [`run`], with places in the scenario.
pub fn finish(config: &Config, context: &Context<'_>) -> Result<Finished, Error> {
    let outcome = run(config, context).map_err(|error| context.placed(error))?;
    let report = report_of("model solve", &outcome);
    let mut finished = Finished::of_report("The smallest interface that carries a line", report);
    outcome.draw(&mut finished.page);
    Ok(finished.of_config(config, context.document))
}

fn solving(config: &Config, context: &Context<'_>) -> Result<Solving, Error> {
    linecard_config::check(config)?;
    let program = firmware::by_name(&config.firmware, Path::new(&config.firmware));
    let program = program
        .map_err(|error| ConfigError::of_parameter("firmware", error.problem.to_string()))?;
    let clock = |clock: Maybe<Frequency>, open_hz| {
        Clock::new(clock.0.map_or(open_hz, Frequency::hz), Ps::ZERO)
            .map_err(|error| Failure::Usage.with(error))
    };
    let mtu = mtu_of(config.mtu, config.frame);
    let design = Design {
        cores: config.cores,
        timing: config.core_kind.timing(1),
        cycles_per_word: config.cycles_per_word,
        bus_bits: config.bus,
        policy: config.policy,
        header: config.header,
        mtu,
        wire_overhead_bytes: config.overhead_bytes(),
        // Several cores wait for their turn with whole messages.
        sbi_bytes: 1 << 30,
        // The search can start anywhere.
        ..Design::published(clock(config.core, 100_000_000)?, clock(config.dma, 2_115_000_000)?)
    };
    design.check().map_err(|error| Failure::Usage.with(error))?;
    let kind = if config.protocol == Protocol::Tcp { Kind::Tcp } else { Kind::Udp };
    let traffic = match (&config.mix.0, config.packets.0) {
        (Some(mix), _) => parse_mix(mix, mtu)?,
        (None, Some(packets)) => Traffic::uniform(kind, mtu, packets),
        (None, None) => Traffic::endless(kind, mtu),
    };
    let costs = Firmware::measure(program.image(), design.timing);
    let costs = costs.map_err(|error| refused_run(&program, error))?;
    let question = SolveInput {
        design,
        firmware: costs,
        traffic,
        bits_per_second: config.rate.bits_per_second(),
        phase: config.phase,
    };
    Ok(Solving {
        question,
        program,
        kind,
        steady: config.packets.0.is_none() && config.mix.0.is_none(),
        limits: config.limits.clocks(),
        margin: config.margin,
        is_open: (config.core.0.is_none(), config.core.0.is_some() && config.dma.0.is_none()),
        progress: Arc::clone(context.progress),
    })
}

impl Solving {
    fn demand(&self) -> Demand {
        let SolveInput { design, traffic, bits_per_second, .. } = &self.question;
        let header = Traffic::header_len(self.kind);
        let payload = Traffic::mss(self.kind, design.mtu) as u64;
        let bytes = payload + header + design.wire_overhead_bytes;
        let packets = *bits_per_second as f64 / (8 * bytes) as f64;
        let of = |flow: &Flow| {
            let kind = if flow.kind == Kind::Tcp { "TCP" } else { "UDP" };
            format!("{} of {} packets ({kind})", flow.weight, flow.packets(design.mtu))
        };
        Demand {
            rate: BitRate(*bits_per_second as f64),
            wire_bytes: ByteCount(bytes),
            packets_per_second: packets,
            ns_per_packet: Nanoseconds(1e9 / packets),
            messages: match traffic.flows.first() {
                Some(_) if !self.steady => {
                    traffic.flows.iter().map(of).collect::<Vec<_>>().join(", ")
                }
                _ => "a steady stream (COM)".to_owned(),
            },
        }
    }

    /// P and O.
    fn cycles(&self) -> FirmwareCycles {
        let Firmware { tcp, udp } = &self.question.firmware;
        let costs = if self.kind == Kind::Tcp { tcp } else { udp };
        let of = |Cost { before, beside, .. }| Cycles { before, beside };
        FirmwareCycles {
            ssm: of(costs.ssm),
            bom: of(costs.bom),
            com: of(costs.com),
            eom: of(costs.eom),
        }
    }

    /// An answer with a clock within its limit; else what would be one.
    fn within(&self, clock: OpenClock, hz: u64, limit_hz: u64) -> Result<(), ClockError> {
        if hz <= limit_hz {
            return Ok(());
        }
        Err(ClockError::Limit { clock, hz, limit_hz, instead: self.instead() })
    }

    /// The narrowest bus, else the fewest cores, that carry the line with clocks within their limits.
    fn instead(&self) -> Instead {
        let given = &self.question.design;
        let doubled = |from: u32| std::iter::successors(Some(from), |bits| Some(bits * 2));
        let buses = doubled(given.bus_bits).skip(1).take_while(|bits| *bits <= 1024);
        let cores = doubled(given.cores as u32).skip(1).take_while(|cores| *cores <= 256);
        let wider = buses.map(|bus_bits| Design { bus_bits, ..given.clone() });
        let more =
            cores.map(|cores| Design { cores: cores as usize, bus_bits: 1024, ..given.clone() });
        let found = wider.chain(more).find(|design| self.is_feasible(design));
        match found {
            Some(Design { cores, bus_bits, .. }) if cores == given.cores => {
                Instead::Bus { bits: bus_bits }
            }
            Some(Design { cores, .. }) => Instead::Cores { cores },
            None => Instead::Nothing,
        }
    }

    /// Whether a design carries the line with its open clocks at their limits, and its given ones as they
    /// are.
    fn is_feasible(&self, design: &Design) -> bool {
        let clock = |hz| Clock::new(hz, Ps::ZERO).ok();
        let fastest = |design: &Design| -> Option<Design> {
            let (mut core, mut dma) = (design.core, design.dma);
            if self.is_open.0 {
                core = clock(self.limits.core_hz)?;
            }
            if self.is_open.1 {
                dma = clock(self.limits.dma_hz)?;
            }
            Some(Design { core, dma, ..design.clone() })
        };
        let prediction = fastest(design).map(|design| self.question.predict(&design));
        prediction.is_some_and(|prediction| {
            prediction.is_ok_and(|it| it.carries(self.question.bits_per_second))
        })
    }

    fn run(&self, design: &Design) -> Result<Measured, Error> {
        Context::new(&self.progress).go_on()?;
        let SolveInput { traffic, .. } = &self.question;
        let measured = match self.steady {
            true => measure_steady(design, self.program.image(), self.kind).map(|one| Measured {
                wire_bits_per_second: one.wire_bits_per_second * design.cores as f64,
                ..one
            }),
            false => measure(design, self.program.image(), traffic),
        };
        measured.map_err(|error| refused_run(&self.program, error))
    }

    fn with_core(&self, hz: u64) -> Design {
        let old = &self.question.design;
        Design { core: Clock::new(hz, Ps::ZERO).unwrap_or(old.core), ..old.clone() }
    }

    /// Wrong questions, and right ones that nothing answers.
    fn refuse(&self, error: SolveError) -> Error {
        match error {
            SolveError::Dma { .. } | SolveError::Core { .. } => {
                ClockError::Infeasible { source: error, instead: self.instead() }.into()
            }
            _ => Failure::Usage.with(error),
        }
    }

    /// The core's clock, confirmed, and what else would do.
    fn core_clock(&self) -> Result<Answer, Error> {
        let has_closed_form = self.question.design.policy != BusPolicy::Interleave;
        let edge = match has_closed_form {
            true => self.question.core_clock().map_err(|error| self.refuse(error))?,
            false => self.core_clock_by_runs()?,
        };
        self.within(OpenClock::Core, edge.from_hz, self.limits.core_hz)?;
        let confirm = |side, hz| self.confirm(OpenClock::Core, side, hz, |hz| self.with_core(hz));
        let [below, above] =
            [confirm(Side::Below, edge.smallest_hz)?, confirm(Side::Above, edge.from_hz)?];
        let clock = self.clock(below, above, &self.with_core(above.hz));
        Ok(Answer {
            core_clock: Some(clock),
            confirmed: Some(confirm::runs(below, above)),
            alternatives: if has_closed_form { self.alternatives() } else { Vec::new() },
            ..Answer::default()
        })
    }

    /// A confirmed clock, which `design` has.
    fn clock(&self, below: Confirmed, above: Confirmed, design: &Design) -> ClockAnswer {
        ClockAnswer {
            smallest_mhz: below.hz as f64 / 1e6,
            from_mhz: above.hz as f64 / 1e6,
            closed_form_smallest: below.correction(),
            closed_form_from: above.correction(),
            utilisation: self.utilisation(design),
        }
    }

    /// A clock that runs confirm, within its limit.
    fn confirm(
        &self,
        clock: OpenClock,
        side: Side,
        computed_hz: u64,
        design: impl Fn(u64) -> Design,
    ) -> Result<Confirmed, Error> {
        let limit_hz = match clock {
            OpenClock::Core => self.limits.core_hz,
            OpenClock::Dma => self.limits.dma_hz,
        };
        let wanted = self.question.bits_per_second as f64;
        let carried = |hz| Ok(self.run(&design(hz))?.wire_bits_per_second);
        let confirmed = side.confirm(computed_hz, limit_hz, wanted, carried);
        confirmed.map_err(|error| error.of(clock, computed_hz))
    }

    /// No closed form: by runs, at clocks a hundredth apart.
    fn core_clock_by_runs(&self) -> Result<Edge, Error> {
        let wanted = self.question.bits_per_second as f64;
        let carries = |hz| -> Result<bool, Error> {
            Ok(self.run(&self.with_core(hz))?.wire_bits_per_second >= wanted)
        };
        let mut good = 16 * Clock::MIN_HZ;
        while !carries(good)? {
            if good >= Clock::MAX_HZ {
                return Err(ClockError::None.into());
            }
            good = (2 * good).min(Clock::MAX_HZ);
        }
        // A quarter carried nothing near it, and twice as much is far beyond.
        let (mut hz, mut first, mut last_bad) = (good / 4, None, good / 4);
        while hz <= (2 * good).min(Clock::MAX_HZ) {
            match carries(hz)? {
                true => first = first.or(Some(hz)),
                false => last_bad = hz,
            }
            hz += (hz / 100).max(1);
        }
        let first = first.unwrap_or(good);
        let from_hz = if last_bad < first { first } else { last_bad + last_bad / 100 };
        Ok(Edge { smallest_hz: first, from_hz })
    }

    /// Shares of their time for which resources work, and what limits.
    fn utilisation(&self, design: &Design) -> Utilisation {
        let Ok(prediction) = self.question.predict(design) else { return Utilisation::default() };
        let share = |of| Some(Share(prediction.utilisation(of)));
        let limit = self.question.limit(design).ok();
        Utilisation {
            core_share: share(Resource::Core),
            dma_share: share(Resource::Dma),
            limit: limit.map(|step| bottlenecks::name(step.limit).to_owned()),
        }
    }

    fn dma_clock(&self) -> Result<Answer, Error> {
        let hz = self.question.dma_clock().map_err(|error| self.refuse(error))?;
        self.within(OpenClock::Dma, hz, self.limits.dma_hz)?;
        let of = |hz| {
            let old = &self.question.design;
            Design { dma: Clock::new(hz, Ps::ZERO).unwrap_or(old.dma), ..old.clone() }
        };
        let confirm = |side, hz| self.confirm(OpenClock::Dma, side, hz, of);
        let above = confirm(Side::Above, hz)?;
        let below = confirm(Side::Below, hz)?;
        Ok(Answer {
            dma_clock: Some(self.clock(below, above, &of(above.hz))),
            confirmed: Some(confirm::runs(below, above)),
            ..Answer::default()
        })
    }

    /// Both clocks are given: the rate that they carry, and the rate that they lack.
    fn both(&self) -> Result<Answer, Error> {
        let design = &self.question.design;
        let measured = self.run(design)?.wire_bits_per_second;
        let prediction = self.question.predict(design).ok();
        let carried = CarriedByGiven {
            computed: prediction.map(|prediction| BitRate(prediction.wire_bits_per_second())),
            by_run: BitRate(measured),
            enough: measured >= self.question.bits_per_second as f64,
            utilisation: self.utilisation(design),
        };
        let smallest = Smallest {
            bus_bits: self.question.bus_bits().map(u64::from).into(),
            cores: self.question.cores().map(|cores| cores as u64).into(),
        };
        Ok(Answer { carried: Some(carried), smallest: Some(smallest), ..Answer::default() })
    }

    /// The statement of the source about this design, where it contradicts itself.
    fn contradictions(&self) -> Vec<String> {
        let SolveInput { design, bits_per_second, .. } = &self.question;
        let published = [(1500, 148, 60), (1024, 216, 87), (512, 423, 170)];
        let paper = published.iter().find(|(mtu, ..)| *mtu == design.mtu);
        let Some((mtu, at_100, at_40)) = paper.filter(|_| {
            design.bus_bits == 64 && design.dma.hz() == 2_115_000_000 && self.kind == Kind::Tcp
        }) else {
            return Vec::new();
        };
        let clock = match bits_per_second {
            100_000_000_000 => at_100,
            40_000_000_000 => at_40,
            _ => return Vec::new(),
        };
        let mut notes = vec![format!(
            "Published for {mtu} bytes (table 3): {clock} MHz, which is 18 cycles a packet; table 2 of the \
             same paper has fewer cycles, and so allows a slower core."
        )];
        let doubled = Design { cycles_per_word: 2, ..design.clone() };
        if let Ok(prediction) = self.question.predict(&doubled) {
            notes.push(format!(
                "The paper's text says two DMA cycles a word. Then this DMA would have to move for {:.2} of \
                 the time; its tables hold only with one.",
                prediction.dma_demand(*bits_per_second)
            ));
        }
        notes
    }
}
