//! The cost of firmware: cycles before and in parallel with the transfer, measured in a run.

use super::traffic::Traffic;
use crate::rv32::{Image, Timing};
use crate::transmit::firmware::example_message;
use crate::transmit::{
    BusPolicy, Cell, Design, HeaderPath, Kind, Message, Sent, Transmit, TransmitError,
};
use crate::{Clock, Ps};
use alloc::vec::Vec;
use linecard::offload::segment::Class;

/// Cycles of one packet: P and O of the published tables.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cost {
    /// Before the transfer can start.
    pub before: u64,
    /// In parallel with the transfer, before the core needs the bus again.
    pub beside: u64,
    /// Whether the DMA has headers to move, not only payload.
    pub moves_header: bool,
}

/// Costs of the packets of one protocol. The last packet before EOM has a separate cost, because
/// EOM is prepared during its transfer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Costs {
    /// A message in one packet.
    pub ssm: Cost,
    /// The first packet of three or more.
    pub bom: Cost,
    /// The first packet of two.
    pub bom_of_two: Cost,
    /// A packet between, but the last of them.
    pub com: Cost,
    /// The last packet between.
    pub com_last: Cost,
    /// The last packet.
    pub eom: Cost,
}

impl Costs {
    /// Measures the costs in a run of the firmware, with a DMA so slow that nothing in parallel
    /// with a transfer is cut short.
    ///
    /// # Errors
    /// As [`Transmit::run`].
    pub fn measure(firmware: &Image, timing: Timing, kind: Kind) -> Result<Self, TransmitError> {
        let of_mhz = |mhz: u64| Clock::new(mhz * 1_000_000, Ps::ZERO);
        let clock = |mhz| of_mhz(mhz).map_err(|e| TransmitError::Design(e.into()));
        // A thousand core cycles for a packet of 125 words at the same clock and eight cycles a word.
        let slow = Design {
            timing,
            cycles_per_word: 8,
            policy: BusPolicy::Hold,
            header: HeaderPath::Bus,
            mtu: 1040,
            ..Design::published(clock(100)?, clock(100)?)
        };
        let mss = Traffic::mss(kind, slow.mtu);
        let message = |packets: usize| {
            let payload = packets * mss - if kind == Kind::Udp { 8 } else { 0 };
            Message::new(example_message(kind == Kind::Udp, payload), Ps::ZERO)
                .map_err(|why| TransmitError::Message { number: 0, why })
        };
        let messages = [message(1)?, message(2)?, message(5)?];
        let header = Traffic::header_len(kind) as usize;
        let of = |sent: &Sent| {
            let Cell { before, beside, moved_from, moved_to, .. } = sent.cell;
            let payload = slow.transfer_cycles(0, sent.bytes.len().saturating_sub(header));
            let moved = moved_to.since(moved_from);
            Cost { before, beside, moves_header: moved > slow.dma.cycles(payload) }
        };
        let mut costs: Vec<(Class, Cost)> = Vec::new();
        let sink = |sent: &Sent| costs.push((sent.cell.class, of(sent)));
        Transmit::new(&slow, firmware)?.run(messages, sink)?;
        let cost = |at: usize, class: Class| {
            let there = costs.get(at).filter(|(of, _)| *of == class);
            there.map_or(Cost::default(), |(_, cost)| *cost)
        };
        Ok(Self {
            ssm: cost(0, Class::Ssm),
            bom_of_two: cost(1, Class::Bom),
            bom: cost(3, Class::Bom),
            com: cost(5, Class::Com),
            com_last: cost(6, Class::Com),
            eom: cost(7, Class::Eom),
        })
    }

    /// Costs of packet `at` of `packets`.
    #[must_use]
    pub fn of(&self, at: u64, packets: u64) -> Cost {
        match (at, packets) {
            (_, 1) => self.ssm,
            (0, 2) => self.bom_of_two,
            (0, _) => self.bom,
            (at, packets) if at + 1 == packets => self.eom,
            (at, packets) if at + 2 == packets => self.com_last,
            _ => self.com,
        }
    }
}
