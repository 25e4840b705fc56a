//! Checks the ELF header before anything else is used.
//!
//! Sources: System V ABI, chapter 4 (ELF header); RISC-V ELF psABI, "File Header".

use super::error::{Machine, Refusal};

/// Length of a header of 32 bits.
const HEADER: usize = 52;
/// Flags: compressed instructions; where floats are passed.
const RVC: u32 = 0x1;
const FLOAT_ABI: u32 = 0x6;

/// Refuses files that the core cannot run, as far as the header shows.
pub(super) fn check(file: &[u8]) -> Result<(), Refusal> {
    let rest = file.strip_prefix(b"\x7fELF").ok_or(Refusal::NotElf)?;
    let there = file.len() as u64;
    let truncated = |wanted| Refusal::Truncated { wanted, there };
    // The machine field has the same offset in all four variants.
    let (Some([class, order]), Some(machine)) = (rest.first_chunk(), file.get(18..20)) else {
        return Err(truncated(HEADER as u64));
    };
    let machine = match (order, machine) {
        (2, &[high, low]) | (_, &[low, high]) => Machine(u16::from_le_bytes([low, high])),
        _ => return Err(Refusal::NotElf),
    };
    match (class, order, machine) {
        (2, _, _) => return Err(Refusal::Wide(machine)),
        (_, 2, _) => return Err(Refusal::BigEndian(machine)),
        (1, 1, Machine::RISC_V) => {}
        (1, 1, _) => return Err(Refusal::OtherMachine(machine)),
        _ => return Err(Refusal::Identification { class: *class, order: *order }),
    }
    let header = Header { file };
    if file.len() < HEADER {
        return Err(truncated(HEADER as u64));
    }
    match header.half(16) {
        1 => return Err(Refusal::NotExecutable("a relocatable object file")),
        2 => {}
        3 => return Err(Refusal::NotExecutable("a shared or position-independent file")),
        4 => return Err(Refusal::NotExecutable("a core dump")),
        _ => return Err(Refusal::NotExecutable("an ELF file of no known type")),
    }
    let flags = header.word(36);
    if flags & RVC != 0 {
        return Err(Refusal::Compressed);
    }
    if flags & FLOAT_ABI != 0 {
        return Err(Refusal::FloatAbi);
    }
    let wanted = header.table_end(28, 42).max(header.table_end(32, 46));
    if wanted > there { Err(truncated(wanted)) } else { Ok(()) }
}

/// Fields of a header; 0 beyond its end.
struct Header<'a> {
    file: &'a [u8],
}

impl Header<'_> {
    fn half(&self, offset: usize) -> u16 {
        let bytes = self.file.get(offset..).and_then(<[u8]>::first_chunk);
        bytes.map_or(0, |bytes| u16::from_le_bytes(*bytes))
    }

    fn word(&self, offset: usize) -> u32 {
        let bytes = self.file.get(offset..).and_then(<[u8]>::first_chunk);
        bytes.map_or(0, |bytes| u32::from_le_bytes(*bytes))
    }

    /// The end of a table, from the header fields for its offset, and for the size and number of
    /// its entries.
    fn table_end(&self, place: usize, size: usize) -> u64 {
        let rows = u64::from(self.half(size)) * u64::from(self.half(size + 2));
        u64::from(self.word(place)) + rows
    }
}
