//! What is said in messages, and what is meant by it here.

use linecard_transfer::control;
use linecard_transfer::fec::{Kind, Scheme, SchemeError};
use linecard_transfer::send;

/// Kinds of forward error correction that this end knows, as messages number them.
pub(crate) const FEC_KINDS: [u8; 4] = [0, 1, 2, 3];

/// A scheme as it is told to the other end.
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

/// The scheme that the other end told of.
pub(crate) fn scheme_of_message(told: control::FecScheme) -> Result<Scheme, SchemeError> {
    match told.kind {
        1 => Scheme::xor(told.k.into()),
        2 => Scheme::reed_solomon(told.k.into(), told.m.into()),
        3 => Ok(Scheme::DUPLICATE),
        _ => Ok(Scheme::NONE),
    }
}

/// A mode as it is told to the other end.
pub(crate) const fn mode_to_message(mode: send::Mode) -> control::Mode {
    match mode {
        send::Mode::Stable => control::Mode::Stable,
        send::Mode::LowLatency => control::Mode::LowLatency,
        send::Mode::Auto => control::Mode::Auto,
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
