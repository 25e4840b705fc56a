//! Charts in a page: charts with few elements as SVG, points and steps as an area that the script
//! draws in; below each chart, its data as a table.

mod curves;
mod effects;
mod ledger;
mod spread;
mod svg;

use crate::chart::{Chart, Distribution, TimeSeries};
use crate::report::Value;
use crate::shell;
use crate::thin::{MOST_POINTS, Thinned};
use maud::{Markup, html};

/// Chart number `index` of a page.
pub(crate) fn figure(chart: &Chart, index: usize) -> Markup {
    let heading = chart.heading();
    let caption = caption(chart);
    html! {
        figure.chart id={ "chart-" (index) } data-key=(heading.key) {
            h3 { (heading.title) }
            (drawn(chart).unwrap_or_else(|| place(&heading.title, index)))
            @if !caption.is_empty() { figcaption { @for line in &caption { p { (line) } } } }
            details { summary { "The same in figures" } (chart.table().markup()) }
        }
    }
}

/// A chart as a picture in a file of its own; none of a chart that the script draws.
pub(crate) fn picture(chart: &Chart) -> Option<String> {
    let markup = drawn(chart)?.into_string();
    let end = "</svg>";
    let picture = markup.get(markup.find("<svg ")?..markup.find(end)? + end.len())?;
    let style = html! { style { (shell::picture_style()) } }.into_string();
    let (width, height) =
        picture.split("viewBox=\"0 0 ").nth(1)?.split('"').next()?.split_once(' ')?;
    let size = format!(" width=\"{width}\" height=\"{height}\" viewBox=");
    let sized = picture.replacen(" viewBox=", &size, 1);
    Some(shell::printable(&sized).replacen("</title>", &format!("</title>{style}"), 1))
}

/// A chart with few elements, as SVG.
fn drawn(chart: &Chart) -> Option<Markup> {
    match chart {
        Chart::TimeSeries(_) | Chart::Histograms(_) => None,
        Chart::Spread(chart) => Some(spread::svg(chart)),
        Chart::Ledger(chart) => Some(ledger::svg(chart)),
        Chart::Effects(chart) => Some(effects::svg(chart)),
        Chart::Curves(chart) => Some(curves::figure(chart)),
    }
}

/// The area that the script draws in.
fn place(title: &str, index: usize) -> Markup {
    html! {
        p.key.hint { "drag to look closer, double-click to go back; click a name to hide it" }
        div.plot data-chart=(index) role="img" aria-label={ (title) "; its figures are in the table beneath" } {}
        noscript { p.remark { "Drawn by a script, which does not run here: see the figures." } style { ".hint { display: none }" } }
    }
}

/// The sentences below a chart.
fn caption(chart: &Chart) -> Vec<String> {
    let mut lines: Vec<String> = chart.heading().caption.iter().cloned().collect();
    match chart {
        Chart::TimeSeries(chart) => lines.extend(thinning(chart)),
        Chart::Histograms(chart) => lines.push(totals(&chart.distributions)),
        _ => {}
    }
    lines
}

/// How many points of each series are drawn, if not all.
fn thinning(chart: &TimeSeries) -> Vec<String> {
    let mut lines = Vec::new();
    for line in &chart.lines {
        let Thinned { of, run, .. } = line.drawn(MOST_POINTS);
        if let Some(run) = run {
            lines.push(format!(
                "{}: {} points; of each {} neighbours the least and the most are drawn, so that every \
                 spike is seen. The JSON beside this page has them all.",
                line.name,
                Value::Count(of as u64),
                Value::Count(run as u64),
            ));
        }
        if line.left_out > 0 {
            let left_out = Value::Count(line.left_out as u64);
            lines.push(format!("{}: {left_out} points are not numbers, and left out.", line.name));
        }
    }
    lines
}

fn totals(all: &[Distribution]) -> String {
    let total = |one: &Distribution| {
        let sum = one.buckets.iter().map(|bucket| bucket.2).fold(0, u64::saturating_add);
        format!("{} {}", one.name, Value::Count(sum))
    };
    format!("In all: {}.", all.iter().map(total).collect::<Vec<_>>().join(", "))
}
