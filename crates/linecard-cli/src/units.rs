//! Values with units, as users write them.

use std::path::{Path, PathBuf};
use std::time::Duration;

/// A number of bytes: `1500`, `64K`, `64KiB`, `1M`. K and M count in 1024.
pub(crate) fn bytes(text: &str) -> Result<usize, String> {
    let (number, unit) = split(text);
    let factor = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        _ => return Err(format!("\"{text}\" is no size: write for example 1500, 64K or 1M")),
    };
    let value = number.parse::<usize>().ok().and_then(|number| number.checked_mul(factor));
    value.ok_or_else(|| format!("\"{text}\" is no size: write for example 1500, 64K or 1M"))
}

/// A number of things: `16`.
pub(crate) fn count(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("\"{text}\" is no whole number: write for example 16"))
}

/// A number of seconds, without a unit: `2`, `0.5`.
pub(crate) fn seconds(text: &str) -> Result<f64, String> {
    text.parse().map_err(|_| format!("\"{text}\" is no number of seconds: write for example 0.5"))
}

/// An output. What is another name for the standard output is treated as it, or the report would
/// end up among the data.
pub(crate) fn output(path: PathBuf) -> PathBuf {
    let standard = ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"].map(Path::new);
    if standard.contains(&path.as_path()) { PathBuf::from("-") } else { path }
}

/// A time: `250us`, `1ms`, `0.5s`; the unit is required.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = split(text);
    let wrong = || format!("\"{text}\" is no time: write for example 50us, 1ms or 2s");
    let seconds = match unit.trim() {
        "ns" => 1e-9,
        "us" | "µs" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        _ => return Err(wrong()),
    };
    let value: f64 = number.parse().map_err(|_| wrong())?;
    Duration::try_from_secs_f64(value * seconds).map_err(|_| wrong())
}

/// Bits per second: `10G`, `2.5G`, `200M`. K, M, G and T count in 1000.
pub(crate) fn bit_rate(text: &str) -> Result<u64, String> {
    let wrong = || format!("\"{text}\" is no rate in bit/s: write for example 10G, 2.5G or 200M");
    let (number, unit) = split(text);
    let factor = match unit {
        "" => 1.0,
        "k" | "K" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "T" => 1e12,
        _ => return Err(wrong()),
    };
    let rate = number.parse::<f64>().map_err(|_| wrong())? * factor;
    // Below this a double has every whole number.
    if (1.0..=9e15).contains(&rate) { Ok(rate.round() as u64) } else { Err(wrong()) }
}

/// A probability: `0.01` or `1%`.
pub(crate) fn probability(text: &str) -> Result<f64, String> {
    let wrong = || format!("\"{text}\" is no probability: write 0 to 1, or 0% to 100%");
    let (number, percent) = match text.strip_suffix('%') {
        Some(number) => (number, 100.0),
        None => (text, 1.0),
    };
    let value: f64 = number.trim().parse().map_err(|_| wrong())?;
    let value = value / percent;
    if (0.0..=1.0).contains(&value) { Ok(value) } else { Err(wrong()) }
}

fn split(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    text.split_at(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(bytes("1500"), Ok(1500));
        assert_eq!(bytes("64K"), Ok(65_536));
        assert_eq!(bytes("2 MiB"), Ok(2 << 20));
        assert!(bytes("").is_err() && bytes("x").is_err() && bytes("1.5K").is_err());
        assert!(bytes("99999999999999999999").is_err() && bytes("999999999999999999K").is_err());
        assert!(bytes("-1").is_err());
    }

    #[test]
    fn numbers() {
        assert_eq!(count("16"), Ok(16));
        assert!(count("-1").is_err() && count("1.5").is_err() && count("").is_err());
        assert_eq!(seconds("0.5"), Ok(0.5));
        assert!(seconds("2s").is_err());
    }

    #[test]
    fn times() {
        assert_eq!(duration("50us"), Ok(Duration::from_micros(50)));
        assert_eq!(duration("0.5s"), Ok(Duration::from_millis(500)));
        assert!(duration("5").is_err() && duration("1e3s").is_err() && duration("-1s").is_err());
    }

    #[test]
    fn bit_rates() {
        assert_eq!((bit_rate("10G"), bit_rate("2.5G")), (Ok(10_000_000_000), Ok(2_500_000_000)));
        assert_eq!((bit_rate("200M"), bit_rate("9600")), (Ok(200_000_000), Ok(9_600)));
        assert!(bit_rate("0").is_err() && bit_rate("fast").is_err() && bit_rate("-1G").is_err());
        assert!(bit_rate("10Gbit").is_err() && bit_rate("99999T").is_err());
    }

    #[test]
    fn probabilities() {
        assert_eq!(probability("1%"), Ok(0.01));
        assert_eq!(probability("0.25"), Ok(0.25));
        assert!(probability("2").is_err() && probability("-1").is_err());
        assert!(probability("NaN").is_err());
    }
}
