//! The spread by stage: a box from 1 % to 99 % with the median, a line to 99.99 %, and a ring at
//! the maximum.

use super::svg::{MOST_ROWS, ROW, Rows, Window, for_windows, px};
use crate::chart::{Spread, Stage};
use maud::{Markup, html};

pub(super) fn svg(chart: &Spread) -> Markup {
    html! {
        p.key { "box: 1 % to 99 %, with the median; line: to 99.99 %; ring: the most" }
        (for_windows(|window| drawn(chart, window)))
    }
}

fn drawn(chart: &Spread, window: Window) -> Markup {
    let values = chart.stages.iter().flat_map(|stage| stage.known().map(|(_, value)| value));
    let words = chart.stages.iter().map(|stage| (stage.name.clone(), text(chart, stage)));
    let rows = Rows::new(window, &chart.axis, values, words);
    let stages = html! {
        @for (index, stage) in chart.stages.iter().take(MOST_ROWS).enumerate() {
            (row(&rows, stage, rows.y(index)))
        }
    };
    rows.svg(&chart.heading.title, &stages)
}

fn row(rows: &Rows<'_>, stage: &Stage, y: f64) -> Markup {
    let [low, median, high, far, most] = stage.quantiles.map(|q| q.map(|value| rows.x(value)));
    let half = ROW * 0.3;
    html! {
        @if let (Some(high), Some(far)) = (high, far) {
            line.whisker x1=(px(high)) x2=(px(far)) y1=(px(y)) y2=(px(y)) {}
            line.whisker x1=(px(far)) x2=(px(far)) y1=(px(y - half * 0.6)) y2=(px(y + half * 0.6)) {}
        }
        @if let (Some(low), Some(high)) = (low, high) {
            rect.box x=(px(low)) y=(px(y - half)) width=(px((high - low).max(1.0))) height=(px(half * 2.0)) {}
        }
        @if let Some(median) = median {
            line.median x1=(px(median)) x2=(px(median)) y1=(px(y - half)) y2=(px(y + half)) {}
        }
        @if let Some(most) = most {
            circle.most cx=(px(most)) cy=(px(y)) r="4" {}
        }
    }
}

fn text(chart: &Spread, stage: &Stage) -> String {
    let text = |index: usize| {
        stage.quantiles[index].map_or("n too small".to_owned(), |value| chart.unit().text(value))
    };
    format!("{}, most {}", text(1), text(4))
}
