//! Numbers packets whose events have no sequence number: those of one sender leave in order.
//!
//! A received packet is matched with the sent one at the same address in kernel memory. If packets
//! were copied on their way, addresses do not match, and their order is used.

use crate::trace::{Event, EventKind};
use std::collections::HashMap;

/// An event, and the address of its packet or socket; 0 if it has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) event: Event,
    pub(super) address: u64,
}

/// Numbers packets, removes those of other streams, and sorts all events by time.
pub(super) fn number(mut seen: Vec<Seen>) -> Vec<Event> {
    seen.sort_by_key(|seen| seen.event.at_ns);
    let socket = number_packets(&mut seen);
    let is_ours = |seen: &Seen| match seen.event.what {
        EventKind::Receive { sequence } => sequence != OTHERS,
        EventKind::Ready { .. } => Some(seen.address) == socket,
        _ => true,
    };
    seen.into_iter().filter(is_ours).map(|seen| seen.event).collect()
}

/// Marks a packet of another stream.
const OTHERS: u64 = u64::MAX;

/// Numbers the packets, and returns the socket that receives the stream.
fn number_packets(seen: &mut [Seen]) -> Option<u64> {
    let mut is_copied = true;
    let mut under_way = HashMap::new();
    let mut sent = 0;
    for Seen { event, address } in seen.iter_mut() {
        match &mut event.what {
            EventKind::Transmit { sequence } => {
                *sequence = sent;
                under_way.insert(*address, sent);
                sent += 1;
            }
            EventKind::Receive { sequence } => {
                let found = under_way.remove(address);
                is_copied &= found.is_none();
                *sequence = found.unwrap_or(OTHERS);
            }
            _ => {}
        }
    }
    if is_copied {
        let received = seen.iter_mut().filter_map(|seen| match &mut seen.event.what {
            EventKind::Receive { sequence } => Some(sequence),
            _ => None,
        });
        (0..sent).zip(received).for_each(|(number, sequence)| *sequence = number);
    }
    socket(seen)
}

/// The socket that is notified most often after a packet of the stream was received on its core.
fn socket(seen: &[Seen]) -> Option<u64> {
    let mut under_way: HashMap<u16, u64> = HashMap::new();
    let mut notified: HashMap<u64, u64> = HashMap::new();
    for Seen { event, address } in seen {
        let count = under_way.entry(event.core).or_default();
        match event.what {
            EventKind::Receive { sequence } if sequence != OTHERS => *count += 1,
            EventKind::Ready { .. } if *count > 0 => {
                *count -= 1;
                *notified.entry(*address).or_default() += 1;
            }
            _ => {}
        }
    }
    notified
        .into_iter()
        .max_by_key(|(address, count)| (*count, *address))
        .map(|(address, _)| address)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(at_ns: u64, core: u16, what: EventKind, address: u64) -> Seen {
        Seen { event: Event { at_ns, core, what }, address }
    }

    const OUT: EventKind = EventKind::Transmit { sequence: 0 };
    const UP: EventKind = EventKind::Receive { sequence: 0 };

    fn whats(events: &[Event]) -> Vec<EventKind> {
        events.iter().map(|event| event.what).collect()
    }

    #[test]
    fn packets_are_found_again_by_their_address() {
        let events = number(vec![
            seen(60, 1, EventKind::Ready { socket: 0 }, 77),
            // Another stream's packet and socket.
            seen(40, 1, UP, 0xC),
            seen(45, 1, EventKind::Ready { socket: 0 }, 99),
            seen(50, 1, UP, 0xA),
            // The memory of the first is used again.
            seen(65, 0, OUT, 0xA),
            seen(10, 0, OUT, 0xA),
            seen(20, 0, OUT, 0xB),
            seen(70, 1, UP, 0xB),
            seen(71, 1, EventKind::Ready { socket: 0 }, 77),
            seen(80, 1, UP, 0xA),
            seen(81, 1, EventKind::Ready { socket: 0 }, 77),
        ]);
        let (out, up) = (
            |sequence| EventKind::Transmit { sequence },
            |sequence| EventKind::Receive { sequence },
        );
        let ready = EventKind::Ready { socket: 0 };
        let wanted = [out(0), out(1), up(0), ready, out(2), up(1), ready, up(2), ready];
        assert_eq!(whats(&events), wanted);
        assert!(events.is_sorted_by_key(|event| event.at_ns));
    }

    #[test]
    fn copies_are_numbered_in_their_order() {
        let events = number(vec![
            seen(1, 0, OUT, 1),
            seen(2, 0, OUT, 2),
            seen(3, 1, UP, 8),
            seen(4, 1, UP, 9),
        ]);
        assert_eq!(whats(&events[2..]), [0, 1].map(|sequence| EventKind::Receive { sequence }));
        assert_eq!(number(vec![seen(1, 0, UP, 8)]), []);
    }
}
