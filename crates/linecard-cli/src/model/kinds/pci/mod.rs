//! A gigabit adapter on PCI and the server behind it: [`linecard_model::pci`].

mod keys;

pub(super) use keys::Settings;

use super::super::scenario::Scenario;
use super::{Account, Model, Part, Ran, limits, ratio};
use crate::failure::Failure;
use crate::watch;
use linecard_model::pci::{Config, ConfigError, Outcome, efficiency, simulate_watched};
use linecard_report::{Report, Section, Value};

/// Bits per second behind the switch.
const GIGABIT: f64 = 1e9;
/// The longest frame.
const FULL_FRAME: u32 = 1_518;

impl Model for Settings {
    fn run(scenario: &Scenario<Self>) -> Result<Ran, Failure> {
        let of = &scenario.settings.of;
        let refuse = |error| scenario.refuse(key_of(&error), &error.to_string());
        let outcome = simulate_watched(of, &watch::any()).map_err(refuse)?;
        Ok(report(of, &outcome))
    }
}

/// The key whose value an error is about.
fn key_of(error: &ConfigError) -> &'static str {
    match error {
        ConfigError::Clock(_) => "adapter.bus_mhz",
        ConfigError::Range { name, .. } => match *name {
            "fifo_bytes" => "adapter.fifo",
            "threshold_bytes" => "adapter.threshold",
            "buffers" => "adapter.buffers",
            "requeue_batch" => "adapter.requeue_batch",
            "mhz" => "server.mhz",
            "cpus" => "server.cpus",
            "clients" => "load.clients",
            "sessions" => "load.sessions",
            "window_frames" => "load.window_frames",
            "file_bytes" => "load.file_bytes",
            "client_bps" => "load.client_rate",
            "warm_up" => "run.warm_up",
            _ => "run.duration",
        },
    }
}

fn report(of: &Config, outcome: &Outcome) -> Ran {
    let title = format!(
        "{} processors at {} MHz, bus at {} MHz, {} clients with {} sessions each",
        of.server.cpus,
        of.server.mhz,
        of.adapter.bus_hz as f64 / 1e6,
        of.load.clients,
        of.load.sessions,
    );
    let frames = &outcome.frames;
    let parts = [frames.received, frames.delivered, frames.dropped, frames.held];
    let mut account = Account::new(title, "frames", parts);
    let wrong = account.wrong(true);
    let section = &mut account.section;
    section.add("ns", "measured", Value::Ns(outcome.duration.0 as f64 / 1e3));
    let mut report = Report::new("model");
    report.push(account.section);
    report.push(rates(outcome));
    report.push(bus(outcome));
    report.push(busy(of, outcome));
    report.note("Frames are counted from the beginning, all else without the warm-up.");
    Ran { report, wrong }
}

fn rates(outcome: &Outcome) -> Section {
    let mut section = Section::new("rates", "Rates");
    section.add("bits_per_second", "file data", Value::BitRate(outcome.mbps() * 1e6));
    let frames = ratio(outcome.handled as f64, outcome.duration.as_secs_f64());
    section.add("frames_per_second", "frames in a second", Value::Count(frames as u64));
    let [burst, run] = [outcome.burst_frames(), outcome.run_frames()];
    section.add("burst_frames", "frames between answers", Value::Number(burst));
    section.add("run_frames", "frames that the handler takes at once", Value::Number(run));
    section
}

/// Clocks of a transfer on average.
fn bus(outcome: &Outcome) -> Section {
    let mut section = Section::new("bus", "Bus clocks of a frame on average");
    let sums = &outcome.bus;
    for (key, label, clocks) in [
        ("header_clocks", "before the first word", sums.header),
        ("data_clocks", "words of cache lines", sums.data),
        ("wait_clocks", "waiting for the adapter", sums.waits),
        ("tail_clocks", "the rest of a cache line", sums.tail),
        ("status_clocks", "status", sums.status),
        ("requeue_clocks", "returning buffers", outcome.requeue_clocks),
    ] {
        section.add(key, label, Value::Number(outcome.per_transfer(clocks)));
    }
    section.add("refill_clocks", "idle, pauses left out", Value::Number(outcome.refill_clocks()));
    section
}

fn busy(of: &Config, outcome: &Outcome) -> Section {
    let seconds = outcome.duration.as_secs_f64();
    let clocks = (outcome.bus.clocks() + outcome.requeue_clocks) as f64;
    let bus = ratio(clocks, clocks + outcome.idle_clocks as f64);
    let busiest = (0..outcome.busy.len()).map(|cpu| outcome.utilisation(cpu)).fold(0.0, f64::max);
    let others = outcome.busy.len().saturating_sub(1);
    let sum: f64 = (0..outcome.busy.len()).map(|cpu| outcome.utilisation(cpu)).sum();
    // All frames are taken to be full: the last one of a file is not.
    let wire = outcome.delivered_bytes as f64 * 8.0 / efficiency(FULL_FRAME);
    let links = of.load.client_bps as f64 * f64::from(of.load.clients);
    let mut shares: Vec<Part> = vec![
        ("bus_busy", "bus", bus),
        ("cpu_busy", "the busiest processor", busiest),
        ("clients_busy", "clients' links", ratio(wire, links * seconds)),
        ("wire_busy", "gigabit link", ratio(wire, GIGABIT * seconds)),
    ];
    if others > 0 {
        shares.push(("others_busy", "the other processors", (sum - busiest) / others as f64));
    }
    let handler = ratio(outcome.handler_time.as_secs_f64(), seconds);
    let protocol = ratio(outcome.protocol_time.as_secs_f64(), seconds);
    let beside = [
        ("handler_busy", "interrupt handler", handler),
        ("protocol_busy", "protocol work", protocol),
    ];
    limits(&shares, &beside)
}
