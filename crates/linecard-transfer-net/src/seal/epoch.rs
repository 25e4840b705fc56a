//! The keys of one epoch.

use super::secret::{IV_BYTES, LaneSecret};
use linecard_transfer::control::Suite;
use linecard_transfer::wire::{HEADER_BYTES, TAG_BYTES};
use ring::aead::{Aad, LessSafeKey, Nonce};

/// Seals and opens the packets of an epoch.
///
/// Key, and what the packet number is added to for the nonce. Where nothing is sealed there is
/// neither, and the tag is zeros.
pub(super) struct Epoch(Option<(LessSafeKey, [u8; IV_BYTES])>);

impl Epoch {
    /// Of this secret; none for a suite that is not known.
    pub(super) fn of(secret: &LaneSecret, suite: Suite) -> Option<Self> {
        match suite {
            Suite::None => Some(Self(None)),
            _ => secret.keys(suite).map(|keys| Self(Some(keys))),
        }
    }

    /// Encrypts between header and tag, and writes the tag. False if the buffer is too short for both.
    pub(super) fn seal(&self, packet_number: u64, datagram: &mut [u8]) -> bool {
        let Some((header, body, tag)) = parts(datagram) else { return false };
        let Some((key, iv)) = &self.0 else {
            tag.fill(0);
            return true;
        };
        let nonce = nonce(iv, packet_number);
        let made = key.seal_in_place_separate_tag(nonce, Aad::from(&*header), body);
        made.map(|made| tag.copy_from_slice(made.as_ref())).is_ok()
    }

    /// Decrypts between header and tag. False if it was not sealed by this key, or has changed.
    pub(super) fn open(&self, packet_number: u64, datagram: &mut [u8]) -> bool {
        let Some((key, iv)) = &self.0 else {
            return parts(datagram).is_some_and(|(_, _, tag)| *tag == [0; TAG_BYTES]);
        };
        let Some((header, sealed)) = datagram.split_first_chunk_mut::<HEADER_BYTES>() else {
            return false;
        };
        let nonce = nonce(iv, packet_number);
        key.open_in_place(nonce, Aad::from(&*header), sealed).is_ok()
    }
}

type Parts<'a> = (&'a mut [u8; HEADER_BYTES], &'a mut [u8], &'a mut [u8; TAG_BYTES]);

fn parts(datagram: &mut [u8]) -> Option<Parts<'_>> {
    let (header, rest) = datagram.split_first_chunk_mut()?;
    let (body, tag) = rest.split_last_chunk_mut()?;
    Some((header, body, tag))
}

/// RFC 9001, section 5.3: the packet number, to the left filled with zeros, added to the IV bit by
/// bit.
fn nonce(iv: &[u8; IV_BYTES], packet_number: u64) -> Nonce {
    let mut nonce = *iv;
    for (byte, number) in nonce[IV_BYTES - 8..].iter_mut().zip(packet_number.to_be_bytes()) {
        *byte ^= number;
    }
    Nonce::assume_unique_for_key(nonce)
}
