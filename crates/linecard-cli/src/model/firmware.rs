//! Firmware by name, or from a file.

use super::scenario::Scenario;
use crate::failure::Failure;
use linecard::model::rv32::Image;
use linecard::model::transmit::firmware;

/// What comes with the model.
const BUILT_IN: [(&str, fn() -> Image); 3] = [
    ("approach-1", firmware::approach_1),
    ("approach-2", firmware::approach_2),
    ("best", firmware::best),
];

/// The scenario's firmware.
pub(crate) fn load(scenario: &Scenario) -> Result<Image, Failure> {
    let name = &scenario.settings.firmware;
    if let Some((_, image)) = BUILT_IN.iter().find(|(known, _)| known == name) {
        return Ok(image());
    }
    let known = BUILT_IN.map(|(name, _)| format!("\"{name}\"")).join(", ");
    Err(scenario.refuse("firmware.image", &format!("no such firmware: choose {known}")))
}
