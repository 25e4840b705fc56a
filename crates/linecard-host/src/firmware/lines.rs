//! Which line of its source an instruction comes from, by the DWARF line tables.

use addr2line::Context;
use addr2line::gimli::{Dwarf, EndianSlice, LittleEndian};
use linecard_model::rv32::DATA_AT;
use object::read::elf::ElfFile32;
use object::{Object as _, ObjectSection as _};
use std::collections::HashMap;

/// Most ranges kept: four for each instruction that fits the memory. An honest table has one range
/// or two where it has any.
const MAX_RANGES: usize = DATA_AT as usize;

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
    /// As much as can be read: a program runs without.
    pub(super) fn read(elf: &ElfFile32<'_>) -> Self {
        let section = |name: &str| {
            // Compressed ones are as good as none.
            let plain = |range: object::CompressedFileRange| {
                range.format == object::CompressionFormat::None
            };
            let found = elf.section_by_name(name)?;
            let data = found.compressed_file_range().is_ok_and(plain).then(|| found.data().ok());
            data.flatten()
        };
        let load = |id: addr2line::gimli::SectionId| {
            let data = section(id.name()).unwrap_or_default();
            Ok::<_, addr2line::gimli::Error>(EndianSlice::new(data, LittleEndian))
        };
        let mut lines = Self::default();
        if let Ok(context) = Dwarf::load(load).and_then(Context::from_dwarf) {
            lines.collect(&context);
        }
        lines
    }

    fn collect(&mut self, context: &Context<EndianSlice<'_, LittleEndian>>) {
        let Ok(found) = context.find_location_range(0, u64::from(DATA_AT)) else { return };
        let mut numbers = HashMap::new();
        for (start, len, location) in found.take(MAX_RANGES) {
            let end = start.saturating_add(len).min(u64::from(DATA_AT));
            // 0 is the compiler's own code.
            let (Some(path), Some(line @ 1..)) = (location.file, location.line) else { continue };
            if start >= end {
                continue;
            }
            let file = *numbers.entry(path.to_owned()).or_insert_with(|| {
                self.files.push(path.to_owned());
                self.files.len() - 1
            });
            self.ranges.push(Range { start: start as u32, end: end as u32, file, line });
        }
        self.ranges.sort_by_key(|range| range.start);
    }

    pub(super) fn find(&self, pc: u32) -> Option<(&str, u32)> {
        let next = self.ranges.partition_point(|range| range.start <= pc);
        let range = self.ranges.get(next.checked_sub(1)?)?;
        let file = self.files.get(range.file)?;
        (pc < range.end).then_some((file.as_str(), range.line))
    }
}
