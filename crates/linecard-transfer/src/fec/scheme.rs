//! The scheme of error correction, as configured and agreed on.

use alloc::borrow::ToOwned;
use alloc::string::String;
use core::fmt;
use core::num::NonZeroU8;
use core::str::FromStr;

/// The most data and repair packets of a group: each needs its own element of GF(2⁸).
pub const MAX_GROUP: usize = 256;

/// How the packets of a transfer are protected.
///
/// ```
/// use linecard_transfer::fec::Scheme;
/// let scheme: Scheme = "rs:28,4".parse()?;
/// assert_eq!(scheme, Scheme::reed_solomon(28, 4)?);
/// assert_eq!((scheme.data_packets(), scheme.repair_packets()), (28, 4));
/// assert_eq!(scheme.to_string(), "rs:28,4");
/// # Ok::<(), linecard_transfer::fec::SchemeError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Scheme {
    kind: Kind,
    data: NonZeroU8,
    repair: u8,
}

/// The kinds of schemes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// No repair packets.
    None,
    /// One repair packet for a group, the sum of its data: repairs one loss.
    Xor,
    /// Several repair packets for a group: repairs as many losses.
    ReedSolomon,
    /// Each packet once more, to be sent on another lane (as SMPTE ST 2022-7).
    Duplicate,
}

/// Why a scheme is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SchemeError {
    /// The text names an unknown scheme.
    #[error("'{0}' is not a repair scheme: write auto, none, xor:K, rs:K,M or duplicate")]
    Unknown(String),
    /// A part of the text is not a number of packets.
    #[error("'{0}' is not a number of packets: write xor:K as in xor:16, rs:K,M as in rs:28,4")]
    NotANumber(String),
    /// No data packets.
    #[error("a group of 0 data packets: it needs at least 1")]
    NoData,
    /// No repair packets.
    #[error("0 repair packets for a group: give at least 1, or take the scheme none")]
    NoRepair,
    /// More packets than the field has elements.
    #[error(
        "{data} data and {repair} repair packets: a group has at most {MAX_GROUP} in all, so take \
         fewer of one"
    )]
    TooMany {
        /// Requested data packets.
        data: u64,
        /// Requested repair packets.
        repair: u64,
    },
}

impl Scheme {
    /// No repair packets: lost packets are retransmitted.
    pub const NONE: Self = Self { kind: Kind::None, data: NonZeroU8::MIN, repair: 0 };

    /// The scheme of [`Repair::Auto`](super::Repair::Auto): four repair packets for 28, of which it sends some.
    pub(super) const AUTO: Self =
        Self { kind: Kind::ReedSolomon, data: NonZeroU8::new(28).unwrap(), repair: 4 };

    /// Every packet twice, on two lanes.
    pub const DUPLICATE: Self = Self { kind: Kind::Duplicate, data: NonZeroU8::MIN, repair: 1 };

    /// One repair packet, the sum, for `data` packets (1 to 255).
    ///
    /// # Errors
    ///
    /// [`SchemeError::NoData`], [`SchemeError::TooMany`].
    pub fn xor(data: usize) -> Result<Self, SchemeError> {
        Self::group(Kind::Xor, data as u64, 1)
    }

    /// `repair` packets (at least 1) for `data` packets (at least 1), together at most
    /// [`MAX_GROUP`].
    ///
    /// # Errors
    ///
    /// [`SchemeError::NoData`], [`SchemeError::NoRepair`], [`SchemeError::TooMany`].
    pub fn reed_solomon(data: usize, repair: usize) -> Result<Self, SchemeError> {
        Self::group(Kind::ReedSolomon, data as u64, repair as u64)
    }

    fn group(kind: Kind, data: u64, repair: u64) -> Result<Self, SchemeError> {
        if data == 0 {
            return Err(SchemeError::NoData);
        }
        if repair == 0 {
            return Err(SchemeError::NoRepair);
        }
        let too_many = SchemeError::TooMany { data, repair };
        if data.saturating_add(repair) > MAX_GROUP as u64 {
            return Err(too_many);
        }
        let bytes = (u8::try_from(data).ok().and_then(NonZeroU8::new), u8::try_from(repair));
        let (Some(data), Ok(repair)) = bytes else { return Err(too_many) };
        Ok(Self { kind, data, repair })
    }

    /// The kind of scheme.
    #[must_use]
    pub fn kind(self) -> Kind {
        self.kind
    }

    /// Data packets of a whole group (`k`), 1 to 255.
    #[must_use]
    pub fn data_packets(self) -> usize {
        usize::from(self.data.get())
    }

    /// Repair packets of each group (`m`), 0 to 255.
    #[must_use]
    pub fn repair_packets(self) -> usize {
        usize::from(self.repair)
    }

    /// Repair packets for each data packet of whole groups: 0 for none, 1 for duplicates.
    #[must_use]
    pub fn overhead(self) -> f64 {
        f64::from(self.repair) / f64::from(self.data.get())
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            Kind::None => f.write_str("none"),
            Kind::Xor => write!(f, "xor:{}", self.data),
            Kind::ReedSolomon => write!(f, "rs:{},{}", self.data, self.repair),
            Kind::Duplicate => f.write_str("duplicate"),
        }
    }
}

impl FromStr for Scheme {
    type Err = SchemeError;

    fn from_str(text: &str) -> Result<Self, SchemeError> {
        match text.split_once(':') {
            None if text == "none" => Ok(Self::NONE),
            None if text == "duplicate" => Ok(Self::DUPLICATE),
            Some(("xor", data)) => Self::group(Kind::Xor, number(data)?, 1),
            Some(("rs", counts)) => {
                let (data, repair) = counts
                    .split_once(',')
                    .ok_or_else(|| SchemeError::NotANumber(counts.to_owned()))?;
                Self::group(Kind::ReedSolomon, number(data)?, number(repair)?)
            }
            _ => Err(SchemeError::Unknown(text.to_owned())),
        }
    }
}

// 64 bits on every processor, and so the same answers.
fn number(text: &str) -> Result<u64, SchemeError> {
    text.parse().map_err(|_| SchemeError::NotANumber(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn what_is_written_is_read_again() {
        for text in ["none", "duplicate", "xor:1", "xor:255", "rs:1,1", "rs:28,4", "rs:1,255"] {
            assert_eq!(text.parse::<Scheme>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_is_no_scheme_is_refused_with_the_value_and_what_to_do() {
        for (text, said) in [
            ("", "'' is not a repair scheme: write auto, none"),
            ("rs", "'rs' is not a repair scheme"),
            ("None", "'None' is not a repair scheme"),
            ("none:1", "'none:1' is not a repair scheme"),
            ("xor:", "'' is not a number of packets: write xor:K"),
            ("xor:-1", "'-1' is not a number"),
            ("rs:28", "'28' is not a number of packets: write xor:K as in xor:16, rs:K,M"),
            ("rs:28,4,1", "'4,1' is not a number"),
            ("rs:28, 4", "' 4' is not a number"),
            ("xor:0", "0 data packets: it needs at least 1"),
            ("rs:0,4", "0 data packets"),
            ("rs:4,0", "0 repair packets for a group: give at least 1"),
            ("xor:256", "256 data and 1 repair packets: a group has at most 256"),
            ("rs:200,57", "at most 256"),
            ("rs:18446744073709551615,18446744073709551615", "at most 256"),
            ("rs:18446744073709551616,1", "'18446744073709551616' is not a number"),
        ] {
            let error = text.parse::<Scheme>().unwrap_err().to_string();
            assert!(error.contains(said), "{text}: {error}");
        }
    }

    #[test]
    fn a_group_counts_its_packets() {
        let counts = |scheme: Scheme| (scheme.data_packets(), scheme.repair_packets());
        assert_eq!(counts(Scheme::NONE), (1, 0));
        assert_eq!(counts(Scheme::DUPLICATE), (1, 1));
        assert_eq!(counts(Scheme::xor(16).unwrap()), (16, 1));
        assert_eq!(counts(Scheme::reed_solomon(200, 56).unwrap()), (200, 56));
        let overheads = ["none", "duplicate", "xor:16", "rs:32,4"]
            .map(|text| text.parse::<Scheme>().unwrap().overhead());
        assert_eq!(overheads, [0.0, 1.0, 0.0625, 0.125]);
    }
}
