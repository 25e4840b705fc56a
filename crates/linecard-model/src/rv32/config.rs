//! How a core is built, and where its memories lie.

/// Where data memory begins; instruction memory begins at 0 and ends here at the latest.
pub const DATA_AT: u32 = 0x0001_0000;
/// The most bytes of either memory: 64 KiB, so that both have their place below `0x0002_0000`.
pub const MAX_MEMORY: u32 = 0x0001_0000;

/// How a core is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Cycles lost by a taken branch and by every jump, 0 … 2.
    pub bubbles: u64,
    /// Size of the instruction memory at address 0: a multiple of 4, up to [`MAX_MEMORY`].
    pub imem_bytes: u32,
    /// Size of the data memory at [`DATA_AT`]: a multiple of 4, up to [`MAX_MEMORY`].
    pub dmem_bytes: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self { bubbles: 1, imem_bytes: MAX_MEMORY, dmem_bytes: MAX_MEMORY }
    }
}
