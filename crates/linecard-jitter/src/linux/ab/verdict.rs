//! The verdict of an outcome in words.

use super::{Manipulation, ToggleOutcome};
use crate::stats::effect::EffectError;

/// Significance level.
pub(super) const LEVEL: f64 = 0.05;

/// The verdict in one sentence, without figures.
#[must_use]
pub fn verdict(outcome: &ToggleOutcome) -> String {
    let Manipulation { counts, disturbed, holds } = outcome.manipulation;
    if disturbed > 0 {
        return format!(
            "no verdict: in {disturbed} runs the toggle was changed by somebody else, or could not be checked"
        );
    }
    if !holds {
        let (a, b) = counts.unwrap_or((0.0, 0.0));
        let check = outcome.toggle.check;
        return format!(
            "no verdict: the toggle took no effect ({check}: {a:.1} a run without, {b:.1} with)"
        );
    }
    match (outcome.effects.first(), outcome.p) {
        (Some(Ok(effect)), Some(p)) if p <= LEVEL => {
            if effect.difference > 0.0 {
                "more".to_owned()
            } else {
                "less".to_owned()
            }
        }
        (Some(Ok(_)), Some(_)) => "no effect that could be told from chance".to_owned(),
        (Some(Err(EffectError::NotFinite { block })), _) => format!(
            "no verdict: a run of block {} received nothing: send more packets, or use a quieter \
             host",
            block + 1
        ),
        (Some(Err(error)), _) => format!("no verdict: {error}"),
        _ => "no verdict: nothing was measured".to_owned(),
    }
}
