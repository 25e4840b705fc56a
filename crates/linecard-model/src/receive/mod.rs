//! The receiving side: one core with a CAM that sorts packets into lists in host buffers, with real
//! firmware.
//!
//! The line interface keeps packets in a receive buffer (RBI) and wakes the core, which reads the header
//! over the local bus, finds the message in a CAM, and has the DMA move the payload to a buffer of the
//! host; one linked list of buffers for each message (Elbeshti et al., "Cycle processing", figures 7
//! and 8). Each list that the host gets is compared with the packets that came.
//!
//! Of the remedies that the paper considers for idle cycles, a faster DMA and a wider bus are clocks and widths;
//! multiport memory is [`BusPolicy::DualPort`]. So is a separate bus for the DMA ("multi-bus"): the core, whose headers
//! arrive over the other bus, never waits for it, which is the only difference. [`com_cell`] and [`smallest_core_hz`]
//! compare them.
//!
//! Bounds: the receive buffer by its bytes, lists by the number of nodes, the CAM by its entries. A
//! message that never ends keeps its nodes: the paper has no timer.
//!
//! ```
//! use linecard_model::receive::{Design, Receive, firmware};
//! use linecard_model::{Clock, Ps};
//! # fn main() -> Result<(), Box<dyn core::error::Error>> {
//! let clock = Clock::new(100_000_000, Ps::ZERO)?;
//! let design = Design::published(clock, clock);
//! let packets = firmware::example_packets(false, 1500, 10)?;
//! let outcome = Receive::new(&design, &firmware::published())?.run(packets, |_received| ())?;
//! assert_eq!((outcome.messages, outcome.right, outcome.wrong), (1, 10, 0));
//! // 366 cycles of the DMA at equal clocks, 30 of the core before them.
//! assert_eq!(outcome.com.range, Some((396, 396)));
//! assert_eq!(outcome.com.idle, 8 * 360);
//! # Ok(())
//! # }
//! ```
//!
//! [`BusPolicy::DualPort`]: crate::transmit::BusPolicy::DualPort

mod cam;
mod design;
mod figures;
pub mod firmware;
mod host;
mod line;
pub mod map;
mod packet;
#[cfg(test)]
mod tests;
mod unit;

pub use design::Design;
pub use figures::{Remedy, com_cell, smallest_core_hz};
pub use host::Received;
pub use line::{Arrival, LineCounters};
pub use unit::UnitCounters;

use super::Ps;
use super::cell::Cells;
use super::hash::{BASIS, fnv};
use super::rv32::{Config, Core, Cycles, Fault, Image, LoadError, Stop};
use super::transmit::{DesignError, MessageError};
use line::Line;
use linecard::offload::segment::Class;
use unit::{BusPort, Unit};

/// Memory of the core for instructions and for data.
const MEMORY: u32 = 64 << 10;

/// Cycles between two checks of the lists given to the host, so that they do not accumulate.
const TURN_CYCLES: u64 = 1 << 14;

/// Why a run ended early.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReceiveError {
    /// The design cannot be built.
    #[error(transparent)]
    Design(#[from] DesignError),
    /// The firmware does not fit.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// No packets can be made of a message.
    #[error(transparent)]
    Message(#[from] MessageError),
    /// The firmware did something illegal.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// The firmware is in an endless loop.
    #[error(
        "cycle {cycle}, pc {pc:#x}: no packet taken and no sleep for {patience} cycles: the firmware \
         loops, or firmware.patience is too small"
    )]
    Stuck {
        /// The core's cycle.
        cycle: u64,
        /// Where it was.
        pc: u32,
        /// How long was waited.
        patience: u64,
    },
    /// The firmware halted.
    #[error("cycle {cycle}, pc {pc:#x}: ebreak: the firmware has to end with wfi")]
    Halted {
        /// The core's cycle.
        cycle: u64,
        /// Where it was.
        pc: u32,
    },
}

impl ReceiveError {
    /// The address of the instruction that failed.
    #[must_use]
    pub const fn pc(&self) -> Option<u32> {
        match self {
            Self::Fault(fault) => Some(fault.pc),
            Self::Stuck { pc, .. } | Self::Halted { pc, .. } => Some(*pc),
            _ => None,
        }
    }
}

/// The result of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReceiveResults {
    /// Packets that arrived, and those lost before the core.
    pub line: LineCounters,
    /// Counters of the core.
    pub unit: UnitCounters,
    /// Lists handed to the host, single packets included.
    pub messages: u64,
    /// Packets in them.
    pub delivered: u64,
    /// Packets in lists that were never completed.
    pub held: u64,
    /// Packets of correct lists.
    pub right: u64,
    /// Packets of incorrect lists.
    pub wrong: u64,
    /// Bytes handed to the host.
    pub bytes: u64,
    /// When the last list was handed to the host.
    pub ended: Ps,
    /// Cells of single packets.
    pub ssm: Cells,
    /// Cells of first packets.
    pub bom: Cells,
    /// Cells of packets in between.
    pub com: Cells,
    /// Cells of last packets.
    pub eom: Cells,
    /// The core's cycles.
    pub cycles: Cycles,
    /// A hash of everything handed to the host, in order, with times (FNV-1a).
    pub hash: u64,
}

impl ReceiveResults {
    /// Whether every packet that arrived was delivered, counted as lost, or is held.
    #[must_use]
    pub fn is_balanced(&self) -> bool {
        let lost = self.line.refused + self.line.overflowed + self.unit.given_up;
        self.line.arrived == self.delivered + lost + self.held
    }

    fn take(&mut self, received: &Received) {
        for cell in &received.cells {
            match cell.class {
                Class::Ssm => &mut self.ssm,
                Class::Bom => &mut self.bom,
                Class::Com => &mut self.com,
                Class::Eom => &mut self.eom,
            }
            .add(cell);
        }
        let packets = received.cells.len() as u64;
        self.messages += 1;
        self.delivered += packets;
        *(if received.right { &mut self.right } else { &mut self.wrong }) += packets;
        self.bytes += received.bytes.len() as u64;
        self.ended = self.ended.max(received.at);
        self.hash = fnv(fnv(self.hash, &received.bytes), &received.at.0.to_le_bytes());
    }
}

/// A receive unit.
#[derive(Debug)]
pub struct Receive {
    design: Design,
    core: Core,
    unit: Unit,
    outcome: ReceiveResults,
}

impl Receive {
    /// Builds a design with this firmware.
    ///
    /// # Errors
    /// When the design cannot be built or the firmware does not fit.
    pub fn new(design: &Design, firmware: &Image) -> Result<Self, ReceiveError> {
        design.check()?;
        let config = Config { timing: design.timing, imem_bytes: MEMORY, dmem_bytes: MEMORY };
        Ok(Self {
            core: Core::new(firmware, config)?,
            unit: Unit::new(design),
            outcome: ReceiveResults { hash: BASIS, ..ReceiveResults::default() },
            design: design.clone(),
        })
    }

    /// Receives all packets, which come in this order; `sink` gets each message when it is the host's.
    ///
    /// # Errors
    /// If the firmware misbehaves.
    pub fn run(
        self,
        packets: impl IntoIterator<Item = Arrival>,
        mut sink: impl FnMut(&Received),
    ) -> Result<ReceiveResults, ReceiveError> {
        self.receive(&mut packets.into_iter(), &mut sink)
    }

    /// Not generic, so that the hot code is compiled once in this crate and not in each caller's.
    fn receive(
        mut self,
        packets: &mut dyn Iterator<Item = Arrival>,
        sink: &mut dyn FnMut(&Received),
    ) -> Result<ReceiveResults, ReceiveError> {
        let mut line = Line::new(&self.design, packets);
        let (mut before, mut since) = ((0, 0, 0), 0);
        loop {
            let patience = self.design.patience;
            let until = self.core.cycle().saturating_add(patience.min(TURN_CYCLES));
            let stop =
                self.core.run(&mut BusPort { unit: &mut self.unit, line: &mut line }, until)?;
            while let Some(received) = self.unit.host.next_received() {
                self.outcome.take(&received);
                sink(&received);
            }
            let UnitCounters { packets, given_up, waited, .. } = self.unit.counters();
            // A sleep with the packet still present does not count: it could go on forever.
            let now = (packets, given_up, waited);
            let (cycle, pc) = (self.core.cycle(), self.core.pc());
            match stop {
                // It sleeps, and no more packets arrive.
                Stop::Blocked => break,
                Stop::Halted => return Err(ReceiveError::Halted { cycle, pc }),
                Stop::Reached if now != before => (before, since) = (now, cycle),
                Stop::Reached if cycle - since >= patience => {
                    return Err(ReceiveError::Stuck { cycle, pc, patience });
                }
                Stop::Reached => {}
            }
        }
        self.outcome.line = line.counters;
        self.outcome.unit = self.unit.counters();
        self.outcome.held = self.unit.host.held();
        self.outcome.cycles = self.core.cycles();
        Ok(self.outcome)
    }
}
