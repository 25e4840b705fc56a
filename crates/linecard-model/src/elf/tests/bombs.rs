//! ELF files of some hundred kilobytes whose tables name the same bytes again and again, for tests:
//! read naively they take hundreds of megabytes. The tests of the command use this file as well.

use super::build::{Build, EXECUTE, STRTAB, SYMTAB};

/// The type of sections with bytes of a program.
const PROGBITS: u32 = 1;

/// Sections, which only files with debug information need.
impl Build {
    /// A section that is not loaded, such as `.debug_line`.
    pub(crate) fn section(mut self, name: &'static str, bytes: &[u8]) -> Self {
        self.sections.push((name, PROGBITS, bytes.to_vec()));
        self
    }

    /// Functions of 4 bytes, by the offsets of their names in `strings` and their addresses.
    pub(crate) fn functions(mut self, strings: &[u8], functions: &[(u32, u32)]) -> Self {
        let mut table = vec![0; 16];
        for (name, address) in functions {
            table.extend([*name, *address, 4].into_iter().flat_map(u32::to_le_bytes));
            // A global function, in no section: at an absolute address.
            table.extend([0x12, 0, 0xf1, 0xff]);
        }
        self.sections.push((".strtab", STRTAB, strings.to_vec()));
        self.sections.push((".symtab", SYMTAB, table));
        self
    }
}

/// Units that share a table.
const UNITS: u32 = 400;
/// An unsigned LEB128 number of about 4 billion.
const HUGE: [u8; 5] = [0xff, 0xff, 0xff, 0xff, 0x0f];

/// The special opcode that adds a row a byte and a line further.
const NEXT: u8 = 30;

/// A name, and a program for the core at address 0 with such tables.
pub(crate) fn all(code: &[u8]) -> [(&'static str, Vec<u8>); 8] {
    let plain = Build::executable().segment(0, code, code.len(), EXECUTE);
    [
        ("ranges", ranges(plain.clone())),
        ("rows", rows(plain.clone())),
        ("files", files(plain.clone())),
        ("long paths", paths(plain.clone(), 200_000, 10_000)),
        ("paths", paths(plain.clone(), 1_000, 6_000)),
        ("long symbols", symbols(plain.clone(), 200_000)),
        ("symbols", symbols(plain.clone(), 4_000)),
        ("abbreviations", abbreviations(plain)),
    ]
}

/// Units of DWARF 4 that share 50,000 ranges.
fn ranges(plain: Build) -> Vec<u8> {
    let ranges = (0..50_000_u32).flat_map(|at| [at, at + 1]).chain([0, 0]);
    // A compilation unit without children: DW_AT_ranges.
    let abbrev = [1, 0x11, 0, 0x55, 0x17, 0, 0, 0];
    let unit = unit(&[1, 0, 0, 0, 0]);
    let plain = plain.section(".debug_abbrev", &abbrev).section(".debug_line", &line(&[], &[]));
    let plain = plain.section(".debug_info", &unit.repeat(UNITS as usize));
    plain.section(".debug_ranges", &ranges.flat_map(u32::to_le_bytes).collect::<Vec<_>>()).bytes()
}

/// Units that share a line program of 100,000 rows.
fn rows(plain: Build) -> Vec<u8> {
    // DW_LNE_set_address 0, 100,000 special opcodes (a line and a byte on each), DW_LNE_end_sequence.
    let mut program = vec![0, 5, 2, 0, 0, 0, 0];
    program.extend([NEXT; 100_000]);
    program.extend([0, 1, 1]);
    // DW_AT_stmt_list only: the ranges of a unit are those of its line program.
    let abbrev = [1, 0x11, 0, 0x10, 0x17, 0, 0, 0];
    let unit = unit(&[1, 0, 0, 0, 0]);
    let plain = plain.section(".debug_abbrev", &abbrev);
    let plain = plain.section(".debug_info", &unit.repeat(UNITS as usize));
    plain.section(".debug_line", &line(b"a.c\0\0\0\0", &program)).bytes()
}

/// A line program of DWARF 5 that claims 4 billion files, with bytes for 300,000.
fn files(plain: Build) -> Vec<u8> {
    let mut header = vec![1, 1, 1, 0xfb, 14, 10, 0, 1, 1, 1, 1, 0, 0, 0, 1];
    // No folders; files with a name each (DW_LNCT_path, DW_FORM_string), which is empty.
    header.extend([0, 0, 1, 1, 8]);
    header.extend(HUGE);
    header.resize(header.len() + 300_000, 0);
    let mut body = [5_u16.to_le_bytes(), [4, 0]].concat();
    body.extend((header.len() as u32).to_le_bytes());
    body.extend(header);
    plain.section(".debug_line", &framed(&body)).bytes()
}

/// Files of DWARF 4, each with a row, in a folder with a long name.
fn paths(plain: Build, folder: usize, files: u32) -> Vec<u8> {
    let mut tables = vec![b'd'; folder];
    tables.extend([0, 0]);
    let mut program = vec![0, 5, 2, 0, 0, 0, 0];
    for number in 1..=files {
        tables.extend(format!("{number:x}\0").as_bytes());
        tables.extend([1, 0, 0]);
        // DW_LNS_set_file, then a row.
        program.extend([4, number as u8 & 0x7f | 0x80, (number >> 7) as u8, NEXT]);
    }
    tables.push(0);
    program.extend([0, 1, 1]);
    let bytes = framed(&line_body(&tables, &program));
    plain.section(".debug_line", &bytes).bytes()
}

/// 10,000 functions whose names are the ends of a long one.
fn symbols(plain: Build, longest: usize) -> Vec<u8> {
    let strings = [vec![0], vec![b'f'; longest], vec![0]].concat();
    let functions: Vec<_> = (0..10_000).map(|number| (number % 1_000 + 1, number * 4)).collect();
    plain.functions(&strings, &functions).bytes()
}

/// 10,000 units that share a table of 50,000 abbreviations.
fn abbreviations(plain: Build) -> Vec<u8> {
    let mut abbrev = Vec::new();
    for code in 1..=50_000_u32 {
        let [low, middle, high] = [code, code >> 7, code >> 14].map(|part| part as u8 & 0x7f);
        abbrev.extend([low | 0x80, middle | 0x80, high, 0x11, 0, 0, 0]);
    }
    abbrev.push(0);
    let plain = plain.section(".debug_abbrev", &abbrev).section(".debug_line", &line(&[], &[]));
    plain.section(".debug_info", &unit(&[1]).repeat(10_000)).bytes()
}

/// A unit of DWARF 4 with these bytes.
fn unit(entry: &[u8]) -> Vec<u8> {
    let mut body = vec![4, 0, 0, 0, 0, 0, 4];
    body.extend(entry);
    framed(&body)
}

/// A line table of DWARF 4 without folders: its files, its program.
fn line(files: &[u8], program: &[u8]) -> Vec<u8> {
    framed(&line_body(&[&[0], files, &[0]].concat(), program))
}

fn line_body(tables: &[u8], program: &[u8]) -> Vec<u8> {
    let mut header = vec![1, 1, 1, 0xfb, 14, 10, 0, 1, 1, 1, 1, 0, 0, 0, 1];
    header.extend(tables);
    let mut body = vec![4, 0];
    body.extend((header.len() as u32).to_le_bytes());
    body.extend(header);
    body.extend(program);
    body
}

/// Bytes behind their length.
fn framed(body: &[u8]) -> Vec<u8> {
    [&(body.len() as u32).to_le_bytes()[..], body].concat()
}
