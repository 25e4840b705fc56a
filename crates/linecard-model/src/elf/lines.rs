//! Maps instructions to source lines by the DWARF line tables.
//!
//! The programs of `.debug_line` are read one after the other, each once, instead of unit by unit:
//! a few hundred bytes of units can refer to the same ranges, line program or strings many times,
//! so that a small file could take any amount of memory. Work and memory are bounded by the
//! constants below, regardless of the file; entries beyond a bound have no lines.
//!
//! Sources: DWARF 5, sections 6.2 (line tables), 7.5 (units); DWARF 4, section 6.2.

use super::text_at;
use crate::rv32::DATA_AT;
use gimli::{
    AttributeValue, DebugAbbrev, DebugInfo, DebugLine, DebugLineOffset, EndianSlice, LineRow,
    LittleEndian, UnitHeader,
};
use object::read::elf::ElfFile32;
use object::{Object as _, ObjectSection as _};
use std::collections::{BTreeMap, HashMap};

/// The most ranges kept: four for each instruction that fits in memory. A regular table has one or
/// two.
pub(super) const MAX_RANGES: usize = DATA_AT as usize;

/// The part of `.debug_line` that is read: 16,384 instructions take about 200 KB.
const MAX_SECTION: usize = 4 << 20;
/// The longest line program of a unit, header included.
const MAX_PROGRAM: usize = 1 << 20;
/// The longest header of a line program: 10,000 files of DWARF 5. A file takes 25 times as much
/// memory as in the header.
const MAX_HEADER: usize = 64 << 10;
/// The longest name of a file or folder.
const MAX_NAME: usize = 1 << 10;
/// Bytes of all paths that are put together.
const MAX_PATHS: usize = 4 << 20;
/// Units whose compilation folder is looked up, which line tables before DWARF 5 do not have.
const MAX_UNITS: usize = 1 << 10;
/// The longest table of abbreviations of such a unit.
const MAX_ABBREVIATIONS: usize = 16 << 10;

type Slice<'data> = EndianSlice<'data, LittleEndian>;
type Header<'data> = gimli::LineProgramHeader<Slice<'data>>;

/// Lines of a program's instructions, empty without debug information.
#[derive(Debug, Clone, Default)]
pub(super) struct Lines {
    files: Vec<String>,
    /// By address, not overlapping.
    ranges: Vec<Range>,
}

#[derive(Debug, Clone, Copy)]
struct Range {
    start: u32,
    end: u32,
    file: usize,
    line: u32,
}

impl Lines {
    /// Reads as much as possible: a program runs without line information.
    pub(super) fn read(elf: &ElfFile32<'_>) -> Self {
        let sections = Sections::of(elf);
        let mut reading = Reading::default();
        let mut folders = None;
        for program in sections.programs() {
            let version = program.bytes.get(4..6).map_or(0, |bytes| bytes[0]);
            let folder = (version < 5).then(|| {
                let folders: &BTreeMap<_, _> = folders.get_or_insert_with(|| sections.folders());
                folders.get(&program.offset).copied()
            });
            // A damaged program only loses its own lines.
            let _ = reading.program(&sections, program.bytes, folder.flatten());
            if reading.ranges.len() >= MAX_RANGES {
                break;
            }
        }
        let Reading { files, mut ranges, .. } = reading;
        ranges.sort_by_key(|range| range.start);
        Self { files, ranges }
    }

    pub(super) fn find(&self, pc: u32) -> Option<(&str, u32)> {
        let next = self.ranges.partition_point(|range| range.start <= pc);
        let range = self.ranges.get(next.checked_sub(1)?)?;
        let file = self.files.get(range.file)?;
        (pc < range.end).then_some((file.as_str(), range.line))
    }

    /// Number of ranges and bytes of paths stored.
    #[cfg(test)]
    pub(super) fn size(&self) -> (usize, usize) {
        (self.ranges.len(), self.files.iter().map(String::len).sum())
    }
}

/// The sections of debug information that lines need.
#[derive(Debug)]
struct Sections<'data> {
    line: &'data [u8],
    info: &'data [u8],
    abbrev: &'data [u8],
    strings: &'data [u8],
    line_strings: &'data [u8],
}

/// A line program: where it begins in its section, and its bytes.
struct Program<'data> {
    offset: usize,
    bytes: &'data [u8],
}

impl<'data> Sections<'data> {
    fn of(elf: &ElfFile32<'data>) -> Self {
        let section = |name: &str| {
            // Compressed sections count as missing.
            let plain = |range: object::CompressedFileRange| {
                range.format == object::CompressionFormat::None
            };
            let found = elf.section_by_name(name)?;
            let data = found.compressed_file_range().is_ok_and(plain).then(|| found.data().ok());
            data.flatten()
        };
        let section = |name| section(name).unwrap_or_default();
        let line = section(".debug_line");
        Self {
            line: line.get(..MAX_SECTION).unwrap_or(line),
            info: section(".debug_info"),
            abbrev: section(".debug_abbrev"),
            strings: section(".debug_str"),
            line_strings: section(".debug_line_str"),
        }
    }

    /// Line programs in their order, without those that are too long.
    fn programs(&self) -> impl Iterator<Item = Program<'data>> {
        let (section, mut offset) = (self.line, 0);
        let all = std::iter::from_fn(move || {
            let rest = section.get(offset..)?;
            // 64-bit DWARF does not occur in a 32-bit file.
            let len = u32::from_le_bytes(*rest.first_chunk()?) as usize;
            let program = Program { offset, bytes: rest.get(..len.checked_add(4)?)? };
            offset += program.bytes.len();
            Some(program)
        });
        all.filter(|program| program.bytes.len() <= MAX_PROGRAM && header_fits(program.bytes))
    }

    /// The compilation folder of each unit, by where its line program begins.
    fn folders(&self) -> BTreeMap<usize, Slice<'data>> {
        let info = DebugInfo::new(self.info, LittleEndian);
        let mut units = info.units();
        let all = std::iter::from_fn(|| units.next().ok().flatten());
        all.take(MAX_UNITS).filter_map(|unit| self.folder(&unit).ok().flatten()).collect()
    }

    /// The offset of a unit's line program, and the folder that its compiler ran in.
    fn folder(
        &self,
        unit: &UnitHeader<Slice<'data>>,
    ) -> gimli::Result<Option<(usize, Slice<'data>)>> {
        let end = unit.debug_abbrev_offset().0.saturating_add(MAX_ABBREVIATIONS);
        let abbrev = self.abbrev.get(..end).unwrap_or(self.abbrev);
        let abbreviations = unit.abbreviations(&DebugAbbrev::new(abbrev, LittleEndian))?;
        let mut entries = unit.entries_raw(&abbreviations, None)?;
        let Some(root) = entries.read_abbreviation()? else { return Ok(None) };
        let (mut program, mut folder) = (None, None);
        for spec in root.attributes() {
            let attribute = entries.read_attribute(*spec)?;
            match (attribute.name(), attribute.value()) {
                (gimli::DW_AT_stmt_list, AttributeValue::DebugLineRef(at)) => program = Some(at.0),
                (gimli::DW_AT_comp_dir, value) => folder = self.string(value),
                _ => {}
            }
        }
        Ok(program.zip(folder.map(|folder| EndianSlice::new(folder, LittleEndian))))
    }

    fn string(&self, value: AttributeValue<Slice<'data>>) -> Option<&'data [u8]> {
        match value {
            AttributeValue::String(bytes) => Some(bytes.slice()),
            AttributeValue::DebugStrRef(at) => text_at(self.strings, at.0, MAX_NAME),
            AttributeValue::DebugLineStrRef(at) => text_at(self.line_strings, at.0, MAX_NAME),
            _ => None,
        }
        .filter(|text| text.len() <= MAX_NAME)
    }

    /// The path of a file: the folder of the compilation, the file's own, its name.
    fn path(&self, header: &Header<'data>, index: u64) -> Option<String> {
        let file = header.file(index)?;
        let mut path = String::new();
        let own = Some(file.directory_index()).filter(|index| *index != 0);
        for folder in [Some(0), own].into_iter().flatten() {
            if let Some(folder) = header.directory(folder).and_then(|value| self.string(value)) {
                push(&mut path, std::str::from_utf8(folder).ok()?);
            }
        }
        push(&mut path, std::str::from_utf8(self.string(file.path_name())?).ok()?);
        Some(path)
    }
}

/// Whether the header of a line program is short enough for its tables to be read.
fn header_fits(program: &[u8]) -> bool {
    let version = program.get(4..).and_then(<[u8]>::first_chunk).map(|it| u16::from_le_bytes(*it));
    let field = if version == Some(5) { 8 } else { 6 };
    let length = program.get(field..).and_then(<[u8]>::first_chunk);
    length.is_some_and(|length| u32::from_le_bytes(*length) as usize <= MAX_HEADER)
}

/// Appends a name to a path; an absolute one replaces it.
fn push(path: &mut String, name: &str) {
    let absolute = name.starts_with(['/', '\\']) || matches!(name.get(1..3), Some(":/" | ":\\"));
    if absolute {
        path.clear();
    } else if !path.is_empty() && !path.ends_with(['/', '\\']) {
        path.push('/');
    }
    path.push_str(name);
}

/// Lines as far as they have been read.
#[derive(Debug, Default)]
struct Reading {
    files: Vec<String>,
    ranges: Vec<Range>,
    numbers: HashMap<String, usize>,
    /// Bytes of the paths that were put together.
    paths: usize,
}

/// A row of a line table.
#[derive(Debug, Clone, Copy)]
struct Row {
    address: u64,
    /// Its file and line, if it has them.
    place: Option<(usize, u32)>,
}

impl Reading {
    /// One line program: its sequences, each of rows with rising addresses.
    fn program<'data>(
        &mut self,
        sections: &Sections<'data>,
        bytes: &'data [u8],
        folder: Option<Slice<'data>>,
    ) -> gimli::Result<()> {
        let table = DebugLine::new(bytes, LittleEndian);
        let program = table.program(DebugLineOffset(0), 4, folder, None)?;
        let (mut rows, mut known) = (program.rows(), HashMap::new());
        let mut sequence = Vec::new();
        while let Some((header, row)) = rows.next_row()? {
            if row.end_sequence() {
                self.close(&mut sequence, row.address());
            } else if sequence.len() < MAX_RANGES {
                let file = self.file(sections, header, row.file_index(), &mut known);
                add(&mut sequence, row, file);
            }
        }
        Ok(())
    }

    /// The number of a row's file. `known` has those of this program.
    fn file<'data>(
        &mut self,
        sections: &Sections<'data>,
        header: &Header<'data>,
        index: u64,
        known: &mut HashMap<u64, Option<usize>>,
    ) -> Option<usize> {
        if let Some(known) = known.get(&index) {
            return *known;
        }
        // A number without a file is not stored, because a program can contain any of them.
        header.file(index)?;
        let path = (self.paths < MAX_PATHS).then(|| sections.path(header, index)).flatten();
        let number = path.map(|path| {
            self.paths += path.len();
            *self.numbers.entry(path).or_insert_with_key(|path| {
                self.files.push(path.clone());
                self.files.len() - 1
            })
        });
        known.insert(index, number);
        number
    }

    /// Takes the rows of a sequence that ends at `end`.
    fn close(&mut self, sequence: &mut Vec<Row>, end: u64) {
        let limit = |address: u64| address.min(u64::from(DATA_AT)) as u32;
        let ends = sequence.iter().skip(1).map(|row| row.address).chain([end]);
        for (row, end) in sequence.iter().zip(ends) {
            let (start, end) = (limit(row.address), limit(end));
            if self.ranges.len() == MAX_RANGES {
                break;
            }
            if let Some((file, line)) = row.place.filter(|_| start < end) {
                self.ranges.push(Range { start, end, file, line });
            }
        }
        sequence.clear();
    }
}

/// Adds a row, which replaces one for the same address.
fn add(sequence: &mut Vec<Row>, row: &LineRow, file: Option<usize>) {
    // A row without a line is the compiler's own code.
    let line = row.line().and_then(|line| u32::try_from(line.get()).ok());
    let row = Row { address: row.address(), place: file.zip(line) };
    match sequence.last_mut() {
        Some(last) if last.address == row.address => *last = row,
        _ => sequence.push(row),
    }
}
