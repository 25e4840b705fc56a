//! Where the cycles of the firmware go, line by line.

use super::figures::Figures;
use super::firmware::{self, Sources};
use super::{Config, refused_run};
use crate::{Context, Error};
use linecard_model::elf::SourceLine;
use linecard_model::rv32::Counts;
use linecard_model::transmit::Transmit;
use linecard_report::Item;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// A line of the firmware's source.
pub type Line = Item<LineCycles>;

/// Cycles of all cores in a line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LineCycles {
    /// busy
    pub busy: u64,
    /// waiting
    pub stalled: u64,
    /// behind branches
    pub bubbles: u64,
    /// Text of the line.
    pub source: String,
    /// All of it in columns.
    #[serde(skip)]
    pub(super) text: String,
}

/// Runs the scenario once more with a count for each instruction; sums over all cores.
pub(super) fn lines(config: &Config, context: &Context<'_>) -> Result<Vec<Line>, Error> {
    let firmware = firmware::load(config, context)?;
    let failure = |error| refused_run(&firmware, error);
    let design = config.design(0)?;
    let mut transmit = Transmit::new(&design, firmware.image()).map_err(failure)?;
    transmit.start_profile();
    let messages = context.each(config.load.messages());
    Figures::of(&mut transmit, &design, messages, |_| ()).map_err(failure)?;
    let mut lines: BTreeMap<Option<SourceLine<'_>>, Counts> = BTreeMap::new();
    for profile in transmit.profiles() {
        for (line, counts) in firmware.annotate(profile) {
            *lines.entry(line).or_default() += counts;
        }
    }
    let width = |of: fn(&Counts) -> u64| {
        lines.values().map(|counts| of(counts).to_string().len()).max().unwrap_or(0)
    };
    let [a, b, c] = [width(|c| c.busy), width(|c| c.stalled), width(|c| c.bubbles)];
    let mut sources = Sources::default();
    let line = |(line, counts): (&Option<SourceLine<'_>>, &Counts)| {
        let Counts { busy, stalled, bubbles } = *counts;
        let (label, source) = match line {
            Some(line) => (format!("{}:{}", line.file, line.line), sources.text(line)),
            None => ("no line known".to_owned(), ""),
        };
        let text = format!("{busy:>a$}  {stalled:>b$}  {bubbles:>c$}  {}", expand(source));
        let (text, source) = (text.trim_end().to_owned(), source.to_owned());
        Line { label, value: LineCycles { busy, stalled, bubbles, source, text } }
    };
    Ok(lines.iter().map(line).collect())
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
