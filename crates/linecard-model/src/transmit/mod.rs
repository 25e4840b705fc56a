//! The transmit side: cores that divide messages into packets, with real firmware.
//!
//! The host leaves a message in a sending buffer; the core updates its header for each packet and
//! starts the DMA, which moves header and payload over the local bus to the line interface, which
//! fills in checksums and sends (Elbeshti et al., figure 1). Every packet that leaves is compared
//! with what [`linecard::offload::segment`] makes of the message.
//!
//! ```
//! use linecard_model::transmit::{Design, Message, Transmit, firmware};
//! use linecard_model::{Clock, Ps};
//! # fn main() -> Result<(), Box<dyn core::error::Error>> {
//! let design = Design::published(
//!     Clock::new(423_000_000, Ps::ZERO)?,
//!     Clock::new(2_115_000_000, Ps::ZERO)?,
//! );
//! let message = Message::new(firmware::example_message(false, 14_600), Ps::ZERO)?;
//! let mut transmit = Transmit::new(&design, &firmware::approach_2())?;
//! let outcome = transmit.run([message], |_sent| ())?;
//! assert_eq!((outcome.right, outcome.wrong), (10, 0));
//! // Table 1, TCP, continuation of message, 1500 bytes.
//! assert_eq!(outcome.com.range, Some((41, 41)));
//! # Ok(())
//! # }
//! ```

mod design;
pub mod firmware;
mod line;
pub mod map;
mod message;
mod mismatch;
#[cfg(test)]
mod tests;
mod unit;
mod verify;

pub use super::cell::{Cell, Cells};
pub use super::dma::BusPolicy;
pub use design::{Design, DesignError, HeaderPath};
pub(crate) use design::{check_bus, within};
pub use line::{PacketTrace, Sent, Stall};
pub use message::{Kind, Message, MessageError};
pub use mismatch::{Difference, Mismatch};
pub use unit::UnitCounters;

use super::Ps;
use super::hash::{BASIS, fnv};
use super::rv32::{Config, Core, Cycles, Fault, Image, LoadError, Profile, Stop};
use alloc::vec::Vec;
use line::Line;
use linecard::offload::segment::Class;
use unit::{BusPort, PendingRequest, Unit};
use verify::Verifier;

/// Memory of a core for instructions and for data.
const MEMORY: u32 = 64 << 10;

/// Why a run ended early.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TransmitError {
    /// The design cannot be built.
    #[error(transparent)]
    Design(#[from] DesignError),
    /// The firmware does not fit.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// A message that cannot be sent.
    #[error("message {number}: {why}")]
    Message {
        /// Its number, from 0.
        number: u64,
        /// The reason.
        why: MessageError,
    },
    /// The firmware did something illegal.
    #[error("core {core}: {fault}")]
    Fault {
        /// Which core.
        core: usize,
        /// What, when and where.
        fault: Fault,
    },
    /// The firmware is in an endless loop.
    #[error(
        "core {core} at cycle {cycle}, pc {pc:#x}: no packet started and no sleep for {patience} \
         cycles: the firmware loops, or firmware.patience is too small"
    )]
    Stuck {
        /// Which core.
        core: usize,
        /// Its cycle.
        cycle: u64,
        /// Where it was.
        pc: u32,
        /// How long was waited.
        patience: u64,
    },
    /// The firmware sends endlessly.
    #[error(
        "core {core} at cycle {cycle}, pc {pc:#x}: more packets than the message has bytes: the \
         firmware does not end its message"
    )]
    Endless {
        /// Which core.
        core: usize,
        /// Its cycle.
        cycle: u64,
        /// Where it was.
        pc: u32,
    },
    /// The firmware halted.
    #[error("core {core} at cycle {cycle}, pc {pc:#x}: ebreak: the firmware refuses the message")]
    Halted {
        /// Which core.
        core: usize,
        /// Its cycle.
        cycle: u64,
        /// Where.
        pc: u32,
    },
    /// All cores wait for one another.
    #[error("at {at} every core waits for room in its buffer: sbi_bytes is too small")]
    Stalled {
        /// When.
        at: Ps,
    },
}

impl TransmitError {
    /// The address of the instruction that failed.
    #[must_use]
    pub const fn pc(&self) -> Option<u32> {
        match self {
            Self::Fault { fault, .. } => Some(fault.pc),
            Self::Stuck { pc, .. } | Self::Endless { pc, .. } | Self::Halted { pc, .. } => {
                Some(*pc)
            }
            _ => None,
        }
    }
}

/// The result of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TransmitResults {
    /// Packets sent that equal those of this project's offload.
    pub right: u64,
    /// Packets that differ, or were never sent.
    pub wrong: u64,
    /// The first of those.
    pub mismatch: Option<Mismatch>,
    /// Bytes sent, from the IP header on.
    pub bytes: u64,
    /// When the last packet had been moved to the line interface.
    pub moved: Ps,
    /// When the last packet had been sent.
    pub left: Ps,
    /// Cells of messages that fit in one packet.
    pub ssm: Cells,
    /// Cells of first packets.
    pub bom: Cells,
    /// Cells of packets in between.
    pub com: Cells,
    /// Cells of last packets.
    pub eom: Cells,
    /// Each core's cycles.
    pub cycles: Vec<Cycles>,
    /// Each core's other counters.
    pub units: Vec<UnitCounters>,
    /// A hash of everything sent, in order, with times.
    pub hash: u64,
}

impl TransmitResults {
    /// The cells of a class.
    #[must_use]
    pub fn cells(&self, class: Class) -> &Cells {
        match class {
            Class::Ssm => &self.ssm,
            Class::Bom => &self.bom,
            Class::Com => &self.com,
            Class::Eom => &self.eom,
        }
    }

    /// Packets sent.
    #[must_use]
    pub fn packets(&self) -> u64 {
        self.ssm.packets + self.bom.packets + self.com.packets + self.eom.packets
    }

    fn take(&mut self, sent: &Sent) {
        let cells = match sent.cell.class {
            Class::Ssm => &mut self.ssm,
            Class::Bom => &mut self.bom,
            Class::Com => &mut self.com,
            Class::Eom => &mut self.eom,
        };
        cells.add(&sent.cell);
        self.bytes += sent.bytes.len() as u64;
        self.moved = self.moved.max(sent.cell.moved_to);
        self.left = self.left.max(sent.to);
        self.hash = fnv(fingerprint(self.hash, &sent.bytes), &sent.to.0.to_le_bytes());
    }
}

/// A running transmit unit.
#[derive(Debug)]
pub struct Transmit {
    design: Design,
    cores: Vec<(Core, Unit)>,
    line: Line,
    verifier: Verifier,
    outcome: TransmitResults,
    /// Messages assigned.
    given: u64,
}

impl Transmit {
    /// Builds a design, with the same firmware on each core.
    ///
    /// # Errors
    /// When the design cannot be built or the firmware does not fit.
    pub fn new(design: &Design, firmware: &Image) -> Result<Self, TransmitError> {
        design.check()?;
        let config = Config { timing: design.timing, imem_bytes: MEMORY, dmem_bytes: MEMORY };
        let core = |number| Ok((Core::new(firmware, config)?, Unit::new(number, design)));
        let cores = (0..design.cores).map(core).collect::<Result<_, LoadError>>()?;
        Ok(Self {
            cores,
            line: Line::new(design),
            verifier: Verifier::new(design.mtu),
            outcome: TransmitResults { hash: BASIS, ..TransmitResults::default() },
            given: 0,
            design: design.clone(),
        })
    }

    /// Counts from now on where the cycles of each instruction go. Runs take longer.
    pub fn start_profile(&mut self) {
        self.cores.iter_mut().for_each(|(core, _)| core.start_profile());
    }

    /// Each core's counts since [`Transmit::start_profile`]; none without it.
    pub fn profiles(&self) -> impl Iterator<Item = &Profile> {
        self.cores.iter().filter_map(|(core, _)| core.profile())
    }

    /// Records from now on when cores wait, and at which instructions: [`Sent::trace`]. Counts as
    /// [`Transmit::start_profile`] does.
    pub fn start_trace(&mut self) {
        self.start_profile();
        self.cores.iter_mut().for_each(|(_, unit)| unit.start_trace());
    }

    /// Sends all messages; `sink` gets each packet when it has left.
    ///
    /// # Errors
    /// If a message cannot be sent, or the firmware misbehaves.
    pub fn run(
        &mut self,
        messages: impl IntoIterator<Item = Message>,
        mut sink: impl FnMut(&Sent),
    ) -> Result<TransmitResults, TransmitError> {
        self.send(&mut messages.into_iter(), &mut sink)
    }

    /// Not generic, so that the hot code is compiled once in this crate and not in each caller's.
    fn send(
        &mut self,
        messages: &mut dyn Iterator<Item = Message>,
        sink: &mut dyn FnMut(&Sent),
    ) -> Result<TransmitResults, TransmitError> {
        let mut has_more = true;
        while let Some(number) = self.next_core(has_more)? {
            match self.cores[number].1.pending {
                PendingRequest::Message(_) => match messages.next() {
                    Some(message) => self.give(number, message)?,
                    // Other cores may still be working on theirs.
                    None => has_more = false,
                },
                PendingRequest::Room(_) | PendingRequest::None => self.step(number)?,
            }
            while let Some(sent) = self.line.next_sent() {
                self.verifier.check(sent.message, &sent.bytes);
                self.outcome.take(&sent);
                sink(&sent);
                self.line.recycle(sent.bytes);
            }
        }
        self.end()
    }

    /// The core that runs next, by time: earlier requests are served earlier. None if there are no
    /// more messages and all have been sent.
    fn next_core(&mut self, has_more: bool) -> Result<Option<usize>, TransmitError> {
        let clock = self.design.core;
        let mut next: Option<(Ps, usize)> = None;
        for (number, (core, unit)) in self.cores.iter().enumerate() {
            let at = match unit.pending {
                PendingRequest::Message(_) if !has_more => continue,
                PendingRequest::Message(at) => at,
                // Until another core's packets have been sent.
                PendingRequest::Room(len) if !unit.has_room(len, &mut self.line) => continue,
                PendingRequest::Room(_) | PendingRequest::None => clock.edge(core.cycle()),
            };
            if next.is_none_or(|(earliest, _)| at < earliest) {
                next = Some((at, number));
            }
        }
        let waits = |(_, unit): &(Core, Unit)| matches!(unit.pending, PendingRequest::Room(_));
        if next.is_none() && self.cores.iter().any(waits) {
            let last = self.cores.iter().map(|(core, _)| core.cycle()).max();
            return Err(TransmitError::Stalled { at: clock.edge(last.unwrap_or(0)) });
        }
        Ok(next.map(|(_, number)| number))
    }

    fn give(&mut self, number: usize, message: Message) -> Result<(), TransmitError> {
        let why = |why| TransmitError::Message { number: self.given, why };
        let mss = message.mss(self.design.mtu).map_err(why)?;
        self.cores[number].1.grant(self.given, &message, mss);
        self.verifier.expect(message);
        self.given += 1;
        Ok(())
    }

    /// Runs a core until it waits for something, or until its packets have to be collected.
    fn step(&mut self, number: usize) -> Result<(), TransmitError> {
        let (core, unit) = &mut self.cores[number];
        let patience = self.design.patience;
        unit.pending = PendingRequest::None;
        // A sleep is longer than patience where the host takes its time.
        let before = (unit.counters.packets, core.cycles().asleep);
        let until = core.cycle().saturating_add(patience);
        let stop = core.run(&mut BusPort { unit: &mut *unit, line: &mut self.line }, until);
        let stop = stop.map_err(|fault| TransmitError::Fault { core: number, fault })?;
        let (cycle, pc) = (core.cycle(), core.pc());
        let goes_on = (unit.counters.packets, core.cycles().asleep) != before;
        match stop {
            Stop::Blocked => Ok(()),
            Stop::Halted => Err(TransmitError::Halted { core: number, cycle, pc }),
            Stop::Reached if !unit.is_within_message() => {
                Err(TransmitError::Endless { core: number, cycle, pc })
            }
            Stop::Reached if goes_on => Ok(()),
            Stop::Reached => Err(TransmitError::Stuck { core: number, cycle, pc, patience }),
        }
    }

    fn end(&mut self) -> Result<TransmitResults, TransmitError> {
        self.verifier.end();
        self.outcome.right = self.verifier.right;
        self.outcome.wrong = self.verifier.wrong;
        self.outcome.mismatch.clone_from(&self.verifier.first);
        self.outcome.cycles = self.cores.iter().map(|(core, _)| core.cycles()).collect();
        self.outcome.units = self.cores.iter().map(|(_, unit)| unit.counters).collect();
        Ok(self.outcome.clone())
    }
}

/// A packet by its header, checksums included, and its length: that each byte of payload is in its
/// place has been verified.
fn fingerprint(hash: u64, packet: &[u8]) -> u64 {
    let header = packet.len().min(64);
    fnv(fnv(hash, &packet[..header]), &(packet.len() as u64).to_le_bytes())
}
