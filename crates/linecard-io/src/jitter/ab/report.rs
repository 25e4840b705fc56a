//! Outcomes in words, and for machines.

use super::{Design, Manipulation, Outcome};
use linecard::report::{Report, Section, Value};
use linecard_jitter::stats::effect::{Effect, EffectError, smallest_p};

/// The level at which an effect is one.
const LEVEL: f64 = 0.05;

/// What an outcome says, in a sentence without its figures.
#[must_use]
pub fn verdict(outcome: &Outcome) -> String {
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
        (Some(Ok(effect)), Some(_)) if smallest_p(effect.blocks) > LEVEL => {
            "no verdict: so few blocks cannot show an effect".to_owned()
        }
        (Some(Ok(_)), Some(_)) => "no effect that could be told from chance".to_owned(),
        (Some(Err(EffectError::NotFinite { block })), _) => format!(
            "no verdict: a run of block {} received nothing: take more packets, or a quieter host",
            block + 1
        ),
        (Some(Err(error)), _) => format!("no verdict: {error}"),
        _ => "no verdict: nothing was measured".to_owned(),
    }
}

/// All outcomes. In JSON, `effects` is what `audit --effects` takes.
#[must_use]
pub fn report(outcomes: &[Outcome], design: &Design) -> Report {
    let mut report = Report::new("jitter ab");
    let mut effects = Section::list("effects", "Effects, of each toggle against the host as found");
    for outcome in outcomes {
        for (figure, effect) in design.figures.iter().zip(&outcome.effects) {
            if let Ok(effect) = effect {
                effects.add(
                    outcome.toggle.name,
                    outcome.toggle.name,
                    value(outcome, figure, effect),
                );
            }
        }
    }
    report.push(effects);
    let mut verdicts = Section::new("verdicts", "Verdicts, by the first figure");
    for outcome in outcomes {
        verdicts.add(outcome.toggle.name, outcome.toggle.name, Value::Text(verdict(outcome)));
    }
    report.push(verdicts);
    let correction = match outcomes.len() {
        ..=1 => String::new(),
        several => format!(", after Holm's correction over {several} toggles"),
    };
    report.note(format!(
        "{} blocks of four runs for each toggle, in random order (seed {}); intervals of {:.0} %; \
         p-values by sign flips{correction}.",
        design.blocks,
        design.seed,
        design.confidence * 100.0,
    ));
    report
}

fn value(outcome: &Outcome, figure: &str, effect: &Effect) -> Value {
    let Effect { mean_a, mean_b, difference, interval, .. } = effect;
    // Only the first figure is corrected: the others are there to look at.
    let is_first = outcome
        .effects
        .first()
        .is_some_and(|first| first.as_ref().is_ok_and(|first| first == effect));
    let p = if is_first { outcome.p.unwrap_or(effect.p) } else { effect.p };
    let percent =
        effect.relative.map_or(String::new(), |share| format!("{:+.1} %, ", share.share * 100.0));
    let text = format!(
        "{figure}: {mean_a:.3} to {mean_b:.3} ({difference:+.3}, {percent}{:+.3} to {:+.3}), p {p:.4}",
        interval.lower, interval.upper
    );
    let fields = vec![
        ("toggle", Value::Text(outcome.toggle.name.to_owned())),
        ("figure", Value::Text(figure.to_owned())),
        ("without", Value::Number(*mean_a)),
        ("with", Value::Number(*mean_b)),
        ("difference", Value::Number(*difference)),
        ("lower", Value::Number(interval.lower)),
        ("upper", Value::Number(interval.upper)),
        ("p", Value::Number(p)),
        ("blocks", Value::Count(effect.blocks as u64)),
        ("took_effect", Value::Flag(outcome.manipulation.holds)),
        ("tag", Value::Text(outcome.toggle.tag.name().to_owned())),
    ];
    Value::Fields(text, fields)
}
