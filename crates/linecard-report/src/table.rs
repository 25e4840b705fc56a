//! Tables of values.

use crate::report::Value;
use maud::{Markup, html};

/// Maximum characters of a text that is aligned like a number.
pub(crate) const SHORT_TEXT: usize = 20;

/// Default number of rows that a page shows; JSON has all.
const MOST_ROWS: usize = 1_000;

/// A table: rows of values under named columns.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    pub(crate) key: String,
    pub(crate) title: String,
    pub(crate) columns: Vec<(&'static str, String)>,
    pub(crate) rows: Vec<Vec<Value>>,
    most: usize,
    pub(crate) is_folded: bool,
}

impl Table {
    /// An empty table with `key` in JSON.
    #[must_use]
    pub fn new(key: impl Into<String>, title: impl Into<String>) -> Self {
        let most = MOST_ROWS;
        Self {
            key: key.into(),
            title: title.into(),
            columns: Vec::new(),
            rows: Vec::new(),
            most,
            is_folded: false,
        }
    }

    /// Adds columns: key in JSON, and name.
    pub fn columns<N: Into<String>>(
        &mut self,
        columns: impl IntoIterator<Item = (&'static str, N)>,
    ) -> &mut Self {
        let named = columns.into_iter().map(|(key, name)| (key, name.into()));
        self.columns.extend(named);
        self
    }

    /// Adds a row with one value per column; missing values are empty, and extra ones are dropped.
    pub fn row(&mut self, mut values: Vec<Value>) -> &mut Self {
        values.truncate(self.columns.len());
        self.rows.push(values);
        self
    }

    /// Limits the rows shown on the page, which states how many more there are; JSON has all.
    pub fn most(&mut self, rows: usize) -> &mut Self {
        self.most = rows;
        self
    }

    /// Shows only the title until the reader opens it.
    pub fn folded(&mut self) -> &mut Self {
        self.is_folded = true;
        self
    }

    /// The table without its title.
    pub(crate) fn markup(&self) -> Markup {
        let left = self.rows.len().saturating_sub(self.most);
        html! {
            div.wide.full {
                table {
                    caption.unseen { (self.title) }
                    thead { tr { @for (index, (_, name)) in self.columns.iter().enumerate() {
                        th scope="col" class=[self.is_number(index).then_some("number")] { (name) }
                    } } }
                    tbody { @for row in self.rows.iter().take(self.most) { (self.row_markup(row)) } }
                }
            }
            @if left > 0 {
                p.remark { (Value::Count(left as u64)) " more rows are in the JSON beside this page" }
            }
        }
    }

    fn row_markup(&self, row: &[Value]) -> Markup {
        html! {
            tr { @for (index, value) in row.iter().enumerate() {
                @if index == 0 && value.is_text() {
                    th scope="row" { (value) }
                } @else {
                    td class=[self.is_number(index).then_some("number")] data-name=[self.name(index)] { (value) }
                }
            } }
        }
    }

    /// The name of a column, which stands before each value where a window is too narrow for columns.
    fn name(&self, column: usize) -> Option<&str> {
        self.columns.get(column).map(|(_, name)| name.as_str())
    }

    /// Whether a column is aligned to the right: all but the first, unless it contains sentences.
    fn is_number(&self, column: usize) -> bool {
        let mut values = self.rows.iter().filter_map(|row| row.get(column));
        let reads_as_number = |value: &Value| match value {
            // A sentence that begins with a number would not be wrapped.
            Value::Text(text) => {
                text.chars().count() <= SHORT_TEXT
                    && text.starts_with(|c: char| c.is_ascii_digit() || "−+–".contains(c))
            }
            value => !value.is_text(),
        };
        (column > 0 || !self.rows.is_empty()) && values.all(reads_as_number)
    }
}
