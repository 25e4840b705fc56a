//! Outcome of a reproduction.

use super::comparison::{Class, Comparison, Fields, Row, Verdict};
use super::paper::Free;
use linecard_report::{Curves, Outcome};
use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

/// Published values and ours.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ReproduceOutcome {
    /// Not the paper's configuration
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replaced: Option<Replaced>,
    /// Published tables beside ours.
    #[serde(flatten, serialize_with = "tables")]
    #[schemars(skip)]
    pub(super) tables: Vec<Comparison>,
    /// Together
    pub verdicts: Verdicts,
    /// Values that the model was not given
    pub agreement: Agreement,
    /// Values of ours beside the paper's figures.
    #[serde(flatten, serialize_with = "curves")]
    #[schemars(skip)]
    pub(super) curves: Vec<Curve>,
    /// The publication's figures.
    #[serde(skip)]
    pub figures: Vec<Curves>,
    /// Sentences under the figures, and warnings.
    #[serde(skip)]
    pub(super) notes: Vec<String>,
    /// Authors and title.
    #[serde(skip)]
    pub source: String,
}

/// A file whose values took precedence over those of the paper's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Replaced {
    /// with --scenario
    pub file: String,
    /// in place of the paper's
    pub values: String,
}

/// Rows by how they came out.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Verdicts {
    /// the same
    pub same: usize,
    /// as near as stated
    pub within: usize,
    /// differ, within a limit
    pub explained: usize,
    /// differ, no limit known
    pub differs: usize,
    /// DIFFER without a reason
    pub unexplained: usize,
}

/// How many of the values that say something about the model agree, and which are left out.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Agreement {
    /// agree
    pub predicted: Agreed,
    /// fitted, not counted
    pub fitted: usize,
    /// arithmetic, not counted
    pub arithmetic: usize,
    /// cannot be had here
    pub cannot: usize,
    /// free parameters
    pub free: String,
}

/// Values that agree, and all that the models were not given.
#[derive(Debug, Clone, Copy, Default, Serialize, JsonSchema)]
pub struct Agreed {
    /// That agree.
    pub agree: usize,
    /// Of those, equal to the printed digits.
    pub exact: usize,
    /// That differ within a limit that was known before.
    pub explained: usize,
    /// That differ, with no limit known.
    pub differs: usize,
    /// All.
    pub of: usize,
}

/// Values of a curve, a line for each point.
#[derive(Debug)]
pub(super) struct Curve {
    /// Its key in JSON.
    pub(super) key: String,
    pub(super) title: String,
    pub(super) points: Vec<Point>,
}

/// A point of a curve.
#[derive(Debug, Serialize)]
pub(super) struct Point {
    pub(super) label: String,
    pub(super) value: Map<String, Value>,
    #[serde(skip)]
    pub(super) text: String,
}

impl Agreed {
    /// How many agree, and how many differ, with and without a limit.
    fn text(&self) -> String {
        let Self { agree, of, explained, differs, .. } = self;
        format!("{agree} of {of}; {explained} differ within a limit, {differs} with no limit known")
    }
}

impl Agreement {
    /// The sum of several.
    pub(super) fn sum<'a>(all: impl Iterator<Item = &'a Self>) -> Self {
        let zero = Agreed::default();
        let none =
            Self { predicted: zero, fitted: 0, arithmetic: 0, cannot: 0, free: String::new() };
        all.fold(none, |sum, one| {
            let (a, b) = (sum.predicted, one.predicted);
            Self {
                predicted: Agreed {
                    agree: a.agree + b.agree,
                    exact: a.exact + b.exact,
                    explained: a.explained + b.explained,
                    differs: a.differs + b.differs,
                    of: a.of + b.of,
                },
                fitted: sum.fitted + one.fitted,
                arithmetic: sum.arithmetic + one.arithmetic,
                cannot: sum.cannot + one.cannot,
                ..sum
            }
        })
    }

    /// All published values, with those that test no model.
    pub(super) const fn values(&self) -> usize {
        self.predicted.of + self.fitted + self.arithmetic + self.cannot
    }
}

impl ReproduceOutcome {
    /// Without curves, figures and notes.
    pub(super) fn new(tables: Vec<Comparison>, free: &[Free]) -> Self {
        let rows = || tables.iter().flat_map(|table| &table.rows);
        let counted = || rows().filter(|row| row.class.counts());
        let with = |verdict| rows().filter(|row| row.verdict() == verdict).count();
        let of = |class| rows().filter(|row| row.class == class).count();
        let free = match free {
            [] => "0".to_owned(),
            free => {
                let count: usize = free.iter().map(|free| free.keys.len()).sum();
                let texts: Vec<String> = free.iter().map(ToString::to_string).collect();
                format!("{count}: {}", texts.join("; "))
            }
        };
        let counted_with = |verdict| counted().filter(|row| row.verdict() == verdict).count();
        Self {
            replaced: None,
            verdicts: Verdicts {
                same: with(Verdict::Same),
                within: with(Verdict::Within),
                explained: with(Verdict::Explained),
                differs: with(Verdict::Differs),
                unexplained: with(Verdict::Unexplained),
            },
            agreement: Agreement {
                predicted: Agreed {
                    agree: counted().filter(|row| row.agrees()).count(),
                    exact: counted()
                        .filter(|row| row.class == Class::Exact && row.agrees())
                        .count(),
                    explained: counted_with(Verdict::Explained),
                    differs: counted_with(Verdict::Differs),
                    of: counted().count(),
                },
                fitted: of(Class::Fitted),
                arithmetic: of(Class::Arithmetic),
                cannot: of(Class::Cannot),
                free,
            },
            tables,
            curves: Vec::new(),
            figures: Vec::new(),
            notes: Vec::new(),
            source: String::new(),
        }
    }

    pub(super) fn table(&self, key: &str) -> Option<&Comparison> {
        self.tables.iter().find(|table| table.key == key)
    }

    pub(super) fn curve(&self, key: &str) -> Option<&Curve> {
        self.curves.iter().find(|curve| curve.key == key)
    }
}

impl Outcome for ReproduceOutcome {
    fn title(&self, section: &str) -> Option<String> {
        let table = self.table(section).map(|table| &table.title);
        table.or_else(|| self.curve(section).map(|curve| &curve.title)).cloned()
    }

    fn item(&self, section: &str, index: usize) -> Option<String> {
        match self.table(section) {
            Some(table) => table.lines().into_iter().nth(index),
            None => Some(self.curve(section)?.points.get(index)?.text.clone()),
        }
    }

    fn text(&self, _: &str, key: &str) -> Option<String> {
        (key == "predicted").then(|| self.agreement.predicted.text())
    }

    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }
}

/// A row of a table in JSON.
#[derive(Debug, Serialize)]
struct Item<'r> {
    label: &'r str,
    value: Fields<'r>,
}

impl<'r> Item<'r> {
    fn of(row: &'r Row) -> Self {
        Self { label: &row.what, value: row.fields() }
    }
}

fn tables<S: Serializer>(tables: &[Comparison], serializer: S) -> Result<S::Ok, S::Error> {
    let lists = tables.iter().map(|table| {
        let items: Vec<Item<'_>> = table.rows.iter().map(Item::of).collect();
        (&table.key, items)
    });
    serializer.collect_map(lists)
}

fn curves<S: Serializer>(curves: &[Curve], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(curves.iter().map(|curve| (&curve.key, &curve.points)))
}

#[cfg(test)]
mod tests {
    use super::super::comparison::tests::rows;
    use super::*;
    use linecard_report::{Page, report_of};
    use serde_json::json;

    #[test]
    fn people_see_columns_and_what_differs() {
        let text = report_of("reproduce", &ReproduceOutcome::new(vec![rows()], &[])).to_string();
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        assert_eq!(lines[0], "A figure");
        let page = Page::new("").table(rows().table()).html();
        assert!(
            page.contains("19.4 µs")
                && page.contains("differs: a slip (explains 20 to 22; limit from")
        );
        assert!(lines[1].ends_with("same") && lines[1].contains("paper    19.4 µs"), "{text}");
        assert!(lines[2].contains("ours 758.4 Mbit/s  +0.6 %  within 1 %"), "{text}");
        let slip = "differs: a slip (explains 20 to 22; limit from the paper's own sum)";
        assert!(lines[3].ends_with(slip), "{text}");
        assert!(lines[4].contains("+3") && lines[4].ends_with("DIFFERS"), "{text}");
        assert!(lines[5].ends_with("same") && lines[6].ends_with("DIFFERS"), "{text}");
        assert!(text.contains("DIFFER without a reason"), "{text}");
    }

    #[test]
    fn json_has_the_numbers_themselves() {
        let free = json!([{ "keys": ["a", "b", "c"], "why": "chosen" }, { "keys": ["d"], "why": "fitted" }]);
        let free: Vec<Free> = serde_json::from_value(free).expect("parameters");
        let outcome = ReproduceOutcome::new(vec![rows()], &free);
        let found = serde_json::to_value(report_of("reproduce", &outcome)).expect("JSON");
        let rate = &found["figure"][1];
        assert_eq!(
            (rate["label"].as_str(), rate["value"]["paper"].as_f64()),
            (Some("rate"), Some(754.0))
        );
        assert_eq!(rate["value"]["verdict"], "within");
        assert_eq!(found["figure"][2]["value"]["reason"], "a slip");
        assert_eq!(found["figure"][2]["value"]["ground"], "the paper's own sum");
        assert_eq!(found["figure"][4]["value"]["ours"], "rises");
        assert_eq!(found["verdicts"]["unexplained"], 2);
        assert_eq!(found["agreement"]["free"], "4: a, b and c, chosen; d, fitted");
        let keys: Vec<&String> = found.as_object().expect("sections").keys().collect();
        assert_eq!(keys, ["job", "figure", "verdicts", "agreement", "notes"]);
    }
}
