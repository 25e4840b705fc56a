//! How a core is built, and where its memories lie.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where data memory begins; instruction memory begins at 0 and ends here at the latest.
pub const DATA_AT: u32 = 0x0001_0000;
/// The most bytes of either memory: 64 KiB, so that both have their place below `0x0002_0000`.
pub const MAX_MEMORY: u32 = 0x0001_0000;

/// A core that one can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CoreKind {
    /// an instruction in each cycle, and bubbles behind jumps and branches that are taken
    #[default]
    ThreeStage,
    /// the open core `PicoRV32`, with a barrel shifter: no pipeline, three to six cycles for an instruction
    #[serde(rename = "picorv32")]
    PicoRv32,
    /// the open core `Ibex`: two stages, one to three cycles for an instruction
    Ibex,
}

impl CoreKind {
    /// Its timing; `bubbles` holds for a core with stages.
    #[must_use]
    pub const fn timing(self, bubbles: u64) -> Timing {
        match self {
            Self::ThreeStage => Timing::pipelined(bubbles),
            Self::PicoRv32 => Timing::PICORV32,
            Self::Ibex => Timing::IBEX,
        }
    }
}

/// Cycles that each kind of instruction takes, 1 … [`Timing::MAX_CYCLES`] each; waits for the bus and `wfi` come on top.
///
/// An access to the bus happens when its instruction begins.
///
/// ```
/// use linecard_model::rv32::{Bus, Config, Core, Image, Reply, Stop, Timing, Wake, Width};
/// # struct Nothing;
/// # impl Bus for Nothing {
/// #     fn load(&mut self, _: u64, _: u32, _: Width) -> Reply { Reply::Refused }
/// #     fn store(&mut self, _: u64, _: u32, _: Width, _: u32) -> Reply { Reply::Refused }
/// #     fn wait(&mut self, _: u64) -> Wake { Wake::Blocked }
/// # }
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // addi a0, zero, 3; addi a0, a0, -1; bne a0, zero, -4; ebreak
/// let image = Image::of_code(&[0x0030_0513, 0xfff5_0513, 0xfe05_1ee3, 0x0010_0073]);
/// let mut core = Core::new(&image, Config { timing: Timing::PICORV32, ..Config::default() })?;
/// assert_eq!(core.run(&mut Nothing, 1_000)?, Stop::Halted);
/// // Four additions of 3 cycles, two branches taken of 5, one not taken of 3.
/// assert_eq!(core.cycle(), 25);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// Arithmetic, `lui`, `auipc`, `fence`; and `wfi`, of which the rest is sleep.
    pub alu: u64,
    /// Shifts by any number of bits.
    pub shift: u64,
    /// Loads.
    pub load: u64,
    /// Stores.
    pub store: u64,
    /// Branches that are not taken.
    pub branch: u64,
    /// Branches that are taken.
    pub taken: u64,
    /// `jal`.
    pub jal: u64,
    /// `jalr`.
    pub jalr: u64,
}

impl Timing {
    /// The most cycles of an instruction.
    pub const MAX_CYCLES: u64 = 255;

    /// `PicoRV32`, an open core of 750 to 2,000 look-up tables without a pipeline, with its defaults but
    /// `BARREL_SHIFTER = 1`, at memories that answer in the next cycle (its look-ahead interface). A test
    /// compares cycles with the core itself, simulated by Verilator.
    pub const PICORV32: Self =
        Self { alu: 3, shift: 3, load: 5, store: 5, branch: 3, taken: 5, jal: 3, jalr: 6 };

    /// Ibex, an open core of two stages, with its defaults: neither a branch target adder nor a write-back stage. It
    /// waits for each access to data, at memories that answer in the next cycle. A test compares cycles with the core
    /// itself.
    pub const IBEX: Self =
        Self { alu: 1, shift: 1, load: 2, store: 2, branch: 1, taken: 3, jal: 2, jalr: 2 };

    /// A pipeline that ends an instruction in each cycle, but loses `bubbles` cycles by a taken branch and by every
    /// jump, 0 … 254: 2 at most with three stages.
    #[must_use]
    pub const fn pipelined(bubbles: u64) -> Self {
        let jump = bubbles.saturating_add(1);
        Self { alu: 1, shift: 1, load: 1, store: 1, branch: 1, taken: jump, jal: jump, jalr: jump }
    }

    /// The bubbles, if it is [`Timing::pipelined`].
    pub(super) fn bubbles(&self) -> Option<u64> {
        let bubbles = self.taken - 1;
        (*self == Self::pipelined(bubbles)).then_some(bubbles)
    }

    /// Whether each number is in its range.
    pub(crate) fn is_valid(&self) -> bool {
        let Self { alu, shift, load, store, branch, taken, jal, jalr } = *self;
        let all = [alu, shift, load, store, branch, taken, jal, jalr];
        all.iter().all(|cycles| (1..=Self::MAX_CYCLES).contains(cycles))
    }
}

impl Default for Timing {
    fn default() -> Self {
        Self::pipelined(1)
    }
}

/// How a core is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Cycles by kind of instruction.
    pub timing: Timing,
    /// Size of the instruction memory at address 0: a multiple of 4, up to [`MAX_MEMORY`].
    pub imem_bytes: u32,
    /// Size of the data memory at [`DATA_AT`]: a multiple of 4, up to [`MAX_MEMORY`].
    pub dmem_bytes: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self { timing: Timing::default(), imem_bytes: MAX_MEMORY, dmem_bytes: MAX_MEMORY }
    }
}
