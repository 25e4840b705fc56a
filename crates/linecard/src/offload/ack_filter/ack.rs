//! Examines single acknowledgments: whether one may be held, and whether a newer one supersedes it.

use super::reason::Pass;
use crate::offload::tcp::{Options, Segment, distance, is_marked, traffic_classes};
use crate::packet::header::tcp_flags;
use crate::packet::{Meta, Packet};
use crate::time::Instant;

/// An acknowledgment that may be held.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ack {
    sequence: u32,
    window: u16,
    timestamps: Option<(u32, u32)>,
}

impl Ack {
    /// Examines a packet whose checksums are verified.
    pub(super) fn examine<B: AsRef<[u8]>>(
        packet: &Packet<B>,
        segment: &Segment,
    ) -> Result<Self, Pass> {
        let options = Options::read(packet);
        let pass = match segment {
            Segment { len: 1.., .. } => Pass::Data,
            _ if segment.flags != tcp_flags::ACK => Pass::Flags,
            _ if options.others => Pass::Options,
            Segment { window: 0, .. } => Pass::ZeroWindow,
            _ if is_marked(packet) => Pass::Congestion,
            _ if packet.meta.mark == Meta::NEVER => Pass::Unmergeable,
            _ => {
                return Ok(Self {
                    sequence: segment.sequence,
                    window: segment.window,
                    timestamps: options.timestamps,
                });
            }
        };
        Err(pass)
    }

    /// Whether this acknowledgment, which has a higher number, supersedes `older`: its window is
    /// not smaller, and its timestamps are not older.
    fn covers(&self, older: &Self) -> bool {
        let timestamps = match (older.timestamps, self.timestamps) {
            (None, None) => true,
            (Some(older), Some(newer)) => {
                distance(older.0, newer.0) >= 0 && distance(older.1, newer.1) >= 0
            }
            _ => false,
        };
        timestamps && self.sequence == older.sequence && self.window >= older.window
    }
}

/// The acknowledgment that a flow holds.
#[derive(Debug)]
pub(super) struct Held<B> {
    pub(super) packet: Packet<B>,
    pub(super) ack: Ack,
    /// The number of acknowledgments that it replaces, itself included, and the arrival of the
    /// first.
    pub(super) run: u16,
    pub(super) since: Instant,
}

impl<B: AsRef<[u8]>> Held<B> {
    /// Whether the packet of a newer acknowledgment may replace this one.
    pub(super) fn may_give_way(&self, packet: &Packet<B>, ack: &Ack) -> bool {
        let (held, new) = (self.packet.meta, packet.meta);
        ack.covers(&self.ack)
            && (held.lane, held.mark) == (new.lane, new.mark)
            && traffic_classes(&self.packet).eq(traffic_classes(packet))
    }
}
