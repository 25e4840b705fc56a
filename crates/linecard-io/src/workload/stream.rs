//! The test data that applications send: the byte at every position is known.

use linecard::rng::Rng;

/// Period of the stream: a prime above 64 KiB, so that data shifted by a segment, a page or a
/// large send never looks right.
const PERIOD: usize = 65_537;
/// The longest contiguous range.
pub(super) const MAX_RUN: usize = 65_536;

/// A byte stream per flow: random bytes with a prime period, at a different phase for every flow.
#[derive(Debug, Clone)]
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

    /// `len` bytes, at most [`MAX_RUN`], of the stream of `flow` from `offset` on.
    pub(super) fn bytes(&self, flow: usize, offset: u64, len: usize) -> &[u8] {
        // Phases of neighbouring flows are far apart.
        let phase = flow as u64 * 7_919;
        let start = ((offset + phase) % PERIOD as u64) as usize;
        &self.block[start..start + len]
    }
}
