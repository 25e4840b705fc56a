//! The bus of a core: everything beyond its own memories.

/// The width of an access.
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

/// The result of an access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply {
    /// It took place after `stall` cycles, in a cycle of its own. `value` is what was loaded, in
    /// its low bits; 0 for stores.
    Done {
        /// The loaded value.
        value: u32,
        /// Cycles waited before.
        stall: u64,
    },
    /// It cannot take place yet, at an unknown time: the core stays at the instruction and is run
    /// again later.
    Blocked,
    /// No device at this address.
    Refused,
    /// A device refuses this access.
    Denied(AccessError),
}

/// Why a device refuses an access.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AccessError {
    /// A store to a read-only register.
    #[error("the register there can only be read")]
    ReadOnly,
    /// A load from a write-only register.
    #[error("the register there can only be written")]
    WriteOnly,
    /// An access of 8 or 16 bits.
    #[error("registers are loaded and stored as words of 32 bits")]
    WordsOnly,
    /// The device cannot perform it in its current state.
    #[error("{0}")]
    Cannot(&'static str),
}

/// Events that end a core's sleep (`wfi`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wake {
    /// The core continues in `cycle`, at `vector` or after the instruction. All cycles until then
    /// are idle.
    At {
        /// The first cycle after the sleep.
        cycle: u64,
        /// Where to continue, if not after the `wfi`.
        vector: Option<u32>,
    },
    /// The time is not known yet: the core stays at the instruction.
    Blocked,
}

/// The bus of a core: buffers, and registers of other components.
///
/// `cycle` is the core's count since reset; the core has checked that accesses are aligned to their
/// width.
pub trait Bus {
    /// Reads.
    fn load(&mut self, cycle: u64, address: u32, width: Width) -> Reply;
    /// Writes the low bits of `value`.
    fn store(&mut self, cycle: u64, address: u32, width: Width, value: u32) -> Reply;
    /// Sleeps until something happens.
    fn wait(&mut self, cycle: u64) -> Wake;
    /// The instruction at `pc` is executed next, or once more if it was blocked. Called only since
    /// [`Core::start_profile`](super::Core::start_profile).
    fn fetched(&mut self, _pc: u32) {}
}
