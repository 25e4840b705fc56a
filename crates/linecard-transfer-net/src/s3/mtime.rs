//! The time of a file, as the metadata of its object have it: decimal seconds since 1970, as rclone reads and writes them.

use crate::file::Stamp;

/// The name of it among the metadata.
pub(super) const NAME: &str = "mtime";

pub(super) fn to_text(stamp: Stamp) -> String {
    let ns = stamp.to_ns();
    let (sign, ns) = (if ns < 0 { "-" } else { "" }, ns.unsigned_abs());
    format!("{sign}{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000)
}

/// None if it is no such text.
pub(super) fn of_text(text: &str) -> Option<Stamp> {
    let (sign, text) = text.strip_prefix('-').map_or((1, text), |text| (-1, text));
    let (secs, digits) = text.split_once('.').unwrap_or((text, "0"));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !is_number(secs) || !is_number(digits) {
        return None;
    }
    let ns: i64 = format!("{digits:0<9.9}").parse().ok()?;
    let secs: i64 = secs.parse().ok()?;
    Some(Stamp::of_ns(sign * secs.checked_mul(1_000_000_000)?.checked_add(ns)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_go_there_and_back() {
        for ns in [0, 7, 1_000_000_007, -1, -1_500_000_000, i64::MAX] {
            assert_eq!(of_text(&to_text(Stamp::of_ns(ns))), Some(Stamp::of_ns(ns)));
        }
        let stamp = Some(Stamp { secs: 1_234_567_890, ns: 500_000_000 });
        assert_eq!(of_text("1234567890.5"), stamp);
        assert_eq!(of_text("1234567890"), Some(Stamp { secs: 1_234_567_890, ns: 0 }));
        assert_eq!(of_text("1234567890.5000000009"), stamp);
        for wrong in ["", ".5", "12a", "1.", "1.x", "--1", "99999999999999999999"] {
            assert_eq!(of_text(wrong), None, "{wrong}");
        }
    }
}
