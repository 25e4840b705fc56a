//! Packets sealed and opened: AEAD, key phases, replay window.
//!
//! The scheme is that of QUIC (RFC 9001, sections 5 and 6), without header protection: a packet's header is the
//! associated data, its packet number makes the nonce, and keys are those of an *epoch*, which is
//! `packet_number >> 23`. Every 2²³ packets both ends switch to the next key by themselves, with nothing to agree on;
//! the lowest bit of the epoch stands in the header.
//!
//! Each lane and direction has a secret of its own, so that packet numbers may count from 0 on each.
//! Nothing is allocated for a packet, and it is sealed and opened where it lies.

mod counters;
mod epoch;
mod open;
mod sealing;
mod secret;
mod window;

pub use counters::{Counters, Refusal};
pub use open::Opener;
pub use sealing::{SealError, Sealer};
pub use secret::{Direction, LaneSecret};
pub use window::WINDOW;

/// Packets of an epoch, as a power of two: what RFC 9001, section 6.6 and appendix B, allow
/// AES-GCM to protect when packets have up to 2¹⁶ bytes.
pub const EPOCH_SHIFT: u32 = 23;

/// The epoch of a packet number.
#[must_use]
pub const fn epoch_of(packet_number: u64) -> u64 {
    packet_number >> EPOCH_SHIFT
}

#[cfg(test)]
mod tests;
