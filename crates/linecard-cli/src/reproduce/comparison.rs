//! A published value beside ours: how far apart they are, and what that means.
//!
//! A row agrees to the digits that were printed, or within the per cents that it is allowed. Where
//! it does not, it says why; a row that differs without a reason is marked DIFFERS, and is counted
//! for tests.

use linecard::report::{Report, Section, Value};
use std::borrow::Cow;

/// A published table or figure beside ours.
///
/// ```text
/// let mut table = Comparison::new("figure_8", "Figure 8: a frame at 400 MHz");
/// table.add(Row::number("frame", (19.4, 1), frame_us).unit("µs").within(1.0));
/// table.add(Row::number("idle", 21, idle).unit("cycles").because("the paper counts one twice"));
/// table.add(Row::shape("over clients", "rises to 8", format!("rises to {knee}"), knee == 8));
/// assert_eq!(table.unexplained(), 0);
/// add_all(&[table], &mut report);
/// ```
#[derive(Debug, Clone)]
pub(super) struct Comparison {
    key: &'static str,
    title: Cow<'static, str>,
    rows: Vec<Row>,
}

/// One value, or one statement about a curve.
#[derive(Debug, Clone)]
pub(super) struct Row {
    what: Cow<'static, str>,
    seen: Seen,
    unit: &'static str,
    within_percent: Option<f64>,
    reason: Option<Cow<'static, str>>,
}

#[derive(Debug, Clone)]
enum Seen {
    Numbers { paper: Printed, ours: f64 },
    Words { paper: Cow<'static, str>, ours: Cow<'static, str>, holds: bool },
}

/// A number with as many decimals as were printed: 450, or (19.4, 1).
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Printed {
    value: f64,
    decimals: usize,
}

/// How a row came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// To each digit that was printed, or the shape that was described.
    Same,
    /// Within the per cents allowed.
    Within,
    /// Not, and it is known why.
    Explained,
    /// Not, and nobody knows why.
    Unexplained,
}

impl Comparison {
    /// No rows yet; `key` names the section in JSON, `title` in text.
    pub(super) fn new(key: &'static str, title: impl Into<Cow<'static, str>>) -> Self {
        Self { key, title: title.into(), rows: Vec::new() }
    }

    /// Adds a row.
    pub(super) fn add(&mut self, row: Row) {
        self.rows.push(row);
    }

    /// Rows that came out as `verdict`.
    pub(super) fn count(&self, verdict: Verdict) -> usize {
        self.rows.iter().filter(|row| row.verdict() == verdict).count()
    }

    /// Rows that differ without a reason: a test wants 0.
    pub(super) fn unexplained(&self) -> usize {
        self.count(Verdict::Unexplained)
    }

    /// The rows for a report: aligned words for people, fields for JSON.
    pub(super) fn section(&self) -> Section {
        let mut section = Section::list(self.key, self.title.clone());
        let texts: Vec<_> = self.rows.iter().map(Row::texts).collect();
        let widths: [usize; 3] = std::array::from_fn(|column| {
            texts.iter().map(|texts| texts[column].chars().count()).max().unwrap_or(0)
        });
        let [paper_width, ours_width, difference_width] = widths;
        for (row, [paper, ours, difference]) in self.rows.iter().zip(&texts) {
            let text = format!(
                "paper {paper:>paper_width$}  ours {ours:>ours_width$}  \
                 {difference:>difference_width$}  {}",
                row.verdict_text()
            );
            section.add("", row.what.clone(), Value::Fields(text, row.fields()));
        }
        section
    }
}

/// Adds all comparisons to a report, and how they came out together.
pub(super) fn add_all(comparisons: &[Comparison], report: &mut Report) {
    for comparison in comparisons {
        report.push(comparison.section());
    }
    let sum = |verdict| comparisons.iter().map(|one| one.count(verdict) as u64).sum();
    let mut section = Section::new("verdicts", "Together");
    for (key, label, verdict) in [
        ("same", "the same", Verdict::Same),
        ("within", "as near as stated", Verdict::Within),
        ("explained", "differ, reason given", Verdict::Explained),
        ("unexplained", "DIFFER without a reason", Verdict::Unexplained),
    ] {
        section.add(key, label, Value::Count(sum(verdict)));
    }
    report.push(section);
}

impl Row {
    /// A number: the paper's, as it was printed, and ours. They have to be the same to the digits
    /// that were printed, unless [`Row::within`] says otherwise.
    pub(super) fn number(
        what: impl Into<Cow<'static, str>>,
        paper: impl Into<Printed>,
        ours: f64,
    ) -> Self {
        Self::new(what.into(), Seen::Numbers { paper: paper.into(), ours })
    }

    /// A statement about a curve, in words, and whether it holds for ours.
    pub(super) fn shape(
        what: impl Into<Cow<'static, str>>,
        paper: impl Into<Cow<'static, str>>,
        ours: impl Into<Cow<'static, str>>,
        holds: bool,
    ) -> Self {
        Self::new(what.into(), Seen::Words { paper: paper.into(), ours: ours.into(), holds })
    }

    fn new(what: Cow<'static, str>, seen: Seen) -> Self {
        Self { what, seen, unit: "", within_percent: None, reason: None }
    }

    /// What both numbers are in: "MHz", "cycles".
    pub(super) fn unit(mut self, unit: &'static str) -> Self {
        self.unit = unit;
        self
    }

    /// Ours may be off by so many per cent of the paper's.
    pub(super) fn within(mut self, percent: f64) -> Self {
        self.within_percent = Some(percent);
        self
    }

    /// Why it differs, if it does: half a sentence. Not said of a row that agrees.
    pub(super) fn because(mut self, reason: impl Into<Cow<'static, str>>) -> Self {
        self.reason = Some(reason.into());
        self
    }

    /// How this row came out.
    pub(super) fn verdict(&self) -> Verdict {
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
            (.., Some(_)) => Verdict::Explained,
            (.., None) => Verdict::Unexplained,
        }
    }

    fn verdict_text(&self) -> String {
        match (self.verdict(), &self.reason, self.within_percent) {
            (Verdict::Same, ..) => "same".to_owned(),
            (Verdict::Within, _, Some(percent)) => format!("within {percent} %"),
            (Verdict::Explained, Some(reason), _) => format!("differs: {reason}"),
            _ => "DIFFERS".to_owned(),
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

    fn fields(&self) -> Vec<(&'static str, Value)> {
        let mut fields = match &self.seen {
            Seen::Words { paper, ours, .. } => vec![
                ("paper", Value::Text(paper.to_string())),
                ("ours", Value::Text(ours.to_string())),
            ],
            Seen::Numbers { paper, ours } => vec![
                ("paper", Value::Number(paper.value)),
                ("ours", Value::Number(*ours)),
                ("difference", Value::Number(ours - paper.value)),
                ("unit", Value::Text(self.unit.to_owned())),
            ],
        };
        if let Some(percent) = self.within_percent {
            fields.push(("within_percent", Value::Number(percent)));
        }
        let verdict = self.verdict();
        fields.push(("verdict", Value::Text(verdict.name().to_owned())));
        if let (Verdict::Explained, Some(reason)) = (verdict, &self.reason) {
            fields.push(("reason", Value::Text(reason.to_string())));
        }
        fields
    }
}

impl Verdict {
    fn name(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::Within => "within",
            Self::Explained => "explained",
            Self::Unexplained => "unexplained",
        }
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
mod tests {
    use super::*;

    fn rows() -> Comparison {
        let mut table = Comparison::new("figure", "A figure");
        table.add(Row::number("frame", (19.4, 1), 19.42).unit("µs"));
        table.add(Row::number("rate", 754, 758.4).unit("Mbit/s").within(1.0));
        table.add(Row::number("idle", 21, 22.0).because("a slip"));
        table.add(Row::number("waits", 0, 3.0).unit("clocks"));
        table.add(Row::shape("over clients", "rises", "rises", true).because("not said"));
        table.add(Row::shape("over cores", "rises", "falls", false));
        table
    }

    #[test]
    fn rows_come_out_as_they_should() {
        let table = rows();
        let verdicts = [Verdict::Same, Verdict::Within, Verdict::Explained, Verdict::Unexplained];
        assert_eq!(verdicts.map(|verdict| table.count(verdict)), [2, 1, 1, 2]);
        assert_eq!(table.unexplained(), 2);
    }

    #[test]
    fn people_see_columns_and_what_differs() {
        let mut report = Report::new("reproduce");
        add_all(&[rows()], &mut report);
        let text = report.to_string();
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        assert_eq!(lines[0], "A figure");
        assert!(lines[1].ends_with("same") && lines[1].contains("paper    19.4 µs"), "{text}");
        assert!(lines[2].contains("ours 758.4 Mbit/s  +0.6 %  within 1 %"), "{text}");
        assert!(lines[3].ends_with("differs: a slip"), "{text}");
        assert!(lines[4].contains("+3") && lines[4].ends_with("DIFFERS"), "{text}");
        assert!(lines[5].ends_with("same") && lines[6].ends_with("DIFFERS"), "{text}");
        assert!(text.contains("DIFFER without a reason"), "{text}");
    }

    #[test]
    fn json_has_the_numbers_themselves() {
        let mut report = Report::new("reproduce");
        add_all(&[rows()], &mut report);
        let found = serde_json::to_value(&report).expect("JSON");
        let rate = &found["figure"][1];
        assert_eq!(
            (rate["label"].as_str(), rate["value"]["paper"].as_f64()),
            (Some("rate"), Some(754.0))
        );
        assert_eq!(rate["value"]["verdict"], "within");
        assert_eq!(found["figure"][2]["value"]["reason"], "a slip");
        assert_eq!(found["figure"][4]["value"]["ours"], "rises");
        assert_eq!(found["verdicts"]["unexplained"], 2);
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
