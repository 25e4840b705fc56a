//! A number of packets at a fixed place of their UDP payload, for protocols that are not known.

use core::fmt;
use core::str::FromStr;

/// Octets of UDP payload that are kept of a packet: a field lies within.
const MAX_END: u16 = 64;

/// Where packets have their number, which increases by one with each packet.
///
/// ```
/// use linecard_jitter::media::number::NumberField;
/// let field: NumberField = "4:2".parse()?;
/// assert_eq!(field.read(&[0, 0, 0, 0, 0x01, 0x02]), Some(0x0102));
/// assert_eq!("4:2:le".parse::<NumberField>()?.read(&[0, 0, 0, 0, 0x01, 0x02]), Some(0x0201));
/// assert_eq!(field.read(&[0; 5]), None);
/// # Ok::<(), linecard_jitter::media::number::NumberFieldError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NumberField {
    offset: u16,
    octets: u16,
    is_little_endian: bool,
}

/// A text that is not such a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "write OFFSET:OCTETS of the number in the UDP payload, as 4:2, with 1, 2 or 4 octets that end within the first \
     {MAX_END}, and :le behind it where the least octet comes first"
)]
pub struct NumberFieldError;

impl NumberField {
    /// The number of a packet; `None` if its payload ends before.
    #[must_use]
    pub fn read(&self, payload: &[u8]) -> Option<u32> {
        let from = usize::from(self.offset);
        let octets = payload.get(from..from + usize::from(self.octets))?;
        let add = |number: u32, octet: &u8| number << 8 | u32::from(*octet);
        Some(match self.is_little_endian {
            true => octets.iter().rev().fold(0, add),
            false => octets.iter().fold(0, add),
        })
    }

    /// Bits of the number, after which it begins again at 0.
    #[must_use]
    pub fn bits(&self) -> u32 {
        u32::from(self.octets) * 8
    }
}

impl fmt::Display for NumberField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let order = if self.is_little_endian { ":le" } else { "" };
        write!(f, "{}:{}{order}", self.offset, self.octets)
    }
}

impl FromStr for NumberField {
    type Err = NumberFieldError;

    fn from_str(text: &str) -> Result<Self, NumberFieldError> {
        let (place, is_little_endian) = match text.strip_suffix(":le") {
            Some(place) => (place, true),
            None => (text, false),
        };
        let (offset, octets) = place.split_once(':').ok_or(NumberFieldError)?;
        let number = |text: &str| text.parse::<u16>().map_err(|_| NumberFieldError);
        let (offset, octets) = (number(offset)?, number(octets)?);
        let is_inside = offset.checked_add(octets).is_some_and(|end| end <= MAX_END);
        if !matches!(octets, 1 | 2 | 4) || !is_inside {
            return Err(NumberFieldError);
        }
        Ok(Self { offset, octets, is_little_endian })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn places_are_what_they_were() {
        for text in ["0:1", "4:2", "12:4:le", "60:4"] {
            assert_eq!(
                text.parse::<NumberField>().map(|field| field.to_string()),
                Ok(text.to_string())
            );
        }
        for text in
            ["", "4", "4:3", "4:8", "61:4", "65535:4", "-1:2", "4:2:be", "4:2:le:le", ":", "x:2"]
        {
            assert_eq!(text.parse::<NumberField>(), Err(NumberFieldError), "{text}");
        }
    }
}
