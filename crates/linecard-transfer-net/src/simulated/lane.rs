//! The path of a lane, over UDP or TCP.

use super::Time;
use super::tcp::TcpWire;
use super::udp::UdpWire;
use crate::lane::{Absent, Accept, Connect, Lane};
use linecard::rng::Rng;
use linecard::time::Instant;
use linecard_transfer::control::LaneKind;
use linecard_transfer::sim::{LinkCounters, LinkSettings};
use std::net::SocketAddr;

/// Parameters of a path.
#[derive(Debug, Clone)]
pub(super) struct PathSettings {
    pub(super) kind: LaneKind,
    /// The link of each direction. TCP hides all of its faults but its death.
    pub(super) link: LinkSettings,
    /// From these moments on, the sender has another address. Over TCP, its connection is reset.
    pub(super) rebinds: Vec<Instant>,
    /// The share of packets that a stranger sends once more, later, and of those with which it sends something else.
    pub(super) replayed: f64,
    pub(super) garbage: f64,
    /// When strangers connect, over TCP.
    pub(super) visits: Vec<Instant>,
    /// The share of calls by which the sockets of both ends take nothing for a while, or over TCP a part.
    pub(super) busy: f64,
    /// The hosts know that the link is dead: sending is an error.
    pub(super) is_noticed: bool,
}

/// A lane and both of its ends.
#[derive(Debug, Clone)]
pub(super) enum Wire {
    Udp(UdpWire),
    Tcp(TcpWire),
}

impl Wire {
    pub(super) fn new(lane: u16, settings: &PathSettings, time: &Time, rng: &mut Rng) -> Self {
        match settings.kind {
            LaneKind::Udp => Self::Udp(UdpWire::new(lane, settings, time, rng)),
            LaneKind::Tcp => Self::Tcp(TcpWire::new(settings, time, rng)),
        }
    }

    /// An end of the lane at the start: 0 is that of the sender, 1 that of the receiver.
    pub(super) fn lane(&self, end: usize) -> Box<dyn Lane> {
        let absent = || Box::new(Absent::new(String::new(), true));
        match self {
            Self::Udp(wire) => Box::new(wire.end(end)),
            Self::Tcp(wire) if end == 0 => {
                wire.connect(self.receiver()).unwrap_or_else(|_| absent())
            }
            Self::Tcp(_) => absent(),
        }
    }

    /// Opens the sender's end again.
    pub(super) fn connect(&self) -> Box<dyn Connect> {
        match self {
            Self::Udp(wire) => Box::new(wire.clone()),
            Self::Tcp(wire) => Box::new(wire.clone()),
        }
    }

    /// The listener of the receiver.
    pub(super) fn listener(&self) -> Option<Box<dyn Accept>> {
        match self {
            Self::Udp(_) => None,
            Self::Tcp(wire) => Some(Box::new(wire.clone())),
        }
    }

    /// Where the receiver is reached.
    pub(super) fn receiver(&self) -> SocketAddr {
        match self {
            Self::Udp(wire) => wire.receiver(),
            Self::Tcp(_) => ([203, 0, 113, 100], 7_000).into(),
        }
    }

    /// When something comes to an end, or there is room for what it could not send.
    pub(super) fn next_event(&self, end: usize) -> Instant {
        match self {
            Self::Udp(wire) => wire.next_event(end),
            Self::Tcp(wire) => wire.next_event(end),
        }
    }

    /// The process of an end is gone.
    pub(super) fn close(&self, end: usize) {
        if let Self::Tcp(wire) = self {
            wire.close(end);
        }
    }

    /// Of the link towards the receiver.
    pub(super) fn counters(&self) -> LinkCounters {
        match self {
            Self::Udp(wire) => wire.counters(),
            Self::Tcp(wire) => wire.counters(),
        }
    }

    /// Over UDP: how many probes strangers have sent to the receiver, how many answers it has sent to them, and how many
    /// packets.
    pub(super) fn strangers(&self) -> [u64; 3] {
        match self {
            Self::Udp(wire) => wire.strangers(),
            Self::Tcp(_) => [0; 3],
        }
    }

    /// How many connections the sender has made.
    pub(super) fn made(&self) -> u64 {
        match self {
            Self::Udp(_) => 0,
            Self::Tcp(wire) => wire.made(),
        }
    }
}
