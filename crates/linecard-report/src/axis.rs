//! Axes: a name, a unit, and the positions of ticks.

use crate::unit::Unit;

/// Maximum ticks on one axis.
const MOST_TICKS: usize = 40;

/// An axis of a chart.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    pub(crate) name: String,
    pub(crate) unit: Unit,
    pub(crate) is_log: bool,
    /// Of the values 0, 1, …; empty where values are numbers.
    pub(crate) names: Vec<String>,
}

impl Axis {
    /// A linear axis.
    #[must_use]
    pub fn new(name: impl Into<String>, unit: Unit) -> Self {
        Self { name: name.into(), unit, is_log: false, names: Vec::new() }
    }

    /// An axis of things that have names and no order: values are their numbers in `names`, from 0. Of [`Curves`], along x.
    ///
    /// [`Curves`]: crate::Curves
    #[must_use]
    pub fn of_names(name: impl Into<String>, names: Vec<String>) -> Self {
        Self { names, ..Self::new(name, Unit::Plain("")) }
    }

    /// The same axis with a logarithmic scale. It stays linear if a value is not positive.
    #[must_use]
    pub fn log(self) -> Self {
        Self { is_log: true, ..self }
    }

    /// The range of the axis that these values need, with positions on 0 … `length`. Ignores values
    /// that are not finite.
    pub(crate) fn scale(&self, values: impl IntoIterator<Item = f64>, length: f64) -> Scale {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values.into_iter().filter(|value| value.is_finite()) {
            (low, high) = (low.min(value), high.max(value));
        }
        if low > high {
            (low, high) = (0.0, 1.0);
        }
        let is_log = self.is_log && low > 0.0;
        if let Some(last) = self.names.len().checked_sub(1) {
            let (low, high) = (-0.5, last as f64 + 0.5);
            return Scale { low, high, is_log: false, length, unit: self.unit };
        }
        (low, high) = if is_log { widened_log(low, high) } else { widened(low, high) };
        Scale { low, high, is_log, length, unit: self.unit }
    }

    /// A value by itself: its name if it has one.
    pub(crate) fn text(&self, value: f64) -> String {
        self.names.get(value as usize).cloned().unwrap_or_else(|| self.unit.text(value))
    }
}

/// Extends the range by half a step on both sides, but never across zero.
fn widened(low: f64, high: f64) -> (f64, f64) {
    let room = match (high - low) * 0.04 {
        0.0 if low == 0.0 => 1.0,
        0.0 => low.abs() * 0.1,
        room => room,
    };
    let below = if low >= 0.0 { (low - room).max(0.0) } else { low - room };
    let above = if high <= 0.0 && low < 0.0 { (high + room).min(0.0) } else { high + room };
    (below, above)
}

fn widened_log(low: f64, high: f64) -> (f64, f64) {
    let room = (high / low).powf(0.04).max(1.1);
    (low / room, (high * room).min(f64::MAX))
}

/// A range of an axis, mapped to a length.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Scale {
    pub(crate) low: f64,
    pub(crate) high: f64,
    pub(crate) is_log: bool,
    length: f64,
    unit: Unit,
}

impl Scale {
    /// Position of a value, 0 … `length`.
    pub(crate) fn at(&self, value: f64) -> f64 {
        let value = value.clamp(self.low, self.high);
        let share = if self.is_log {
            (value / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        if share.is_finite() { share * self.length } else { 0.0 }
    }

    /// The value at a position, 0 … `length`.
    pub(crate) fn value(&self, place: f64) -> f64 {
        let share = place / self.length;
        if self.is_log {
            self.low * (self.high / self.low).powf(share)
        } else {
            self.low + (self.high - self.low) * share
        }
    }

    /// About `most` ticks in order, at least two: values and texts.
    pub(crate) fn ticks(&self, most: usize) -> Vec<(f64, String)> {
        let most = most.clamp(2, MOST_TICKS);
        if self.is_log {
            let ticks = log_ticks(self.low, self.high, most);
            if ticks.len() >= 2 {
                return ticks.into_iter().map(|x| (x, self.unit.tick(x, x, x))).collect();
            }
        }
        // One tick alone shows no scale.
        let finer = (most..=3 * most).map(|most| linear_ticks(self.low, self.high, most));
        let found = finer.into_iter().find(|(_, ticks)| ticks.len() >= 2);
        let (step, ticks) = found.unwrap_or_else(|| linear_ticks(self.low, self.high, most));
        let magnitude = self.low.abs().max(self.high.abs());
        ticks.into_iter().map(|x| (x, self.unit.tick(x, magnitude, step))).collect()
    }
}

/// Multiples of 1, 2 or 5 times a power of ten, and the distance between them.
fn linear_ticks(low: f64, high: f64, most: usize) -> (f64, Vec<f64>) {
    let rough = (high - low) / most as f64;
    let power = 10_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|n| n * power).find(|step| *step >= rough);
    let Some(step) = step.filter(|step| step.is_normal()) else { return (1.0, Vec::new()) };
    let first = (low / step - 1e-9).ceil();
    let ticks = (0..=MOST_TICKS).map(|index| (first + index as f64) * step);
    (step, ticks.take_while(|x| *x <= high + step * 1e-9).collect())
}

/// Powers of ten, with 2 and 5 between them if there is room, or only some of them if there is not.
fn log_ticks(low: f64, high: f64, most: usize) -> Vec<f64> {
    let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
    let decades = (high / low).log10();
    let between: &[f64] = match most as f64 / decades {
        room if room >= 9.0 => &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0],
        room if room >= 3.0 => &[1.0, 2.0, 5.0],
        _ => &[1.0],
    };
    let apart = (decades / most as f64).ceil().max(1.0) as usize;
    let powers = (first..=last).step_by(apart);
    let all = powers.flat_map(|power| between.iter().map(move |n| n * 10_f64.powi(power)));
    all.filter(|x| (low..=high).contains(x)).take(MOST_TICKS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use linecard::rng::Rng;

    fn texts(scale: &Scale) -> Vec<String> {
        scale.ticks(5).into_iter().map(|(_, text)| text.replace('\u{a0}', " ")).collect()
    }

    #[test]
    fn ticks_are_round_and_in_a_unit_that_suits() {
        let axis = Axis::new("gap", Unit::Ns);
        assert_eq!(
            texts(&axis.scale([0.0, 4_000.0], 1.0)),
            ["0 µs", "1 µs", "2 µs", "3 µs", "4 µs"]
        );
        assert_eq!(
            texts(&axis.scale([7_410.0, 7_414.0], 1.0)),
            ["7.410 µs", "7.411 µs", "7.412 µs", "7.413 µs", "7.414 µs"]
        );
        assert_eq!(texts(&axis.scale([-30.0, 20.0], 1.0)), ["−20 ns", "0 ns", "20 ns"]);
        let log = axis.log();
        assert_eq!(
            texts(&log.scale([100.0, 1e6], 1.0)),
            ["100 ns", "1 µs", "10 µs", "100 µs", "1 ms"]
        );
        assert_eq!(texts(&log.scale([0.0, 10.0], 1.0)), ["0 ns", "5 ns", "10 ns"]);
    }

    #[test]
    fn any_values_have_a_few_ticks_in_order_and_in_range() {
        let mut rng = Rng::new(7);
        for round in 0..2_000 {
            let mut value = || {
                let magnitude = 10_f64.powi(rng.below(30) as i32 - 12);
                (rng.below(2_000) as f64 - 1_000.0) * magnitude
            };
            let values = [value(), value()];
            for axis in [Axis::new("", Unit::Ns), Axis::new("", Unit::Plain("")).log()] {
                let scale = axis.scale(values, 500.0);
                let ticks = scale.ticks(6);
                assert!((2..=15).contains(&ticks.len()), "{round}: {values:?} {ticks:?}");
                assert!(scale.ticks(3).len() >= 2, "{round}: {values:?}");
                assert!(ticks.is_sorted_by(|a, b| a.0 < b.0), "{values:?} {ticks:?}");
                let inside = |x: f64| (-1e-6..=500.0 + 1e-6).contains(&scale.at(x));
                assert!(ticks.iter().all(|(x, _)| inside(*x)), "{values:?} {ticks:?}");
            }
        }
    }

    #[test]
    fn no_values_and_strange_ones_have_an_axis_too() {
        let axis = Axis::new("", Unit::Count).log();
        for values in
            [&[][..], &[f64::NAN], &[0.0], &[f64::INFINITY, 3.0], &[-1.0, -1.0], &[1e300, 1e-300]]
        {
            let scale = axis.scale(values.iter().copied(), 10.0);
            assert!(scale.at(1.0).is_finite() && scale.low < scale.high, "{values:?} {scale:?}");
            assert!(scale.ticks(5).len() <= MOST_TICKS + 1);
        }
    }
}
