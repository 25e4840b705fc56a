//! Hardware in virtual time: one job for each model, chosen by `model = "…"` in the scenario file.

mod account;
pub mod adapter;
pub mod core;
pub mod ladder;
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

pub use scenario::Scenario;

use super::AnyJob;

/// The command of all models.
const COMMAND: &str = "model";

/// The title of a model's page.
fn title(name: &str) -> String {
    format!("A model in virtual time: {name}")
}

/// The models.
pub const MODELS: [AnyJob; 8] = [
    AnyJob::of::<transmit::TransmitModel>(),
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
