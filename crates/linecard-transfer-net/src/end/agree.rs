//! Terms of messages, and their meaning here.

use linecard_transfer::control;
use linecard_transfer::fec::{Kind, Scheme, SchemeError};

/// Kinds of forward error correction that this end knows, as messages number them.
pub(crate) const FEC_KINDS: [u8; 4] = [0, 1, 2, 3];

/// A scheme as the control messages carry it.
pub(crate) fn scheme_to_message(scheme: Scheme) -> control::FecScheme {
    let kind = match scheme.kind() {
        Kind::None => return control::FecScheme::NONE,
        Kind::Xor => 1,
        Kind::ReedSolomon => 2,
        Kind::Duplicate => 3,
    };
    // Both are below 256, as a scheme is made.
    let (k, m) = (scheme.data_packets() as u8, scheme.repair_packets() as u8);
    control::FecScheme { kind, k, m }
}

/// The scheme that the other end sent.
pub(crate) fn scheme_of_message(message: control::FecScheme) -> Result<Scheme, SchemeError> {
    match message.kind {
        1 => Scheme::xor(message.k.into()),
        2 => Scheme::reed_solomon(message.k.into(), message.m.into()),
        3 => Ok(Scheme::DUPLICATE),
        _ => Ok(Scheme::NONE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemes_are_what_they_were() {
        for text in ["none", "xor:16", "rs:28,4", "rs:200,56", "duplicate"] {
            let scheme: Scheme = text.parse().unwrap();
            assert_eq!(scheme_of_message(scheme_to_message(scheme)), Ok(scheme));
        }
    }
}
