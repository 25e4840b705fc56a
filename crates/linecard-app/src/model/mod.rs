//! Hardware in virtual time: one job for each model, chosen by `model = "…"` in the scenario file.

mod account;
pub mod adapter;
pub mod bottlenecks;
pub mod core;
mod error;
pub mod npu;
pub mod parallel;
pub mod path;
pub mod pci;
pub mod pcie;
pub mod receive;
mod scenario;
pub mod solve;
pub mod sweep;
pub mod trace;
pub mod transfer;
pub mod transmit;

pub use account::Conserved;
pub use scenario::Scenario;
use scenario::ScenarioError;

use super::{AnyJob, Context, Error, Finished, Job, finished};
use linecard::progress::Progress;
use linecard_config::{Document, parameters};
use std::sync::Arc;
use transmit::TransmitModel;

/// The command of all models.
const COMMAND: &str = "model run";

/// The title of a model's page.
fn title(name: &str) -> String {
    format!("A model in virtual time: {name}")
}

/// The models.
pub const MODELS: [AnyJob; 8] = [
    AnyJob::of::<TransmitModel>(),
    AnyJob::of::<receive::ReceiveModel>(),
    AnyJob::of::<npu::NpuModel>(),
    AnyJob::of::<pci::PciModel>(),
    AnyJob::of::<pcie::PcieModel>(),
    AnyJob::of::<adapter::AdapterModel>(),
    AnyJob::of::<path::PathModel>(),
    AnyJob::of::<transfer::TransferModel>(),
];

/// The model of this name.
#[must_use]
pub fn named(name: &str) -> Option<&'static AnyJob> {
    MODELS.iter().find(|model| model.name == name)
}

/// Runs a scenario of any model; `options` has values of [`transmit::Options`], which other models do not take.
///
/// # Errors
///
/// Values that are refused, and what the model refuses.
pub fn run(
    scenario: &Scenario,
    options: &Document,
    progress: &Arc<Progress>,
) -> Result<Finished, Error> {
    let Scenario { model, document } = scenario;
    if model.name == TransmitModel::NAME {
        let context = Context { progress, document: Some(document) };
        let (config, options) = (context.config()?, options.config()?);
        let outcome =
            transmit::run(&config, &options, &context).map_err(|error| context.placed(error))?;
        let title = TransmitModel::title(&config);
        let finished = finished::<TransmitModel>(COMMAND, title, &outcome);
        let finished = finished.of_config(&config, Some(document)).of_config(&options, None);
        return Ok(model.named(finished));
    }
    let given =
        parameters::<transmit::Options>().iter().find_map(|known| options.find(&known.name));
    if let Some(given) = given {
        return Err(scenario.refuse(ScenarioError::NotTransmit { given: given.to_string() }));
    }
    Ok(model.named(model.run(document, progress)?))
}
