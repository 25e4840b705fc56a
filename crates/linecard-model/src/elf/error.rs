//! Why a file is not usable firmware; each error is one line that says what to do.

use super::MAX_SEGMENTS;
use crate::rv32::{DATA_AT, MAX_MEMORY};
use std::{fmt, io};

/// A file that cannot be run by the modelled core.
#[derive(Debug, thiserror::Error)]
#[error("{name}: {what}")]
pub struct FirmwareError {
    /// The file.
    pub name: String,
    /// The error.
    pub what: Refusal,
}

/// The error of a file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The operating system failed to read.
    #[error("cannot be read: {0}")]
    Read(#[from] io::Error),
    /// Longer than any program of 64 KiB of instructions.
    #[error("{bytes} bytes, limit {limit}: strip its debug information", limit = super::MAX_FILE)]
    TooLong {
        /// Its length.
        bytes: u64,
    },
    /// Not an ELF file.
    #[error("not an ELF file: give the output of the linker, not a raw image or source")]
    NotElf,
    /// A program for wider registers.
    #[error("an ELF file of 64 bits, for {0}: compile for riscv32, -march=rv32i -mabi=ilp32")]
    Wide(Machine),
    /// The wrong byte order.
    #[error("a big-endian ELF file, for {0}: compile for little-endian riscv32")]
    BigEndian(Machine),
    /// For another processor.
    #[error("a program for {0}: compile for riscv32, -march=rv32i -mabi=ilp32")]
    OtherMachine(Machine),
    /// Not linked to fixed addresses.
    #[error("{0}: link it to an executable at fixed addresses (-nostdlib -static -no-pie)")]
    NotExecutable(&'static str),
    /// Instructions of 16 bits.
    #[error("uses compressed instructions: compile with -march=rv32i, without c")]
    Compressed,
    /// Floating-point registers.
    #[error("passes floats in registers that the core does not have: compile with -mabi=ilp32")]
    FloatAbi,
    /// A segment outside of both memories.
    #[error(
        "a segment of {len} bytes at {address:#010x}: link code to 0x0 … {DATA_AT:#x} and data to \
         {DATA_AT:#x} … {end:#x}",
        end = DATA_AT + MAX_MEMORY
    )]
    Segment {
        /// Where it is linked to.
        address: u32,
        /// Its length in memory.
        len: u32,
    },
    /// No executable code.
    #[error("holds no code: no executable segment has any bytes")]
    NoCode,
    /// The entry point is not in code.
    #[error("begins at {0:#010x}, where it has no code: define _start, or link with -e SYMBOL")]
    Entry(u64),
    /// The file is truncated.
    #[error("truncated: its header describes {wanted} bytes, the file has {there}")]
    Truncated {
        /// The least length according to its header.
        wanted: u64,
        /// Its actual length.
        there: u64,
    },
    /// It contradicts the format.
    #[error("a damaged ELF file: {0}")]
    Damaged(#[from] object::Error),
    /// A class or a byte order that ELF does not have.
    #[error("a damaged ELF file: class {class}, byte order {order}")]
    Identification {
        /// Its class: 1 or 2 in valid files.
        class: u8,
        /// Its byte order: 1 or 2 in valid files.
        order: u8,
    },
    /// More segments than a program has.
    #[error("a damaged ELF file: more than {MAX_SEGMENTS} segments to load")]
    Segments,
}

/// A processor by its number in an ELF header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Machine(pub u16);

impl Machine {
    /// The core's own machine number.
    pub(super) const RISC_V: Self = Self(243);
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.0 {
            2 => "SPARC",
            3 => "x86",
            4 => "68000",
            8 => "MIPS",
            20 => "PowerPC",
            21 => "PowerPC64",
            22 => "S/390",
            40 => "ARM",
            62 => "x86-64",
            83 => "AVR",
            94 => "Xtensa",
            183 => "AArch64",
            189 => "MicroBlaze",
            243 => "RISC-V",
            247 => "eBPF",
            258 => "LoongArch",
            number => return write!(f, "machine {number}"),
        };
        f.write_str(name)
    }
}
