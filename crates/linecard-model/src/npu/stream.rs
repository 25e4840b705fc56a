//! Data of connections: bytes that are known at every position, and a digest of what arrived.

use alloc::vec;
use alloc::vec::Vec;
use linecard::rng::Rng;

/// A prime above the longest segment: data shifted by segments never looks right.
const PERIOD: usize = 4_099;
/// The longest piece that lies in one run, in bytes.
pub(super) const MAX_RUN: usize = 1_460;

/// A byte stream for each connection: random bytes of a prime period, at another phase for each.
#[derive(Debug)]
pub(super) struct Stream {
    block: Vec<u8>,
}

impl Stream {
    pub(super) fn new(seed: u64) -> Self {
        let mut block = vec![0; PERIOD + MAX_RUN];
        let (period, copy) = block.split_at_mut(PERIOD);
        Rng::new(seed).fill(period);
        copy.copy_from_slice(&period[..MAX_RUN]);
        Self { block }
    }

    /// `len` bytes, at most [`MAX_RUN`], of a connection from `offset` on.
    pub(super) fn bytes(&self, connection: usize, offset: u64, len: usize) -> &[u8] {
        let phase = connection as u64 * 1_009;
        let start = ((offset + phase) % PERIOD as u64) as usize;
        &self.block[start..][..len.min(MAX_RUN)]
    }
}

/// A hash that depends on every byte and number taken, and on their order: equal results on every
/// machine have equal ones. Not for secrets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Digest(pub(super) u64);

impl Default for Digest {
    fn default() -> Self {
        Self(0xCBF2_9CE4_8422_2325)
    }
}

impl Digest {
    pub(super) fn number(&mut self, number: u64) {
        // FNV's prime; the rotation brings upper bits down.
        self.0 = (self.0 ^ number).wrapping_mul(0x0000_0100_0000_01B3).rotate_left(23);
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        words.iter().for_each(|word| self.number(u64::from_le_bytes(*word)));
        rest.iter().for_each(|byte| self.number((*byte).into()));
        self.number(bytes.len() as u64);
    }
}
