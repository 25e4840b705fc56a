//! Values of scenarios, as users write them: exact, in whole units of what the model counts.

use std::fmt::Display;
use std::ops::RangeInclusive;

/// A number that has to be in a range.
pub(super) fn within<T: PartialOrd + Display>(
    value: T,
    range: RangeInclusive<T>,
) -> Result<T, String> {
    if range.contains(&value) {
        return Ok(value);
    }
    let (low, high) = range.into_inner();
    Err(format!("{value} is out of range: choose {low} to {high}"))
}

/// A whole number in a range.
pub(super) fn whole(text: &str, range: RangeInclusive<u64>) -> Result<u64, String> {
    let value = text.parse().map_err(|_| format!("\"{text}\" is no whole number of 0 or more"))?;
    within(value, range)
}

/// A decimal number times 10 to the power of `places`; nothing where digits would be lost.
pub(super) fn scaled(text: &str, places: usize) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let fraction = fraction.trim_end_matches('0');
    if whole.is_empty() || !digits(whole) || !digits(fraction) || fraction.len() > places {
        return None;
    }
    format!("{whole}{fraction:0<places$}").parse().ok()
}

/// A clock in MHz, as Hz.
pub(super) fn mhz(text: &str) -> Result<u64, String> {
    let hz = scaled(text, 6)
        .ok_or_else(|| format!("\"{text}\" is no clock in MHz: write for example 423 or 0.5"))?;
    match hz {
        1_000..=100_000_000_000 => Ok(hz),
        _ => Err(format!("{text} MHz is out of range: choose 0.001 to 100000 (1 kHz to 100 GHz)")),
    }
}

/// A share of a period, in millionths.
pub(super) fn phase(text: &str) -> Result<u64, String> {
    scaled(text, 6).filter(|&share| share < 1_000_000).ok_or_else(|| {
        format!("\"{text}\" is no phase: write a share of the period, 0 to 0.999999")
    })
}

/// Bits per second, none for a line that takes everything.
pub(super) fn rate(text: &str) -> Result<Option<u64>, String> {
    if text == "unlimited" {
        return Ok(None);
    }
    let (number, places) = match text.as_bytes().last() {
        Some(b'K' | b'k') => (&text[..text.len() - 1], 3),
        Some(b'M') => (&text[..text.len() - 1], 6),
        Some(b'G') => (&text[..text.len() - 1], 9),
        Some(b'T') => (&text[..text.len() - 1], 12),
        _ => (text, 0),
    };
    let rate = scaled(number, places).ok_or_else(|| {
        format!(
            "\"{text}\" is no rate in bits per second: write for example \"100G\", or \"unlimited\""
        )
    })?;
    match rate {
        1_000..=100_000_000_000_000 => Ok(Some(rate)),
        _ => Err(format!("{text} is out of range: choose 1K to 100T, or \"unlimited\"")),
    }
}

/// One of several words.
pub(super) fn word<N: AsRef<str>, T: Copy>(text: &str, choices: &[(N, T)]) -> Result<T, String> {
    if let Some((_, value)) = choices.iter().find(|(name, _)| name.as_ref() == text) {
        return Ok(*value);
    }
    let names: Vec<String> =
        choices.iter().map(|(name, _)| format!("\"{}\"", name.as_ref())).collect();
    Err(format!("\"{text}\" is no choice here: choose {}", names.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_and_rates_are_exact() {
        assert_eq!(mhz("423"), Ok(423_000_000));
        assert_eq!(mhz("118.75"), Ok(118_750_000));
        assert_eq!(mhz("0.001"), Ok(1_000));
        for wrong in ["0", "-1", "1e3", "", ".5", "100000.1", "1.0000001"] {
            assert!(mhz(wrong).is_err(), "{wrong}");
        }
        assert_eq!(rate("100G"), Ok(Some(100_000_000_000)));
        assert_eq!(rate("2.5G"), Ok(Some(2_500_000_000)));
        assert_eq!(rate("unlimited"), Ok(None));
        assert!(rate("0").is_err() && rate("G").is_err() && rate("fast").is_err());
        assert!(rate("999999999999T").is_err());
    }

    #[test]
    fn phases_are_shares_of_a_period() {
        assert_eq!(phase("0.25"), Ok(250_000));
        assert_eq!(phase("0"), Ok(0));
        assert!(phase("1").is_err() && phase("-0.1").is_err());
    }
}
