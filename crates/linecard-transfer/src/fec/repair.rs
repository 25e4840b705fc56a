//! How much repair a transfer sends, as configured.

use super::{Scheme, SchemeError};
use core::fmt;
use core::str::FromStr;

/// The repair packets of a transfer.
///
/// ```
/// use linecard_transfer::fec::{Repair, Scheme};
/// assert_eq!("rs:28,4".parse(), Ok(Repair::Fixed(Scheme::reed_solomon(28, 4)?)));
/// assert_eq!("auto".parse::<Repair>()?.scheme().to_string(), "rs:28,4");
/// # Ok::<(), linecard_transfer::fec::SchemeError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Repair {
    /// All repair packets of a scheme, with every group.
    Fixed(Scheme),
    /// As many of [`Repair::AUTO`] as bring a chunk earlier, by the losses and round-trip times of its lanes: none while
    /// nothing is lost.
    Auto,
}

impl Repair {
    /// The scheme of [`Repair::Auto`], of whose four repair packets it sends none to all: at 1 % loss, all but one of
    /// 50,000 groups are repaired, and at 5 % all but one of 49.
    pub const AUTO: Scheme = Scheme::AUTO;

    /// Repair packets for each data packet that are sent in any case.
    #[must_use]
    pub fn least_overhead(self) -> f64 {
        match self {
            Self::Fixed(scheme) => scheme.overhead(),
            Self::Auto => 0.0,
        }
    }

    /// The scheme that both ends agree on.
    #[must_use]
    pub const fn scheme(self) -> Scheme {
        match self {
            Self::Fixed(scheme) => scheme,
            Self::Auto => Self::AUTO,
        }
    }
}

impl Default for Repair {
    fn default() -> Self {
        Self::Fixed(Scheme::NONE)
    }
}

impl fmt::Display for Repair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(scheme) => scheme.fmt(f),
            Self::Auto => f.write_str("auto"),
        }
    }
}

impl FromStr for Repair {
    type Err = SchemeError;

    fn from_str(text: &str) -> Result<Self, SchemeError> {
        if text == "auto" { Ok(Self::Auto) } else { text.parse().map(Self::Fixed) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn what_is_written_is_read_again_with_its_least_overhead() {
        for (text, repair, overhead) in [
            ("auto", Repair::Auto, 0.0),
            ("none", Repair::default(), 0.0),
            ("duplicate", Repair::Fixed(Scheme::DUPLICATE), 1.0),
            ("rs:28,7", Repair::Fixed(Scheme::reed_solomon(28, 7).unwrap()), 0.25),
        ] {
            assert_eq!((text.parse(), repair.to_string()), (Ok(repair), text.into()));
            assert_eq!(repair.least_overhead(), overhead);
        }
        assert_eq!("Auto".parse::<Repair>(), Err(SchemeError::Unknown("Auto".into())));
    }
}
