//! Outcomes as a report.

use linecard_jitter::linux::ab::{Design, Outcome, verdict};
use linecard_jitter::stats::effect::Effect;
use linecard_report::{Report, Section, Value};

/// All outcomes. In JSON, `effects` is what `audit --effects` takes.
pub(super) fn report(outcomes: &[Outcome], design: &Design) -> Report {
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

#[cfg(test)]
mod tests {
    use super::*;
    use linecard::rng::Rng;
    use linecard_jitter::linux::ab::Manipulation;
    use linecard_jitter::linux::toggle;
    use linecard_jitter::stats::arms::Arm;
    use linecard_jitter::stats::effect::Block;

    #[test]
    fn an_outcome_is_in_the_text_and_under_stable_keys() {
        let toggle = toggle::named("aa").expect("a toggle");
        let block = |index: u32| -> Block {
            let [a, b] = [10.0, 6.0].map(|late| late + f64::from(index));
            [(Arm::A, a), (Arm::B, b), (Arm::B, b), (Arm::A, a)]
        };
        let blocks: Vec<Block> = (0..6).map(block).collect();
        let effect = Effect::of(&blocks, 0.95, &mut Rng::new(1)).expect("blocks");
        let manipulation = Manipulation { counts: None, disturbed: 0, holds: true };
        let p = Some(effect.p);
        let outcome = Outcome { toggle, effects: vec![Ok(effect)], p, manipulation };
        let report = report(&[outcome], &Design::of(vec!["late, µs".to_owned()]));
        let json = serde_json::to_value(&report).expect("a report is JSON");
        assert_eq!(json["effects"][0]["value"]["toggle"], "aa");
        assert_eq!(json["effects"][0]["value"]["p"], 0.03125);
        assert!(report.to_string().contains("aa  less"), "{report}");
    }
}
