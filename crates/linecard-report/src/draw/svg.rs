//! Parts of SVG charts: rows of labels beside an axis.

use crate::axis::{Axis, Scale};
use maud::{Markup, html};

/// Width of a chart in its own units: pixels, if there is room.
pub(super) const WIDTH: f64 = 840.0;
/// Height of a row, and of the drawing in it.
pub(super) const ROW: f64 = 28.0;
/// Width in a window of a telephone, where words are above the drawing: smaller ones could not be read.
const NARROW: f64 = 380.0;
/// Height of a line of words there.
const LINE: f64 = 18.0;
/// Room for the ticks at both ends of the axis there.
const MARGIN: f64 = 36.0;
/// Maximum rows drawn; the table has all.
pub(super) const MOST_ROWS: usize = 60;
/// Height of the ticks and the axis name below the rows.
const FOOT: f64 = 46.0;
const TOP: f64 = 6.0;
/// Maximum width of the columns of labels and of texts on the right.
const WIDEST_LABEL: f64 = 300.0;
const WIDEST_TEXT: f64 = 330.0;
const WIDEST_NAME: f64 = 400.0;
const GAP: f64 = 10.0;

/// The window that a chart is drawn for; a page has both, and shows one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Window {
    /// Labels on the left, and texts on the right.
    Broad,
    /// Both above the drawing.
    Narrow,
}

impl Window {
    fn width(self) -> f64 {
        match self {
            Self::Broad => WIDTH,
            Self::Narrow => NARROW,
        }
    }
}

/// A chart for both windows; a file of its own has the first.
pub(super) fn for_windows(draw: impl Fn(Window) -> Markup) -> Markup {
    html! { (draw(Window::Broad)) (draw(Window::Narrow)) }
}

/// Rows with a label, a drawing over a shared axis, and a text.
pub(super) struct Rows<'r> {
    window: Window,
    axis: &'r Axis,
    labels: Vec<String>,
    texts: Vec<String>,
    left: f64,
    /// Lines of words above each drawing: label and text share one if there is room in all rows.
    lines: usize,
    pub(super) scale: Scale,
}

impl<'r> Rows<'r> {
    /// Rows over the axis range that these values need.
    pub(super) fn new(
        window: Window,
        axis: &'r Axis,
        values: impl IntoIterator<Item = f64>,
        rows: impl IntoIterator<Item = (String, String)>,
    ) -> Self {
        let (labels, texts): (Vec<_>, Vec<_>) = rows.into_iter().take(MOST_ROWS).unzip();
        let widest = |texts: &[String]| texts.iter().map(|text| width(text)).fold(30.0, f64::max);
        let (left, right) = match window {
            Window::Broad => {
                (widest(&labels).min(WIDEST_LABEL) + GAP, widest(&texts).min(WIDEST_TEXT) + GAP)
            }
            Window::Narrow => (MARGIN, MARGIN),
        };
        let fits = |(label, text): (&String, &String)| width(label) + GAP + width(text) <= NARROW;
        let lines = match window {
            Window::Broad => 0,
            Window::Narrow => {
                if labels.iter().zip(&texts).all(fits) {
                    1
                } else {
                    2
                }
            }
        };
        let scale = axis.scale(values, window.width() - left - right);
        Self { window, axis, labels, texts, left, lines, scale }
    }

    /// Horizontal position of a value.
    pub(super) fn x(&self, value: f64) -> f64 {
        self.left + self.scale.at(value)
    }

    /// Vertical centre of a row's drawing.
    pub(super) fn y(&self, index: usize) -> f64 {
        TOP + self.row() * (index as f64 + 1.0) - ROW / 2.0
    }

    /// Height of a row.
    fn row(&self) -> f64 {
        ROW + LINE * self.lines as f64
    }

    /// The complete chart around the contents of the rows.
    pub(super) fn svg(&self, title: &str, inner: &Markup) -> Markup {
        let bottom = TOP + self.row() * self.labels.len() as f64;
        let (width, is_narrow) = (self.window.width(), self.window == Window::Narrow);
        html! {
            div.wide {
            svg.rows.narrow[is_narrow].broad[!is_narrow] xmlns="http://www.w3.org/2000/svg" role="img"
                viewBox={ "0 0 " (width) " " (px(bottom + FOOT)) } {
                title { (title) }
                (self.grid(bottom))
                @for (index, (label, text)) in self.labels.iter().zip(&self.texts).enumerate() {
                    (self.words(index, label, text))
                }
                (inner)
            }
            }
        }
    }

    fn words(&self, index: usize, label: &str, text: &str) -> Markup {
        let (text, y) = (shortened(text, WIDEST_TEXT).0, self.y(index));
        // The line above the drawing, and the one above that.
        let [first, second] = [y - ROW / 2.0 - 2.0, y - ROW / 2.0 - 2.0 - LINE];
        let (x, label_y, text_y, widest, anchor) = match (self.window, self.lines) {
            (Window::Broad, _) => (self.left - GAP, y + 4.5, y + 4.5, WIDEST_LABEL, "end"),
            (Window::Narrow, 1) => (0.0, first, first, NARROW, "start"),
            (Window::Narrow, _) => (0.0, second, first, NARROW, "start"),
        };
        let (label, is_short) = shortened(label, widest);
        html! {
            text.label x=(px(x)) y=(px(label_y)) text-anchor=(anchor) {
                (label) @if let Some(whole) = is_short { title { (whole) } }
            }
            text.figure x=(px(self.window.width())) y=(px(text_y)) text-anchor="end" { (text) }
        }
    }

    fn grid(&self, bottom: f64) -> Markup {
        let middle = (self.x(self.scale.low) + self.x(self.scale.high)) / 2.0;
        html! {
            @for (value, text) in self.ticks() {
                @let x = px(self.x(value));
                line.grid x1=(x) x2=(x) y1=(px(TOP)) y2=(px(bottom + 4.0)) {}
                text.tick x=(x) y=(px(bottom + 18.0)) text-anchor="middle" { (text) }
            }
            text.axis x=(px(middle)) y=(px(bottom + 38.0)) text-anchor="middle" {
                (shortened(&self.axis.name, WIDEST_NAME).0)
            }
        }
    }

    /// As many ticks as fit.
    fn ticks(&self) -> Vec<(f64, String)> {
        let fit = |ticks: &Vec<(f64, String)>| {
            ticks.windows(2).all(|pair| {
                let room = self.x(pair[1].0) - self.x(pair[0].0);
                room >= (width(&pair[0].1) + width(&pair[1].1)) / 2.0 + 12.0
            })
        };
        let found = (2..=9).rev().map(|most| self.scale.ticks(most)).find(fit);
        found.unwrap_or_else(|| self.scale.ticks(2).into_iter().take(1).collect())
    }
}

/// Formats a length as short as possible.
pub(super) fn px(length: f64) -> String {
    let text = format!("{length:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

/// Approximate width of a text of 13 pixels in the widest common font, with some reserve.
pub(super) fn width(text: &str) -> f64 {
    text.chars().map(char_width).sum()
}

fn char_width(c: char) -> f64 {
    match c {
        'i' | 'j' | 'l' | '.' | ',' | ':' | '\'' | '|' | '!' | 'I' | ' ' => 5.0,
        'm' | 'w' | 'M' | 'W' | '@' | '%' => 12.8,
        'A'..='Z' => 9.8,
        '\u{300}'..='\u{36f}' => 0.0,
        '\u{1100}'.. if !('\u{2000}'..='\u{22ff}').contains(&c) => 14.0,
        _ => 8.3,
    }
}

/// Replaces the middle of a text that is too wide, and then also returns the full text: names of
/// flows and files differ at both ends.
pub(super) fn shortened(text: &str, widest: f64) -> (String, Option<&str>) {
    if width(text) <= widest {
        return (text.to_owned(), None);
    }
    let room = (widest - char_width('…')) / 2.0;
    let head = within(text.chars(), room);
    let tail: Vec<char> = within(text.chars().rev(), room);
    let short = head.into_iter().chain(['…']).chain(tail.into_iter().rev()).collect();
    (short, Some(text))
}

fn within(chars: impl Iterator<Item = char>, room: f64) -> Vec<char> {
    let mut used = 0.0;
    let fits = |c: &char| {
        used += char_width(*c);
        used <= room
    };
    chars.take_while(fits).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unit::Unit;

    #[test]
    fn long_texts_lose_their_middle() {
        assert_eq!(shortened("softirq NET_RX", 250.0), ("softirq NET_RX".to_owned(), None));
        let long = format!("{}-{}", "a".repeat(100), "z".repeat(100));
        let (short, whole) = shortened(&long, 250.0);
        assert!(
            short.starts_with("aaa") && short.ends_with("zzz") && short.contains('…'),
            "{short}"
        );
        assert!(width(&short) <= 250.0 && whole == Some(long.as_str()));
        assert_eq!(shortened("", 0.0).0, "");
    }

    #[test]
    fn ticks_have_room_and_lie_in_the_picture() {
        for high in [1.0, 7_412.0, 123_456_789.0] {
            let axis = Axis::new("gap", Unit::Ns);
            let long = "a cause with a rather long name".to_owned();
            for window in [Window::Broad, Window::Narrow] {
                let words = [(long.clone(), long.clone())];
                let rows = Rows::new(window, &axis, [0.0, high], words);
                let ticks = rows.ticks();
                assert!(ticks.len() >= 3, "{ticks:?}");
                let is_inside = |(value, text): &(f64, String)| {
                    let (x, half) = (rows.x(*value), width(text) / 2.0);
                    x >= half && x + half <= window.width()
                };
                assert!(ticks.iter().all(is_inside), "{ticks:?}");
                assert_eq!(rows.lines, if window == Window::Narrow { 2 } else { 0 });
            }
        }
    }

    #[test]
    fn lengths_are_short() {
        assert_eq!([1.0, 1.25, -3.96].map(px), ["1", "1.2", "-4"]);
    }
}
