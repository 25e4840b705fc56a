//! Fingerprint of a public key.

use super::code;
use core::fmt;
use core::str::FromStr;
use ring::digest;

/// SHA-256 of a public key as DER of its `SubjectPublicKeyInfo` (RFC 7250).
///
/// As text, `lc1` and 52 letters and digits in base32:
///
/// ```
/// use linecard_transfer_net::keys::Fingerprint;
/// let fingerprint = Fingerprint::of(b"some key");
/// let text = fingerprint.to_string();
/// assert!(text.starts_with("lc1") && text.len() == 55);
/// assert_eq!(text.parse(), Ok(fingerprint));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fingerprint([u8; 32]);

/// A text that is not a fingerprint.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a fingerprint, which is lc1 and 52 letters a to z and digits 2 to 7")]
pub struct FingerprintError;

const PREFIX: &str = "lc1";

impl Fingerprint {
    /// Of a public key as it is shown in the handshake.
    #[must_use]
    pub fn of(public_key: &[u8]) -> Self {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(digest::digest(&digest::SHA256, public_key).as_ref());
        Self(bytes)
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}", code::encode(&self.0, code::BASE32))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Fingerprint {
    type Err = FingerprintError;

    fn from_str(text: &str) -> Result<Self, FingerprintError> {
        let letters = text.strip_prefix(PREFIX).ok_or(FingerprintError)?;
        if letters.len() != 52 {
            return Err(FingerprintError);
        }
        let bytes = code::decode(letters, code::BASE32).ok_or(FingerprintError)?;
        bytes.try_into().map(Self).map_err(|_| FingerprintError)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_is_none_is_refused() {
        let good = Fingerprint::of(b"").to_string();
        // SHA-256 of nothing, in base32.
        assert_eq!(good, "lc14oymiquy7qobjgx36tejs35zeqt24qpemsnzgtfeswmrw6csxbkq");
        assert_eq!(good.parse::<Fingerprint>(), Ok(Fingerprint::of(b"")));
        for bad in ["", "lc1", &good[3..], &good[..54], &format!("{good}a"), "lc2"] {
            assert_eq!(bad.parse::<Fingerprint>(), Err(FingerprintError), "{bad}");
        }
        assert!(good.to_uppercase().parse::<Fingerprint>().is_err());
        assert!(format!("{}=", &good[..54]).parse::<Fingerprint>().is_err());
    }
}
