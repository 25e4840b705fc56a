//! The sender of a connection: TCP as far as the receive side can observe it.
//!
//! Handshake; slow start and congestion avoidance by bytes acknowledged (RFC 5681, RFC 3465); the
//! receiver's window; a retransmission timer that doubles and goes back to unacknowledged data
//! (RFC 6298, section 5); FIN. Not modelled: fast retransmit, selective acknowledgments, round-trip
//! estimates (the timer is a number), probes of a closed window, window scaling.

use super::config::Client;
use super::frame::SegmentHeader;
use crate::Ps;
use linecard::packet::header::tcp_flags::{ACK, FIN, SYN};

/// The most doublings of the timer.
const MAX_BACKOFF: u32 = 6;
/// The client's window: no data is sent to it.
const WINDOW: u16 = 0xFFFF;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Waiting,
    SynSent,
    Established,
    Failed,
}

/// A segment to be sent: `len` bytes of the stream from `offset` on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Segment {
    pub(super) header: SegmentHeader,
    pub(super) offset: u64,
    pub(super) len: usize,
}

#[derive(Debug)]
pub(super) struct Sender {
    pub(super) port: u16,
    pub(super) state: State,
    /// Whether it has data to send, and may start.
    pub(super) is_open: bool,
    /// Whether it is queued for the link.
    pub(super) in_line: bool,
    /// When its timer expires.
    pub(super) deadline: Option<Ps>,
    /// The time for which its timer event is scheduled.
    pub(super) planned: Ps,
    /// A SYN, or the acknowledgment of one, to be sent.
    control: Option<u16>,
    first: u32,
    server_next: u32,
    /// Offsets in the stream: acknowledged, sent next, the highest sent, and where it ends.
    acknowledged: u64,
    next: u64,
    highest: u64,
    end: Option<u64>,
    congestion_window: u64,
    threshold: u64,
    window: u64,
    backoff: u32,
    pub(super) counters: Counters,
}

/// Counters of a sender.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counters {
    pub(super) syns: u64,
    pub(super) segments: u64,
    pub(super) retransmitted: u64,
    pub(super) timeouts: u64,
}

impl Sender {
    /// One that sends from `port`, its first sequence number being `first`; `end` is the length of
    /// its stream.
    pub(super) fn new(port: u16, first: u32, end: Option<u64>, client: &Client) -> Self {
        Self {
            port,
            state: State::Waiting,
            is_open: false,
            in_line: false,
            deadline: None,
            planned: Ps::NEVER,
            control: None,
            first,
            server_next: 0,
            acknowledged: 0,
            next: 0,
            highest: 0,
            end,
            congestion_window: u64::from(client.initial_window) * u64::from(client.segment),
            threshold: u64::MAX,
            window: 0,
            backoff: 0,
            counters: Counters::default(),
        }
    }

    pub(super) fn connect(&mut self) {
        self.state = State::SynSent;
        self.control = Some(SYN);
    }

    /// Whether everything, FIN included, has been acknowledged.
    pub(super) fn is_finished(&self) -> bool {
        self.end.is_some_and(|end| self.acknowledged > end)
    }

    /// Whether there is something to be sent now.
    pub(super) fn can_send(&self, client: &Client) -> bool {
        self.control.is_some() || self.room(client).is_some()
    }

    /// Bytes of the next data segment, if it may be sent; 0 for FIN.
    fn room(&self, client: &Client) -> Option<u64> {
        let left = self.end.map_or(u64::MAX, |end| end.saturating_sub(self.next));
        let is_over = self.end.is_some_and(|end| self.next > end);
        if self.state != State::Established || !self.is_open || is_over {
            return None;
        }
        let len = left.min(client.segment.into());
        let allowed = self.congestion_window.min(self.window).min(client.send_window.into());
        (self.next + len <= self.acknowledged + allowed).then_some(len)
    }

    /// Takes the next segment to send.
    pub(super) fn take(&mut self, now: Ps, client: &Client) -> Option<Segment> {
        if let Some(flags) = self.control.take() {
            return Some(self.take_control(flags, now, client));
        }
        let len = self.room(client)?;
        let is_end = self.end == Some(self.next);
        let offset = self.next;
        let header = self.header(offset, if is_end { ACK | FIN } else { ACK });
        self.next += if is_end { 1 } else { len };
        self.counters.segments += 1;
        self.counters.retransmitted += u64::from(offset < self.highest);
        self.highest = self.highest.max(self.next);
        self.deadline = self.deadline.or(Some(self.timeout(now, client)));
        Some(Segment { header, offset, len: len as usize })
    }

    fn take_control(&mut self, flags: u16, now: Ps, client: &Client) -> Segment {
        let mut header = self.header(0, flags);
        if flags == SYN {
            (header.sequence, header.acknowledgment) = (self.first, 0);
            self.counters.syns += 1;
            let tries = (self.counters.syns as u32 - 1).min(MAX_BACKOFF);
            self.deadline = Some(now + Ps::from_ns(client.syn_rto_ns << tries));
        }
        Segment { header, offset: 0, len: 0 }
    }

    fn header(&self, offset: u64, flags: u16) -> SegmentHeader {
        let sequence = self.first.wrapping_add(1).wrapping_add(offset as u32);
        SegmentHeader { sequence, acknowledgment: self.server_next, flags, window: WINDOW }
    }

    fn timeout(&self, now: Ps, client: &Client) -> Ps {
        now + Ps::from_ns(client.rto_ns << self.backoff)
    }

    /// Processes an acknowledgment from the receiver, or sent on its behalf.
    pub(super) fn receive(&mut self, header: &SegmentHeader, now: Ps, client: &Client) {
        // A connection that was given up stays so.
        if self.state == State::Failed {
            return;
        }
        if header.flags & SYN != 0 {
            if self.state == State::SynSent {
                self.state = State::Established;
                self.window = header.window.into();
                self.deadline = None;
            }
            // A second SYN-ACK means that the acknowledgment of the first was lost.
            self.server_next = header.sequence.wrapping_add(1);
            self.control = Some(ACK);
            return;
        }
        let expected = self.first.wrapping_add(1).wrapping_add(self.acknowledged as u32);
        let step = i64::from(header.acknowledgment.wrapping_sub(expected) as i32);
        let sent = self.highest - self.acknowledged;
        if self.state != State::Established || step < 0 || step as u64 > sent {
            return;
        }
        self.window = header.window.into();
        if step > 0 {
            self.advance(step as u64, client);
            let is_waiting = self.acknowledged < self.next;
            self.deadline = is_waiting.then(|| self.timeout(now, client));
        }
    }

    fn advance(&mut self, bytes: u64, client: &Client) {
        self.acknowledged += bytes;
        self.next = self.next.max(self.acknowledged);
        self.backoff = 0;
        let window = self.congestion_window;
        let step = if window < self.threshold {
            bytes
        } else {
            u64::from(client.segment) * bytes / window
        };
        // Twice the send window has the same effect as more.
        self.congestion_window = (window + step).min(2 * u64::from(client.send_window));
    }

    /// Handles an expired timer; returns whether there is something to send.
    pub(super) fn expire(&mut self, now: Ps, client: &Client) -> bool {
        if self.deadline.is_none_or(|deadline| deadline > now) {
            return false;
        }
        self.deadline = None;
        match self.state {
            State::SynSent if self.counters.syns >= client.syn_tries.into() => {
                self.state = State::Failed;
                false
            }
            State::SynSent => {
                self.control = Some(SYN);
                true
            }
            State::Established => {
                let segment = u64::from(client.segment);
                self.threshold = ((self.next - self.acknowledged) / 2).max(2 * segment);
                self.congestion_window = segment;
                self.next = self.acknowledged;
                self.backoff = (self.backoff + 1).min(MAX_BACKOFF);
                self.counters.timeouts += 1;
                true
            }
            State::Waiting | State::Failed => false,
        }
    }
}
