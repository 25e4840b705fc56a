//! What an adapter is given to send, and what it has to make of it; `linecard reproduce zero-copy` has the
//! same.

use crate::failure::Failure;
use linecard::offload::segment::segment;
use linecard::packet::{Gso, LinkType, Meta, Packet};
use linecard::rng::Rng;

/// Ethernet, IPv4 and TCP without options.
pub(crate) const HEADERS: usize = 54;

/// A message of TCP over IPv4 with random payload.
pub(crate) fn message(rng: &mut Rng, payload: usize) -> Vec<u8> {
    let mut bytes = vec![0; HEADERS + payload];
    rng.fill(&mut bytes);
    bytes[12..14].copy_from_slice(&[8, 0]);
    // Within the scenario's range a message fits.
    let total = (HEADERS - 14 + payload) as u16;
    bytes[14..26].copy_from_slice(&[0x45, 0, 0, 0, 0, 1, 0, 0, 64, 6, 0, 0]);
    bytes[16..18].copy_from_slice(&total.to_be_bytes());
    // No options; ACK and PSH.
    bytes[46..48].copy_from_slice(&[0x50, 0x18]);
    bytes
}

/// What the crate's own segmentation makes of messages.
pub(crate) fn segments(messages: &[Vec<u8>], mtu: usize) -> Result<Vec<Vec<u8>>, Failure> {
    let mut frames = Vec::new();
    for message in messages {
        let packet = Packet::new(message.as_slice(), LinkType::Ethernet, Meta::default());
        let gso = Gso { size: (mtu - (HEADERS - 14)) as u16, ..Gso::default() };
        let wrong = |error| Failure::Wrong(format!("segmentation refuses a message: {error}"));
        let mut segments = segment(&packet, gso).map_err(wrong)?;
        let mut room = vec![0; segments.max_len()];
        while let Some(written) = segments.write_next(&mut room).map_err(wrong)? {
            frames.push(room[..written.len].to_vec());
        }
    }
    Ok(frames)
}
