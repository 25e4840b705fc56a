//! ELF files for tests, made by hand: 32 bits, little endian, RISC-V. The tests of the command use
//! this file as well.

/// Where tests put their code: the kernel under a witness keeps the first page for itself.
pub(crate) const CODE: u32 = 0x1000;
/// Flags of a segment with code.
pub(crate) const EXECUTE: u32 = 5;
/// Flags of a segment with data.
pub(crate) const WRITE: u32 = 6;

const HEADER: usize = 52;
const ROW: usize = 32;
/// Types of sections.
pub(crate) const SYMTAB: u32 = 2;
pub(crate) const STRTAB: u32 = 3;

/// An executable that grows; its entry is where its first segment begins.
#[derive(Clone)]
pub(crate) struct Build {
    segments: Vec<(u32, Vec<u8>, usize, u32)>,
    /// Name, type and bytes.
    pub(crate) sections: Vec<(&'static str, u32, Vec<u8>)>,
}

impl Build {
    pub(crate) fn executable() -> Self {
        Self { segments: Vec::new(), sections: Vec::new() }
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
        if !self.sections.is_empty() {
            self.add_sections(&mut file);
        }
        file
    }

    fn add_sections(&self, file: &mut Vec<u8>) {
        let names = ["", ".shstrtab"].into_iter().chain(self.sections.iter().map(|one| one.0));
        let names: Vec<u8> = names.flat_map(|name| name.bytes().chain([0])).collect();
        let mut rows = vec![0_u8; 40];
        let mut name = 1;
        let named = [(".shstrtab", STRTAB, names)];
        for (at, (title, kind, bytes)) in named.iter().chain(&self.sections).enumerate() {
            file.resize(file.len().next_multiple_of(4), 0);
            // A table of symbols has its strings in the section before it.
            let [link, row] = if *kind == SYMTAB { [at as u32, 16] } else { [0, 0] };
            let (place, len) = (file.len() as u32, bytes.len() as u32);
            let row = [name, *kind, 0, 0, place, len, link, 0, 1, row];
            rows.extend(row.into_iter().flat_map(u32::to_le_bytes));
            file.extend(bytes);
            name += title.len() as u32 + 1;
        }
        file.resize(file.len().next_multiple_of(4), 0);
        let place = (file.len() as u32).to_le_bytes();
        file[32..36].copy_from_slice(&place);
        file[48] = (rows.len() / 40) as u8;
        file[50] = 1;
        file.extend(rows);
    }
}
