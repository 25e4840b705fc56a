//! Where the cycles of the firmware go, by line and by function.

use super::figures::Figures;
use super::firmware::{self, Sources};
use super::{Config, refused_run};
use crate::{Context, Error};
use linecard_model::elf::SourceLine;
use linecard_model::rv32::{Counts, Profile};
use linecard_model::transmit::Transmit;
use linecard_report::{Item, Share};
use schemars::JsonSchema;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// A line of the firmware's source.
pub type Line = Item<LineCycles>;

/// A function of the firmware.
pub type Function = Item<FunctionCycles>;

/// Cycles of all cores in a line.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct LineCycles {
    /// busy
    pub busy: u64,
    /// waiting
    pub stalled: u64,
    /// behind branches
    pub bubbles: u64,
    /// Share of all cycles.
    pub share: Share,
    /// The function of its first instruction, or the label in assembly.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    /// Text of the line.
    pub source: String,
    /// All of it in columns.
    #[serde(skip)]
    pub(super) text: String,
}

/// Cycles of all cores in a function.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct FunctionCycles {
    /// busy
    pub busy: u64,
    /// waiting
    pub stalled: u64,
    /// behind branches
    pub bubbles: u64,
    /// Share of all cycles.
    pub share: Share,
    /// All of it in columns.
    #[serde(skip)]
    pub(super) text: String,
}

/// Cycles by line, in their order, and by function, the one with most first.
pub(super) struct Annotated {
    pub(super) lines: Vec<Line>,
    pub(super) functions: Vec<Function>,
}

/// Runs the scenario once more with a count for each instruction; sums over all cores.
pub(super) fn annotate(config: &Config, context: &Context<'_>) -> Result<Annotated, Error> {
    let firmware = firmware::load(config, context)?;
    let failure = |error| refused_run(&firmware, error);
    let design = config.design(0)?;
    let mut transmit = Transmit::new(&design, firmware.image()).map_err(failure)?;
    transmit.start_profile();
    let messages = context.each(config.load.messages());
    Figures::of(&mut transmit, &design, messages, |_| ()).map_err(failure)?;
    let function = |pc| firmware.place(pc).map(|place| place.function);
    let (mut by_line, mut by_function) = (BTreeMap::new(), BTreeMap::new());
    for (pc, counts) in transmit.profiles().flat_map(Profile::instructions) {
        let (_, sum) =
            by_line.entry(firmware.line(pc)).or_insert_with(|| (function(pc), Counts::default()));
        *sum += counts;
        *by_function.entry(function(pc)).or_insert_with(Counts::default) += counts;
    }
    Ok(Annotated { lines: lines(&by_line), functions: functions(by_function) })
}

type ByLine<'a> = BTreeMap<Option<SourceLine<'a>>, (Option<&'a str>, Counts)>;

fn lines(by_line: &ByLine<'_>) -> Vec<Line> {
    let columns = Columns::of(by_line.values().map(|(_, counts)| *counts));
    let names = by_line.values().filter_map(|(function, _)| *function);
    let name_width = names.map(|name| name.chars().count()).max().unwrap_or(0).min(MAX_NAME);
    let mut sources = Sources::default();
    let line = |(line, (function, counts)): (&Option<SourceLine<'_>>, &(Option<&str>, Counts))| {
        let (label, source) = match line {
            Some(line) => (format!("{}:{}", line.file, line.line), sources.text(line)),
            None => ("no line known".to_owned(), ""),
        };
        let name = function.unwrap_or_default();
        let text = format!("{}  {name:name_width$}  {}", columns.text(counts), expand(source));
        let Counts { busy, stalled, bubbles } = *counts;
        let (share, function) = (columns.share(counts), function.map(str::to_owned));
        let (text, source) = (text.trim_end().to_owned(), source.to_owned());
        Line { label, value: LineCycles { busy, stalled, bubbles, share, function, source, text } }
    };
    by_line.iter().map(line).collect()
}

fn functions(by_function: BTreeMap<Option<&str>, Counts>) -> Vec<Function> {
    let columns = Columns::of(by_function.values().copied());
    let mut sorted: Vec<_> = by_function.into_iter().collect();
    sorted.sort_by_key(|(_, counts)| Reverse(sum(counts)));
    let function = |(name, counts): (Option<&str>, Counts)| {
        let label = name.unwrap_or("no function known").to_owned();
        let (share, text) = (columns.share(&counts), columns.text(&counts));
        let Counts { busy, stalled, bubbles } = counts;
        Function { label, value: FunctionCycles { busy, stalled, bubbles, share, text } }
    };
    sorted.into_iter().map(function).collect()
}

/// The widest column of names; longer ones push what is behind them.
const MAX_NAME: usize = 24;

const fn sum(counts: &Counts) -> u64 {
    counts.busy + counts.stalled + counts.bubbles
}

/// Widths of the columns of counts, and all cycles.
struct Columns {
    busy: usize,
    stalled: usize,
    bubbles: usize,
    all: u64,
}

impl Columns {
    fn of(counts: impl Iterator<Item = Counts> + Clone) -> Self {
        let width = |of: fn(&Counts) -> u64| {
            counts.clone().map(|counts| of(&counts).to_string().len()).max().unwrap_or(0)
        };
        let [busy, stalled, bubbles] =
            [width(|c| c.busy), width(|c| c.stalled), width(|c| c.bubbles)];
        Self { busy, stalled, bubbles, all: counts.map(|counts| sum(&counts)).sum() }
    }

    fn share(&self, counts: &Counts) -> Share {
        Share(sum(counts) as f64 / self.all.max(1) as f64)
    }

    fn text(&self, counts: &Counts) -> String {
        let Self { busy: a, stalled: b, bubbles: c, .. } = *self;
        let Counts { busy, stalled, bubbles } = *counts;
        let percent = self.share(counts).0 * 100.0;
        format!("{busy:>a$}  {stalled:>b$}  {bubbles:>c$}  {percent:>5.1} %")
    }
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
