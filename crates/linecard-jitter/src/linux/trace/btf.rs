//! Field offsets of the kernel's structures, from the BTF data in `/sys/kernel/btf/vmlinux`.
//!
//! Offsets differ between kernel builds; a program that reads kernel memory looks them up here.
//!
//! Source: the kernel's Documentation/bpf/btf.rst.

use std::fs;
use std::io;

/// The kernel's own types.
const PATH: &str = "/sys/kernel/btf/vmlinux";
/// Magic number of the file.
const MAGIC: u16 = 0xEB9F;
/// Maximum length of the file that is read: ten times that of usual kernels.
const MAX_LEN: usize = 64 << 20;
/// Maximum nesting of anonymous structures.
const MAX_DEPTH: usize = 8;
/// Type kinds from `linux/btf.h`.
const STRUCT: u32 = 4;
const UNION: u32 = 5;

/// Why offsets are not available.
#[derive(Debug, thiserror::Error)]
pub enum BtfError {
    /// The file cannot be read.
    #[error("{PATH} cannot be read ({0}): a kernel with CONFIG_DEBUG_INFO_BTF is needed")]
    Read(#[from] io::Error),
    /// It violates the format.
    #[error("{PATH} is not understood at byte {at}")]
    Malformed {
        /// Offset of the error.
        at: usize,
    },
    /// This kernel has no such field.
    #[error("this kernel's `{of}` has no `{field}`")]
    Missing {
        /// The structure.
        of: &'static str,
        /// The field.
        field: &'static str,
    },
}

/// The kernel's type information.
pub(super) struct Btf {
    bytes: Vec<u8>,
    /// Offset of each type's description, by type id less one.
    types: Vec<usize>,
    strings: usize,
}

impl Btf {
    /// Reads the BTF data of the running kernel.
    pub(super) fn read() -> Result<Self, BtfError> {
        Self::parse(fs::read(PATH)?)
    }

    fn parse(bytes: Vec<u8>) -> Result<Self, BtfError> {
        let mut btf = Self { bytes, types: Vec::new(), strings: 0 };
        let magic = (btf.word(0)? & 0xFFFF) as u16;
        if magic != MAGIC || btf.bytes.len() > MAX_LEN {
            return Err(BtfError::Malformed { at: 0 });
        }
        let header = btf.word(4)? as usize;
        let [types, types_len, strings] = [8, 12, 16].map(|at| btf.word(at));
        let (mut at, end) = (header + types? as usize, header + types_len? as usize);
        btf.strings = header + strings? as usize;
        while at < end {
            btf.types.push(at);
            at += 12 + btf.rest(at)?;
        }
        Ok(btf)
    }

    /// Offset of a field in a structure, in bytes.
    pub(super) fn offset(&self, of: &'static str, field: &'static str) -> Result<u32, BtfError> {
        for &at in &self.types {
            if self.kind(at)? == STRUCT && self.is_named(self.word(at)?, of) {
                let found = self.find(at, field, MAX_DEPTH)?;
                return found.ok_or(BtfError::Missing { of, field });
            }
        }
        Err(BtfError::Missing { of, field })
    }

    /// Searches a structure and its anonymous members.
    fn find(&self, of: usize, field: &str, depth: usize) -> Result<Option<u32>, BtfError> {
        let has_bit_fields = self.word(of + 4)? >> 31 == 1;
        for member in (0..self.count(of)?).map(|index| of + 12 + 12 * index) {
            let (name, offset) = (self.word(member)?, self.word(member + 8)?);
            let bits = if has_bit_fields { offset & 0x00FF_FFFF } else { offset };
            if self.is_named(name, field) {
                return Ok(Some(bits / 8));
            }
            if name != 0 || depth == 0 {
                continue;
            }
            let inner = self.types.get((self.word(member + 4)? as usize).wrapping_sub(1));
            let Some(&inner) = inner else { continue };
            if !matches!(self.kind(inner)?, STRUCT | UNION) {
                continue;
            }
            if let Some(found) = self.find(inner, field, depth - 1)? {
                return Ok(Some(bits / 8 + found));
            }
        }
        Ok(None)
    }

    /// Bytes of a type description after the first twelve.
    fn rest(&self, at: usize) -> Result<usize, BtfError> {
        let count = self.count(at)?;
        Ok(match self.kind(at)? {
            1 | 14 | 17 => 4,
            3 => 12,
            STRUCT | UNION | 15 | 19 => 12 * count,
            6 | 13 => 8 * count,
            2 | 7..=12 | 16 | 18 => 0,
            _ => return Err(BtfError::Malformed { at }),
        })
    }

    fn kind(&self, at: usize) -> Result<u32, BtfError> {
        Ok(self.word(at + 4)? >> 24 & 0x1F)
    }

    fn count(&self, at: usize) -> Result<usize, BtfError> {
        Ok((self.word(at + 4)? & 0xFFFF) as usize)
    }

    fn word(&self, at: usize) -> Result<u32, BtfError> {
        let bytes = self.bytes.get(at..).and_then(|bytes| bytes.first_chunk());
        bytes.map(|bytes| u32::from_ne_bytes(*bytes)).ok_or(BtfError::Malformed { at })
    }

    fn is_named(&self, name: u32, wanted: &str) -> bool {
        let rest = self.bytes.get(self.strings.saturating_add(name as usize)..).unwrap_or_default();
        rest.starts_with(wanted.as_bytes()) && rest.get(wanted.len()) == Some(&0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `struct a { int x; union { int y; struct { short p, q; }; }; }`, by hand.
    fn small() -> Vec<u8> {
        let strings = b"\0a\0x\0y\0p\0q\0int\0";
        let word = |n: u32| n.to_ne_bytes();
        let info = |kind: u32, count: u32| kind << 24 | count;
        let types: Vec<[u8; 4]> = [
            [11, info(1, 0), 4].as_slice(),
            &[0x20],
            &[0, info(STRUCT, 2), 4, 7, 1, 0, 9, 1, 16],
            &[0, info(UNION, 2), 4, 5, 1, 0, 0, 2, 0],
            &[1, info(STRUCT, 2), 8, 3, 1, 0, 0, 3, 32],
        ]
        .concat()
        .into_iter()
        .map(word)
        .collect();
        let len = types.len() as u32 * 4;
        let header = [u32::from(MAGIC) | 1 << 16, 24, 0, len, len, strings.len() as u32].map(word);
        [header.concat(), types.concat(), strings.to_vec()].concat()
    }

    #[test]
    fn fields_are_found_through_structures_without_a_name() {
        let btf = Btf::parse(small()).expect("well made");
        for (field, offset) in [("x", 0), ("y", 4), ("p", 4), ("q", 6)] {
            assert_eq!(btf.offset("a", field).expect(field), offset);
        }
        assert!(matches!(btf.offset("a", "z"), Err(BtfError::Missing { of: "a", field: "z" })));
    }

    #[test]
    fn damage_is_an_error() {
        let whole = small();
        for len in 0..whole.len() {
            // Cut strings are other names; nothing else may pass, and nothing may stop the program.
            let _any = Btf::parse(whole[..len].to_vec()).and_then(|btf| btf.offset("a", "q"));
        }
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 0xFF;
            let _any = Btf::parse(damaged).and_then(|btf| btf.offset("a", "q"));
        }
    }
}
