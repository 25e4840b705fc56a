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

/// A number of things, large ones too: `250`, `64k`, `1M`. k and M count in 1000.
pub(crate) fn many(text: &str) -> Result<u64, String> {
    let wrong = || format!("\"{text}\" is no whole number: write for example 1000, 64k or 1M");
    let (number, unit) = split(text);
    let factor = match unit {
        "" => 1,
        "k" | "K" => 1_000,
        "M" => 1_000_000,
        _ => return Err(wrong()),
    };
    let value = number.parse::<u64>().ok().and_then(|number| number.checked_mul(factor));
    value.ok_or_else(wrong)
}

/// A period in picoseconds: `7.41us`, `7419.761ns`; the unit is required.
pub(crate) fn period_ps(text: &str) -> Result<u64, String> {
    let wrong = || format!("\"{text}\" is no period: write for example 7.41us, 125us or 1ms");
    let (number, unit) = split(text);
    let factor = match unit.trim() {
        "ps" => 1.0,
        "ns" => 1e3,
        "us" | "µs" => 1e6,
        "ms" => 1e9,
        "s" => 1e12,
        _ => return Err(wrong()),
    };
    let value = number.parse::<f64>().map_err(|_| wrong())? * factor;
    // The largest is an hour, far inside of what the type keeps exactly.
    if (0.5..=3.6e15).contains(&value) { Ok(value.round() as u64) } else { Err(wrong()) }
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
    }

    #[test]
    fn times() {
        assert_eq!(duration("50us"), Ok(Duration::from_micros(50)));
        assert_eq!(duration("0.5s"), Ok(Duration::from_millis(500)));
        assert!(duration("5").is_err() && duration("1e3s").is_err() && duration("-1s").is_err());
    }

    #[test]
    fn periods_are_exact_to_the_picosecond() {
        assert_eq!(period_ps("7.41us"), Ok(7_410_000));
        assert_eq!(period_ps("7419.761 ns"), Ok(7_419_761));
        assert_eq!(period_ps("7.419761us"), Ok(7_419_761));
        assert_eq!(period_ps("3600s"), Ok(3_600_000_000_000_000));
        assert!(period_ps("0us").is_err() && period_ps("7.41").is_err());
        assert!(
            period_ps("3601s").is_err() && period_ps("-1us").is_err() && period_ps("us").is_err()
        );
    }

    #[test]
    fn many_things() {
        assert_eq!((many("250"), many("64k"), many("1M")), (Ok(250), Ok(64_000), Ok(1_000_000)));
        assert!(many("1.5M").is_err() && many("1G").is_err() && many("").is_err());
        assert!(many("99999999999999999999").is_err() && many("99999999999999999M").is_err());
    }
}
