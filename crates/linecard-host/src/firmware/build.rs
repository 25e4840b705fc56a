//! ELF files for tests, made by hand: 32 bits, little endian, RISC-V.

/// Where tests put their code: the kernel under a witness keeps the first page for itself.
pub(crate) const CODE: u32 = 0x1000;
/// Flags of a segment with code.
pub(crate) const EXECUTE: u32 = 5;
/// Flags of a segment with data.
pub(crate) const WRITE: u32 = 6;

const HEADER: usize = 52;
const ROW: usize = 32;

/// An executable that grows; its entry is where its first segment begins.
pub(crate) struct Build {
    segments: Vec<(u32, Vec<u8>, usize, u32)>,
}

impl Build {
    pub(crate) fn executable() -> Self {
        Self { segments: Vec::new() }
    }

    /// A segment of `len` bytes in memory, of which `bytes` are in the file.
    pub(crate) fn segment(mut self, address: u32, bytes: &[u8], len: usize, flags: u32) -> Self {
        self.segments.push((address, bytes.to_vec(), len, flags));
        self
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let entry = self.segments.first().map_or(0, |segment| segment.0);
        let mut file = vec![0x7f, b'E', b'L', b'F', 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        // Executable, RISC-V, version 1.
        file.extend([2, 0, 243, 0, 1, 0, 0, 0]);
        let words = [entry, HEADER as u32, 0, 0];
        file.extend(words.into_iter().flat_map(u32::to_le_bytes));
        let halves = [HEADER as u16, ROW as u16, self.segments.len() as u16, 40, 0, 0];
        file.extend(halves.into_iter().flat_map(u16::to_le_bytes));
        let mut contents = Vec::new();
        let start = 0x1000;
        for (address, bytes, len, flags) in &self.segments {
            let offset = start + contents.len() as u32;
            let row =
                [1, offset, *address, *address, bytes.len() as u32, *len as u32, *flags, 0x1000];
            file.extend(row.into_iter().flat_map(u32::to_le_bytes));
            contents.extend(bytes);
            contents.resize(contents.len().next_multiple_of(0x1000), 0);
        }
        file.resize(start as usize, 0);
        file.extend(contents);
        file
    }
}
