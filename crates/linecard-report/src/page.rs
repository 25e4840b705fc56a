//! A page: a sequence of blocks.

use crate::chart::Chart;
use crate::draw;
use crate::json;
use crate::origin::Origin;
use crate::report::{Report, Section, Value};
use crate::shell;
use crate::table::{SHORT_TEXT, Table};
use crate::target::{ReportError, Target};
use crate::verdict::Verdicts;
use maud::{Markup, html};
use serde::ser::{Serialize, Serializer};
use std::path::Path;

/// Minimum headings for a page to get a table of contents.
const NAVIGATION: usize = 4;

/// A report for a browser, which needs no network, and for programs.
#[derive(Debug, Clone, PartialEq)]
pub struct Page {
    pub(crate) title: String,
    pub(crate) headline: Option<String>,
    pub(crate) origin: Option<Origin>,
    pub(crate) blocks: Vec<Block>,
}

/// A block of a page.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Block {
    Heading(String),
    Note(String),
    Summary(Report),
    Chart(Chart),
    Table(Table),
    Verdicts(Verdicts),
}

impl Page {
    /// An empty page.
    #[must_use]
    pub fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), headline: None, origin: None, blocks: Vec::new() }
    }

    /// Sets the main result, a sentence shown under the title.
    pub fn headline(&mut self, sentence: impl Into<String>) -> &mut Self {
        self.headline = Some(sentence.into());
        self
    }

    /// Sets when and by which command the page was made.
    pub fn origin(&mut self, origin: Origin) -> &mut Self {
        self.origin = Some(origin);
        self
    }

    /// Starts a part of the page.
    pub fn heading(&mut self, text: impl Into<String>) -> &mut Self {
        self.push(Block::Heading(text.into()))
    }

    /// Adds a paragraph.
    pub fn note(&mut self, text: impl Into<String>) -> &mut Self {
        self.push(Block::Note(text.into()))
    }

    /// Adds a report: its sections as tables, its notes as paragraphs.
    pub fn summary(&mut self, report: &Report) -> &mut Self {
        self.push(Block::Summary(report.clone()))
    }

    /// The first report, to be completed.
    pub fn summary_mut(&mut self) -> Option<&mut Report> {
        self.blocks.iter_mut().find_map(|block| match block {
            Block::Summary(report) => Some(report),
            _ => None,
        })
    }

    /// Adds a chart.
    pub fn chart(&mut self, chart: impl Into<Chart>) -> &mut Self {
        self.push(Block::Chart(chart.into()))
    }

    /// Adds a table.
    pub fn table(&mut self, table: Table) -> &mut Self {
        self.push(Block::Table(table))
    }

    /// Adds gates or verdicts.
    pub fn verdicts(&mut self, verdicts: Verdicts) -> &mut Self {
        self.push(Block::Verdicts(verdicts))
    }

    fn push(&mut self, block: Block) -> &mut Self {
        self.blocks.push(block);
        self
    }

    /// The page as self-contained HTML.
    #[must_use]
    pub fn html(&self) -> String {
        let saves = self.charts().any(|chart| matches!(chart, Chart::Curves(_)));
        shell::page(&self.title, &self.content(), json::figures(self).as_deref(), saves)
    }

    /// The page as JSON: every figure, reports under their own keys, and all points of charts (at
    /// most 2,000,000; if points were left out, it states how many there were).
    #[must_use]
    pub fn json(&self) -> String {
        // All maps have string keys, so this cannot fail.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Writes the page, and its JSON beside it under the same name with the extension `.json`. Each
    /// file appears only when it is complete, the page last.
    ///
    /// # Errors
    ///
    /// A file cannot be written there: see [`ReportError`]; [`Target::new`] checks this in advance.
    pub fn write(&self, path: &Path) -> Result<(), ReportError> {
        Target::new(path)?.write(self)
    }

    /// Its charts, in order.
    pub fn charts(&self) -> impl Iterator<Item = &Chart> {
        self.blocks.iter().filter_map(|block| match block {
            Block::Chart(chart) => Some(chart),
            _ => None,
        })
    }

    fn content(&self) -> Markup {
        let headings = || self.blocks.iter().filter_map(Block::heading);
        let mut next_chart = 0;
        let mut next_heading = 0;
        html! {
            h1 { (self.title) }
            @if let Some(headline) = &self.headline { p.headline { (headline) } }
            @if let Some(origin) = &self.origin {
                p.remark {
                    (origin.utc())
                    @if let Some(host) = &origin.host { " on " (host) }
                    ", linecard " (env!("CARGO_PKG_VERSION")) ": " code { (origin.command) }
                }
            }
            @if headings().count() >= NAVIGATION {
                nav aria-label="Parts of this page" { @for (index, text) in headings().enumerate() {
                    a href={ "#part-" (index) } { (text) } " "
                } }
            }
            @for block in &self.blocks {
                @match block {
                    Block::Heading(text) => {
                        h2 id={ "part-" (count(&mut next_heading)) } { (text) }
                    }
                    Block::Chart(chart) => { (draw::figure(chart, count(&mut next_chart))) }
                    other => { (other.markup()) }
                }
            }
        }
    }
}

/// Returns the number, and increments it.
fn count(next: &mut usize) -> usize {
    let index = *next;
    *next += 1;
    index
}

impl Block {
    fn heading(&self) -> Option<&str> {
        match self {
            Self::Heading(text) => Some(text),
            _ => None,
        }
    }

    fn markup(&self) -> Markup {
        match self {
            Self::Note(text) => html! { p.note { (text) } },
            Self::Summary(report) => html! {
                div.sections { @for part in report.sections() { (section(part)) } }
                @for note in report.notes() { p.note { (note) } }
            },
            Self::Table(table) => part(&table.title, table.is_folded, &table.markup()),
            Self::Verdicts(all) => part(&all.title, all.is_folded, &all.markup()),
            Self::Heading(_) | Self::Chart(_) => html! {},
        }
    }
}

/// A titled part; a folded one shows only its title until it is opened.
fn part(title: &str, is_folded: bool, content: &Markup) -> Markup {
    html! {
        @if is_folded {
            details.part { summary { (title) } (content) }
        } @else {
            section { h3 { (title) } (content) }
        }
    }
}

fn section(section: &Section) -> Markup {
    let has_remarks = section.rows().iter().any(|row| row.remark().is_some());
    html! {
        section.figures { h3 { (section.title()) } div.wide { table {
            @for row in section.rows() { tr {
                th scope="row" { (row.label()) }
                td class=[is_short(row.value()).then_some("number")] { (row.value()) }
                @if has_remarks { td.remark { (row.remark().unwrap_or_default()) } }
            } }
        } } }
    }
}

/// Whether a value is aligned to the right: a number, or a word.
fn is_short(value: &Value) -> bool {
    match value {
        Value::Text(text) => text.chars().count() <= SHORT_TEXT,
        value => matches!(value, Value::Flag(_)) || !value.is_text(),
    }
}

impl Serialize for Page {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        json::whole(self, serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Axis, Curves, Effects, Finding, Histograms, Ledger, Spread, TimeSeries, Unit, Verdict,
    };

    const EVIL: &str = "</script><script>alert('x')</script><!-- \" onload=alert(1) & ]]>";

    /// Every string of every part comes from outside.
    fn evil() -> Page {
        let axis = || Axis::new(EVIL, Unit::Ns);
        let text = || Value::Text(EVIL.to_owned());
        let mut report = Report::new("run");
        let mut section = Section::new("summary", EVIL);
        section.add(EVIL, EVIL, text());
        report.push(section);
        report.note(EVIL);
        let mut series = TimeSeries::new("series", EVIL);
        series
            .x(axis())
            .y(axis().log())
            .dots(EVIL, vec![(1.0, 2.0)])
            .line(EVIL, vec![(1.0, f64::NAN)]);
        series.caption(EVIL);
        let mut histograms = Histograms::new("histograms", EVIL, EVIL);
        histograms.x(axis()).values(EVIL, &[1.0, 2.0], 4);
        let mut spread = Spread::new("spread", EVIL, axis());
        spread.stage(EVIL, 3, [Some(1.0), Some(2.0), None, None, Some(3.0)]);
        let mut ledger = Ledger::new("ledger", EVIL, axis());
        ledger.cause(EVIL, 1.0, 2).rest(EVIL, f64::INFINITY);
        let mut effects = Effects::new("effects", EVIL, axis(), 0.95);
        effects.effect(EVIL, 1.0, [f64::NEG_INFINITY, 2.0], 0.1).effect(
            EVIL,
            f64::NAN,
            [0.0; 2],
            None,
        );
        let mut curves = Curves::new(EVIL, EVIL, [axis(), axis()]);
        curves.model(EVIL, vec![(1.0, 2.0), (2.0, 3.0)]);
        curves.published(EVIL, vec![(1.5, 2.0)], Some(EVIL)).caption(EVIL);
        let mut table = Table::new("table", EVIL);
        table.columns([("a", EVIL), ("b", EVIL)]).row(vec![text(), text()]);
        let mut verdicts = Verdicts::new("verdicts", EVIL);
        verdicts.push(Verdict {
            key: "gate",
            name: EVIL.to_owned(),
            outcome: Finding::Withheld,
            measured: Some(text()),
            limit: EVIL.to_owned(),
            why: EVIL.to_owned(),
        });
        let mut page = Page::new(EVIL);
        page.headline(EVIL).heading(EVIL).heading(EVIL).heading(EVIL).heading(EVIL).note(EVIL);
        page.summary(&report).chart(series).chart(histograms).chart(spread).chart(ledger);
        page.chart(effects).chart(curves).table(table).verdicts(verdicts);
        page
    }

    #[test]
    fn no_text_becomes_markup() {
        let html = evil().html();
        assert_eq!(html.matches("<script").count(), 4);
        assert_eq!(html.matches("</script>").count(), 4);
        let mut outside = String::new();
        for part in html.split("<script") {
            outside.push_str(part.split_once("</script>").map_or(part, |(_, after)| after));
        }
        assert!(!outside.contains("<!--") && !outside.contains("\" onload"), "{outside}");
        assert!(outside.contains("&lt;script&gt;alert"));
    }

    #[test]
    fn figures_are_json_in_the_page_and_beside_it() {
        let page = evil();
        let html = page.html();
        let begin = "id=\"figures\">";
        let inside = html.split_once(begin).and_then(|(_, rest)| rest.split_once("</script>"));
        let figures: serde_json::Value =
            serde_json::from_str(inside.expect("figures").0).expect("JSON");
        assert_eq!(figures[0]["lines"][0]["name"], EVIL);
        assert!(figures[2].is_null());
        let beside: serde_json::Value = serde_json::from_str(&page.json()).expect("JSON");
        assert_eq!(beside["reports"][0]["summary"][EVIL], EVIL);
        assert_eq!(beside["charts"][0]["series"][0]["points"], serde_json::json!([[1.0, 2.0]]));
        assert_eq!(beside["charts"][0]["series"][1]["not_numbers"], 1);
        assert_eq!(beside["charts"][2]["stages"][0]["p50"], 2.0);
        assert_eq!(beside["charts"][3]["causes"][0]["events"], 2);
        assert_eq!(beside["charts"][5]["curves"][1]["points"][0]["x"], 1.5);
        assert_eq!(beside["verdicts"][0]["rows"][0]["outcome"], "withheld");
        assert_eq!(beside["tables"][0]["rows"][0]["b"], EVIL);
    }

    #[test]
    fn a_page_says_when_and_by_what_it_was_made() {
        let mut page = Page::new("Run");
        let command = ["linecard", "run", EVIL].map(str::to_owned);
        page.origin(Origin::new(1_795_382_883, command).on("lab", "Linux 6.18.0"));
        let html = page.html();
        assert!(html.contains("21:28:03 UTC on lab, Linux 6.18.0, linecard "), "{html}");
        assert!(html.contains("linecard run '") && !html.contains("<script>alert"), "{html}");
        let beside: serde_json::Value = serde_json::from_str(&page.json()).expect("JSON");
        assert_eq!(beside["origin"]["utc"], "2026-11-22 21:28:03 UTC");
        assert_eq!(beside["origin"]["host"], "lab, Linux 6.18.0");
        assert!(beside["origin"]["command"].as_str().is_some_and(|text| text.contains("alert(")));
        assert_eq!(beside["origin"]["version"], env!("CARGO_PKG_VERSION"));
    }

    #[test]
    fn what_is_folded_is_there() {
        let mut table = Table::new("table", "Details");
        table.columns([("a", "a")]).row(vec![Value::Count(1)]).folded();
        let html = Page::new("Run").table(table).html();
        assert!(html.contains("<summary>Details</summary>") && !html.contains("<details open"));
    }

    #[test]
    fn a_page_without_charts_has_no_script() {
        let html = Page::new("Nothing").html();
        assert!(!html.contains("<script") && html.len() < 10_000, "{}", html.len());
    }

    #[test]
    fn many_points_are_few_in_the_page_and_all_beside_it() {
        let points =
            |count: usize| (0..count).map(|n| (n as f64 * 7.4e-6, 7_412.3)).collect::<Vec<_>>();
        let mut series = TimeSeries::new("gaps", "Gaps");
        series.dots("application", points(300_000));
        let mut page = Page::new("Gaps");
        page.chart(series);
        let html = page.html();
        assert!(html.len() < 200_000, "{}", html.len());
        assert!(html.contains("300,000 points; of each 150 neighbours"));
        let beside: serde_json::Value = serde_json::from_str(&page.json()).expect("JSON");
        let series = &beside["charts"][0]["series"][0];
        assert_eq!(series["points"].as_array().map(Vec::len), Some(300_000));
        assert!(series["thinned_by"].is_null());
    }
}
