//! State of a connection: what has arrived, what was acknowledged, and which window was advertised.

use super::key::Key;
use crate::offload::tcp::{Options, Segment, distance};
use crate::packet::header::tcp_flags;

/// The largest window scale (RFC 7323, section 2.3).
const MAX_SCALE: u8 = 14;
/// Congestion echo (RFC 3168, section 6.1), or a bit of Accurate ECN's counter (RFC 9768).
const ECE: u16 = 0x0040;

/// The window scaling option of a SYN.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Offer {
    #[default]
    Unseen,
    /// The SYN has no such option: the connection does not scale windows.
    Without,
    Scale(u8),
}

impl Offer {
    fn of(options: &Options) -> Self {
        options.window_scale.map_or(Self::Without, |scale| Self::Scale(scale.min(MAX_SCALE)))
    }
}

/// The last acknowledgment of the receiver.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Receiver {
    /// The highest number that it has acknowledged.
    pub(super) acknowledged: u32,
    /// Its window field, unscaled.
    window: u16,
    /// The window comes from a SYN, in which windows are never scaled.
    unscaled: bool,
    /// Its next sequence number, as far as observed.
    pub(super) next: u32,
    /// Its timestamp clock.
    clock: Option<u32>,
    /// It echoes a congestion mark.
    echoes: bool,
}

/// A connection.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Connection {
    pub(super) key: Key,
    /// The offers of the sender's and the receiver's SYN.
    offers: [Offer; 2],
    pub(super) receiver: Option<Receiver>,
    /// All data before this number has passed towards the receiver, or was acknowledged by it.
    pub(super) complete: Option<u32>,
    /// The latest contiguous range of data: start and end.
    stretch: Option<(u32, u32)>,
    /// The number last acknowledged to the sender, and the window advertised with it.
    pub(super) told: u32,
    pub(super) told_window: u16,
    /// Packets since the last acknowledgment.
    pub(super) unanswered: u32,
    /// Data up to here carries a congestion mark: the receiver has to acknowledge it itself.
    marked: Option<u32>,
    /// When it was last used, in packets.
    pub(super) used: u64,
}

impl Connection {
    /// A connection of which only the key is known.
    pub(super) fn new(key: Key, used: u64) -> Self {
        Self { key, used, ..Self::default() }
    }

    /// The receiver's window scale.
    pub(super) fn scale(&self) -> Option<u8> {
        match self.offers {
            [Offer::Without, _] | [_, Offer::Without] => Some(0),
            [Offer::Scale(_), Offer::Scale(scale)] => Some(scale),
            _ => None,
        }
    }

    /// The sender's SYN; without ACK it starts a connection.
    pub(super) fn opens(&mut self, segment: &Segment, options: &Options) {
        if !segment.has(tcp_flags::ACK) {
            *self = Self::new(self.key, self.used);
        }
        self.offers[0] = Offer::of(options);
        // Data on a SYN may or may not be accepted by the receiver (RFC 7413).
        self.complete = Some(segment.sequence.wrapping_add(1));
    }

    /// Records data on its way to the receiver.
    pub(super) fn passes(&mut self, segment: &Segment, marked: bool) {
        let (start, end) = (segment.sequence, segment.end());
        if let Some(complete) = self.complete
            && distance(start, complete) >= 0
            && distance(complete, end) > 0
        {
            self.complete = Some(end);
        }
        self.stretch = match self.stretch {
            Some((first, last)) if distance(first, start) >= 0 && distance(start, last) >= 0 => {
                Some((first, if distance(last, end) > 0 { end } else { last }))
            }
            // Late data leaves the range unchanged; data after a gap starts a new range.
            Some(known) if distance(known.1, start) <= 0 => Some(known),
            _ => Some((start, end)),
        };
        if marked {
            self.marked = Some(end);
        }
        self.join();
    }

    /// Extends the complete data by a range that follows it without a gap.
    fn join(&mut self) {
        if let (Some(complete), Some((start, end))) = (self.complete, self.stretch)
            && distance(start, complete) >= 0
            && distance(complete, end) > 0
        {
            self.complete = Some(end);
        }
    }

    /// Records a packet from the receiver; returns whether it acknowledges more than before.
    pub(super) fn answers(&mut self, segment: &Segment, options: &Options) -> bool {
        let syn = segment.has(tcp_flags::SYN);
        if syn {
            if !segment.has(tcp_flags::ACK) {
                *self = Self::new(self.key, self.used);
            }
            self.offers[1] = Offer::of(options);
        }
        if !segment.has(tcp_flags::ACK) {
            return false;
        }
        let number = segment.acknowledgment;
        let before = self.receiver.map(|receiver| distance(receiver.acknowledged, number));
        let mut receiver =
            self.receiver.unwrap_or(Receiver { next: segment.end(), ..Receiver::default() });
        if before.is_none_or(|step| step >= 0) {
            receiver.acknowledged = number;
            (receiver.window, receiver.unscaled) = (segment.window, syn);
            receiver.echoes = segment.has(ECE);
        }
        if distance(receiver.next, segment.end()) > 0 {
            receiver.next = segment.end();
        }
        receiver.clock = later(receiver.clock, options.timestamps.map(|(value, _)| value));
        if self.receiver.is_none() || distance(self.told, number) > 0 {
            (self.told, self.told_window) = (number, segment.window);
        }
        self.receiver = Some(receiver);
        if self.complete.is_none_or(|complete| distance(complete, number) > 0) {
            self.complete = Some(number);
        }
        if self.marked.is_some_and(|marked| distance(marked, number) >= 0) {
            self.marked = None;
        }
        self.join();
        before.is_some_and(|step| step > 0)
    }

    /// Whether only the receiver itself may acknowledge, because of a congestion mark.
    pub(super) fn is_congested(&self) -> bool {
        self.marked.is_some() || self.receiver.is_some_and(|receiver| receiver.echoes)
    }

    /// The window field to advertise with acknowledgment `number` so that the receiver's right edge
    /// is not exceeded; none if that edge is not known.
    pub(super) fn honest_window(&self, number: u32) -> Option<u16> {
        let (scale, receiver) = (self.scale()?, self.receiver?);
        let own = if receiver.unscaled { 0 } else { scale };
        let room = u32::from(receiver.window) << own;
        let ahead = distance(receiver.acknowledged, number).max(0) as u32;
        Some((room.saturating_sub(ahead) >> scale).min(0xFFFF) as u16)
    }

    /// The receiver's clock as last seen: in its own packets, or echoed by its peer.
    pub(super) fn clock(&self, echoed: u32) -> u32 {
        let shown = self.receiver.and_then(|receiver| receiver.clock);
        later(shown, Some(echoed)).unwrap_or(echoed)
    }
}

/// The later of two times of one clock, which wraps (RFC 7323, section 5).
fn later(a: Option<u32>, b: Option<u32>) -> Option<u32> {
    match (a, b) {
        (Some(a), Some(b)) => Some(if distance(a, b) > 0 { b } else { a }),
        _ => a.or(b),
    }
}
