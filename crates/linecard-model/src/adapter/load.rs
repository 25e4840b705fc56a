//! The messages to send, and the packets expected from them.

use super::config::Load;
use alloc::vec;
use alloc::vec::Vec;
use linecard::offload::segment::{SegmentError, segment};
use linecard::packet::{Gso, LinkType, Meta, Packet};
use linecard::rng::Rng;

/// Ethernet, IPv4 and TCP without options.
pub const HEADERS: usize = 54;

impl Load {
    /// The messages: TCP over IPv4 with random payload.
    #[must_use]
    pub fn all(&self) -> Vec<Vec<u8>> {
        let mut rng = Rng::new(self.seed);
        let sizes = self.size.iter().cycle().take(self.messages);
        sizes.map(|size| message(&mut rng, size.get() as usize)).collect()
    }
}

/// A message of TCP over IPv4 with random payload, of 65,495 bytes at most.
#[must_use]
pub fn message(rng: &mut Rng, payload: usize) -> Vec<u8> {
    let mut bytes = vec![0; HEADERS + payload];
    rng.fill(&mut bytes);
    bytes[12..14].copy_from_slice(&[8, 0]);
    let total = (HEADERS - 14 + payload) as u16;
    bytes[14..26].copy_from_slice(&[0x45, 0, 0, 0, 0, 1, 0, 0, 64, 6, 0, 0]);
    bytes[16..18].copy_from_slice(&total.to_be_bytes());
    // No options; ACK and PSH.
    bytes[46..48].copy_from_slice(&[0x50, 0x18]);
    bytes
}

/// The packets into which this project's offload segments the messages.
///
/// # Errors
///
/// If a message cannot be segmented.
pub fn segments(messages: &[Vec<u8>], mtu: usize) -> Result<Vec<Vec<u8>>, SegmentError> {
    let mut frames = Vec::new();
    for message in messages {
        let packet = Packet::new(message.as_slice(), LinkType::Ethernet, Meta::default());
        let gso = Gso { size: mtu.saturating_sub(HEADERS - 14) as u16, ..Gso::default() };
        let mut segments = segment(&packet, gso)?;
        let mut room = vec![0; segments.max_len()];
        while let Some(written) = segments.write_next(&mut room)? {
            frames.push(room[..written.len].to_vec());
        }
    }
    Ok(frames)
}
