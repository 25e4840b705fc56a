//! A randomly drawn host, and its trace.

use linecard::rng::Rng;
use linecard_jitter::stream::{Arrival, Measured, Schedule};
use linecard_jitter::trace::{Event, EventKind, Occupant, PinnedThread, Trace, Vector};

/// The sender's core and thread.
pub(crate) const GENERATOR: PinnedThread = PinnedThread { thread: 100, core: 0 };
/// The sink's.
pub(crate) const SINK: PinnedThread = PinnedThread { thread: 200, core: 1 };
/// The number of the interrupt of a device.
const INTERRUPT: u32 = 36;
/// The address of a timer's function.
const FUNCTION: u64 = 0xFFFF_8000_1234;

/// A host with a stream.
pub(crate) struct Host {
    pub(crate) trace: Trace,
    pub(crate) measured: Measured,
    /// The thread on each core from a time on; the last one stays.
    pub(crate) truth: [Vec<(u64, Occupant)>; 2],
    /// Beginnings of the stages of each packet.
    pub(crate) ways: Vec<[u64; 8]>,
}

/// A synthetic host.
pub(crate) struct HostConfig {
    pub(crate) packets: u64,
    pub(crate) period_ns: u64,
    /// One packet in this many is delayed, at some stage.
    pub(crate) late: u64,
    /// Times between events on a core.
    pub(crate) calm_ns: u64,
    /// Between a packet in the application's hands and the next one at the same stage, at least.
    pub(crate) apart_ns: u64,
}

impl Default for HostConfig {
    fn default() -> Self {
        Self { packets: 60, period_ns: 2_000, late: 4, calm_ns: 700, apart_ns: 600 }
    }
}

impl Host {
    pub(crate) fn new(wish: &HostConfig, rng: &mut Rng) -> Self {
        let start_ns = 10_000;
        let end_ns = start_ns + wish.packets * wish.period_ns + 200_000;
        let truth = [0, 1].map(|core| occupants(core, end_ns, wish.calm_ns, rng));
        let mut events = Vec::new();
        for (core, spans) in (0..).zip(&truth) {
            show(core, spans, &mut events);
        }
        let schedule = Schedule { start_ns, period_ps: wish.period_ns * 1_000 };
        let ways = ways(wish, schedule, rng);
        let mut arrivals = Vec::new();
        for (sequence, way) in (0..).zip(&ways) {
            show_packet(sequence, way, &mut events);
            let wait_ns = rng.below(300);
            arrivals.push(Arrival { sequence, at_ns: way[7] + 200 + wait_ns });
        }
        events.sort_by_key(|event| event.at_ns);
        let sent_ns = ways.iter().map(|way| way[1]).collect();
        let trace = Trace {
            events,
            cores: vec![0, 1],
            sink: Some(SINK),
            generator: Some(GENERATOR),
            ..Trace::default()
        };
        let measured = Measured { schedule, sent_ns, arrivals, overflowed: 0 };
        Self { trace, measured, truth, ways }
    }
}

/// Threads one after the other, each interrupted now and then: never two at the same instant.
fn occupants(core: u16, end_ns: u64, calm_ns: u64, rng: &mut Rng) -> Vec<(u64, Occupant)> {
    let own = if core == 0 { GENERATOR.thread } else { SINK.thread };
    let mut thread = Occupant::Thread(own);
    let mut spans = vec![(1_000, thread)];
    let mut at_ns = 1_000;
    while at_ns < end_ns {
        at_ns += 1 + rng.below(calm_ns * 2);
        match rng.below(8) {
            0 => {
                thread = match rng.below(3) {
                    0 => Occupant::Thread(own),
                    1 => Occupant::Thread(300 + rng.below(3) as u32),
                    // A core whose threads all wait receives nothing in one of them.
                    _ if core == 1 => Occupant::Thread(400),
                    _ => Occupant::Idle(u32::MAX),
                };
                spans.push((at_ns, thread));
            }
            n => {
                let guest = match n {
                    1 => Occupant::Interrupt(INTERRUPT),
                    2 => Occupant::Softirq(1),
                    3 => Occupant::Softirq(9),
                    4 => Occupant::Vector(Vector::Reschedule),
                    5 => Occupant::Timer(FUNCTION),
                    _ => Occupant::Vector(Vector::LocalTimer),
                };
                spans.push((at_ns, guest));
                at_ns += 1 + rng.below(calm_ns);
                spans.push((at_ns, thread));
            }
        }
    }
    spans
}

/// The events of that.
fn show(core: u16, spans: &[(u64, Occupant)], events: &mut Vec<Event>) {
    let number = |occupant: Occupant| match occupant {
        Occupant::Thread(thread) => Some(thread),
        Occupant::Idle(_) => Some(0),
        _ => None,
    };
    let mut on = 1;
    for (index, &(at_ns, occupant)) in spans.iter().enumerate() {
        let mut push = |what| events.push(Event { at_ns, core, what });
        if let Some(guest) = index.checked_sub(1).map(|before| spans[before].1) {
            match guest {
                Occupant::Interrupt(_) => push(EventKind::InterruptExit),
                Occupant::Softirq(_) => push(EventKind::SoftirqExit),
                Occupant::Vector(_) => push(EventKind::VectorExit),
                Occupant::Timer(_) => push(EventKind::TimerExit),
                _ => {}
            }
        }
        match occupant {
            Occupant::Interrupt(number) => push(EventKind::InterruptEntry { number }),
            Occupant::Softirq(number) => push(EventKind::SoftirqEntry { number }),
            Occupant::Vector(vector) => push(EventKind::VectorEntry { vector }),
            Occupant::Timer(function) => push(EventKind::TimerEntry { function }),
            _ => {}
        }
        if let Some(to) = number(occupant).filter(|to| *to != on) {
            let is_displaced = to != 0;
            push(EventKind::Switch { from: on, is_displaced, to, name: [0; 8] });
            on = to;
        }
    }
}

/// Stage after stage for each packet, now and then a long one; packets do not overtake each other.
fn ways(wish: &HostConfig, schedule: Schedule, rng: &mut Rng) -> Vec<[u64; 8]> {
    let mut ways: Vec<[u64; 8]> = Vec::new();
    for sequence in 0..wish.packets {
        let held = (rng.below(wish.late) == 0).then(|| rng.below(8));
        let mut way = [schedule.due_ns(sequence); 8];
        for stage in 1..8_u64 {
            let before = way[stage as usize - 1];
            let mut at_ns = before + 5 + rng.below(60);
            if held == Some(stage) {
                at_ns += wish.period_ns * (1 + rng.below(4)) + rng.below(wish.period_ns);
            }
            // One reader: the one before has been taken, and its stages are over.
            let free_ns = ways.last().map_or(0, |way| way[stage as usize] + wish.apart_ns);
            way[stage as usize] = at_ns.max(free_ns);
        }
        ways.push(way);
    }
    ways
}

/// Events of a packet's path that a tracer sees on core 1. Its reader is on its core all the time,
/// so that it has the packet as soon as that is in the socket.
fn show_packet(sequence: u64, way: &[u64; 8], events: &mut Vec<Event>) {
    let mut push = |core, at_ns, what| events.push(Event { at_ns, core, what });
    push(0, way[2], EventKind::Transmit { sequence });
    push(1, way[3], EventKind::Raise);
    push(1, way[4], EventKind::Poll { work: 1 });
    push(1, way[5], EventKind::Receive { sequence });
    push(1, way[6], EventKind::Ready { socket: 0 });
}
