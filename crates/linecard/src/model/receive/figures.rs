//! Rows of tables: idle cycles by packet size and clock ratio, and the smallest clocks that carry a
//! line with each remedy, found on runs.

use super::firmware::example_packets;
use super::{Arrival, Design, Receive, ReceiveError};
use crate::model::cell::Cell;
use crate::model::dma::BusPolicy;
use crate::model::rv32::Image;
use crate::model::transmit::DesignError;
use crate::model::{Clock, Ps};
use crate::offload::segment::Class;
use alloc::vec::Vec;

/// Packets of a message in searches: of full ones, as many as 64 KiB hold.
const MESSAGE_PACKETS: usize = 44;
/// Messages that a search stands on, and those before them that it leaves out.
const MESSAGES: usize = 10;
const SKIPPED: usize = 2;
/// To what a clock is found, in parts of itself.
const RESOLUTION: u64 = 2_000;

/// What the paper weighs against the core's idle cycles ("Cycle processing"). Several buses are as
/// [`Remedy::DualPort`]: a bus of its own for the DMA keeps the core from waiting just as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remedy {
    /// As published: one 64-bit bus that the DMA holds, equal clocks.
    None,
    /// The DMA's clock is so many times the core's.
    FasterDma(u64),
    /// The core comes between two words.
    Interleave,
    /// Memories with a port for each, or buses of their own.
    DualPort,
    /// A bus of so many bits.
    WiderBus(u32),
}

impl Remedy {
    /// The published design with this remedy at a core clock.
    ///
    /// # Errors
    /// When there is no such clock.
    pub fn design(self, core_hz: u64) -> Result<Design, ReceiveError> {
        let clock = |hz| Clock::new(hz, Ps::ZERO).map_err(DesignError::from);
        let ratio = if let Self::FasterDma(ratio) = self { ratio } else { 1 };
        let design = Design::published(clock(core_hz)?, clock(core_hz.saturating_mul(ratio))?);
        Ok(match self {
            Self::None | Self::FasterDma(_) => design,
            Self::Interleave => Design { policy: BusPolicy::Interleave, ..design },
            Self::DualPort => Design { policy: BusPolicy::DualPort, ..design },
            Self::WiderBus(bus_bits) => Design { bus_bits, ..design },
        })
    }
}

/// A TCP packet between first and last (COM), in core cycles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdleRow {
    /// What was done about idle cycles.
    pub remedy: Remedy,
    /// Bytes from the IP header on.
    pub packet_bytes: u16,
    /// DMA cycles of its transfer.
    pub transfer: u64,
    /// What it cost.
    pub cell: Cell,
}

/// What a COM of `packet_bytes` costs with a remedy.
///
/// # Errors
/// As [`Receive::run`]; packets without room for payload.
pub fn idle_row(
    firmware: &Image,
    remedy: Remedy,
    packet_bytes: u16,
) -> Result<IdleRow, ReceiveError> {
    let design = remedy.design(100_000_000)?;
    let packets = example_packets(false, packet_bytes, MESSAGE_PACKETS)?;
    let mut cells = Vec::new();
    Receive::new(&design, firmware)?.run(packets, |received| cells.extend(&received.cells))?;
    // The one in the middle: before and behind it are others like it.
    let cell = *cells.get(MESSAGE_PACKETS / 2).unwrap_or(&NO_CELL);
    let transfer = design.transfer_cycles(usize::from(packet_bytes).saturating_sub(40));
    Ok(IdleRow { remedy, packet_bytes, transfer, cell })
}

const NO_CELL: Cell = Cell {
    class: Class::Com,
    total: 0,
    before: 0,
    beside: 0,
    idle: 0,
    begun: Ps::ZERO,
    moved_from: Ps::ZERO,
    moved_to: Ps::ZERO,
};

/// A clock that carries a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockRow {
    /// What was done about idle cycles.
    pub remedy: Remedy,
    /// Bytes from the IP header on.
    pub packet_bytes: u16,
    /// The smallest core clock, to 1/2000; `None` if no clock does.
    pub core_hz: Option<u64>,
}

/// The smallest core clock that carries a line full of TCP packets, in messages of 44, with a remedy.
///
/// # Errors
/// As [`Receive::run`]; packets without room for payload.
pub fn clock_row(
    firmware: &Image,
    (remedy, packet_bytes): (Remedy, u16),
    bits_per_second: u64,
) -> Result<ClockRow, ReceiveError> {
    let message = example_packets(false, packet_bytes, MESSAGE_PACKETS)?;
    let ratio = if let Remedy::FasterDma(ratio) = remedy { ratio.max(1) } else { 1 };
    let (mut bad, mut good) = (Clock::MIN_HZ, Clock::MAX_HZ / ratio);
    let carries = |hz| -> Result<bool, ReceiveError> {
        let design = remedy.design(hz)?;
        let bytes = u64::from(packet_bytes) + design.wire_overhead_bytes;
        let bits = bytes * 8 * (MESSAGE_PACKETS * MESSAGES) as u64;
        Ok(span(&design, firmware, &message)? <= Ps::of_bits(bits, bits_per_second))
    };
    if !carries(good)? {
        return Ok(ClockRow { remedy, packet_bytes, core_hz: None });
    }
    while good - bad > good / RESOLUTION {
        let middle = bad.midpoint(good);
        *(if carries(middle)? { &mut good } else { &mut bad }) = middle;
    }
    Ok(ClockRow { remedy, packet_bytes, core_hz: Some(good) })
}

/// How long the messages take that count, when the line always has a packet.
fn span(design: &Design, firmware: &Image, message: &[Arrival]) -> Result<Ps, ReceiveError> {
    let packets = (0..SKIPPED + MESSAGES).flat_map(|_| message.iter().cloned());
    let mut ends = Vec::new();
    let outcome =
        Receive::new(design, firmware)?.run(packets, |received| ends.push(received.at))?;
    let from = ends.get(SKIPPED - 1).copied().unwrap_or(Ps::ZERO);
    Ok(outcome.ended.since(from))
}
