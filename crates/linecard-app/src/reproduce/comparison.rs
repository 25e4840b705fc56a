//! A published value beside ours: their difference, and the status of the row.
//!
//! A row agrees to the digits that were printed, or within the per cents that it is allowed. Where
//! it does not, it says why and how far that explains it; a row that differs without a reason, or
//! beyond the limit of its reason, is marked DIFFERS and fails the command. A limit explains only if
//! it has a ground that was known before our value: without one, the row differs.

use super::expression::Query;
use linecard_report::{Table, Value};
use serde::{Deserialize, Serialize};
use std::ops::RangeInclusive;

/// A published table or figure beside ours.
///
/// ```text
/// let mut table = Comparison::new("figure_8", "Figure 8: a frame at 400 MHz");
/// table.add(Row::number("frame", (19.4, 1), frame_us).unit("µs").within(1.0));
/// table.add(Row::number("idle", 21, idle).unit("cycles").because("a slip of one", 20.0..=22.0));
/// table.add(Row::shape("over clients", "rises to 8", format!("rises to {knee}"), knee == 8));
/// assert_eq!(table.unexplained(), 0);
/// ```
#[derive(Debug, Clone)]
pub(super) struct Comparison {
    /// Its key in JSON.
    pub(super) key: String,
    pub(super) title: String,
    pub(super) rows: Vec<Row>,
}

/// One value, or one statement about a curve.
#[derive(Debug, Clone)]
pub(super) struct Row {
    pub(super) what: String,
    seen: Seen,
    unit: String,
    pub(super) class: Class,
    /// That was chosen so that this value comes out.
    parameter: String,
    /// Of a value that the paper does not print: from what it is derived.
    derived: String,
    within_percent: Option<f64>,
    /// From what the row's tolerance, or the limit of its reason, follows.
    ground: String,
    reason: Option<Reason>,
}

/// Why a row may differ, and how far.
#[derive(Debug, Clone, Serialize)]
struct Reason {
    #[serde(rename = "reason")]
    text: String,
    /// The value that decides, with its unit: of a number the number itself.
    #[serde(rename = "measured")]
    value: f64,
    #[serde(skip)]
    unit: String,
    from: f64,
    to: f64,
}

#[derive(Debug, Clone)]
enum Seen {
    Numbers { paper: Printed, ours: f64 },
    Words { paper: String, ours: String, holds: bool },
}

/// A number with as many decimals as were printed: 450, or (19.4, 1).
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Printed {
    value: f64,
    decimals: usize,
}

/// Text of a row that agrees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Class {
    /// Equal to the printed digits, by a model that does not contain the value.
    Exact,
    /// Within a tolerance fixed beforehand, by a model none of whose parameters was chosen to meet this value.
    Predicted,
    /// A parameter was chosen so that this value comes out.
    Fitted,
    /// Computed from the paper's own numbers by the paper's own formula.
    Arithmetic,
    /// Outside, with a reason and a limit.
    Differs,
    /// Needs what no machine here has.
    Cannot,
}

/// How a row came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Verdict {
    /// To each digit that was printed, or the shape that was described.
    Same,
    /// Within the per cents allowed.
    Within,
    /// Not, and it is known why, within a limit that was known before our value.
    Explained,
    /// Not, and what we hold to be the reason has no such limit.
    Differs,
    /// Nothing here can answer.
    Cannot,
    /// Not, without a known reason, or beyond the limit of the reason.
    Unexplained,
}

impl Comparison {
    /// No rows yet; `key` names the section in JSON, `title` in text.
    pub(super) fn new(key: impl Into<String>, title: impl Into<String>) -> Self {
        Self { key: key.into(), title: title.into(), rows: Vec::new() }
    }

    /// Adds a row.
    pub(super) fn add(&mut self, row: Row) {
        self.rows.push(row);
    }

    /// Of each row whose name ends in a word whether it is the same, 1 or 0, if `TABLE.WORD` names this table.
    pub(super) fn same(&self, query: &Query) -> Option<Vec<f64>> {
        let [word] = &query.keys[..] else { return None };
        let rows = self.rows.iter().filter(|row| row.what.ends_with(word.as_str()));
        let is_same = |row: &Row| f64::from(u8::from(row.verdict() == Verdict::Same));
        (self.key == query.root).then(|| rows.map(is_same).collect())
    }

    /// Rows that came out as `verdict`.
    pub(super) fn count(&self, verdict: Verdict) -> usize {
        self.rows.iter().filter(|row| row.verdict() == verdict).count()
    }

    /// Rows that differ without a reason: a test wants 0.
    pub(super) fn unexplained(&self) -> usize {
        self.count(Verdict::Unexplained)
    }

    /// The rows as aligned words.
    pub(super) fn lines(&self) -> Vec<String> {
        let texts: Vec<_> = self.rows.iter().map(Row::texts).collect();
        let widths: [usize; 3] = std::array::from_fn(|column| {
            texts.iter().map(|texts| texts[column].chars().count()).max().unwrap_or(0)
        });
        let [paper_width, ours_width, difference_width] = widths;
        let line = |(row, [paper, ours, difference]): (&Row, &[String; 3])| {
            format!(
                "paper {paper:>paper_width$}  ours {ours:>ours_width$}  \
                 {difference:>difference_width$}  {}{}",
                row.verdict_text(),
                row.class_text()
            )
        };
        self.rows.iter().zip(&texts).map(line).collect()
    }

    /// The rows for a page; a long table is folded, unless something in it is wrong.
    pub(super) fn table(&self) -> Table {
        let mut table = Table::new(self.key.clone(), &self.title);
        table.columns([("what", "value"), ("paper", "paper"), ("ours", "ours")]);
        table.columns([("difference", "difference"), ("class", "class"), ("verdict", "verdict")]);
        for row in &self.rows {
            let [paper, ours, difference] = row.texts();
            let class = match row.class {
                Class::Fitted => format!("fitted: {}", row.parameter),
                class => class.name().to_owned(),
            };
            let class = match row.derived.as_str() {
                "" => class,
                derived => format!("{class}; {derived}"),
            };
            let texts = [row.what.clone(), paper, ours, difference, class, row.verdict_text()];
            table.row(texts.into_iter().map(Value::Text).collect());
        }
        if self.rows.len() > LONG && self.unexplained() == 0 {
            table.folded();
        }
        table
    }
}

/// Rows of a table that a page shows at once.
const LONG: usize = 20;

/// A row in JSON.
#[derive(Debug, Serialize)]
pub(super) struct Fields<'r> {
    paper: Json<'r>,
    ours: Json<'r>,
    #[serde(skip_serializing_if = "Option::is_none")]
    difference: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unit: Option<&'r str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    within_percent: Option<f64>,
    class: Class,
    #[serde(skip_serializing_if = "str::is_empty")]
    parameter: &'r str,
    #[serde(skip_serializing_if = "str::is_empty")]
    derived: &'r str,
    #[serde(skip_serializing_if = "str::is_empty")]
    ground: &'r str,
    verdict: Verdict,
    #[serde(flatten)]
    reason: Option<&'r Reason>,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Json<'r> {
    Number(f64),
    Words(&'r str),
}

impl Row {
    /// A number: the paper's, as it was printed, and ours. They have to be the same to the digits
    /// that were printed, unless [`Row::within`] says otherwise.
    pub(super) fn number(what: impl Into<String>, paper: impl Into<Printed>, ours: f64) -> Self {
        Self::new(what.into(), Seen::Numbers { paper: paper.into(), ours })
    }

    /// A statement about a curve, in words, and whether it holds for ours.
    pub(super) fn shape(
        what: impl Into<String>,
        paper: impl Into<String>,
        ours: impl Into<String>,
        holds: bool,
    ) -> Self {
        Self::new(what.into(), Seen::Words { paper: paper.into(), ours: ours.into(), holds })
    }

    fn new(what: String, seen: Seen) -> Self {
        Self {
            what,
            seen,
            unit: String::new(),
            class: Class::Predicted,
            parameter: String::new(),
            derived: String::new(),
            within_percent: None,
            ground: String::new(),
            reason: None,
        }
    }

    /// Unit of both numbers: "MHz", "cycles".
    pub(super) fn unit(mut self, unit: impl Into<String>) -> Self {
        self.unit = unit.into();
        self
    }

    /// Our value may differ by this many per cent of the paper's.
    pub(super) fn within(mut self, percent: f64) -> Self {
        self.within_percent = Some(percent);
        self
    }

    /// Why a number differs, if it does: half a sentence, and the values of ours that it explains, in
    /// the row's unit. Not said of a row that agrees. For a statement in words, give the value that
    /// decides: [`Row::because_measured`].
    pub(super) fn because(self, text: impl Into<String>, limit: RangeInclusive<f64>) -> Self {
        let value = match self.seen {
            Seen::Numbers { ours, .. } => ours,
            // Nothing that a limit could be held against.
            Seen::Words { .. } => f64::NAN,
        };
        let unit = self.unit.clone();
        self.because_measured(text, (value, unit), limit)
    }

    /// The same with another value, and its unit, that has to be within the limit.
    pub(super) fn because_measured(
        mut self,
        text: impl Into<String>,
        (value, unit): (f64, impl Into<String>),
        limit: RangeInclusive<f64>,
    ) -> Self {
        let (from, to) = limit.into_inner();
        self.reason = Some(Reason { text: text.into(), value, unit: unit.into(), from, to });
        self
    }

    /// Meaning of agreement of this row.
    #[must_use]
    pub(super) const fn class(mut self, class: Class) -> Self {
        self.class = class;
        self
    }

    /// Names the parameter that was chosen so that this value comes out.
    #[must_use]
    pub(super) fn fitted_by(mut self, parameter: impl Into<String>) -> Self {
        self.parameter = parameter.into();
        self
    }

    /// Says from which values of the paper that of this row is derived, as it is not printed: "derived from …".
    #[must_use]
    pub(super) fn derived(mut self, from: &str) -> Self {
        from.clone_into(&mut self.derived);
        self
    }

    /// Says from what the row's tolerance, or the limit of its reason, follows: something known before our value.
    #[must_use]
    pub(super) fn grounded(mut self, ground: impl Into<String>) -> Self {
        self.ground = ground.into();
        self
    }

    /// How this row came out.
    #[must_use]
    pub(super) fn verdict(&self) -> Verdict {
        if self.class == Class::Cannot {
            return Verdict::Cannot;
        }
        let (is_same, is_within) = match &self.seen {
            Seen::Words { holds, .. } => (*holds, false),
            Seen::Numbers { paper, ours } => {
                let allowed = self.within_percent.unwrap_or(0.0) / 100.0 * paper.value.abs();
                (paper.is_printed_as(*ours), (ours - paper.value).abs() <= allowed)
            }
        };
        match (is_same, is_within, &self.reason) {
            (true, ..) => Verdict::Same,
            (_, true, _) => Verdict::Within,
            (.., Some(reason)) if !reason.covers() => Verdict::Unexplained,
            (.., Some(_)) if self.ground.is_empty() => Verdict::Differs,
            (.., Some(_)) => Verdict::Explained,
            _ => Verdict::Unexplained,
        }
    }

    pub(super) fn agrees(&self) -> bool {
        matches!(self.verdict(), Verdict::Same | Verdict::Within)
    }

    fn verdict_text(&self) -> String {
        let from = match self.ground.as_str() {
            "" => String::new(),
            ground => format!("; limit from {ground}"),
        };
        let verdict = self.verdict();
        let Some(reason) = &self.reason else {
            return match (verdict, self.within_percent) {
                (Verdict::Same, _) if self.is_statement() => format!("same{from}"),
                (Verdict::Same, _) => "same".to_owned(),
                (Verdict::Within, Some(percent)) => format!("within {percent} %{from}"),
                _ => "DIFFERS".to_owned(),
            };
        };
        let (text, range) = (&reason.text, reason.range_text());
        match (verdict, self.within_percent) {
            (Verdict::Same, _) => "same".to_owned(),
            (Verdict::Within, Some(percent)) => format!("within {percent} %{from}"),
            (Verdict::Cannot, _) => format!("cannot: {text}"),
            (Verdict::Explained, _) => format!("differs: {text} (explains {range}{from})"),
            (Verdict::Differs, _) => format!("differs: {text} (no limit known; recorded {range})"),
            _ if self.ground.is_empty() => {
                format!("DIFFERS beyond what was recorded ({range}): {text}")
            }
            _ => format!("DIFFERS beyond its reason (explains {range}): {text}"),
        }
    }

    const fn is_statement(&self) -> bool {
        matches!(self.seen, Seen::Words { .. })
    }

    /// Why agreement of this row does not count, if it does not, and from what a value is derived that the paper does not
    /// print.
    fn class_text(&self) -> String {
        let class = match self.class {
            Class::Fitted => format!("fitted: {}", self.parameter),
            Class::Arithmetic => "arithmetic".to_owned(),
            _ => String::new(),
        };
        match (class.as_str(), self.derived.as_str()) {
            ("", "") => String::new(),
            ("", only) | (only, "") => format!(" ({only})"),
            (class, derived) => format!(" ({class}; {derived})"),
        }
    }

    /// Paper, ours and their difference, for people.
    fn texts(&self) -> [String; 3] {
        match &self.seen {
            Seen::Words { paper, ours, .. } => {
                [format!("\"{paper}\""), format!("\"{ours}\""), String::new()]
            }
            Seen::Numbers { paper, ours } => {
                let is_printed = paper.is_printed_as(*ours) || *ours == ours.round();
                // Where ours is not the same, a digit more shows by how little.
                let decimals = paper.decimals + usize::from(!is_printed);
                let unit = if self.unit.is_empty() { "" } else { " " };
                let with_unit = |x: f64, decimals| format!("{x:.decimals$}{unit}{}", self.unit);
                let difference = if paper.is_printed_as(*ours) {
                    String::new()
                } else if paper.value == 0.0 {
                    format!("{:+.decimals$}", ours - paper.value)
                } else {
                    format!("{:+.1} %", (ours / paper.value - 1.0) * 100.0)
                };
                [with_unit(paper.value, paper.decimals), with_unit(*ours, decimals), difference]
            }
        }
    }

    pub(super) fn fields(&self) -> Fields<'_> {
        let (paper, ours, difference) = match &self.seen {
            Seen::Words { paper, ours, .. } => (Json::Words(paper), Json::Words(ours), None),
            Seen::Numbers { paper, ours } => {
                (Json::Number(paper.value), Json::Number(*ours), Some(ours - paper.value))
            }
        };
        let verdict = self.verdict();
        let agrees = matches!(verdict, Verdict::Same | Verdict::Within);
        Fields {
            paper,
            ours,
            difference,
            unit: difference.map(|_| self.unit.as_str()),
            within_percent: self.within_percent,
            class: self.class,
            parameter: &self.parameter,
            derived: &self.derived,
            ground: &self.ground,
            verdict,
            reason: self.reason.as_ref().filter(|_| !agrees),
        }
    }
}

impl Reason {
    /// Whether it explains what was measured.
    fn covers(&self) -> bool {
        // A double may lie just beside its limit.
        let room = 1e-9 * self.from.abs().max(self.to.abs());
        (self.from - room..=self.to + room).contains(&self.value)
    }

    fn range_text(&self) -> String {
        let number = |x: f64| {
            let text = format!("{x:.3}");
            let text = text.trim_end_matches('0').trim_end_matches('.');
            text.to_owned()
        };
        let [low, high] = [self.from, self.to].map(number);
        let unit = if self.unit.is_empty() { "" } else { " " };
        let range = if low == high { low } else { format!("{low} to {high}") };
        format!("{range}{unit}{}", self.unit)
    }
}

impl Class {
    const fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Predicted => "predicted",
            Self::Fitted => "fitted",
            Self::Arithmetic => "arithmetic",
            Self::Differs => "differs",
            Self::Cannot => "cannot",
        }
    }

    /// Whether a row says something about the model: what was chosen or computed to meet the paper does not.
    pub(super) const fn counts(self) -> bool {
        matches!(self, Self::Exact | Self::Predicted | Self::Differs)
    }
}

impl Printed {
    /// Whether `x`, rounded to the printed digits, is this. Half a digit may go either way: papers
    /// round both ways.
    fn is_printed_as(self, x: f64) -> bool {
        let digit = 0.1_f64.powi(i32::try_from(self.decimals).unwrap_or(i32::MAX));
        // A double may lie just beside the half.
        (x - self.value).abs() <= digit / 2.0 * (1.0 + 1e-9)
    }
}

impl From<u32> for Printed {
    fn from(value: u32) -> Self {
        Self { value: value.into(), decimals: 0 }
    }
}

impl From<i32> for Printed {
    fn from(value: i32) -> Self {
        Self { value: value.into(), decimals: 0 }
    }
}

impl From<(f64, usize)> for Printed {
    fn from((value, decimals): (f64, usize)) -> Self {
        Self { value, decimals }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in super::super) fn rows() -> Comparison {
        let mut table = Comparison::new("figure", "A figure");
        table.add(Row::number("frame", (19.4, 1), 19.42).unit("µs"));
        table.add(Row::number("rate", 754, 758.4).unit("Mbit/s").within(1.0));
        let idle = Row::number("idle", 21, 22.0).because("a slip", 20.0..=22.0);
        table.add(idle.grounded("the paper's own sum"));
        table.add(Row::number("waits", 0, 3.0).unit("clocks"));
        table
            .add(Row::shape("over clients", "rises", "rises", true).because("not said", 0.0..=1.0));
        table.add(Row::shape("over cores", "rises", "falls", false));
        table
    }

    /// A value that the paper does not print says so wherever it is shown.
    #[test]
    fn derived_values_say_from_what() {
        let row = Row::number("gap", 6, 6.0).derived("derived from 2 and 4 µs");
        assert_eq!(row.class_text(), " (derived from 2 and 4 µs)");
        let row = row.class(Class::Fitted).fitted_by("clock");
        assert_eq!(row.class_text(), " (fitted: clock; derived from 2 and 4 µs)");
        let fields = serde_json::to_value(row.fields()).expect("JSON");
        assert_eq!(fields["derived"], "derived from 2 and 4 µs");
        let mut table = Comparison::new("gaps", "Gaps");
        table.add(row);
        let page = linecard_report::Page::new("").table(table.table()).html();
        assert!(page.contains("fitted: clock; derived from 2 and 4 µs"));
    }

    #[test]
    fn rows_come_out_as_they_should() {
        let table = rows();
        let verdicts = [Verdict::Same, Verdict::Within, Verdict::Explained, Verdict::Unexplained];
        assert_eq!(verdicts.map(|verdict| table.count(verdict)), [2, 1, 1, 2]);
        assert_eq!(table.unexplained(), 2);
    }

    /// A reason for a difference of one does not cover any difference.
    #[test]
    fn beyond_the_limit_of_its_reason_a_row_fails() {
        let frames = |ours| {
            let row = Row::number("frames in a burst", 6, ours).unit("frames").within(10.0);
            row.because("2 to 6 by how frames fall", 2.0..=6.0).grounded("six links")
        };
        assert_eq!(frames(5.0).verdict(), Verdict::Explained);
        assert_eq!(frames(318.5).verdict(), Verdict::Unexplained);
        assert_eq!(frames(1.9).verdict(), Verdict::Unexplained);
        assert_eq!(frames(f64::NAN).verdict(), Verdict::Unexplained);
        let text = frames(318.5).verdict_text();
        assert_eq!(
            text,
            "DIFFERS beyond its reason (explains 2 to 6 frames): 2 to 6 by how frames fall"
        );
        // Words alone have nothing to hold a limit against: what decides is measured.
        let shape = Row::shape("over cores", "rises", "falls", false);
        assert_eq!(shape.clone().because("why", 0.0..=1.0).verdict(), Verdict::Unexplained);
        let load = |load| shape.clone().because_measured("why", (load, ""), 1.0..=1.5);
        assert_eq!(load(1.4).grounded("a sum").verdict(), Verdict::Explained);
        assert_eq!(load(1.6).grounded("a sum").verdict(), Verdict::Unexplained);
    }

    /// A limit that was drawn round our own value explains nothing: it only shows that the value has changed.
    #[test]
    fn a_limit_without_a_ground_explains_nothing() {
        let clock = |ours| Row::number("clock", 125, ours).because("another cost", 59.0..=61.0);
        assert_eq!(clock(60.0).verdict(), Verdict::Differs);
        assert_eq!(
            clock(60.0).verdict_text(),
            "differs: another cost (no limit known; recorded 59 to 61)"
        );
        assert_eq!(clock(70.0).verdict(), Verdict::Unexplained);
        assert_eq!(
            clock(70.0).verdict_text(),
            "DIFFERS beyond what was recorded (59 to 61): another cost"
        );
    }

    #[test]
    fn the_printed_digits_decide() {
        assert!(Printed::from((94.93, 2)).is_printed_as(94.928_5));
        assert!(!Printed::from((94.93, 2)).is_printed_as(94.924));
        assert!(Printed::from((0.7242, 4)).is_printed_as(0.724_249));
        assert!(
            Printed::from(500).is_printed_as(500.5) && !Printed::from(500).is_printed_as(500.6)
        );
    }
}
