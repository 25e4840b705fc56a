//! What a core reaches beyond its own memories.

/// How much one access moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Width {
    /// 8 bits.
    Byte,
    /// 16 bits.
    Half,
    /// 32 bits.
    Word,
}

impl Width {
    /// In bytes: 1, 2 or 4.
    #[must_use]
    pub const fn bytes(self) -> u32 {
        match self {
            Self::Byte => 1,
            Self::Half => 2,
            Self::Word => 4,
        }
    }
}

/// How an access ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply {
    /// It took place after `stall` cycles, in a cycle of its own. `value` is what was loaded, in
    /// its low bits; stores give 0.
    Done {
        /// What was loaded.
        value: u32,
        /// Cycles waited before.
        stall: u64,
    },
    /// It cannot take place yet and nobody can say when: the core stops in front of the instruction
    /// and is run again later.
    Blocked,
    /// Nothing answers at this address.
    Refused,
    /// A device is there, and does not take this access.
    Denied(Denial),
}

/// Why a device does not take an access.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Denial {
    /// A store to what can only be read.
    #[error("the register there can only be read")]
    ReadOnly,
    /// A load from what can only be written.
    #[error("the register there can only be written")]
    WriteOnly,
    /// An access of 8 or 16 bits.
    #[error("registers are loaded and stored as words of 32 bits")]
    WordsOnly,
    /// It would do what the device cannot do now.
    #[error("{0}")]
    Cannot(&'static str),
}

/// What ends a core's sleep (`wfi`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wake {
    /// It goes on in `cycle`, at `vector` or behind the instruction. All cycles until then are idle.
    At {
        /// The first cycle after the sleep.
        cycle: u64,
        /// Where to go on, if not behind the `wfi`.
        vector: Option<u32>,
    },
    /// Nobody can say when yet: the core stops in front of the instruction.
    Blocked,
}

/// What a core reaches beyond its own memories: buffers on the bus, registers of other components.
///
/// `cycle` is the core's own count since reset; accesses are aligned to their width, which the core
/// has checked.
pub trait Outside {
    /// Reads.
    fn load(&mut self, cycle: u64, address: u32, width: Width) -> Reply;
    /// Writes the low bits of `value`.
    fn store(&mut self, cycle: u64, address: u32, width: Width, value: u32) -> Reply;
    /// Sleeps until something happens.
    fn wait(&mut self, cycle: u64) -> Wake;
}
