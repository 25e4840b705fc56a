//! pcapng options: code, length, value, padded to four bytes, one after the other.
//!
//! Everything here works on the raw bytes, in the section's byte order, and allocates nothing per
//! option. A malformed option ends the iteration: what follows cannot be located.

use super::{CaptureError, Endianness};

/// Code that ends the options of a block.
pub const END: u16 = 0;
/// A comment (UTF-8).
pub const COMMENT: u16 = 1;
/// A packet's hash, worthless once the packet's bytes change.
pub const PACKET_HASH: u16 = 3;
/// A custom option that may be copied to changed captures: value is a 32-bit enterprise number
/// (in the section's byte order), then UTF-8.
pub const CUSTOM_TEXT: u16 = 2988;
/// As [`CUSTOM_TEXT`], followed by bytes.
pub const CUSTOM_BYTES: u16 = 2989;
/// Interface: resolution of its timestamps.
pub(super) const IF_TSRESOL: u16 = 9;
/// Interface: seconds to add to its timestamps.
pub(super) const IF_TSOFFSET: u16 = 14;

/// The options in a blob, in order, as code and value.
#[derive(Debug, Clone)]
pub struct Options<'a> {
    blob: &'a [u8],
    at: usize,
    endianness: Endianness,
}

impl<'a> Options<'a> {
    /// Iterates over `blob`.
    pub fn new(blob: &'a [u8], endianness: Endianness) -> Self {
        Self { blob, at: 0, endianness }
    }

    /// Bytes of the blob that the options returned so far take.
    pub fn position(&self) -> usize {
        self.at
    }
}

impl<'a> Iterator for Options<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let code = self.endianness.u16_at(self.blob, self.at)?;
        let length = usize::from(self.endianness.u16_at(self.blob, self.at + 2)?);
        if code == END {
            return None;
        }
        let start = self.at + 4;
        let value = self.blob.get(start..start + length)?;
        // The padding of the last option is missing in some files; its value is all there.
        self.at = (start + length.next_multiple_of(4)).min(self.blob.len());
        Some((code, value))
    }
}

/// The value of the first option with this code.
pub fn find(blob: &[u8], code: u16, endianness: Endianness) -> Option<&[u8]> {
    Options::new(blob, endianness).find(|option| option.0 == code).map(|option| option.1)
}

/// Adds an option behind the ones in `blob` (which has no end-of-options).
pub fn append(
    blob: &mut Vec<u8>,
    code: u16,
    value: &[u8],
    endianness: Endianness,
) -> Result<(), CaptureError> {
    let Ok(length) = u16::try_from(value.len()) else {
        return Err(CaptureError::OptionTooLong { code, length: value.len() });
    };
    blob.extend_from_slice(&endianness.bytes16(code));
    blob.extend_from_slice(&endianness.bytes16(length));
    blob.extend_from_slice(value);
    blob.resize(blob.len().next_multiple_of(4), 0);
    Ok(())
}

/// Copies to the end of `kept` every option for which `drop` says no, and returns how many it
/// dropped. A malformed rest counts as one dropped option, as nothing could follow it.
pub fn strip(
    blob: &[u8],
    endianness: Endianness,
    kept: &mut Vec<u8>,
    mut drop: impl FnMut(u16, &[u8]) -> bool,
) -> u64 {
    let mut options = Options::new(blob, endianness);
    let mut dropped = 0;
    let mut start = 0;
    while let Some((code, value)) = options.next() {
        if drop(code, value) {
            dropped += 1;
        } else {
            kept.extend_from_slice(&blob[start..options.position()]);
            kept.resize(kept.len().next_multiple_of(4), 0);
        }
        start = options.position();
    }
    dropped + u64::from(start < length(blob, endianness))
}

/// How many options a blob holds, a malformed rest counted as one.
pub(super) fn count(blob: &[u8], endianness: Endianness) -> u64 {
    let mut options = Options::new(blob, endianness);
    let whole = options.by_ref().count();
    whole as u64 + u64::from(options.position() < length(blob, endianness))
}

/// Bytes before the end-of-options, all of them if there is none.
pub(super) fn length(blob: &[u8], endianness: Endianness) -> usize {
    let mut options = Options::new(blob, endianness);
    options.by_ref().for_each(drop);
    match endianness.u16_at(blob, options.position()) {
        Some(END) => options.position(),
        _ => blob.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two(endianness: Endianness) -> Vec<u8> {
        let mut blob = Vec::new();
        append(&mut blob, COMMENT, b"hello", endianness).unwrap();
        append(&mut blob, 2, &[1, 2, 3, 4], endianness).unwrap();
        blob
    }

    #[test]
    fn what_is_appended_is_found() {
        for endianness in [Endianness::Little, Endianness::Big] {
            let blob = two(endianness);
            assert_eq!(blob.len(), 4 + 8 + 4 + 4);
            assert_eq!(find(&blob, COMMENT, endianness), Some(&b"hello"[..]));
            assert_eq!(find(&blob, 2, endianness), Some(&[1, 2, 3, 4][..]));
            assert_eq!(find(&blob, 3, endianness), None);
        }
    }

    #[test]
    fn stripping_keeps_the_others_as_they_are() {
        let blob = two(Endianness::Big);
        let mut kept = Vec::new();
        let dropped = strip(&blob, Endianness::Big, &mut kept, |code, _| code == COMMENT);
        assert_eq!((dropped, &kept[..]), (1, &blob[12..]));
    }

    #[test]
    fn a_malformed_option_ends_the_blob() {
        let mut blob = two(Endianness::Little);
        blob.extend_from_slice(&[5, 0, 0xff, 0xff, 1, 2]);
        assert_eq!(Options::new(&blob, Endianness::Little).count(), 2);
        assert_eq!(count(&blob, Endianness::Little), 3);
        let mut kept = Vec::new();
        assert_eq!(strip(&blob, Endianness::Little, &mut kept, |_, _| false), 1);
        assert_eq!(kept, two(Endianness::Little));
        for cut in 0..blob.len() {
            Options::new(&blob[..cut], Endianness::Big).for_each(drop);
        }
    }

    #[test]
    fn the_end_mark_hides_what_follows() {
        let mut blob = two(Endianness::Little);
        let whole = blob.len();
        blob.extend_from_slice(&[0, 0, 0, 0, 1, 0, 0, 0]);
        assert_eq!(length(&blob, Endianness::Little), whole);
        assert_eq!(count(&blob, Endianness::Little), 2);
    }

    #[test]
    fn a_value_over_64_kib_is_refused() {
        let error = append(&mut Vec::new(), 7, &[0; 65536], Endianness::Little).unwrap_err();
        assert_eq!(
            error.to_string(),
            "option 7 of 65536 bytes is too long to write: the limit is 65535"
        );
    }
}
