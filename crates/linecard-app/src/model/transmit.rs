//! The sending side of a network interface: firmware on modelled cores segments messages, and each packet that
//! leaves is compared with the result of `segment` ([`linecard_model::transmit`]).

mod annotate;
mod capture;
mod config;
pub mod figures;
pub mod firmware;
mod outcome;

pub use annotate::{Function, FunctionCycles, Line as SourceLine, LineCycles};
pub use config::{Bus, Config, Core, Dma, Firmware, Host, Line};
pub use outcome::{Account, Busy, Class, ClassCycles, OverPhases, Phases, Rates, TransmitOutcome};

use super::core::WHOLE;
use super::error::ModelError;
use crate::captures::is_stdout;
use crate::{Context, Error, Job};
use capture::CaptureWriter;
use figures::{Figures, simulate};
use garde::Validate;
use linecard_config::ConfigError;
use linecard_model::transmit::{DesignError, Sent, TransmitError};
use linecard_report::{Axis, Ledger, Page, Unit, Value};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;
use std::path::Path;

/// The job.
#[derive(Debug)]
pub struct TransmitModel;

/// Options of a run beside its scenario.
#[derive(
    Debug, Clone, PartialEq, Eq, SmartDefault, Serialize, Deserialize, JsonSchema, Validate,
)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("x-flags" = true))]
#[garde(allow_unvalidated)]
pub struct Options {
    /// of "transmit" only: phases of the DMA's clock to try, evenly over its period; the first is the scenario's own,
    /// to which all other figures refer
    #[default(8)]
    #[garde(range(min = 1, max = 1_000))]
    pub phases: u64,
    /// of "transmit" only: write the packets that left, with their virtual times, to a capture of raw IP packets; names
    /// ending in .pcap give pcap, all others pcapng; - is stdout
    #[schemars(extend("x-value" = "FILE"))]
    pub capture: Option<String>,
    /// of "transmit" only: show the cycles of each function of the firmware and of each line of its source: busy,
    /// waiting, lost to branches, and the share of all
    pub annotate: bool,
}

impl Job for TransmitModel {
    const NAME: &'static str = "transmit";
    const COMMAND: &'static str = super::COMMAND;
    type Config = Config;
    type Outcome = TransmitOutcome;

    fn validate(config: &Config) -> Result<(), ConfigError> {
        config.design(0).map(drop)
    }

    fn title(_: &Config) -> String {
        "A network interface in virtual time".to_owned()
    }

    fn run(config: &Config, context: &Context<'_>) -> Result<TransmitOutcome, Error> {
        run(config, &Options::default(), context)
    }

    fn draw(outcome: &TransmitOutcome, page: &mut Page) {
        draw(outcome, page);
    }

    /// Success only if every byte is where it belongs.
    fn check(outcome: &TransmitOutcome) -> Result<(), Error> {
        if outcome.is_right() {
            return Ok(());
        }
        let Account { payload_in, payload_out, packets_wrong, .. } = &outcome.account;
        Err(ModelError::Packets {
            packets_wrong: *packets_wrong,
            payload_in: payload_in.0,
            payload_out: payload_out.0,
            first: outcome.mismatch.clone(),
        }
        .into())
    }
}

/// Runs a scenario: at each phase, and once more where lines are counted.
///
/// # Errors
///
/// Values that do not fit each other, firmware that cannot be loaded or fails, a capture that cannot be written, and
/// cancellation.
pub fn run(
    config: &Config,
    options: &Options,
    context: &Context<'_>,
) -> Result<TransmitOutcome, Error> {
    linecard_config::check(config)?;
    let runs = all_phases(config, options, context)?;
    let mut outcome = TransmitOutcome::new(config, &runs);
    if options.annotate {
        let annotated = annotate::annotate(config, context)?;
        (outcome.functions, outcome.lines) = (annotated.functions, annotated.lines);
    }
    context.go_on()?;
    Ok(outcome)
}

/// A run for each phase; packets of the first go to the capture.
fn all_phases(
    config: &Config,
    options: &Options,
    context: &Context<'_>,
) -> Result<Vec<Figures>, Error> {
    let firmware = firmware::load(config, context)?;
    let phases = options.phases;
    let run = |step: u64, sink: &mut dyn FnMut(&Sent)| {
        let design = config.design(step * WHOLE / phases)?;
        simulate((config, &design), firmware.image(), context, sink)
            .map_err(|error| refused_run(&firmware, error))
    };
    context.progress.expect(config.load.messages.saturating_mul(phases) as usize);
    let output = options.capture.as_deref().map(Path::new);
    let output = output.map(|path| if is_stdout(path) { Path::new("-") } else { path });
    let mut capture = output.map(|path| CaptureWriter::create(path, context)).transpose()?;
    let mut runs = vec![run(0, &mut |sent| {
        if let Some(capture) = &mut capture {
            capture.take(sent);
        }
    })?];
    // Half a capture is none.
    context.go_on()?;
    if let Some(capture) = capture {
        capture.finish()?;
    }
    for step in 1..phases {
        runs.push(run(step, &mut |_| ())?);
    }
    Ok(runs)
}

/// A design that cannot be built.
pub(super) fn refused_design(error: DesignError) -> Error {
    config::refused(error).into()
}

/// Why a run ended early.
#[must_use]
pub fn refused_run(program: &linecard_model::elf::Firmware, error: TransmitError) -> Error {
    let parameter = match error {
        TransmitError::Design(error) => return refused_design(error),
        TransmitError::Load(_) => firmware::IMAGE,
        TransmitError::Message { .. } => "load.mtu",
        TransmitError::Stalled { .. } => "line.sbi",
        TransmitError::Fault { .. }
        | TransmitError::Stuck { .. }
        | TransmitError::Endless { .. }
        | TransmitError::Halted { .. } => {
            let image = program.name().to_owned();
            let origin = error.pc().and_then(|pc| firmware::origin(program, pc));
            return ModelError::Transmit { image, origin, source: error }.into();
        }
    };
    ConfigError::of_parameter(parameter, error).into()
}

/// The rate that is carried, and where the cores' cycles go.
fn draw(outcome: &TransmitOutcome, page: &mut Page) {
    let goodput = Value::BitRate(outcome.rates.goodput_bits_per_second.0);
    let cycles = outcome.rates.cycles_per_packet;
    let of_line = outcome.rates.line_share.map(|share| Value::Share(share.0));
    let of_line = of_line.map(|share| format!(", {share} of the line's rate")).unwrap_or_default();
    page.headline(format!(
        "{goodput} of payload{of_line}: a packet every {cycles:.1} core cycles."
    ));
    let ns = outcome.account.ns.0;
    let Busy { core_busy, core_stalled, core_bubbles, .. } = &outcome.busy;
    let [busy, stalled, bubbles] = [core_busy.0, core_stalled.0, core_bubbles.0];
    let mut time =
        Ledger::new("core_time", "Where the time of a core goes", Axis::new("time", Unit::Ns));
    time.whole(ns).cause("instructions", busy * ns, None);
    time.cause("waiting for bus, DMA or line", stalled * ns, None);
    time.cause("behind branches", bubbles * ns, None);
    time.rest("nothing to do", (1.0 - busy - stalled - bubbles).max(0.0) * ns);
    page.chart(time);
    for Class { label, value } in &outcome.classes {
        let title = format!("Core cycles of a packet of class {label}, on average");
        let mut cycles = Ledger::new(label, title, Axis::new("cycles", Unit::Plain("")));
        cycles.cause("before the transfer", value.0.before.mean(), None);
        cycles.cause("beside the transfer", value.0.beside.mean(), None);
        cycles.cause("waited", value.0.idle.mean(), None);
        page.chart(cycles);
    }
}
