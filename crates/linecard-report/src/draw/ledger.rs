//! A ledger: a bar for each cause.

use super::svg::{ROW, Rows, Window, for_windows, px};
use crate::chart::{Cause, Ledger};
use crate::report::Value;
use crate::unit::Unit;
use maud::{Markup, html};

pub(super) fn svg(chart: &Ledger) -> Markup {
    for_windows(|window| drawn(chart, window))
}

fn drawn(chart: &Ledger, window: Window) -> Markup {
    let words = chart.causes.iter().map(|cause| (cause.name.clone(), text(chart, cause)));
    let values = chart.causes.iter().map(|cause| cause.value);
    // Bars begin at zero, because their lengths are compared.
    let rows = Rows::new(window, &chart.axis, values.chain([0.0]), words);
    let bars = html! {
        @for (index, cause) in chart.causes.iter().take(super::svg::MOST_ROWS).enumerate() {
            @let (from, to) = (rows.x(0.0), rows.x(cause.value));
            rect.bar.rest[cause.is_rest] x=(px(from)) y=(px(rows.y(index) - ROW * 0.34))
                width=(px((to - from).max(0.0))) height=(px(ROW * 0.68)) {}
        }
    };
    rows.svg(&chart.heading.title, &bars)
}

fn text(chart: &Ledger, cause: &Cause) -> String {
    let times = cause.events.map_or(String::new(), |n| format!(" in {}", Value::Count(n)));
    let value = chart.axis.unit.text(cause.value);
    // Of a whole of 100 %, a share is its value.
    if chart.axis.unit == Unit::Share && chart.whole == Some(1.0) {
        return format!("{value}{times}");
    }
    format!("{value}{times}, {}", Value::Share(chart.share(cause)))
}
