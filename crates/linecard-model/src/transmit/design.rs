//! The hardware design: clocks, widths, policies, buffers.

use super::map::SBI_HEADER_LEN;
use crate::dma::{BusPolicy, Dma};
use crate::rv32::Timing;
use crate::{Clock, ClockError, Ps};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How headers reach the line interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum HeaderPath {
    /// separately from the payload, by a port of their own, as the published tables assume
    #[default]
    Beside,
    /// by the DMA, over the bus, before the payload
    Bus,
}

/// A transmit unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Design {
    /// Cores, each with its own memories, bus, DMA and buffers, 1 … [`Design::MAX_CORES`]. Packets
    /// of messages leave in the order of the messages.
    pub cores: usize,
    /// The cores' clock.
    pub core: Clock,
    /// Cycles of the core by kind of instruction.
    pub timing: Timing,
    /// The DMA's clock.
    pub dma: Clock,
    /// DMA cycles for each word, 1 … 8.
    pub cycles_per_word: u64,
    /// Width of the local bus, a power of two from 32 to 1024.
    pub bus_bits: u32,
    /// Arbitration of the bus.
    pub policy: BusPolicy,
    /// The path of headers.
    pub header: HeaderPath,
    /// Bytes of each line-interface buffer.
    pub sbi_bytes: usize,
    /// The longest packet, from the IP header on.
    pub mtu: u16,
    /// The line; `None` accepts packets as fast as they come.
    pub line_bits_per_second: Option<u64>,
    /// Line overhead per packet: preamble, gap, Ethernet header.
    pub wire_overhead_bytes: u64,
    /// From a message in the mailbox to the core's first instruction.
    pub interrupt: Ps,
    /// Cycles without a packet and without sleep after which firmware is considered to be in an
    /// endless loop.
    pub patience: u64,
}

impl Design {
    /// More cores than any published design; each takes memory.
    pub const MAX_CORES: usize = 256;
    /// The fastest line that there may be, in bit/s.
    pub const MAX_LINE_BITS_PER_SECOND: u64 = 100_000_000_000_000;
    /// The shortest MTU: a packet that just fills the shortest Ethernet frame of 64 bytes (IEEE 802.3, section 4.4.2;
    /// RFC 2544, section 9.1). It has room for payload behind the headers of IPv4 and TCP. Hosts have to take 68 bytes
    /// (RFC 791, section 3.2); a design may be asked for less.
    pub const MIN_MTU: u16 = 46;

    /// The published design at a core clock: one 64-bit bus held by a DMA at 2115 MHz with one
    /// cycle per word, for a line that takes everything (Elbeshti et al., table 2).
    #[must_use]
    pub fn published(core: Clock, dma: Clock) -> Self {
        Self {
            cores: 1,
            core,
            timing: Timing::default(),
            dma,
            cycles_per_word: 1,
            bus_bits: 64,
            policy: BusPolicy::Hold,
            header: HeaderPath::Beside,
            sbi_bytes: 65_536,
            mtu: 1500,
            line_bits_per_second: None,
            wire_overhead_bytes: 20,
            interrupt: Ps::ZERO,
            patience: 1_000_000,
        }
    }

    /// DMA cycles to move `header` and `payload` bytes.
    #[must_use]
    pub fn transfer_cycles(&self, header: usize, payload: usize) -> u64 {
        let word = (self.bus_bits / 8).max(1) as usize;
        let header = if self.header == HeaderPath::Bus { header.div_ceil(word) } else { 0 };
        (header + payload.div_ceil(word)) as u64 * self.cycles_per_word
    }

    /// The DMA's timing.
    pub(super) fn timing(&self) -> Dma {
        let Self { core, dma, cycles_per_word, policy, .. } = *self;
        Dma { core, clock: dma, cycles_per_word, policy }
    }

    /// Whether the design can be built.
    ///
    /// # Errors
    /// The first invalid value, with its limits.
    pub fn check(&self) -> Result<(), DesignError> {
        within("cores", self.cores as u64, 1, Self::MAX_CORES as u64)?;
        check_bus(&self.timing, self.cycles_per_word, self.bus_bits)?;
        within("mtu", u64::from(self.mtu), u64::from(Self::MIN_MTU), 65_535)?;
        let longest = u64::from(self.mtu) + SBI_HEADER_LEN as u64;
        within("sbi_bytes", self.sbi_bytes as u64, longest, 1 << 30)?;
        within("wire_overhead_bytes", self.wire_overhead_bytes, 0, 65_535)?;
        within("patience", self.patience, 1_000, 1 << 40)?;
        within("interrupt", self.interrupt.0, 0, Ps::SECOND.0)?;
        self.line_bits_per_second.map_or(Ok(()), |rate| {
            within("line_bits_per_second", rate, 1_000, Self::MAX_LINE_BITS_PER_SECOND)
        })
    }
}

/// Refuses a number outside its range.
pub(crate) fn within(
    name: &'static str,
    value: u64,
    min: u64,
    max: u64,
) -> Result<(), DesignError> {
    let fits = (min..=max).contains(&value);
    fits.then_some(()).ok_or(DesignError::Range { name, value, min, max })
}

/// Refuses a core and a bus that no side can have.
pub(crate) fn check_bus(timing: &Timing, per_word: u64, bits: u32) -> Result<(), DesignError> {
    timing.is_valid().then_some(()).ok_or(DesignError::Timing(*timing))?;
    within("cycles_per_word", per_word, 1, 8)?;
    within("bus_bits", u64::from(bits), 32, 1024)?;
    if bits.is_power_of_two() { Ok(()) } else { Err(DesignError::BusBits(bits)) }
}

/// Why a design cannot be built.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DesignError {
    /// Cycles of instructions outside their range.
    #[error("{0:?}: give 1 to {max} cycles for each", max = Timing::MAX_CYCLES)]
    Timing(Timing),
    /// A number outside its range.
    #[error("{name} is {value}: give {min} to {max}")]
    Range {
        /// Which.
        name: &'static str,
        /// The given value.
        value: u64,
        /// The smallest.
        min: u64,
        /// The largest.
        max: u64,
    },
    /// A bus width that is not a power of two.
    #[error("bus_bits is {0}: give a power of two, 32 to 1024")]
    BusBits(u32),
    /// An invalid clock.
    #[error(transparent)]
    Clock(#[from] ClockError),
}
