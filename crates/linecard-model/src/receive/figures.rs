//! Values of tables: the cost of a packet, and the smallest clocks that sustain a line, with each
//! remedy, found by simulation.

use super::firmware::example_packets;
use super::{Arrival, Design, Receive, ReceiveError};
use crate::cell::Cell;
use crate::dma::BusPolicy;
use crate::rv32::Image;
use crate::transmit::DesignError;
use crate::{Clock, Ps};
use alloc::vec::Vec;
use linecard::offload::segment::Class;

/// Packets of a message in searches: of full ones, as many as 64 KiB hold.
const MESSAGE_PACKETS: usize = 44;
/// Messages evaluated in a search, and messages before them that are skipped.
const MESSAGES: usize = 10;
const SKIPPED: usize = 2;
/// Relative resolution of a clock search.
const RESOLUTION: u64 = 2_000;

/// A remedy for the core's idle cycles (Elbeshti et al., "Cycle processing").
///
/// Several buses are as [`BusPolicy::DualPort`]: a bus of its own for the DMA keeps the core from
/// waiting just as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Remedy {
    /// Arbitration of the bus.
    pub policy: BusPolicy,
    /// The DMA's clock in core clocks.
    pub dma_ratio: u64,
    /// Width of the bus.
    pub bus_bits: u32,
}

impl Remedy {
    /// As published: one 64-bit bus that the DMA holds, equal clocks.
    pub const NONE: Self = Self { policy: BusPolicy::Hold, dma_ratio: 1, bus_bits: 64 };

    /// The published design with this remedy at a core clock.
    ///
    /// # Errors
    /// If a clock of this frequency is not possible.
    pub fn design(self, core_hz: u64) -> Result<Design, ReceiveError> {
        let clock = |hz| Clock::new(hz, Ps::ZERO).map_err(DesignError::from);
        let dma = clock(core_hz.saturating_mul(self.dma_ratio))?;
        let Self { policy, bus_bits, .. } = self;
        Ok(Design { policy, bus_bits, ..Design::published(clock(core_hz)?, dma) })
    }
}

/// Cost of a TCP packet of `packet_bytes` between first and last (COM); `None` when the firmware
/// sorts no such packet.
///
/// # Errors
/// As [`Receive::run`]; packets without room for payload.
pub fn com_cell(
    firmware: &Image,
    remedy: Remedy,
    packet_bytes: u16,
) -> Result<Option<Cell>, ReceiveError> {
    let packets = example_packets(false, packet_bytes, MESSAGE_PACKETS)?;
    let mut cells = Vec::new();
    let receive = Receive::new(&remedy.design(100_000_000)?, firmware)?;
    receive.run(packets, |received| cells.extend(received.cells.iter().copied()))?;
    // The one in the middle: before and behind it are others like it.
    Ok(cells.get(MESSAGE_PACKETS / 2).copied().filter(|cell| cell.class == Class::Com))
}

/// The smallest core clock, to 1/2000, that carries a line full of TCP packets of `packet_bytes` in
/// messages of 44; `None` if no clock does.
///
/// # Errors
/// As [`Receive::run`]; packets without room for payload.
pub fn smallest_core_hz(
    firmware: &Image,
    (remedy, packet_bytes): (Remedy, u16),
    bits_per_second: u64,
) -> Result<Option<u64>, ReceiveError> {
    let message = example_packets(false, packet_bytes, MESSAGE_PACKETS)?;
    let carries = |hz| -> Result<bool, ReceiveError> {
        let design = remedy.design(hz)?;
        let bytes = u64::from(packet_bytes) + design.wire_overhead_bytes;
        let bits = bytes * 8 * (MESSAGE_PACKETS * MESSAGES) as u64;
        Ok(span(&design, firmware, &message)? <= Ps::of_bits(bits, bits_per_second))
    };
    let (mut bad, mut good) = (Clock::MIN_HZ, Clock::MAX_HZ / remedy.dma_ratio.max(1));
    if !carries(good)? {
        return Ok(None);
    }
    while good - bad > good / RESOLUTION {
        let middle = bad.midpoint(good);
        *(if carries(middle)? { &mut good } else { &mut bad }) = middle;
    }
    Ok(Some(good))
}

/// The time of the evaluated messages, if the line always has a packet.
fn span(design: &Design, firmware: &Image, message: &[Arrival]) -> Result<Ps, ReceiveError> {
    let packets = (0..SKIPPED + MESSAGES).flat_map(|_| message.iter().cloned());
    let mut ends = Vec::new();
    let outcome =
        Receive::new(design, firmware)?.run(packets, |received| ends.push(received.at))?;
    let from = ends.get(SKIPPED - 1).copied().unwrap_or(Ps::ZERO);
    Ok(outcome.ended.since(from))
}
