//! Messages in compressed blocks, once both ends have agreed on a version that has them: the messages about a file are
//! like those about the next one, and where nothing has changed they are all that is sent.
//!
//! ```text
//! block  bytes of it uncompressed (u16), bytes that follow (u16), LZ4 block; as it is if both are the same
//! ```
//!
//! Messages with hashes have blocks of their own, as they are: hashes do not become shorter, but one that occurs twice
//! would. Who adds files to a tree, and sees the lengths of records, could so find out what is in another file.

use super::ControlError;
use std::collections::VecDeque;

/// Length of the header of a block.
const HEADER_BYTES: usize = 4;
/// The most uncompressed bytes of a block.
pub(super) const MAX_BLOCK_BYTES: usize = u16::MAX as usize;
/// A shorter block is sent as it is.
const SHORT_BYTES: usize = 64;

/// Messages that follow each other.
#[derive(Debug)]
struct Run {
    bytes: usize,
    has_hash: bool,
}

/// Blocks of both directions.
#[derive(Debug)]
pub(super) struct Packing {
    /// Messages that are in no block yet.
    runs: VecDeque<Run>,
    /// Written blocks that the transport has not taken.
    pub(super) out: Vec<u8>,
    /// Bytes that have come, at most a block and a read.
    held: Vec<u8>,
    /// The last block, uncompressed.
    block: Vec<u8>,
}

impl Packing {
    /// `out` is sent before the first block, `held` has come of the first one.
    pub(super) fn new(out: Vec<u8>, held: Vec<u8>) -> Self {
        Self { runs: VecDeque::new(), out, held, block: Vec::new() }
    }

    /// A message of so many bytes waits.
    pub(super) fn note(&mut self, bytes: usize, has_hash: bool) {
        match self.runs.back_mut().filter(|run| run.has_hash == has_hash) {
            Some(run) => run.bytes += bytes,
            None => self.runs.push_back(Run { bytes, has_hash }),
        }
    }

    /// Writes blocks of the first of the messages that wait, which are those noted.
    pub(super) fn pack(&mut self, waiting: &mut Vec<u8>) {
        let mut rest = &waiting[..];
        while self.out.len() < MAX_BLOCK_BYTES
            && let Some(run) = self.runs.front_mut()
        {
            let (block, behind) = rest.split_at(run.bytes.min(MAX_BLOCK_BYTES));
            let is_packed = !run.has_hash && block.len() >= SHORT_BYTES;
            run.bytes -= block.len();
            if run.bytes == 0 {
                self.runs.pop_front();
            }
            let packed = is_packed.then(|| lz4_flex::block::compress(block));
            let body = packed.as_deref().filter(|packed| packed.len() < block.len());
            let body = body.unwrap_or(block);
            self.out.extend((block.len() as u16).to_be_bytes());
            self.out.extend((body.len() as u16).to_be_bytes());
            self.out.extend(body);
            rest = behind;
        }
        let taken = waiting.len() - rest.len();
        waiting.drain(..taken);
    }

    /// Takes bytes that have come.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.held.extend(bytes);
    }

    /// Whether part of a block has come, so that closing would cut it.
    pub(super) const fn is_amid(&self) -> bool {
        !self.held.is_empty()
    }

    /// The next block, if it has come: at most [`MAX_BLOCK_BYTES`].
    pub(super) fn unpack(&mut self) -> Result<Option<&[u8]>, ControlError> {
        let Some((&[a, b, c, d], rest)) = self.held.split_first_chunk::<HEADER_BYTES>() else {
            return Ok(None);
        };
        let [bytes, body] = [[a, b], [c, d]].map(|two| usize::from(u16::from_be_bytes(two)));
        if bytes == 0 || body > bytes {
            return Err(ControlError::Packed);
        }
        let Some(packed) = rest.get(..body) else { return Ok(None) };
        self.block.resize(bytes, 0);
        if body == bytes {
            self.block.copy_from_slice(packed);
        } else {
            let unpacked = lz4_flex::block::decompress_into(packed, &mut self.block);
            if unpacked.ok() != Some(bytes) {
                return Err(ControlError::Packed);
            }
        }
        self.held.drain(..HEADER_BYTES + body);
        Ok(Some(&self.block))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linecard::rng::Rng;

    fn empty() -> Packing {
        Packing::new(Vec::new(), Vec::new())
    }

    /// Bytes like those of messages, or unlike anything.
    fn bytes(rng: &mut Rng) -> Vec<u8> {
        let mut bytes = vec![0; rng.below(200_000) as usize];
        if rng.chance(0.5) {
            rng.fill(&mut bytes);
        } else {
            bytes.iter_mut().enumerate().for_each(|(at, byte)| *byte = (at / 7 % 30) as u8);
        }
        bytes.truncate(if rng.chance(0.3) { rng.below(200) as usize } else { bytes.len() });
        bytes
    }

    fn all(packing: &mut Packing, into: &mut Vec<u8>) -> Result<(), ControlError> {
        while let Some(block) = packing.unpack()? {
            assert!(!block.is_empty() && block.len() <= MAX_BLOCK_BYTES);
            into.extend(block);
        }
        Ok(())
    }

    #[test]
    fn bytes_come_back_in_whatever_pieces_they_arrive() {
        for seed in 0..200 {
            let mut rng = Rng::new(seed);
            let (mut near, mut far) = (empty(), empty());
            let (mut sent, mut came) = (Vec::new(), Vec::new());
            let (mut waiting, mut out) = (Vec::new(), Vec::new());
            for _ in 0..rng.below(6) {
                for _ in 0..rng.below(4) {
                    let given = bytes(&mut rng);
                    if !given.is_empty() {
                        near.note(given.len(), rng.chance(0.5));
                        waiting.extend(&given);
                    }
                    sent.extend(given);
                }
                near.pack(&mut waiting);
                out.append(&mut near.out);
            }
            while !waiting.is_empty() {
                near.pack(&mut waiting);
                assert!(near.out.len() <= 2 * (HEADER_BYTES + MAX_BLOCK_BYTES));
                out.append(&mut near.out);
            }
            let mut rest = &out[..];
            while !rest.is_empty() {
                let (piece, behind) = rest.split_at(rest.len().min(1 + rng.below(20_000) as usize));
                far.push(piece);
                all(&mut far, &mut came).unwrap();
                rest = behind;
            }
            assert!(came == sent && !far.is_amid(), "seed {seed}");
            near.pack(&mut Vec::new());
            assert!(near.out.is_empty());
        }
    }

    fn packed(messages: &[(&[u8], bool)]) -> Vec<u8> {
        let (mut packing, mut waiting) = (empty(), Vec::new());
        for (message, has_hash) in messages {
            waiting.extend(*message);
            packing.note(message.len(), *has_hash);
        }
        packing.pack(&mut waiting);
        assert!(waiting.is_empty());
        packing.out
    }

    /// A file that somebody adds, as a guess at what is in another, shows nothing by the length of blocks.
    #[test]
    fn equal_hashes_are_as_long_as_different_ones() {
        let of = |name: &[u8; 100], hash: [u8; 32]| {
            packed(&[(name, false), (&hash, true), (name, false), (&[7; 32], true)])
        };
        let length = 4 * HEADER_BYTES + 2 * 32;
        let names = packed(&[(&[1; 100], false)]).len() - HEADER_BYTES;
        assert!(names < 50, "names become shorter");
        for hash in [[7; 32], [8; 32]] {
            assert_eq!(of(&[1; 100], hash).len(), length + 2 * names);
        }
        // One after the other.
        let of = |hash: [u8; 32]| packed(&[(&hash, true), (&[7; 32], true)]).len();
        assert_eq!(of([7; 32]), of([8; 32]));
    }

    #[test]
    fn a_block_that_does_not_give_its_bytes_is_an_error() {
        let of = |bytes: &[u8]| {
            let mut packing = empty();
            packing.push(bytes);
            packing.unpack().map(|block| block.map(<[u8]>::to_vec))
        };
        assert!(of(&[0, 0, 0, 0]).is_err() && of(&[0, 1, 0, 2]).is_err());
        assert!(of(&[0, 9, 0, 1, 0]).is_err(), "it gives too little");
        assert!(matches!(of(&[0, 2, 0, 2, 7, 8]), Ok(Some(block)) if block == [7, 8]));
        assert!(matches!(of(&[0, 2, 0]), Ok(None)));
        // Damaged ones: the same length, or an error.
        let given: Vec<u8> = (0..5_000_u32).map(|at| (at / 7 % 30) as u8).collect();
        let block = packed(&[(&given, false)]);
        assert!(block.len() < given.len() / 4, "{}", block.len());
        for seed in 0..5_000 {
            let mut rng = Rng::new(seed);
            let mut damaged = block.clone();
            for _ in 0..=rng.below(4) {
                let at = rng.below(damaged.len() as u64) as usize;
                damaged[at] = rng.next_u64() as u8;
            }
            let _unpacked = of(&damaged);
        }
    }
}
