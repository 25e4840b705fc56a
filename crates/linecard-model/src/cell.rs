//! The core cycles of one packet: a cell of the published tables.

use super::{Clock, Ps};
use linecard::offload::segment::Class;

/// Core cycles of one packet, from its first instruction to the next packet's.
///
/// `total = before + beside + idle`; in the terms of the published tables (Elbeshti et al.,
/// tables 1 and 2), with a transfer of T core cycles: `total = P + max(T, O)`, `idle = max(0, T − O)`,
/// where P is `before` and O is `beside`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cell {
    /// The position of the packet in its message.
    pub class: Class,
    /// Total cycles.
    pub total: u64,
    /// Cycles of instructions up to the one that starts the transfer.
    pub before: u64,
    /// Cycles of instructions in parallel with the transfer.
    pub beside: u64,
    /// Cycles waited.
    pub idle: u64,
    /// When its first instruction began.
    pub begun: Ps,
    /// When its first word was moved.
    pub moved_from: Ps,
    /// When its first word of payload was moved; earlier ones were headers.
    pub payload_from: Ps,
    /// When its last word had been moved.
    pub moved_to: Ps,
}

/// Core cycles since the end of the previous packet.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Window {
    pub(super) begun: u64,
    /// Idle cycles among them.
    pub(super) idle: u64,
}

impl Window {
    /// Ends a packet's window at cycle `end` and begins the next one's. `before` is the packet's
    /// cycles up to the transfer, which began at `moved_from`, with payload at `payload_from`; the
    /// caller sets when it ends.
    pub(super) fn close(
        &mut self,
        core: &Clock,
        end: u64,
        (class, before, (moved_from, payload_from)): (Class, u64, (Ps, Ps)),
    ) -> Cell {
        let Self { begun, idle } = *self;
        let total = end - begun;
        *self = Self { begun: end, idle: 0 };
        Cell {
            class,
            total,
            before,
            beside: total.saturating_sub(before + idle),
            idle,
            begun: core.edge(begun),
            moved_from,
            payload_from,
            moved_to: Ps::ZERO,
        }
    }
}

/// Sums over the cells of one class.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cells {
    /// Number of packets.
    pub packets: u64,
    /// Cycles of all of them.
    pub total: u64,
    /// Idle cycles among them.
    pub idle: u64,
    /// The fewest and the most cycles of a packet.
    pub range: Option<(u64, u64)>,
}

impl Cells {
    pub(super) fn add(&mut self, cell: &Cell) {
        self.packets += 1;
        self.total += cell.total;
        self.idle += cell.idle;
        let (least, most) = self.range.unwrap_or((cell.total, cell.total));
        self.range = Some((least.min(cell.total), most.max(cell.total)));
    }

    /// Mean cycles of a packet.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a mean for people")]
    pub fn mean(&self) -> f64 {
        if self.packets == 0 { 0.0 } else { self.total as f64 / self.packets as f64 }
    }
}
