//! Curves of a model with published points over them; below, how far the points lie from the curves.

use super::svg::{WIDTH, px, shortened, width};
use crate::axis::{Axis, Scale};
use crate::chart::{Curve, Curves, Residual};
use crate::shell::COLOURS;
use crate::unit::Unit;
use maud::{Markup, html};
use std::fmt::Write;

/// Heights of the drawing, of the strip of residuals, and of a row of the legend.
const HEIGHT: f64 = 340.0;
const STRIP: f64 = 84.0;
const LEGEND_ROW: f64 = 20.0;
/// Between the drawing and the strip, and below both for ticks and the name of the axis.
const BETWEEN: f64 = 16.0;
const FOOT: f64 = 46.0;
const RIGHT: f64 = 16.0;
/// Of the name of the axis that stands upright, and between it, ticks and drawing.
const UPRIGHT: f64 = 22.0;
const GAP: f64 = 8.0;
/// Room of a name along x.
const LEAST_NAME: f64 = 60.0;
/// Half of a published point, and the radius of a point of ours.
const PUBLISHED: f64 = 5.0;
const OURS: f64 = 2.5;
/// The radius of one without a line.
const ALONE: f64 = 5.0;

/// The chart, with buttons that the script of the page serves.
pub(super) fn figure(chart: &Curves) -> Markup {
    html! {
        p.key {
            @if chart.x.names.is_empty() { "lines" } @else { "points" }
            ": ours, with the least and the most of several runs; open marks: published"
        }
        div.wide { (Drawing::new(chart).svg()) }
        p.save hidden { button type="button" data-save="svg" { "Save as SVG" } " " button type="button" data-save="png" { "Save as PNG" } }
    }
}

/// Positions of everything.
struct Drawing<'d> {
    chart: &'d Curves,
    /// Of each curve.
    colours: Vec<usize>,
    /// Of published points, by curve.
    shapes: Vec<usize>,
    residuals: Vec<Vec<Residual>>,
    x: Scale,
    y: Scale,
    strip: Option<Scale>,
    left: f64,
    top: f64,
}

impl<'d> Drawing<'d> {
    fn new(chart: &'d Curves) -> Self {
        let points = || chart.curves.iter().flat_map(|curve| &curve.points);
        let y = chart.y.scale(points().flat_map(|point| [point.low, point.high]), HEIGHT);
        let residuals: Vec<_> = chart.curves.iter().map(|curve| chart.residuals(curve)).collect();
        let shares = residuals.iter().flatten().map(|one| one.share);
        let strip = residuals
            .iter()
            .any(|all| !all.is_empty())
            .then(|| Axis::new("", Unit::Share).scale(shares.chain([0.0]), STRIP));
        let ticks = y.ticks(6).into_iter().chain(strip.iter().flat_map(|strip| strip.ticks(3)));
        let left = ticks.map(|(_, text)| width(&text)).fold(30.0, f64::max) + UPRIGHT + GAP;
        let x = chart.x.scale(points().map(|point| point.x), WIDTH - left - RIGHT);
        let legend = legend(chart).last().map_or(0.0, |(_, y)| y + LEGEND_ROW);
        let (colours, shapes) = (colours(chart), shapes(chart));
        Self { chart, colours, shapes, residuals, x, y, strip, left, top: legend + GAP }
    }

    fn svg(&self) -> Markup {
        let base = self.top + HEIGHT;
        let bottom = base + self.strip.as_ref().map_or(0.0, |_| BETWEEN + STRIP);
        html! {
            svg.curves xmlns="http://www.w3.org/2000/svg" role="img"
                viewBox={ "0 0 " (WIDTH) " " (px(bottom + FOOT)) } {
                title { (self.chart.heading.title) }
                @for (name, at) in legend(self.chart).iter().enumerate() { (self.named(name, *at)) }
                (self.across(&self.y, self.top, &self.chart.y.name, 6))
                (self.along(bottom))
                @for (index, curve) in self.chart.curves.iter().enumerate() {
                    @if !curve.is_published { (self.ours(curve, self.colours[index])) }
                }
                @for (index, curve) in self.chart.curves.iter().enumerate() {
                    @if curve.is_published { (self.published(index, curve)) }
                }
                @if let Some(strip) = &self.strip { (self.differences(strip, base + BETWEEN)) }
            }
        }
    }

    /// An entry of the legend.
    fn named(&self, index: usize, (x, y): (f64, f64)) -> Markup {
        let (curve, colour) = (&self.chart.curves[index], self.colours[index]);
        let middle = y + LEGEND_ROW / 2.0;
        html! {
            g class={ "s" (colour) } {
                @if curve.is_published { (mark(self.shapes[index], x + 9.0, middle)) }
                @else if self.is_named() { circle.point cx=(px(x + 9.0)) cy=(px(middle)) r=(ALONE) {} }
                @else { line.curve x1=(px(x)) x2=(px(x + 18.0)) y1=(px(middle)) y2=(px(middle)) {} }
            }
            text x=(px(x + 24.0)) y=(px(middle + 4.5)) { (curve.name) }
        }
    }

    /// Lines across, with their values, and the name of the axis.
    fn across(&self, scale: &Scale, top: f64, name: &str, most: usize) -> Markup {
        let height = scale.at(scale.high);
        let middle = px(top + height / 2.0);
        html! {
            @for (value, text) in scale.ticks(most) {
                @let y = top + height - scale.at(value);
                line.grid x1=(px(self.left)) x2=(px(WIDTH - RIGHT)) y1=(px(y)) y2=(px(y)) {}
                text.tick x=(px(self.left - GAP)) y=(px(y + 4.5)) text-anchor="end" { (text) }
            }
            text.axis x="14" y=(middle) text-anchor="middle" transform={ "rotate(-90 14 " (middle) ")" } { (name) }
        }
    }

    /// Lines upright through drawing and strip, with their values, and the name of the axis.
    fn along(&self, bottom: f64) -> Markup {
        let most = (2..=12).rev().find(|most| self.has_room(*most)).unwrap_or(2);
        let names = &self.chart.x.names;
        let ticks = if self.is_named() { self.names() } else { self.x.ticks(most) };
        html! {
            @for (value, text) in ticks {
                @let x = px(self.left + self.x.at(value));
                line.grid x1=(x) x2=(x) y1=(px(self.top)) y2=(px(bottom + 4.0)) {}
                text.tick x=(x) y=(px(bottom + 18.0)) text-anchor="middle" {
                    (text) @if let Some(name) = names.get(value as usize) { title { (name) } }
                }
            }
            text.axis x=(px((self.left + WIDTH - RIGHT) / 2.0)) y=(px(bottom + 38.0)) text-anchor="middle" {
                (self.chart.x.name)
            }
        }
    }

    fn is_named(&self) -> bool {
        !self.chart.x.names.is_empty()
    }

    /// The names along x, or some of them, each with as much of it as there is room for.
    fn names(&self) -> Vec<(f64, String)> {
        let names = &self.chart.x.names;
        let apart = self.x.at(0.5) - self.x.at(-0.5);
        let step = (LEAST_NAME / apart).ceil().max(1.0) as usize;
        let room = apart * step as f64 - 12.0;
        let named = names.iter().enumerate().step_by(step);
        named.map(|(index, name)| (index as f64, shortened(name, room).0)).collect()
    }

    fn has_room(&self, most: usize) -> bool {
        self.x.ticks(most).windows(2).all(|pair| {
            let apart = self.x.at(pair[1].0) - self.x.at(pair[0].0);
            apart >= (width(&pair[0].1) + width(&pair[1].1)) / 2.0 + 12.0
        })
    }

    fn place(&self, x: f64, y: f64) -> (f64, f64) {
        (self.left + self.x.at(x), self.top + HEIGHT - self.y.at(y))
    }

    fn ours(&self, curve: &Curve, colour: usize) -> Markup {
        let mut path = String::new();
        for (index, point) in curve.points.iter().enumerate() {
            let ((x, y), step) = (self.place(point.x, point.y), if index == 0 { 'M' } else { 'L' });
            // A text takes whatever is written to it.
            let _written = write!(path, "{step}{} {}", px(x), px(y));
        }
        html! {
            g class={ "s" (colour) } {
                // Between names there is nothing.
                @if !self.is_named() { path.curve d=(path) {} }
                @for point in &curve.points {
                    @let ((x, y), low, high) = (self.place(point.x, point.y), self.place(point.x, point.low).1, self.place(point.x, point.high).1);
                    @if low - high >= 1.0 { line.interval x1=(px(x)) x2=(px(x)) y1=(px(low)) y2=(px(high)) {} }
                    circle.point cx=(px(x)) cy=(px(y)) r=(if self.is_named() { ALONE } else { OURS }) {}
                }
            }
        }
    }

    fn published(&self, index: usize, curve: &Curve) -> Markup {
        html! {
            g class={ "s" (self.colours[index]) } { @for point in &curve.points {
                @let (x, y) = self.place(point.x, point.y);
                (mark(self.shapes[index], x, y))
            } }
        }
    }

    /// The strip below: a bar from zero for each published point.
    fn differences(&self, strip: &Scale, top: f64) -> Markup {
        let y = |share: f64| top + STRIP - strip.at(share);
        let zero = px(y(0.0));
        html! {
            (self.across(strip, top, "difference", 3))
            line.zero x1=(px(self.left)) x2=(px(WIDTH - RIGHT)) y1=(zero) y2=(zero) {}
            @for (index, all) in self.residuals.iter().enumerate() {
                g class={ "s" (self.colours[index]) } { @for residual in all {
                    @let (x, y) = (self.left + self.x.at(residual.x), y(residual.share));
                    line.curve x1=(px(x)) x2=(px(x)) y1=(zero) y2=(px(y)) {}
                    (mark(self.shapes[index], x, y))
                } }
            }
        }
    }
}

/// A published point: a diamond, a square, or a triangle, so that points of one curve can be distinguished.
fn mark(shape: usize, x: f64, y: f64) -> Markup {
    let corners: &[(f64, f64)] = match shape % 3 {
        0 => &[(0.0, -1.0), (1.0, 0.0), (0.0, 1.0), (-1.0, 0.0)],
        1 => &[(-0.8, -0.8), (0.8, -0.8), (0.8, 0.8), (-0.8, 0.8)],
        _ => &[(0.0, -1.0), (1.0, 0.8), (-1.0, 0.8)],
    };
    let corners = corners.iter().map(|(dx, dy)| (x + dx * PUBLISHED, y + dy * PUBLISHED));
    let corners: Vec<String> = corners.map(|(x, y)| format!("{},{}", px(x), px(y))).collect();
    html! { polygon.published points=(corners.join(" ")) {} }
}

/// The shape of each curve's points.
fn shapes(chart: &Curves) -> Vec<usize> {
    let mut next = 0;
    let shape = |curve: &Curve| {
        next += usize::from(curve.is_published);
        next.saturating_sub(1)
    };
    chart.curves.iter().map(shape).collect()
}

/// Where each entry of the legend begins.
fn legend(chart: &Curves) -> Vec<(f64, f64)> {
    let (mut x, mut y) = (0.0, 0.0);
    let place = |curve: &Curve| {
        let wide = 24.0 + width(&curve.name) + 2.0 * GAP;
        if x > 0.0 && x + wide > WIDTH {
            (x, y) = (0.0, y + LEGEND_ROW);
        }
        let at = (x, y);
        x += wide;
        at
    };
    chart.curves.iter().map(place).collect()
}

/// The colour of each curve; published points have that of the curve that answers them.
fn colours(chart: &Curves) -> Vec<usize> {
    let ours = || chart.curves.iter().filter(|curve| !curve.is_published);
    let own = |name: &String| ours().position(|curve| curve.name == *name);
    let mut next = ours().count();
    let mut colour = |curve: &Curve| {
        let known = match curve.is_published {
            true => curve.answered_by.as_ref().and_then(own),
            false => own(&curve.name),
        };
        known.unwrap_or_else(|| {
            next += 1;
            next - 1
        }) % COLOURS
    };
    chart.curves.iter().map(&mut colour).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::Chart;
    use crate::report::Value;

    /// As pictures are.
    fn svg(chart: Curves) -> String {
        Chart::from(chart).svg().expect("a picture")
    }

    fn chart() -> Curves {
        let axes = [Axis::new("clients", Unit::Count), Axis::new("rate", Unit::BitRate)];
        let mut chart = Curves::new("figure", "A < B", axes);
        chart.model("ours", vec![(1.0, 1e8), (2.0, 2e8), (2.0, 2.4e8)]);
        chart.published("paper", vec![(1.0, 1.1e8)], Some("ours"));
        chart.published("alone", vec![(2.0, 1.5e8)], None);
        chart
    }

    #[test]
    fn published_points_have_the_colour_of_their_curve() {
        assert_eq!(colours(&chart()), [0, 0, 1]);
    }

    #[test]
    fn points_of_one_curve_can_be_told_apart() {
        assert_eq!(shapes(&chart()), [0, 0, 1]);
    }

    /// A strip is drawn only where points are compared.
    #[test]
    fn differences_are_drawn_below() {
        let with = svg(chart());
        assert!(with.contains("difference") && with.contains("class=\"interval\""), "{with}");
        let mut without =
            Curves::new("figure", "A", [Axis::new("x", Unit::Count), Axis::new("y", Unit::Count)]);
        without.model("ours", vec![(1.0, 1.0)]);
        assert!(!svg(without).contains("difference"));
    }

    /// A file of its own is XML: everything that it says is escaped, and it has a name space.
    #[test]
    fn a_picture_is_a_file_of_its_own() {
        let svg = svg(chart());
        assert!(svg.starts_with("<svg class=\"curves\" xmlns=") && svg.ends_with("</svg>"));
        assert!(svg.contains("A &lt; B") && svg.contains("<style>"));
        assert_eq!(svg.matches("<polygon").count(), 5);
        // Few programs but browsers know variables.
        let light = svg.split_once("@media (prefers-color-scheme: dark)").expect("dark, too").0;
        assert!(
            !svg.contains("var(") && light.contains("svg .s1 .curve { fill: none; stroke: #c2410c")
        );
    }

    /// Names have no order: points, and below them as much of each name as has room.
    #[test]
    fn names_along_x_are_places_without_lines_between() {
        let long = "a name that is longer than the room that there is for it in the picture";
        let names = |count| (0..count).map(|at| format!("{at} {long}")).collect::<Vec<_>>();
        for (count, shown) in [(1, 1), (3, 3), (12, 12), (40, 10)] {
            let axes = [Axis::of_names("kind", names(count)), Axis::new("y", Unit::Count)];
            let mut chart = Curves::new("figure", "A", axes);
            chart.model("ours", (0..count).map(|at| (at as f64, 1.0)).collect());
            let table = Chart::from(chart.clone()).table();
            let svg = svg(chart);
            assert_eq!(svg.matches("<circle").count(), count + 1, "and in the legend: {svg}");
            assert!(!svg.contains("<path"), "{svg}");
            let titles: Vec<_> = svg.match_indices(&format!("{long}</title>")).collect();
            assert_eq!(titles.len(), shown, "{count}: {svg}");
            assert_eq!(svg.contains('…'), count > 1, "{count}: {svg}");
            assert_eq!(table.rows[0][1], Value::Text(format!("0 {long}")));
        }
    }

    #[test]
    fn no_points_are_no_error() {
        let chart = Curves::new(
            "figure",
            "",
            [Axis::new("x", Unit::Count).log(), Axis::new("y", Unit::Count)],
        );
        assert!(svg(chart).contains("</svg>"));
    }

    #[test]
    fn names_that_have_no_room_begin_a_row() {
        let mut chart = chart();
        for index in 0..8 {
            chart.model(
                format!("a curve with a rather long name, number {index}"),
                vec![(1.0, 1.0)],
            );
        }
        let places = legend(&chart);
        assert!(places.last().is_some_and(|place| place.1 > 2.0 * LEGEND_ROW), "{places:?}");
        assert!(places.iter().all(|place| place.0 < WIDTH));
    }
}
