//! Measured effects of toggles, from the JSON of an A/B run.

use super::super::error::JitterError;
use crate::Error;
use linecard_jitter::linux::audit::{Effects, Measured};
use serde::Deserialize;
use std::path::Path;

/// The part that is read; all else in it is for others.
#[derive(Deserialize)]
struct Run {
    effects: Vec<Row>,
}

#[derive(Deserialize)]
struct Row {
    value: Effect,
}

#[derive(Deserialize)]
struct Effect {
    toggle: String,
    figure: String,
    without: f64,
    with: f64,
    lower: f64,
    upper: f64,
    p: f64,
    took_effect: bool,
}

/// The first figure of each toggle that took effect; none without a file.
pub(super) fn read(path: Option<&Path>) -> Result<Effects, Error> {
    let Some(path) = path else { return Ok(Effects::new()) };
    let text = std::fs::read_to_string(path)
        .map_err(|source| Error::Open { path: path.to_owned(), source })?;
    let run: Run = serde_json::from_str(&text)
        .map_err(|source| JitterError::Effects { path: path.to_owned(), source })?;
    let mut effects = Effects::new();
    for Row { value } in run.effects.into_iter().filter(|row| row.value.took_effect) {
        let Effect { toggle, figure, without, with, lower, upper, p, .. } = value;
        let measured = Measured { figure, without, with, interval: (lower, upper), p };
        effects.entry(toggle).or_insert(measured);
    }
    Ok(effects)
}
