//! Loads programs for the modelled core from ELF files.
//!
//! Requirements: a 32-bit little-endian ELF executable for RISC-V without compressed instructions
//! and floating-point registers, linked to the core's two memories (code from 0, data from
//! [`DATA_AT`]). For instance, with Debian's `gcc-riscv64-unknown-elf`:
//!
//! ```text
//! riscv64-unknown-elf-gcc -march=rv32i -mabi=ilp32 -nostdlib -O2 -g \
//!     -Wl,-Ttext=0,-Tdata=0x10000 -o program.elf start.S program.c
//! ```
//!
//! All registers are 0 at the start. Start code has to set `sp` for C, and `gp` (to
//! `__global_pointer$`) unless the program is linked with `--no-relax`. Segments are loaded at
//! their run-time addresses (`p_vaddr`), so start code need not copy anything.
//!
//! Not supported: relocation, dynamic linking, compressed debug information (treated as missing). A
//! damaged or oversized symbol or line table only costs names: memory and work are bounded,
//! regardless of the file.
//!
//! Sources: System V ABI, chapters 4 and 5; RISC-V ELF psABI; DWARF 2 to 5 for lines.
#![expect(
    clippy::std_instead_of_alloc,
    clippy::std_instead_of_core,
    reason = "files are read here, and it is never built without std"
)]

mod error;
mod header;
mod lines;
mod symbols;
#[cfg(test)]
mod tests;

pub use error::{FirmwareError, Machine, Refusal};

use crate::rv32::{Counts, DATA_AT, Image, MAX_MEMORY, Profile, Segment, annotate};
use lines::Lines;
use object::read::elf::{ElfFile32, ProgramHeader as _};
use object::{Endianness, Object as _};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use symbols::Symbols;

/// The longest file: debug information may be a thousand times as long as 64 KiB of code.
const MAX_FILE: u64 = 64 << 20;

/// The most segments: linkers produce two or three.
const MAX_SEGMENTS: usize = 64;
/// The byte order, which the header check guarantees.
const LITTLE: Endianness = Endianness::Little;

/// A program, its names and its lines.
///
/// ```no_run
/// use linecard_model::rv32::{Config, Core};
/// use linecard_model::elf::Firmware;
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let firmware = Firmware::read("program.elf".as_ref())?;
/// let core = Core::new(firmware.image(), Config::default())?;
/// if let Some(place) = firmware.place(core.pc()) {
///     assert_eq!((place.function, place.offset), ("_start", 0));
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Firmware {
    name: String,
    image: Image,
    symbols: Symbols,
    lines: Lines,
}

/// A location in the code, by its symbols.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CodeLocation<'a> {
    /// The function, or a label in assembly.
    pub function: &'a str,
    /// Bytes from its start.
    pub offset: u32,
}

/// A source line. Ordered by file, then by line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceLine<'a> {
    /// As given to the compiler, with its working directory.
    pub file: &'a str,
    /// From 1.
    pub line: u32,
}

impl Firmware {
    /// Reads a file.
    ///
    /// # Errors
    /// If it cannot be read, or the core cannot run it: see [`Refusal`].
    pub fn read(path: &Path) -> Result<Self, FirmwareError> {
        let name = path.display().to_string();
        let bytes = read(path).map_err(|what| FirmwareError { name: name.clone(), what })?;
        Self::parse(&name, &bytes)
    }

    /// Parses the bytes of a file; `name` is for messages.
    ///
    /// # Errors
    /// If the core cannot run it: see [`Refusal`].
    pub fn parse(name: &str, bytes: &[u8]) -> Result<Self, FirmwareError> {
        let name = name.to_owned();
        let parsed = parse(bytes).map_err(|what| FirmwareError { name: name.clone(), what });
        parsed.map(|(image, symbols, lines)| Self { name, image, symbols, lines })
    }

    /// The name of the file.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The image to load into a core.
    #[must_use]
    pub const fn image(&self) -> &Image {
        &self.image
    }

    /// The location of `pc`, if it has a symbol.
    #[must_use]
    pub fn place(&self, pc: u32) -> Option<CodeLocation<'_>> {
        self.symbols.place(pc).map(|(function, offset)| CodeLocation { function, offset })
    }

    /// The address of a function, a label or a variable.
    #[must_use]
    pub fn address(&self, symbol: &str) -> Option<u32> {
        self.symbols.address(symbol)
    }

    /// The source line of the instruction at `pc`; within an inlined function, its own line.
    #[must_use]
    pub fn line(&self, pc: u32) -> Option<SourceLine<'_>> {
        self.lines.find(pc).map(|(file, line)| SourceLine { file, line })
    }

    /// A profile of this program by source lines; instructions without a line are under `None`.
    #[must_use]
    pub fn annotate(&self, profile: &Profile) -> BTreeMap<Option<SourceLine<'_>>, Counts> {
        annotate(profile, |pc| self.line(pc))
    }
}

fn read(path: &Path) -> Result<Vec<u8>, Refusal> {
    let mut bytes = Vec::new();
    let file = File::open(path)?;
    let size = file.metadata()?.len();
    file.take(MAX_FILE + 1).read_to_end(&mut bytes)?;
    let there = size.max(bytes.len() as u64);
    if there > MAX_FILE { Err(Refusal::TooLong { bytes: there }) } else { Ok(bytes) }
}

/// The text at an offset of a table of strings, up to its zero; none that is longer than `longest`.
fn text_at(table: &[u8], offset: usize, longest: usize) -> Option<&[u8]> {
    let rest = table.get(offset..)?;
    let rest = rest.get(..=longest).unwrap_or(rest);
    let len = rest.iter().position(|byte| *byte == 0)?;
    rest.get(..len)
}

fn parse(bytes: &[u8]) -> Result<(Image, Symbols, Lines), Refusal> {
    header::check(bytes)?;
    let elf = ElfFile32::parse(bytes)?;
    let image = image(&elf, bytes)?;
    Ok((image, Symbols::read(&elf), Lines::read(&elf)))
}

/// The loadable segments, zeros at their ends included.
fn image(elf: &ElfFile32<'_>, file: &[u8]) -> Result<Image, Refusal> {
    let entry = elf.entry();
    let (mut segments, mut code, mut begins) = (Vec::new(), false, false);
    for row in elf.elf_program_headers() {
        let (address, len) = (row.p_vaddr(LITTLE), row.p_memsz(LITTLE));
        if row.p_type(LITTLE) != object::elf::PT_LOAD || len == 0 {
            continue;
        }
        let end = if address < DATA_AT { DATA_AT } else { DATA_AT + MAX_MEMORY };
        if address > end || len > end - address {
            return Err(Refusal::Segment { address, len });
        }
        if segments.len() == MAX_SEGMENTS {
            return Err(Refusal::Segments);
        }
        let (start, in_file) = (row.p_offset(LITTLE), row.p_filesz(LITTLE));
        let found = file.get(start as usize..).and_then(|rest| rest.get(..in_file as usize));
        let Some(found) = found else {
            let wanted = u64::from(start) + u64::from(in_file);
            return Err(Refusal::Truncated { wanted, there: file.len() as u64 });
        };
        if row.p_flags(LITTLE).contains(object::elf::PF_X) && address < DATA_AT {
            code |= !found.is_empty();
            begins |= (address.into()..u64::from(address + len)).contains(&entry);
        }
        let mut bytes = found.to_vec();
        bytes.resize(len as usize, 0);
        segments.push(Segment { address, bytes });
    }
    match u32::try_from(entry) {
        _ if !code => Err(Refusal::NoCode),
        Ok(entry) if begins && entry.is_multiple_of(4) => Ok(Image { entry, segments }),
        _ => Err(Refusal::Entry(entry)),
    }
}
