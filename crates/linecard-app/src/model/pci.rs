//! A gigabit adapter on PCI and the server behind it: [`linecard_model::pci`].

use super::account::{Conserved, draw_busy, draw_section, limit, ratio};
use crate::{Context, Error, Job};
use linecard_model::Ps;
use linecard_model::pci::{Config, PciResults, efficiency, simulate_with_progress};
use linecard_report::{Axis, BitRate, Ledger, Nanoseconds, Page, Share, Unit, Value};
use schemars::JsonSchema;
use serde::Serialize;

/// Bits per second behind the switch.
const GIGABIT: f64 = 1e9;
/// The longest frame.
const FULL_FRAME: u32 = 1_518;

/// The job.
#[derive(Debug)]
pub struct PciModel;

/// The outcome of a run.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct PciOutcome {
    /// Frames
    pub account: Account,
    /// Rates
    pub rates: Rates,
    /// Bus clocks of a frame on average
    pub bus: BusClocks,
    /// Frames over the bus, and pauses of 100 µs and more
    pub moved: Moved,
    /// Utilisation, as a share of the time
    pub busy: Busy,
    #[serde(skip)]
    title: String,
}

/// Frames: in is out, dropped and held together.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Account {
    /// In, out, dropped and held.
    #[serde(flatten)]
    pub conserved: Conserved,
    /// measured
    pub ns: Nanoseconds,
}

/// Rates.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Rates {
    /// file data
    pub bits_per_second: BitRate,
    /// frames in a second
    pub frames_per_second: u64,
    /// frames between stretches of deferred calls
    pub burst_frames: f64,
    /// frames that the handler takes at once
    pub run_frames: f64,
}

/// Bus clocks of a frame on average.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct BusClocks {
    /// before the first word
    pub header_clocks: f64,
    /// words of cache lines
    pub data_clocks: f64,
    /// waiting for the adapter
    pub wait_clocks: f64,
    /// the rest of a cache line
    pub tail_clocks: f64,
    /// status
    pub status_clocks: f64,
    /// returning buffers
    pub requeue_clocks: f64,
    /// idle, pauses left out
    pub refill_clocks: f64,
}

/// Frames over the bus since measuring began.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Moved {
    /// frames
    pub frames: u64,
    /// pauses
    pub pauses: u64,
    /// bus clocks in pauses
    pub pause_clocks: u64,
    /// idle bus clocks of a frame, pauses included
    pub idle_clocks: f64,
    /// interrupt handler, for a frame
    pub handler_ns: Nanoseconds,
    /// protocol work, for a frame
    pub protocol_ns: Nanoseconds,
}

/// Shares of the time since measuring began.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Busy {
    /// bus
    pub bus_busy: Share,
    /// the busiest processor
    pub cpu_busy: Share,
    /// clients' links
    pub clients_busy: Share,
    /// gigabit link
    pub wire_busy: Share,
    /// the other processors
    pub others_busy: Option<Share>,
    /// interrupt handler
    pub handler_busy: Share,
    /// protocol work
    pub protocol_busy: Share,
    /// bottleneck
    pub limit: String,
}

impl Job for PciModel {
    const NAME: &'static str = "pci";
    const COMMAND: &'static str = super::COMMAND;
    type Config = Config;
    type Outcome = PciOutcome;

    fn title(_: &Config) -> String {
        super::title(Self::NAME)
    }

    fn draw(outcome: &PciOutcome, page: &mut Page) {
        draw_busy(outcome, &outcome.busy.limit, page);
        let rate = Value::BitRate(outcome.rates.bits_per_second.0);
        page.headline(format!("{rate}; bottleneck: {}.", outcome.busy.limit));
        let axis = Axis::new("bus clocks", Unit::Plain(""));
        draw_section(outcome, Ledger::new("bus", "Bus clocks of a frame, on average", axis), page);
    }

    fn run(config: &Config, context: &Context<'_>) -> Result<PciOutcome, Error> {
        let outcome = simulate_with_progress(config, context.progress)?;
        context.go_on()?;
        Ok(PciOutcome {
            account: Account::new(&outcome),
            rates: Rates::new(&outcome),
            bus: BusClocks::new(&outcome),
            moved: Moved::new(&outcome),
            busy: Busy::new(config, &outcome),
            title: format!(
                "{} processors at {} MHz, bus at {} MHz, {} clients with {} sessions each",
                config.server.cpus,
                config.server.mhz,
                config.adapter.bus_mhz,
                config.load.clients,
                config.load.sessions,
            ),
        })
    }

    fn check(outcome: &PciOutcome) -> Result<(), Error> {
        outcome.account.conserved.check(true)
    }
}

impl linecard_report::Outcome for PciOutcome {
    fn title(&self, section: &str) -> Option<String> {
        (section == "account").then(|| self.title.clone())
    }

    fn label(&self, section: &str, key: &str) -> Option<String> {
        Conserved::frames(section, key)
    }

    fn notes(&self) -> Vec<String> {
        let note = "Frames are counted from the beginning, all else without the warm-up.";
        vec![note.to_owned()]
    }
}

impl Account {
    fn new(outcome: &PciResults) -> Self {
        let frames = &outcome.frames;
        Self {
            conserved: Conserved {
                came: frames.received,
                went: frames.delivered,
                dropped: frames.dropped,
                held: frames.held,
            },
            ns: Nanoseconds(outcome.duration.0 as f64 / 1e3),
        }
    }
}

impl Rates {
    fn new(outcome: &PciResults) -> Self {
        let frames = ratio(outcome.handled as f64, outcome.duration.as_secs_f64());
        Self {
            bits_per_second: BitRate(outcome.mbps() * 1e6),
            frames_per_second: frames as u64,
            burst_frames: outcome.burst_frames(),
            run_frames: outcome.run_frames(),
        }
    }
}

impl BusClocks {
    fn new(outcome: &PciResults) -> Self {
        let (sums, each) = (&outcome.bus, |clocks| outcome.per_transfer(clocks));
        Self {
            header_clocks: each(sums.header),
            data_clocks: each(sums.data),
            wait_clocks: each(sums.waits),
            tail_clocks: each(sums.tail),
            status_clocks: each(sums.status),
            requeue_clocks: each(outcome.requeue_clocks),
            refill_clocks: outcome.refill_clocks(),
        }
    }
}

impl Moved {
    fn new(outcome: &PciResults) -> Self {
        let each = |time: Ps| Nanoseconds(ratio(time.0 as f64 / 1e3, outcome.handled as f64));
        Self {
            frames: outcome.transfers,
            pauses: outcome.pauses,
            pause_clocks: outcome.pause_clocks,
            idle_clocks: outcome.per_transfer(outcome.idle_clocks),
            handler_ns: each(outcome.handler_time),
            protocol_ns: each(outcome.protocol_time),
        }
    }
}

impl Busy {
    fn new(config: &Config, outcome: &PciResults) -> Self {
        let seconds = outcome.duration.as_secs_f64();
        let clocks = (outcome.bus.clocks() + outcome.requeue_clocks) as f64;
        let bus = ratio(clocks, clocks + outcome.idle_clocks as f64);
        let each = (0..outcome.busy.len()).map(|cpu| outcome.utilisation(cpu));
        let (busiest, sum) = (each.clone().fold(0.0, f64::max), each.sum::<f64>());
        let others = outcome.busy.len().saturating_sub(1);
        let others = (others > 0).then(|| (sum - busiest) / others as f64);
        // All frames are taken to be full: the last one of a file is not.
        let bits = outcome.delivered_bytes as f64 * 8.0 / efficiency(FULL_FRAME);
        let rate = config.load.client_rate.bits_per_second() as f64;
        let clients = ratio(bits, rate * f64::from(config.load.clients) * seconds);
        let wire = ratio(bits, GIGABIT * seconds);
        let mut shares = vec![
            ("bus", bus),
            ("the busiest processor", busiest),
            ("clients' links", clients),
            ("gigabit link", wire),
        ];
        shares.extend(others.map(|others| ("the other processors", others)));
        Self {
            bus_busy: Share(bus),
            cpu_busy: Share(busiest),
            clients_busy: Share(clients),
            wire_busy: Share(wire),
            others_busy: others.map(Share),
            handler_busy: Share(ratio(outcome.handler_time.as_secs_f64(), seconds)),
            protocol_busy: Share(ratio(outcome.protocol_time.as_secs_f64(), seconds)),
            limit: limit(&shares),
        }
    }
}
