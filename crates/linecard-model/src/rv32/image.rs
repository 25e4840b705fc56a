//! The contents of a core's memories at reset.

use super::config::{Config, DATA_AT, MAX_MEMORY, Timing};
use alloc::vec;
use alloc::vec::Vec;

/// A program: the contents of its memories at reset, and its entry point.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Image {
    /// Address of the first instruction.
    pub entry: u32,
    /// The contents, loaded in this order. All other bytes are 0.
    pub segments: Vec<Segment>,
}

/// Contiguous bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// Address of the first byte.
    pub address: u32,
    /// The bytes.
    pub bytes: Vec<u8>,
}

impl Image {
    /// Instructions from address 0, where the program begins.
    #[must_use]
    pub fn of_code(words: &[u32]) -> Self {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        Self::flat(&bytes)
    }

    /// Bytes of instructions from address 0, where the program begins.
    pub(crate) fn flat(bytes: &[u8]) -> Self {
        Self { entry: 0, segments: vec![Segment { address: 0, bytes: bytes.to_vec() }] }
    }
}

/// Why an image cannot be loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// A number of cycles outside its range.
    #[error("{0:?}: give 1 to {max} cycles for each", max = Timing::MAX_CYCLES)]
    Timing(Timing),
    /// An invalid memory size.
    #[error(
        "a memory of {0} bytes: give a multiple of 4 from 4 to {MAX_MEMORY} for instructions and \
         for data"
    )]
    Memory(u32),
    /// A segment that does not fit one memory.
    #[error(
        "a segment of {len} bytes at {address:#010x}: it has to lie in the instruction memory \
         (0 to {imem_end:#x}) or in the data memory ({DATA_AT:#x} to {dmem_end:#x}); link it there"
    )]
    Segment {
        /// Where it begins.
        address: u32,
        /// How long it is.
        len: usize,
        /// The first address behind the instruction memory.
        imem_end: u32,
        /// The first address behind the data memory.
        dmem_end: u32,
    },
    /// Nothing to begin with.
    #[error("the entry {0:#010x} is not a multiple of 4 inside the loaded code")]
    Entry(u32),
}

/// The bytes of both memories at reset: instructions as far as any are loaded, all data.
pub(super) fn lay_out(image: &Image, config: &Config) -> Result<(Vec<u8>, Vec<u8>), LoadError> {
    for bytes in [config.imem_bytes, config.dmem_bytes] {
        if bytes == 0 || bytes > MAX_MEMORY || !bytes.is_multiple_of(4) {
            return Err(LoadError::Memory(bytes));
        }
    }
    let mut code = vec![0; config.imem_bytes as usize];
    let mut data = vec![0; config.dmem_bytes as usize];
    let mut code_end = 0;
    for Segment { address, bytes } in &image.segments {
        let (memory, base) = if *address < DATA_AT { (&mut code, 0) } else { (&mut data, DATA_AT) };
        let start = (address - base) as usize;
        let place = memory.get_mut(start..).and_then(|rest| rest.get_mut(..bytes.len()));
        let Some(place) = place else {
            return Err(LoadError::Segment {
                address: *address,
                len: bytes.len(),
                imem_end: config.imem_bytes,
                dmem_end: DATA_AT + config.dmem_bytes,
            });
        };
        place.copy_from_slice(bytes);
        if base == 0 {
            code_end = code_end.max(start + bytes.len());
        }
    }
    code.truncate(code_end.next_multiple_of(4));
    if !image.entry.is_multiple_of(4) || image.entry as usize >= code.len() {
        return Err(LoadError::Entry(image.entry));
    }
    Ok((code, data))
}
