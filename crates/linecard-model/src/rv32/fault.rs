//! Errors that stop a core.

use super::bus::{AccessError, Width};
use super::config::DATA_AT;
use core::fmt;

/// Where a program failed. The core stays at the instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("cycle {cycle}, pc {pc:#010x}: {what}")]
pub struct Fault {
    /// The cycle in which the instruction would have executed.
    pub cycle: u64,
    /// Its address.
    pub pc: u32,
    /// The reason.
    pub what: FaultKind,
}

/// Something that a program must not do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FaultKind {
    /// Not an instruction of RV32I that this core supports.
    #[error("illegal instruction {0:#010x}: compile for rv32i, without c, m or csr")]
    Illegal(u32),
    /// No device at this address.
    #[error("{0} is refused: no memory of the core and no device is mapped there")]
    Refused(Access),
    /// A device refuses the access.
    #[error("{0} is refused: {1}")]
    Denied(Access, AccessError),
    /// An address that is not a multiple of the access's width.
    #[error("{access} is misaligned: give a multiple of {width}", access = .0, width = .0.width.bytes())]
    Misaligned(Access),
    /// Code cannot be written while it runs.
    #[error("{0} is refused: instruction memory cannot be written; data begins at {DATA_AT:#x}")]
    StoreToCode(Access),
    /// A jump, branch or vector to an address without instructions.
    #[error("jump to {0:#010x}: not a multiple of 4 inside the loaded code")]
    Jump(u32),
    /// It ran past its last instruction.
    #[error("no instruction: execution ran past the end of the loaded code")]
    End,
    /// A system call.
    #[error("ecall: there is no system to call; end a program with ebreak")]
    Ecall,
}

/// One access to memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access {
    /// Whether it writes.
    pub store: bool,
    /// Its width.
    pub width: Width,
    /// Its address.
    pub address: u32,
}

impl Access {
    /// The fault of an access that no device accepted.
    pub(super) const fn refused(self) -> FaultKind {
        if self.store && self.address < DATA_AT {
            FaultKind::StoreToCode(self)
        } else {
            FaultKind::Refused(self)
        }
    }

    pub(super) const fn is_aligned(self) -> bool {
        self.address.is_multiple_of(self.width.bytes())
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.store { "store" } else { "load" };
        let bits = 8 * self.width.bytes();
        write!(f, "a {what} of {bits} bits at {address:#010x}", address = self.address)
    }
}
