//! `linecard model run --annotate`: where the cycles of the firmware go, line by line.

use super::figures::Figures;
use super::firmware::{self, Sources};
use super::scenario::Scenario;
use crate::failure::Failure;
use crate::watch;
use linecard_model::elf::SourceLine;
use linecard_model::rv32::Counts;
use linecard_model::transmit::Transmit;
use linecard_report::{Section, Value};
use std::collections::BTreeMap;

/// Runs the scenario once more with a count for each instruction; sums over all cores.
pub(super) fn section(scenario: &Scenario) -> Result<Section, Failure> {
    let firmware = firmware::load(scenario)?;
    let failure = |error| scenario.failure(&error);
    let design = scenario.design(0)?;
    let mut transmit = Transmit::new(&design, firmware.image()).map_err(failure)?;
    transmit.start_profile();
    let messages = watch::each(scenario.settings.messages());
    Figures::of(&mut transmit, &design, messages, |_| ()).map_err(failure)?;
    let mut lines: BTreeMap<Option<SourceLine<'_>>, Counts> = BTreeMap::new();
    for profile in transmit.profiles() {
        for (line, counts) in firmware.annotate(profile) {
            *lines.entry(line).or_default() += counts;
        }
    }
    let title = "Cycles by line of the firmware: busy, waiting, behind branches";
    let mut section = Section::list("lines", title);
    let width = |of: fn(&Counts) -> u64| {
        lines.values().map(|counts| of(counts).to_string().len()).max().unwrap_or(0)
    };
    let widths = [width(|c| c.busy), width(|c| c.stalled), width(|c| c.bubbles)];
    let mut sources = Sources::default();
    for (line, Counts { busy, stalled, bubbles }) in &lines {
        let (label, source) = match line {
            Some(line) => (format!("{}:{}", line.file, line.line), sources.text(line)),
            None => ("no line known".to_owned(), ""),
        };
        let [a, b, c] = widths;
        let text = format!("{busy:>a$}  {stalled:>b$}  {bubbles:>c$}  {}", expand(source));
        let fields = vec![
            ("busy", Value::Count(*busy)),
            ("stalled", Value::Count(*stalled)),
            ("bubbles", Value::Count(*bubbles)),
            ("source", Value::Text(source.to_owned())),
        ];
        section.add("", label, Value::Fields(text.trim_end().to_owned(), fields));
    }
    Ok(section)
}

/// Tabulators as blanks, up to every eighth column.
fn expand(source: &str) -> String {
    let mut text = String::new();
    for c in source.chars() {
        text.push(if c == '\t' { ' ' } else { c });
        while c == '\t' && !text.chars().count().is_multiple_of(8) {
            text.push(' ');
        }
    }
    text
}
