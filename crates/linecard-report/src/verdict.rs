//! Gates and verdicts: what was asked, what was measured, and what follows.

use crate::report::Value;
use maud::{Markup, html};
use serde::Serialize;

/// What follows from a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Finding {
    /// It is as it should be.
    Pass,
    /// It cannot be told.
    Withheld,
    /// It is not as it should be.
    Fail,
}

impl Finding {
    fn word(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Withheld => "withheld",
            Self::Fail => "FAIL",
        }
    }

    /// Different also without colours.
    fn symbol(self) -> &'static str {
        match self {
            Self::Pass => "✓",
            Self::Withheld => "?",
            Self::Fail => "✗",
        }
    }

    fn class(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Withheld => "withheld",
            Self::Fail => "fail",
        }
    }
}

/// One gate or verdict.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Verdict {
    /// In JSON.
    pub key: &'static str,
    /// What was asked.
    pub name: String,
    /// What follows.
    pub outcome: Finding,
    /// What was measured, if anything was.
    pub measured: Option<Value>,
    /// What it is compared with, as "at most 15 µs".
    pub limit: String,
    /// Why, and what to do.
    pub why: String,
}

/// A table of them.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdicts {
    pub(crate) key: &'static str,
    pub(crate) title: String,
    pub(crate) verdicts: Vec<Verdict>,
    pub(crate) is_folded: bool,
}

impl Verdicts {
    /// An empty table: `key` in JSON, where it is an array.
    #[must_use]
    pub fn new(key: &'static str, title: impl Into<String>) -> Self {
        Self { key, title: title.into(), verdicts: Vec::new(), is_folded: false }
    }

    /// Adds a gate or verdict.
    pub fn push(&mut self, verdict: Verdict) -> &mut Self {
        self.verdicts.push(verdict);
        self
    }

    /// Shows only the title until the reader opens it.
    pub fn folded(&mut self) -> &mut Self {
        self.is_folded = true;
        self
    }

    /// The table without its title.
    pub(crate) fn markup(&self) -> Markup {
        html! {
            div.wide.full { table.verdicts {
                caption.unseen { (self.title) }
                thead { tr {
                    th scope="col" { "verdict" } th scope="col" { "of" }
                    th.number scope="col" { "measured" } th scope="col" { "limit" }
                    th scope="col" { "why" }
                } }
                tbody { @for verdict in &self.verdicts { (verdict.markup()) } }
            } }
        }
    }
}

impl Verdict {
    fn markup(&self) -> Markup {
        let outcome = self.outcome;
        html! {
            tr {
                td { span.outcome.(outcome.class()) {
                    span aria-hidden="true" { (outcome.symbol()) } " " (outcome.word())
                } }
                th scope="row" { (self.name) }
                td.number { @match &self.measured { Some(value) => (value), None => "–" } }
                td { (self.limit) }
                td { (self.why) }
            }
        }
    }
}
