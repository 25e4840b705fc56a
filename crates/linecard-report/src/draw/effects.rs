//! Effects of changes: a whisker for each interval, and a line at zero.

use super::svg::{MOST_ROWS, Rows, Window, for_windows, px};
use crate::chart::{Effect, Effects};
use maud::{Markup, html};

/// Half the size of the mark of an estimate.
const MARK: f64 = 5.0;

pub(super) fn svg(chart: &Effects) -> Markup {
    let percent = (chart.level * 1000.0).round() / 10.0;
    html! {
        p.key {
            "whisker: " (percent) " % interval; filled: it does not hold zero; hollow: it does, and says nothing"
        }
        (for_windows(|window| drawn(chart, window)))
    }
}

fn drawn(chart: &Effects, window: Window) -> Markup {
    let ends = chart.effects.iter().flat_map(|effect| [effect.low, effect.estimate, effect.high]);
    let words = chart.effects.iter().map(|effect| (effect.name.clone(), text(chart, effect)));
    let rows = Rows::new(window, &chart.axis, ends.chain([0.0]), words);
    let zero = px(rows.x(0.0));
    let bottom = rows.y(chart.effects.len().min(MOST_ROWS));
    let marks = html! {
        line.zero x1=(zero) x2=(zero) y1="0" y2=(px(bottom - 10.0)) {}
        @for (index, effect) in chart.effects.iter().take(MOST_ROWS).enumerate() {
            @if effect.estimate.is_finite() { (row(&rows, effect, rows.y(index))) }
        }
    };
    rows.svg(&chart.heading.title, &marks)
}

fn row(rows: &Rows<'_>, effect: &Effect, y: f64) -> Markup {
    let [low, at, high] = [effect.low, effect.estimate, effect.high].map(|value| rows.x(value));
    html! {
        line.whisker x1=(px(low)) x2=(px(high)) y1=(px(y)) y2=(px(y)) {}
        @for end in [low, high] {
            line.whisker x1=(px(end)) x2=(px(end)) y1=(px(y - MARK)) y2=(px(y + MARK)) {}
        }
        rect.mark.hollow[!effect.is_clear()] x=(px(at - MARK)) y=(px(y - MARK))
            width=(px(MARK * 2.0)) height=(px(MARK * 2.0)) {}
    }
}

fn text(chart: &Effects, effect: &Effect) -> String {
    let p = effect.p.map_or(String::new(), |p| format!(", p {p:.3}"));
    format!("{}{p}", chart.text(effect))
}
