//! Numbers as short as a picture needs them.

use serde::ser::{Serialize, Serializer};

/// A number with six digits that count: a picture is a thousand pixels wide.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Short(pub(crate) f64);

impl Short {
    fn rounded(self) -> f64 {
        if !self.0.is_finite() || self.0 == 0.0 {
            return 0.0;
        }
        let text = format!("{:.5e}", self.0);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn six_digits_are_kept() {
        let text = |x: f64| serde_json::to_string(&Short(x)).unwrap_or_default();
        assert_eq!(text(7_412.349_123), "7412.35");
        assert_eq!(text(0.1 + 0.2), "0.3");
        assert_eq!(text(1_234_567.0), "1234570");
        assert_eq!(text(-0.000_001_234_567_8), "-1.23457e-6");
        assert_eq!(text(f64::NAN), "0");
        assert_eq!(text(0.0), "0");
    }
}
