//! Acknowledgments that wait while a port has received more than was taken from it.

use crate::port::{LivePort, filled, left_to};
use linecard::packet::header::{self, Tcp, tcp_flags};
use linecard::packet::{BATCH, Batch, LayerKind, Packet};
use linecard::port::{Port, PortState};
use linecard::time::{Instant, ns};
use linecard_tun::Buffers;
use std::collections::VecDeque;
use std::thread;
use std::time::Duration;

/// Turns after which a few leave although the port is crowded: with batches of 64, half of a receive ring.
const MAX_WAITED: u32 = 64;

/// The longest that one waits while a few leave each turn: as long as in the full queue of a TAP device, without this one.
const MAX_WAIT: Duration = Duration::from_millis(250);

/// Packets that are sent at a time where the port may be crowded afterwards: each may be an acknowledgment that
/// releases up to 90 packets, and then three quarters of a ring have room for what all of them release, twice over.
pub(super) const FEW: usize = 16;

/// When a port is tried again that takes nothing and receives nothing.
const RETRY: Duration = Duration::from_micros(100);

/// Acknowledgments that wait at most: more than the queue of a TAP device has, which they would be in otherwise.
pub(super) const CAPACITY: usize = 8_192;

/// Bytes of the longest acknowledgment that waits: Ethernet with two VLAN tags, IPv6, and TCP with all options, also in
/// VXLAN over IPv6. Longer ones pass.
pub(super) const MAX_LEN: usize = 256;

/// From no reception for so long on, none comes: the pipelines end. Far above a turn, and below the second that they have.
const ENDING: Duration = Duration::from_millis(50);

/// How often a full port is tried again at the end: for a second.
const LAST_TRIES: usize = 10_000;

/// A port to which acknowledgments go a few at a time, since each may make a peer send much. While the receive ring of
/// the port is crowded they wait in a queue, in which nothing else has to wait: it would be in the queue of the sender
/// otherwise. Packets with data may pass an acknowledgment of their flow; theirs is at least as new.
pub(super) struct AckQueue<P: LivePort<S::Buffer>, S: Buffers> {
    port: P,
    /// Copies wait in these: an acknowledgment was received into a buffer that is as long as those of data.
    buffers: S,
    waiting: VecDeque<Packet<S::Buffer>>,
    /// On their way to the port.
    leaving: Batch<S::Buffer>,
    /// Consecutive turns in which acknowledgments waited.
    waited: u32,
    /// Of the last turn.
    now: Instant,
}

impl<P: LivePort<S::Buffer>, S: Buffers> AckQueue<P, S> {
    /// The queue is as long as there are `buffers`, each of [`MAX_LEN`] bytes.
    pub(super) fn new(port: P, buffers: S) -> Self {
        let (waiting, leaving) = (VecDeque::new(), Batch::bounded(FEW));
        Self { port, buffers, waiting, leaving, waited: 0, now: Instant::ZERO }
    }

    fn is_crowded(&self) -> bool {
        self.port.is_crowded() == Some(true)
    }

    /// A copy of one that may wait; none if as many wait as can.
    fn copy(&self, packet: &Packet<S::Buffer>) -> Option<Packet<S::Buffer>> {
        let buffer = filled(&self.buffers, packet.bytes())?;
        Some(Packet::new(buffer, packet.link(), packet.meta))
    }

    /// Sends acknowledgments in their order, until the port is crowded, and at most a batch: then the port receives.
    fn release(&mut self, now: Instant) {
        let first = self.waiting.front().map_or(now, |packet| packet.meta.timestamp);
        let may_wait = self.waited < MAX_WAITED && now.ns_since(first) < ns(MAX_WAIT);
        if may_wait && self.is_crowded() {
            self.waited += 1;
            return;
        }
        self.waited = 0;
        for _ in 0..BATCH / FEW {
            self.send(now);
            if self.waiting.is_empty() || !self.leaving.is_empty() || self.is_crowded() {
                return;
            }
        }
    }

    /// Sends what is on its way, with acknowledgments where there is room.
    fn send(&mut self, now: Instant) {
        while self.leaving.room() > 0 {
            let Some(packet) = self.waiting.pop_front() else { break };
            let _has_room = self.leaving.push(packet);
        }
        self.port.transmit(&mut self.leaving, now);
    }
}

/// Whether it only acknowledges.
fn is_bare_ack<B: AsRef<[u8]>>(packet: &Packet<B>) -> bool {
    let others = tcp_flags::SYN | tcp_flags::FIN | tcp_flags::RST | tcp_flags::URG;
    let transport = packet.layout().transport().filter(|layer| layer.kind == LayerKind::Tcp);
    transport.is_some_and(|layer| {
        let flags = header::at::<Tcp>(packet.bytes(), layer.at()).offset_flags;
        packet.payload_len() == 0 && flags & tcp_flags::ACK != 0 && flags & others == 0
    })
}

impl<P: LivePort<S::Buffer>, S: Buffers> Port<S::Buffer> for AckQueue<P, S> {
    fn receive(&mut self, batch: &mut Batch<S::Buffer>, now: Instant) -> PortState {
        self.now = now;
        self.port.transmit(&mut self.leaving, now);
        if self.leaving.is_empty() && !self.waiting.is_empty() {
            self.release(now);
        }
        self.port.receive(batch, now)
    }

    fn transmit(&mut self, batch: &mut Batch<S::Buffer>, now: Instant) {
        let is_ending = now.ns_since(self.now) > ns(ENDING);
        while is_ending && !self.waiting.is_empty() {
            self.send(now);
            if !self.leaving.is_empty() {
                return;
            }
        }
        loop {
            self.port.transmit(&mut self.leaving, now);
            if batch.is_empty() || self.leaving.room() == 0 {
                return;
            }
            let waits = !is_ending && (!self.waiting.is_empty() || self.is_crowded());
            while self.leaving.room() > 0 {
                let Some(packet) = batch.front() else { break };
                if waits && packet.bytes().len() <= MAX_LEN && is_bare_ack(packet) {
                    // The rest waits where it is.
                    let Some(copy) = self.copy(packet) else {
                        return self.port.transmit(&mut self.leaving, now);
                    };
                    self.waiting.push_back(copy);
                    batch.pop();
                } else if let Some(packet) = batch.pop() {
                    let _has_room = self.leaving.push(packet);
                }
            }
        }
    }
}

impl<P: LivePort<S::Buffer>, S: Buffers> LivePort<S::Buffer> for AckQueue<P, S> {
    left_to!(port: large_packets, descriptor, counters);

    fn next_due(&self) -> Option<Instant> {
        match self.waiting.is_empty() && self.leaving.is_empty() {
            true => self.port.next_due(),
            false => Some(self.now.plus(RETRY)),
        }
    }
}

/// Waiting acknowledgments leave before the port is closed.
impl<P: LivePort<S::Buffer>, S: Buffers> Drop for AckQueue<P, S> {
    fn drop(&mut self) {
        // The port may have panicked, by the packet that it would be given again.
        if thread::panicking() {
            return;
        }
        for _ in 0..LAST_TRIES {
            let before = self.waiting.len() + self.leaving.len();
            self.send(self.now);
            match self.waiting.len() + self.leaving.len() {
                0 => return,
                left if left == before => thread::sleep(RETRY),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linecard::packet::{LinkType, Meta, Pool, PoolBuffer};
    use std::cell::{Cell, RefCell};
    use std::rc::Rc;

    /// The state of a test's port.
    #[derive(Clone, Default)]
    struct Known {
        /// The last bytes of what was sent.
        sent: Rc<RefCell<Vec<u8>>>,
        is_crowded: Rc<Cell<bool>>,
        /// Packets of which the port becomes crowded.
        until_crowded: Rc<Cell<usize>>,
        is_full: Rc<Cell<bool>>,
    }

    impl Known {
        fn take(&self) -> Vec<u8> {
            self.sent.take()
        }
    }

    impl Port<PoolBuffer> for Known {
        fn receive(&mut self, _: &mut Batch<PoolBuffer>, _: Instant) -> PortState {
            PortState::Open
        }

        fn transmit(&mut self, batch: &mut Batch<PoolBuffer>, _: Instant) {
            if self.is_full.get() {
                return;
            }
            let mut sent = self.sent.borrow_mut();
            sent.extend(batch.drain().filter_map(|packet| packet.bytes().last().copied()));
            self.is_crowded.set(self.is_crowded.get() || sent.len() >= self.until_crowded.get());
        }
    }

    impl LivePort<PoolBuffer> for Known {
        fn is_crowded(&self) -> Option<bool> {
            Some(self.is_crowded.get())
        }
    }

    /// A queue before a crowded port, and the buffers of what is sent through it.
    fn crowded(capacity: usize) -> (Known, AckQueue<Known, Pool>, Pool) {
        let known = Known::default();
        known.is_crowded.set(true);
        known.until_crowded.set(usize::MAX);
        let queue = AckQueue::new(known.clone(), Pool::new(capacity, MAX_LEN));
        (known, queue, Pool::new(256, 256))
    }

    /// A TCP segment whose last byte is `number`: of its window's scale, of a padding option, or of its payload.
    fn segment(buffers: &Pool, flags: u8, payload: usize, number: u8) -> Packet<PoolBuffer> {
        let len = 44 + payload;
        let mut bytes = vec![0; len];
        bytes[..4].copy_from_slice(&[0x45, 0, 0, len as u8]);
        bytes[8..10].copy_from_slice(&[64, 6]);
        bytes[12..20].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
        // A header of six words, of which the last is an option.
        bytes[32..34].copy_from_slice(&[0x60, flags]);
        bytes[40..44].copy_from_slice(&[0xFD, 4, 0, 0]);
        bytes[len - 1] = number;
        let mut buffer = buffers.take().expect("enough");
        buffer.as_mut()[..len].copy_from_slice(&bytes);
        buffer.truncate(len);
        Packet::new(buffer, LinkType::Raw, Meta::default())
    }

    fn acks(buffers: &Pool, numbers: impl IntoIterator<Item = u8>) -> Batch<PoolBuffer> {
        let mut batch = Batch::new();
        numbers
            .into_iter()
            .for_each(|number| batch.push(segment(buffers, 0x10, 0, number)).unwrap());
        batch
    }

    fn turn(queue: &mut AckQueue<Known, Pool>) {
        queue.receive(&mut Batch::new(), Instant::ZERO);
    }

    #[test]
    fn only_acknowledgments_wait_for_a_crowded_port_and_keep_their_order() {
        let (known, mut queue, buffers) = crowded(64);
        let mut batch = acks(&buffers, [1, 2]);
        // With data, the end of a connection and its begin, and an echo by another protocol.
        let others = [(0x10, 10, 3), (0x11, 0, 4), (0x12, 0, 5), (0x14, 0, 6)];
        for (flags, payload, number) in others {
            batch.push(segment(&buffers, flags, payload, number)).unwrap();
        }
        let mut echo = segment(&buffers, 0, 0, 7).into_parts().0;
        echo.as_mut()[9] = 1;
        batch.push(Packet::new(echo, LinkType::Raw, Meta::default())).unwrap();
        queue.transmit(&mut batch, Instant::ZERO);
        assert!(batch.is_empty());
        assert_eq!(known.take(), [3, 4, 5, 6, 7]);
        assert!(queue.next_due().is_some(), "what waits is not forgotten");
        turn(&mut queue);
        assert!(known.take().is_empty());
        // No acknowledgment passes those that wait.
        known.is_crowded.set(false);
        queue.transmit(&mut acks(&buffers, [8]), Instant::ZERO);
        assert!(known.take().is_empty());
        turn(&mut queue);
        assert_eq!(known.take(), [1, 2, 8]);
        queue.transmit(&mut acks(&buffers, [9]), Instant::ZERO);
        assert_eq!((known.take(), queue.next_due()), (vec![9], None));
    }

    #[test]
    fn a_few_leave_at_a_time_and_each_waits_for_some_turns_at_most() {
        let (known, mut queue, buffers) = crowded(64);
        queue.transmit(&mut acks(&buffers, 0..40), Instant::ZERO);
        for round in 0..3 {
            (0..MAX_WAITED).for_each(|_| turn(&mut queue));
            assert!(known.take().is_empty());
            turn(&mut queue);
            let few = round * FEW as u8..((round + 1) * FEW as u8).min(40);
            assert_eq!(known.take(), few.collect::<Vec<_>>());
        }
        // Where there is room, until sending has made the port crowded.
        queue.transmit(&mut acks(&buffers, 0..60), Instant::ZERO);
        known.is_crowded.set(false);
        known.until_crowded.set(FEW + 1);
        turn(&mut queue);
        assert_eq!(known.take(), (0..2 * FEW as u8).collect::<Vec<_>>());
        // Nor does a batch leave at once that nothing waits before.
        let (known, mut queue, buffers) = crowded(64);
        known.is_crowded.set(false);
        known.until_crowded.set(1);
        queue.transmit(&mut acks(&buffers, 0..60), Instant::ZERO);
        assert_eq!(known.take(), (0..FEW as u8).collect::<Vec<_>>());
    }

    #[test]
    fn a_turn_sends_a_batch_at_most_and_none_waits_for_long() {
        let (known, mut queue, buffers) = crowded(256);
        queue.transmit(&mut acks(&buffers, 0..60), Instant::ZERO);
        queue.transmit(&mut acks(&buffers, 60..100), Instant::ZERO);
        known.is_crowded.set(false);
        turn(&mut queue);
        assert_eq!(known.take(), (0..BATCH as u8).collect::<Vec<_>>());
        // The time of reception is 0.
        known.is_crowded.set(true);
        queue.receive(&mut Batch::new(), Instant::from_ns(ns(MAX_WAIT) - 1));
        assert!(known.take().is_empty());
        queue.receive(&mut Batch::new(), Instant::from_ns(ns(MAX_WAIT)));
        assert_eq!(known.take().len(), FEW);
    }

    #[test]
    fn nothing_waits_once_nobody_receives() {
        let (known, mut queue, buffers) = crowded(40);
        turn(&mut queue);
        let mut batch = acks(&buffers, 0..50);
        queue.transmit(&mut batch, Instant::ZERO);
        assert_eq!((batch.len(), known.take()), (10, vec![]));
        queue.transmit(&mut batch, Instant::from_ns(ns(ENDING) + 1));
        assert_eq!((batch.len(), known.take()), (0, (0..50).collect::<Vec<_>>()));
    }

    #[test]
    fn nothing_is_lost_where_the_queue_or_the_port_is_full_or_at_the_end() {
        let (known, mut queue, buffers) = crowded(4);
        let mut batch = acks(&buffers, 0..6);
        batch.push(segment(&buffers, 0x10, 10, 6)).unwrap();
        queue.transmit(&mut batch, Instant::ZERO);
        assert_eq!((batch.len(), known.take()), (3, vec![]));
        known.is_full.set(true);
        known.is_crowded.set(false);
        turn(&mut queue);
        queue.transmit(&mut batch, Instant::ZERO);
        assert!(queue.next_due().is_some());
        known.is_full.set(false);
        queue.transmit(&mut batch, Instant::ZERO);
        assert!(batch.is_empty());
        drop(queue);
        assert_eq!(known.take(), [0, 1, 2, 3, 4, 5, 6]);
    }
}
