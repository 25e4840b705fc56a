//! Gates and verdicts: the question, the measurement and the conclusion.

use crate::report::Value;
use maud::{Markup, html};
use serde::Serialize;

/// The conclusion of a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Finding {
    /// The condition holds.
    Pass,
    /// It cannot be decided.
    Withheld,
    /// The condition does not hold.
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

    /// A symbol that is distinguishable without colours.
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
    /// Key in JSON.
    pub key: &'static str,
    /// The question.
    pub name: String,
    /// The conclusion.
    pub outcome: Finding,
    /// The measured value, if there is one.
    pub measured: Option<Value>,
    /// The limit it is compared with, such as "at most 15 µs".
    pub limit: String,
    /// The reason, and what to do.
    pub why: String,
}

/// A table of verdicts.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdicts {
    pub(crate) key: &'static str,
    pub(crate) title: String,
    pub(crate) verdicts: Vec<Verdict>,
    pub(crate) is_folded: bool,
}

impl Verdicts {
    /// An empty table with `key` in JSON, where it is an array.
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
                td.number data-name="measured" { @match &self.measured { Some(value) => (value), None => "–" } }
                td data-name="limit" { (self.limit) }
                td data-name="why" { (self.why) }
            }
        }
    }
}
