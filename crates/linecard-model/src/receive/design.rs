//! The hardware design: clocks, widths, policies, buffers, CAM.

use crate::dma::{BusPolicy, Dma};
use crate::rv32::Timing;
use crate::transmit::{DesignError, check_bus, within};
use crate::{Clock, Ps};

/// A receive unit: one core.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Design {
    /// The core's clock.
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
    /// Bytes of the receive buffer (RBI): at least two buffers of the host.
    pub rbi_bytes: usize,
    /// Entries of the CAM, 1 … [`Design::MAX_CAM_ENTRIES`].
    pub cam_entries: usize,
    /// Core cycles of a lookup in it, 1 … 64.
    pub cam_latency: u64,
    /// Nodes of lists, each with a buffer in host memory, 2 … 65,536.
    pub nodes: usize,
    /// Bytes of such a buffer, and of the longest packet, [`Design::MIN_BUFFER`] … 65,535.
    pub buffer_bytes: usize,
    /// The line; `None` delivers packets as fast as there is room for them.
    pub line_bits_per_second: Option<u64>,
    /// Line overhead per packet: preamble, gap, Ethernet header.
    pub wire_overhead_bytes: u64,
    /// From a packet in the receive buffer to the sleeping core's first instruction.
    pub interrupt: Ps,
    /// Cycles without a packet and without sleep after which firmware is considered to be in an
    /// endless loop.
    pub patience: u64,
}

impl Design {
    /// Number of 32-byte records that fit into the core's data memory.
    pub const MAX_CAM_ENTRIES: usize = 2_000;
    /// The smallest buffer: a packet in the shortest Ethernet frame.
    pub const MIN_BUFFER: u16 = crate::transmit::Design::MIN_MTU;

    /// The published design: a 64-bit bus held by a DMA that reads and writes each word, two cycles
    /// (Elbeshti et al., "Cycle processing"), for a line that always has a packet. Sizes of
    /// buffers and CAM are not published.
    #[must_use]
    pub fn published(core: Clock, dma: Clock) -> Self {
        Self {
            core,
            timing: Timing::default(),
            dma,
            cycles_per_word: 2,
            bus_bits: 64,
            policy: BusPolicy::Hold,
            rbi_bytes: 65_536,
            cam_entries: 64,
            cam_latency: 1,
            nodes: 1_024,
            buffer_bytes: 2_048,
            line_bits_per_second: None,
            wire_overhead_bytes: 20,
            interrupt: Ps::ZERO,
            patience: 1_000_000,
        }
    }

    /// DMA cycles to move `bytes`.
    #[must_use]
    pub fn transfer_cycles(&self, bytes: usize) -> u64 {
        bytes.div_ceil((self.bus_bits / 8).max(1) as usize) as u64 * self.cycles_per_word
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
        check_bus(&self.timing, self.cycles_per_word, self.bus_bits)?;
        within("cam_entries", self.cam_entries as u64, 1, Self::MAX_CAM_ENTRIES as u64)?;
        within("cam_latency", self.cam_latency, 1, 64)?;
        within("nodes", self.nodes as u64, 2, 65_536)?;
        within("buffer_bytes", self.buffer_bytes as u64, Self::MIN_BUFFER.into(), 65_535)?;
        // Pointers to buffers are 31 bits.
        let memory = self.nodes as u64 * self.buffer_bytes as u64;
        within("nodes * buffer_bytes", memory, 1, 1 << 30)?;
        within("rbi_bytes", self.rbi_bytes as u64, 2 * self.buffer_bytes as u64, 1 << 30)?;
        within("wire_overhead_bytes", self.wire_overhead_bytes, 0, 65_535)?;
        within("patience", self.patience, 1_000, 1 << 40)?;
        within("interrupt", self.interrupt.0, 0, Ps::SECOND.0)?;
        self.line_bits_per_second
            .map_or(Ok(()), |rate| within("line_bits_per_second", rate, 1_000, 100_000_000_000_000))
    }
}
