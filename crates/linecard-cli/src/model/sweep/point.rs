//! A point of a sweep: a scenario with its values, run or computed.

use super::super::figures::{Figures, simulate};
use super::super::firmware;
use super::super::scenario::Scenario;
use super::super::settings::Settings;
use super::{predicted, rows};
use crate::failure::Failure;
use linecard_model::elf::Firmware;
use serde_json::Value;
use std::collections::BTreeMap;

/// What a point came to.
pub(super) struct Found {
    pub(super) values: Vec<Value>,
    pub(super) is_right: bool,
}

/// Runs points of the sending side, or computes them.
pub(super) struct Runner {
    predict: bool,
    /// All firmware that points name.
    firmware: BTreeMap<String, Firmware>,
}

impl Runner {
    /// For points with these firmwares, which were given with the command; with none for the scenario's.
    pub(super) fn new(
        scenario: &Scenario,
        firmwares: impl IntoIterator<Item = String>,
        predict: bool,
    ) -> Result<Self, Failure> {
        let load = |name: String| Ok((name.clone(), firmware::named(scenario, &name)?));
        let firmware = firmwares.into_iter().map(load).collect::<Result<_, Failure>>();
        let mut firmware: BTreeMap<String, Firmware> = firmware?;
        if firmware.is_empty() {
            firmware.insert(scenario.settings.firmware.clone(), firmware::load(scenario)?);
        }
        Ok(Self { predict, firmware })
    }

    /// Names of what points come to.
    pub(super) fn names(&self) -> Vec<&'static str> {
        if self.predict { predicted::names() } else { rows::found() }
    }

    /// What a point came to, or why it could not be run.
    pub(super) fn run(&self, settings: &Settings) -> Result<Found, String> {
        let design = settings.design(0).map_err(|error| error.to_string())?;
        let firmware = self.firmware.get(&settings.firmware).ok_or("no such firmware")?;
        if self.predict {
            let values = predicted::values(settings, design, firmware.image())?;
            return Ok(Found { values, is_right: true });
        }
        let figures = simulate(settings, &design, firmware.image(), |_| ());
        let figures: Figures = figures.map_err(|error| error.to_string())?;
        Ok(Found { values: rows::values(&figures), is_right: figures.is_right() })
    }
}
