//! Points of the sending side: run, or computed.

use super::super::transmit::figures::simulate;
use super::super::transmit::{Config, firmware, refused_run};
use super::error::SweepError;
use super::predicted;
use super::rows::{self, PointResult};
use crate::erased::{AtPoints, Row};
use crate::{Context, Error};
use linecard::progress::Progress;
use linecard_config::{Document, Varied};
use linecard_model::elf::Firmware;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The sending side at points of a sweep.
pub(super) struct TransmitAtPoints {
    varied: Varied<Config>,
    predict: bool,
    /// Firmware that points have named so far. A name is one file for all points: where it is varied, all are given
    /// beside the scenario. Looking for the file reads the scenario, which takes a third of a point's time.
    firmware: Mutex<BTreeMap<String, Arc<Firmware>>>,
}

impl TransmitAtPoints {
    pub(super) fn new(document: &Document, keys: &[String], predict: bool) -> Result<Self, Error> {
        let varied = Varied::new(document.clone(), keys)?;
        let points = Self { varied, predict, firmware: Mutex::default() };
        // Firmware that all points have is refused before.
        if !keys.iter().any(|key| key == firmware::IMAGE) {
            let progress = Arc::new(Progress::new());
            let context = Context { progress: &progress, document: Some(document) };
            let config: Config = document.config()?;
            points.firmware(&config, &context).map_err(|error| context.placed(error))?;
        }
        Ok(points)
    }

    /// Names of the results of points.
    pub(super) fn names(&self) -> &'static [&'static str] {
        if self.predict { &predicted::NAMES } else { &rows::FIGURES }
    }

    /// Result of a point, or the reason why it could not be run.
    pub(super) fn values(
        &self,
        values: &[Value],
        progress: &Arc<Progress>,
    ) -> Result<PointResult, Error> {
        let (config, document) = self.varied.at(values)?;
        let context = Context { progress, document: Some(&document) };
        self.found(&config, &context).map_err(|error| context.placed(error))
    }

    fn found(&self, config: &Config, context: &Context<'_>) -> Result<PointResult, Error> {
        let design = config.design(0)?;
        let firmware = self.firmware(config, context)?;
        let failure = |error| refused_run(&firmware, error);
        if self.predict {
            let values = predicted::values(config, design, &firmware)?;
            return Ok(PointResult { values, is_right: true });
        }
        let figures = simulate((config, &design), firmware.image(), context, |_| ());
        let figures = figures.map_err(failure)?;
        Ok(PointResult { values: rows::values(&figures), is_right: figures.is_right() })
    }

    /// Loads firmware that points will name, so that it is refused before.
    pub(super) fn load(&self, images: &[Value]) -> Result<(), Error> {
        for image in images.iter().filter_map(Value::as_str) {
            let firmware = firmware::by_name(image, Path::new(image))?;
            self.known().insert(image.to_owned(), Arc::new(firmware));
        }
        Ok(())
    }

    fn firmware(&self, config: &Config, context: &Context<'_>) -> Result<Arc<Firmware>, Error> {
        let name = &config.firmware.image;
        if let Some(firmware) = self.known().get(name) {
            return Ok(Arc::clone(firmware));
        }
        let firmware = Arc::new(firmware::load(config, context)?);
        self.known().insert(name.clone(), Arc::clone(&firmware));
        Ok(firmware)
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Firmware>>> {
        self.firmware.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AtPoints for TransmitAtPoints {
    fn run(&self, values: &[Value], progress: &Arc<Progress>) -> Result<Row, Error> {
        let found = self.values(values, progress)?;
        if !found.is_right {
            return Err(SweepError::WrongPoint.into());
        }
        let names = self.names().iter().map(|name| (*name).to_owned());
        Ok(names.zip(found.values).collect())
    }
}
