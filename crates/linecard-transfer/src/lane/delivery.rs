//! Delivery rate: how fast the path has carried bytes while it was not idle (draft-ietf-ccwg-bbr-05, section 4.1).

use linecard::time::Instant;

/// Bytes delivered so far, and when.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Delivery {
    delivered: u64,
    delivered_at: Instant,
    /// When the packet acknowledged last was sent: the sending interval of the next sample begins there.
    sent_at: Instant,
    /// Until this many bytes are delivered, samples show what the sender had to send, not what the path carries.
    limited_until: u64,
}

/// The state of [`Delivery`] when a packet was sent.
#[derive(Debug, Clone, Copy)]
pub(super) struct DeliveryAtSend {
    delivered: u64,
    delivered_at: Instant,
    sent_at: Instant,
    limited: bool,
}

/// A measurement of the delivery rate, over about a round-trip time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateSample {
    /// Bytes delivered in the interval.
    pub bytes: u64,
    /// The longer of the times in which they were sent and acknowledged, in ns.
    pub interval_ns: u64,
    /// Bytes delivered before the newest acknowledged packet was sent.
    pub before: u64,
    /// Bytes delivered in all.
    pub delivered: u64,
    /// When the newest acknowledged packet was sent.
    pub sent_at: Instant,
    /// The sender had too little to send to show what the path carries.
    pub limited: bool,
}

impl RateSample {
    /// In bytes per second.
    #[must_use]
    pub fn rate(&self) -> f64 {
        self.bytes as f64 * 1e9 / self.interval_ns.max(1) as f64
    }
}

impl Delivery {
    /// Records that a packet is sent at `now`, `idle` if none was in flight.
    pub(super) fn depart(&mut self, idle: bool, now: Instant) -> DeliveryAtSend {
        if idle {
            (self.sent_at, self.delivered_at) = (now, now);
        }
        DeliveryAtSend {
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            sent_at: self.sent_at,
            limited: self.limited_until > 0,
        }
    }

    /// Records that a packet of `bytes` has arrived.
    pub(super) fn arrived(&mut self, bytes: u64, now: Instant) {
        self.delivered += bytes;
        self.delivered_at = now;
        if self.delivered > self.limited_until {
            self.limited_until = 0;
        }
    }

    /// The sample of the newest packet that an acknowledgment names, sent at `sent_at`.
    pub(super) fn sample(
        &mut self,
        sent_at: Instant,
        at_send: &DeliveryAtSend,
        now: Instant,
    ) -> RateSample {
        let sending_ns = sent_at.ns_since(at_send.sent_at);
        let arriving_ns = now.ns_since(at_send.delivered_at);
        self.sent_at = self.sent_at.max(sent_at);
        RateSample {
            bytes: self.delivered - at_send.delivered,
            interval_ns: sending_ns.max(arriving_ns),
            before: at_send.delivered,
            delivered: self.delivered,
            sent_at: self.sent_at,
            limited: at_send.limited,
        }
    }

    /// Records that nothing more was to be sent while `in_flight` bytes were in flight.
    pub(super) fn limit(&mut self, in_flight: u64) {
        self.limited_until = (self.delivered + in_flight).max(1);
    }
}
