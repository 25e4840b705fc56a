//! Messages in compressed blocks, once both ends have agreed on a version that has them: the messages about a file are
//! like those about the next one, and where nothing has changed they are all that is sent.
//!
//! ```text
//! block  bytes of it uncompressed (u16), bytes that follow (u16), LZ4 block; as it is if both are the same
//! ```

use super::ControlError;

/// Length of the header of a block.
const HEADER_BYTES: usize = 4;
/// The most uncompressed bytes of a block.
pub(super) const MAX_BLOCK_BYTES: usize = u16::MAX as usize;
/// A shorter block is sent as it is.
const SHORT_BYTES: usize = 64;

/// Blocks of both directions.
#[derive(Debug)]
pub(super) struct Packing {
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
        Self { out, held, block: Vec::new() }
    }

    /// Writes one block, of the first of these bytes; how many.
    pub(super) fn pack(&mut self, bytes: &[u8]) -> usize {
        let bytes = &bytes[..bytes.len().min(MAX_BLOCK_BYTES)];
        if bytes.is_empty() {
            return 0;
        }
        let packed = match bytes.len() {
            SHORT_BYTES.. => Some(lz4_flex::block::compress(bytes)),
            _ => None,
        };
        let body = packed.as_deref().filter(|packed| packed.len() < bytes.len()).unwrap_or(bytes);
        self.out.extend((bytes.len() as u16).to_be_bytes());
        self.out.extend((body.len() as u16).to_be_bytes());
        self.out.extend(body);
        bytes.len()
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
            for _ in 0..rng.below(6) {
                let given = bytes(&mut rng);
                let mut rest = &given[..];
                while !rest.is_empty() {
                    rest = &rest[near.pack(rest)..];
                }
                sent.extend(given);
            }
            let mut rest = &near.out[..];
            while !rest.is_empty() {
                let (piece, behind) = rest.split_at(rest.len().min(1 + rng.below(20_000) as usize));
                far.push(piece);
                all(&mut far, &mut came).unwrap();
                rest = behind;
            }
            assert!(came == sent && !far.is_amid(), "seed {seed}");
            assert_eq!(far.pack(&[]), 0);
        }
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
        let mut near = empty();
        let given: Vec<u8> = (0..5_000_u32).map(|at| (at / 7 % 30) as u8).collect();
        assert_eq!(near.pack(&given), given.len());
        assert!(near.out.len() < given.len() / 4, "{}", near.out.len());
        for seed in 0..5_000 {
            let mut rng = Rng::new(seed);
            let mut damaged = near.out.clone();
            for _ in 0..=rng.below(4) {
                let at = rng.below(damaged.len() as u64) as usize;
                damaged[at] = rng.next_u64() as u8;
            }
            let _unpacked = of(&damaged);
        }
    }
}
