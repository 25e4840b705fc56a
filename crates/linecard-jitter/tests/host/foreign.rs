//! Late packets whose sender is not known, by the events of the core that received them.

use crate::made_up::{Host, HostConfig};
use linecard::rng::Rng;
use linecard_jitter::ledger::{Cause, LatePacket, Ledger, Spike};
use linecard_jitter::trace::{
    Event, EventKind, Joined, NAME_LEN, NET_RX, PinnedThread, Stage, Trace,
};

/// When the packet was due, and when its reader had it.
const DUE_NS: u64 = 20_000;
const READ_NS: u64 = 515_000;
const LATE: LatePacket =
    LatePacket { identity: 77, socket: 9, due_ns: DUE_NS, stamp_ns: 510_000, read_ns: READ_NS };
const TIMER: u8 = 1;

/// The causes of a packet that is received at 510 µs, after these events of its core.
fn causes(before: &[(u64, EventKind)]) -> Vec<(Cause, u64)> {
    let reader = PinnedThread { thread: 7, core: 0 };
    let to = reader.thread;
    let switch = EventKind::Switch { from: 1, is_displaced: false, to, name: [0; NAME_LEN] };
    let after = [
        (510_000, EventKind::Receive { sequence: LATE.identity }),
        (512_000, EventKind::Ready { socket: LATE.socket }),
        (513_000, EventKind::SoftirqExit),
    ];
    let events = [&[(1_000, switch)], before, &after].concat().into_iter();
    let events = events.map(|(at_ns, what)| Event { at_ns, core: 0, what }).collect();
    let trace = Trace { events, cores: vec![0], sink: Some(reader), ..Trace::default() };
    Spike::of_late(trace, &LATE).by_cause()
}

fn charged(causes: &[(Cause, u64)], cause: Cause) -> u64 {
    causes.iter().find(|(other, _)| *other == cause).map_or(0, |(_, ns)| *ns)
}

const ENTRY: EventKind = EventKind::SoftirqEntry { number: NET_RX };
const OTHER: EventKind = EventKind::SoftirqEntry { number: TIMER };
const EXIT: EventKind = EventKind::SoftirqExit;
const RECEIVED: EventKind = EventKind::Receive { sequence: LATE.identity };
const READY: EventKind = EventKind::Ready { socket: LATE.socket };

/// The softirq has more than its budget, requests itself again, and once more while it waits.
const GOES_ON: [(u64, EventKind); 6] = [
    (10_000, EventKind::Raise),
    (11_000, ENTRY),
    (300_000, EventKind::Raise),
    (300_100, EXIT),
    (400_000, EventKind::Raise),
    (501_000, ENTRY),
];

#[test]
fn a_softirq_that_goes_on_is_not_before_this_host() {
    let causes = causes(&GOES_ON);
    assert_eq!(charged(&causes, Cause::Outside), 0, "{causes:?}");
    assert!(charged(&causes, Cause::Softirq(NET_RX)) >= 280_000, "{causes:?}");
}

#[test]
fn the_first_of_two_requests_counts() {
    let causes = causes(&[
        (10_000, EventKind::Raise),
        (11_000, OTHER),
        (400_000, EventKind::Raise),
        (500_000, EXIT),
        (501_000, ENTRY),
    ]);
    assert_eq!(charged(&causes, Cause::Outside), 0, "{causes:?}");
    assert_eq!(charged(&causes, Cause::Softirq(TIMER)), 480_000, "{causes:?}");
}

#[test]
fn a_request_after_all_was_polled_is_the_first() {
    let polled = [(10_000, EventKind::Raise), (11_000, ENTRY), (12_000, EXIT)];
    let again = [(400_000, EventKind::Raise), (501_000, ENTRY)];
    let causes = causes(&[&polled[..], &again].concat());
    assert_eq!(charged(&causes, Cause::Outside), 400_000 - DUE_NS, "{causes:?}");
}

/// A packet in the same softirq that another program's socket took has no event there that is recorded.
#[test]
fn a_packet_of_another_socket_hides_no_way() {
    let causes = causes(&[
        (10_000, EventKind::Raise),
        (11_000, OTHER),
        (500_000, EXIT),
        (501_000, ENTRY),
        (509_000, EventKind::Receive { sequence: 5 }),
    ]);
    assert_eq!(charged(&causes, Cause::Softirq(TIMER)), 480_000, "{causes:?}");
}

/// A packet of a softirq that was requested before the trace has waited since that began, at the latest.
#[test]
fn a_softirq_that_was_requested_before_the_trace_goes_on_here() {
    let causes = causes(&GOES_ON[1..]);
    assert_eq!(charged(&causes, Cause::Outside), 0, "{causes:?}");
}

/// A reader that came back to its core without an event was away for an unknown time: whatever ran before is not blamed.
#[test]
fn a_thread_that_left_unseen_is_not_blamed() {
    let name = [0; NAME_LEN];
    let away = |to| EventKind::Switch { from: 7, is_displaced: false, to, name };
    let back = |from| EventKind::Switch { from, is_displaced: true, to: 7, name };
    let in_time =
        [(19_000, EventKind::Raise), (19_500, ENTRY), (20_100, RECEIVED), (20_200, READY)];
    let with = |own: &[(u64, EventKind)]| {
        let on = |core: u16| move |(at_ns, what): (u64, EventKind)| Event { at_ns, core, what };
        let events = in_time.into_iter().map(on(1)).chain(own.iter().copied().map(on(0)));
        let sink = Some(PinnedThread { thread: 7, core: 0 });
        let mut trace =
            Trace { events: events.collect(), cores: vec![0, 1], sink, ..Trace::default() };
        trace.sort();
        Spike::of_late(trace, &LatePacket { stamp_ns: 20_100, ..LATE }).by_cause()
    };
    let seen = with(&[(18_000, away(75)), (514_000, back(75))]);
    assert!(charged(&seen, Cause::Thread(75)) > 490_000, "{seen:?}");
    for unseen in
        [&[(18_000, away(75))][..], &[(18_000, away(75)), (514_000, away(0)), (514_500, back(0))]]
    {
        let causes = with(unseen);
        assert!(charged(&causes, Cause::Missing) > 490_000, "{causes:?}");
        assert_eq!(charged(&causes, Cause::Thread(75)), 0, "{causes:?}");
    }
    let idle = with(&[(18_000, away(0)), (514_000, back(0))]);
    assert_eq!(charged(&idle, Cause::Missing), 0, "{idle:?}");
}

/// Of a sender on another host, nothing is known between its system call and the request of the poll that received the
/// packet: all of that time is outside, whatever the cores of this host did, and the rest is charged as usual.
#[test]
fn what_a_remote_sender_and_the_network_delay_is_outside() {
    let mut rng = Rng::new(11);
    let mut outside = 0;
    for _ in 0..200 {
        let Host { mut trace, measured, ways, .. } = Host::new(&HostConfig::default(), &mut rng);
        trace.events.retain(|event| event.core == 1);
        (trace.cores, trace.generator, trace.is_sender_remote) = (vec![1], None, true);
        // No timer defers polls.
        trace.names.functions.insert(1, "tick".to_owned());
        let counts = Joined::of(&trace, &measured).counts;
        assert_eq!((counts.joined, counts.disordered), (counts.arrived, 0));
        let ledger = Ledger::of(&trace, &measured);
        for spike in &ledger.spikes {
            let sum: u64 = spike.charges.iter().map(|charge| charge.ns).sum();
            assert_eq!(sum, spike.excess_ns);
            let at = spike.sequence as usize;
            let raised_ns = ways[at][3].min(spike.arrived_ns);
            // Requests and polls of its neighbours cannot be told from its own.
            let is_alone = at > 0
                && ways[at - 1][5] < raised_ns
                && ways.get(at + 1).is_none_or(|after| after[3] > ways[at][5]);
            let of_outside = spike.charges.iter().filter(|charge| charge.cause == Cause::Outside);
            let (mut charged_ns, mut is_before) = (0, true);
            for charge in of_outside {
                charged_ns += charge.ns;
                is_before &= matches!(charge.stage, Stage::Generator | Stage::Send);
            }
            assert!(is_before, "{spike:?}");
            if is_alone {
                assert_eq!(charged_ns, raised_ns.saturating_sub(spike.expected_ns()), "{spike:?}");
                outside += charged_ns;
            }
        }
    }
    assert!(outside > 0, "no packet was late before it reached the host");
}
