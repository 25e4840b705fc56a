//! Short text forms of numbers in charts.

use serde::{Serialize, Serializer};

/// Steps between the first position and the last: a thousand for each pixel of a wide chart.
const STEPS: f64 = 4e6;

/// A number with five significant digits: a chart is a thousand pixels high.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Short(pub(crate) f64);

impl Short {
    fn rounded(self) -> f64 {
        if !self.0.is_finite() || self.0 == 0.0 {
            return 0.0;
        }
        let text = format!("{:.4e}", self.0);
        text.parse().unwrap_or(self.0)
    }
}

impl Serialize for Short {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let rounded = self.rounded();
        if rounded.fract() == 0.0 && rounded.abs() < 1e15 {
            return serializer.serialize_i64(rounded as i64);
        }
        serializer.serialize_f64(rounded)
    }
}

/// Positions in order, each as the distance from the previous one in steps of one size: short
/// texts, and never two points at the same position, where one would hide the other.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Places {
    /// The first position.
    from: f64,
    /// The size of a step.
    step: f64,
    /// The first one is zero.
    steps: Vec<u64>,
}

impl Places {
    pub(crate) fn of(places: &[f64]) -> Self {
        let (from, to) = (places.first().copied(), places.last().copied());
        let (from, to) = (from.unwrap_or(0.0), to.unwrap_or(0.0));
        let step = Some((to - from) / STEPS).filter(|step| step.is_normal()).unwrap_or(1.0);
        let mut at = 0;
        let mut steps = Vec::with_capacity(places.len());
        for (index, place) in places.iter().enumerate() {
            let exact = ((place - from) / step).round() as u64;
            let next = exact.max(u64::saturating_add(at, u64::from(index > 0)));
            steps.push(next - at);
            at = next;
        }
        Self { from, step, steps }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linecard::rng::Rng;

    /// A kept result may have been edited.
    #[test]
    fn places_out_of_order_and_without_bounds_do_no_harm() {
        for places in [[1e308, -1e308, 0.0], [-1e308, 1e308, 1e308], [0.0, 1e300, 1.0]] {
            assert_eq!(Places::of(&places).steps.len(), places.len());
        }
    }

    #[test]
    fn places_stay_where_they_are_and_apart() {
        let mut rng = Rng::new(3);
        for round in 0..100 {
            let mut places: Vec<f64> =
                (0..rng.below(4_000)).map(|_| 1e9 + rng.below(3_000) as f64 / 7.0).collect();
            places.sort_by(f64::total_cmp);
            let Places { from, step, steps } = Places::of(&places);
            assert!(steps.iter().skip(1).all(|steps| *steps > 0), "{round}");
            let mut at = 0;
            for (place, steps) in places.iter().zip(steps) {
                at += steps;
                // As many as stand at one place move by a step each.
                assert!((from + at as f64 * step - place).abs() <= step * 20.0, "{round}: {place}");
            }
        }
        assert!(Places::of(&[]).steps.is_empty());
        assert_eq!(Places::of(&[5.0, 5.0]).steps, [0, 1]);
    }

    #[test]
    fn five_digits_are_kept() {
        let text = |x: f64| serde_json::to_string(&Short(x)).unwrap_or_default();
        assert_eq!(text(7_412.349_123), "7412.3");
        assert_eq!(text(0.1 + 0.2), "0.3");
        assert_eq!(text(1_234_567.0), "1234600");
        assert_eq!(text(-0.000_001_234_567_8), "-1.2346e-6");
        assert_eq!(text(f64::NAN), "0");
        assert_eq!(text(0.0), "0");
    }
}
