//! Values of options of transfers, as users write them.

use crate::units;
use linecard_transfer::control::{MAX_CHUNK_BYTES, MIN_CHUNK_BYTES, MIN_PAYLOAD_BYTES};
use linecard_transfer::wire::MAX_BODY_BYTES;
use linecard_transfer_net::file::{ChunkBytes, Input};
use std::ffi::OsString;
use std::ops::RangeInclusive;
use std::time::Duration;

/// Slower and faster than any lane: as what `--lane` takes.
const RATE_BPS: RangeInclusive<f64> = 1e3..=1e13;
/// Data bytes of a packet: as both ends agree on.
const PAYLOAD_BYTES: RangeInclusive<usize> = MIN_PAYLOAD_BYTES as usize..=MAX_BODY_BYTES;
/// Those of a chunk.
const CHUNK_BYTES: RangeInclusive<u64> = MIN_CHUNK_BYTES as u64..=MAX_CHUNK_BYTES as u64;
/// A day: longer, and nobody waits for it any more.
const PATIENCE: RangeInclusive<f64> = 0.1..=86_400.0;

/// A rate in bit/s: `200M`, `1.5G`; k, M and G count in 1000.
pub(super) fn rate(text: &str) -> Result<u64, String> {
    let (digits, unit) = match text.char_indices().last() {
        Some((at, 'k' | 'K')) => (&text[..at], 1e3),
        Some((at, 'M')) => (&text[..at], 1e6),
        Some((at, 'G')) => (&text[..at], 1e9),
        _ => (text, 1.0),
    };
    let is_plain = digits.chars().all(|c| c.is_ascii_digit() || c == '.');
    let value = digits.parse::<f64>().ok().filter(|_| is_plain).map(|value| value * unit);
    match value {
        Some(value) if RATE_BPS.contains(&value) => Ok(value.round() as u64),
        Some(_) => Err(format!("\"{text}\" is out of range: choose 1k to 10000G bit/s")),
        None => Err(format!("\"{text}\" is no rate: write bit/s, for example 200M or 1.5G")),
    }
}

/// What to send. A file's name may be any bytes.
pub(super) fn input(text: OsString) -> Result<Input, String> {
    match text.to_str().and_then(|text| text.strip_prefix("test:")) {
        Some(size) => units::bytes(size).map(|bytes| Input::Test(bytes as u64)),
        None if text.is_empty() => Err("no file has an empty name".into()),
        None => Ok(Input::Path(text.into())),
    }
}

/// The length of chunks: `16M`.
pub(super) fn chunk(text: &str) -> Result<ChunkBytes, String> {
    let bytes = units::bytes(text)? as u64;
    let chunk = ChunkBytes::new(bytes).ok().filter(|_| CHUNK_BYTES.contains(&bytes));
    chunk.ok_or_else(|| {
        format!("\"{text}\" is no length of chunks: choose a power of two, 64K to 64M")
    })
}

/// Data bytes of a packet.
pub(super) fn payload(text: &str) -> Result<u32, String> {
    let bytes = units::bytes(text)?;
    if !PAYLOAD_BYTES.contains(&bytes) {
        return Err(format!(
            "{bytes} is out of range: choose {} to {} bytes",
            PAYLOAD_BYTES.start(),
            PAYLOAD_BYTES.end()
        ));
    }
    Ok(bytes as u32)
}

/// How long to wait: seconds.
pub(super) fn patience(text: &str) -> Result<Duration, String> {
    let seconds = units::seconds(text)?;
    if !PATIENCE.contains(&seconds) {
        return Err(format!("{seconds} is out of range: choose 0.1 to 86400 seconds"));
    }
    Ok(Duration::from_secs_f64(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStringExt;

    #[test]
    fn rates() {
        assert_eq!((rate("200M"), rate("1.5G")), (Ok(200_000_000), Ok(1_500_000_000)));
        assert_eq!((rate("1000"), rate("2k")), (Ok(1_000), Ok(2_000)));
        for wrong in ["", "M", "fast", "1e9", "-1", "0", "999", "20000G", "NaN"] {
            assert!(rate(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn inputs() {
        assert_eq!(input("test:2G".into()), Ok(Input::Test(2 << 30)));
        assert_eq!(input("./test:2G".into()), Ok(Input::Path("./test:2G".into())));
        let odd = OsString::from_vec(vec![b'a', 0xff]);
        assert_eq!(input(odd.clone()), Ok(Input::Path(odd.into())));
        assert!(input("test:".into()).is_err() && input("".into()).is_err());
    }

    #[test]
    fn what_is_out_of_range() {
        assert!(chunk("16M").is_ok_and(|chunk| chunk.bytes() == 16 << 20));
        assert!(chunk("3M").is_err() && chunk("32K").is_err() && chunk("128M").is_err());
        assert!(payload("1408") == Ok(1_408) && payload("511").is_err() && payload("64K").is_err());
        assert!(patience("0.5").is_ok() && patience("0").is_err() && patience("NaN").is_err());
    }
}
