//! Text from the other end that is shown to the user.

use super::MAX_TEXT_BYTES;
use alloc::string::String;
use core::fmt;

/// At most [`MAX_TEXT_BYTES`] without control characters, so that it cannot control a terminal or
/// add lines to a log.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Text(String);

impl Text {
    /// The valid UTF-8 of `bytes`, truncated to the limit.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        let mut text = String::new();
        for c in String::from_utf8_lossy(&bytes[..bytes.len().min(MAX_TEXT_BYTES)]).chars() {
            let c = if unprintable(c) { ' ' } else { c };
            if text.len() + c.len_utf8() > MAX_TEXT_BYTES {
                break;
            }
            text.push(c);
        }
        Self(text)
    }

    /// As a string.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Control characters, and those that change the direction of text.
fn unprintable(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200E}'..='\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self::of(text.as_bytes())
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn a_terminal_is_not_steered() {
        assert_eq!(Text::of(b"disk\x1b[2Jfull\r\n").as_str(), "disk [2Jfull  ");
        assert_eq!(Text::from("a\u{202E}b\u{9B}c").as_str(), "a b c");
    }

    #[test]
    fn what_is_not_utf8_stays_in_the_limit() {
        assert_eq!(Text::of(&vec![0xFF; 5_000]).as_str().len(), 1_023);
        assert_eq!(Text::of(&vec![b'x'; 5_000]).as_str().len(), MAX_TEXT_BYTES);
    }
}
