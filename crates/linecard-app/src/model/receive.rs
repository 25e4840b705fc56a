//! The receiving side of a network interface: firmware on a modelled core sorts packets into lists of the host's buffers
//! ([`linecard_model::receive`]).

mod config;
mod outcome;

pub use config::{Bus, Cam, Config, Core, Dma, Firmware, Host, Line};
pub use outcome::{Account, Busy, Class, ClassCycles, Rates, ReceiveOutcome};

use super::account::draw_busy;
use super::error::ModelError;
use super::transmit::firmware;
use crate::{Context, Error, Job};
use linecard_config::ConfigError;
use linecard_model::elf;
use linecard_model::receive::{self, Receive, ReceiveError};
use linecard_report::{Axis, Ledger, Page, Unit};

/// Firmware that comes with the model.
const FIRMWARE: [(&str, &[u8]); 2] = [
    ("published", include_bytes!("../../../../firmware/images/receive.elf")),
    ("best", include_bytes!("../../../../firmware/images/receive_best.elf")),
];

/// The job.
#[derive(Debug)]
pub struct ReceiveModel;

impl Job for ReceiveModel {
    const NAME: &'static str = "receive";
    const COMMAND: &'static str = super::COMMAND;
    type Config = Config;
    type Outcome = ReceiveOutcome;

    /// Messages have to be of a size that can be segmented, too.
    fn validate(config: &Config) -> Result<(), ConfigError> {
        config.design()?;
        let load = &config.load;
        let refuse = |error| ConfigError::of_parameter("load.mtu", error);
        for message in load.messages().take(2 * load.size.len()) {
            message.mss(load.mtu()).map_err(refuse)?;
        }
        Ok(())
    }

    fn title(_: &Config) -> String {
        super::title(Self::NAME)
    }

    fn draw(outcome: &ReceiveOutcome, page: &mut Page) {
        draw_busy(outcome, &outcome.busy.limit, page);
        let axis = Axis::new("cycles", Unit::Plain(""));
        let mut cycles =
            Ledger::new("classes", "Core cycles of a packet of each class, on average", axis);
        for Class { label, value } in &outcome.classes {
            cycles.cause(label, value.total_mean, value.packets);
        }
        page.chart(cycles);
    }

    fn run(config: &Config, context: &Context<'_>) -> Result<ReceiveOutcome, Error> {
        linecard_config::check(config)?;
        Self::validate(config)?;
        let design = config.design()?;
        let load = &config.load;
        let program = program(config, context)?;
        let failure = |error| refused_run(&program, error);
        let receive = Receive::new(&design, program.image()).map_err(failure)?;
        context.progress.expect(load.messages as usize);
        let cut = |message| receive::firmware::packets_of(&message, load.mtu());
        // Messages that cannot be segmented are refused before.
        let packets =
            context.each(load.messages()).flat_map(|message| cut(message).unwrap_or_default());
        let outcome = receive.run(packets, |_| ()).map_err(failure)?;
        context.go_on()?;
        Ok(ReceiveOutcome::new(config, &design, &outcome))
    }

    fn check(outcome: &ReceiveOutcome) -> Result<(), Error> {
        outcome.account.conserved.check(outcome.is_right)
    }
}

fn program(config: &Config, context: &Context<'_>) -> Result<elf::Firmware, ConfigError> {
    let name = config.firmware.image.as_str();
    match FIRMWARE.iter().find(|(known, _)| *known == name) {
        Some((known, bytes)) => elf::Firmware::parse(known, bytes)
            .map_err(|error| ConfigError::of_parameter(firmware::IMAGE, error)),
        None => {
            let path = context.path_of(firmware::IMAGE, name);
            firmware::file(&path, &FIRMWARE.map(|(known, _)| known))
        }
    }
}

/// Why a run ended early.
fn refused_run(program: &elf::Firmware, error: ReceiveError) -> Error {
    let parameter = match error {
        ReceiveError::Design(error) => return config::refused(error).into(),
        ReceiveError::Load(_) => firmware::IMAGE,
        ReceiveError::Message(_) => "load.mtu",
        ReceiveError::Fault(_) | ReceiveError::Stuck { .. } | ReceiveError::Halted { .. } => {
            let image = program.name().to_owned();
            let origin = error.pc().and_then(|pc| firmware::origin(program, pc));
            return ModelError::Receive { image, origin, source: error }.into();
        }
    };
    ConfigError::of_parameter(parameter, error).into()
}
