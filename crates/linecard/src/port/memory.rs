//! An in-memory link: what one end transmits, the other receives.

use super::{Port, PortState};
use crate::packet::{Batch, Packet};
use crate::time::Instant;
use alloc::collections::VecDeque;
use alloc::rc::Rc;
use core::cell::RefCell;

/// One end of an in-memory link.
#[derive(Debug)]
pub struct Memory<B> {
    outgoing: Queue<B>,
    incoming: Queue<B>,
    capacity: usize,
}

type Queue<B> = Rc<RefCell<VecDeque<Packet<B>>>>;

/// A link that holds at most `capacity` packets in each direction.
///
/// ```
/// use linecard::packet::{Batch, LinkType, Meta, Packet};
/// use linecard::port::{Port, link};
/// use linecard::time::Instant;
/// let (mut a, mut b) = link(16);
/// let mut batch = Batch::new();
/// let _fits = batch.push(Packet::new([0_u8; 60], LinkType::Ethernet, Meta::default()));
/// a.transmit(&mut batch, Instant::ZERO);
/// b.receive(&mut batch, Instant::ZERO);
/// assert_eq!(batch.len(), 1);
/// ```
#[must_use]
pub fn link<B>(capacity: usize) -> (Memory<B>, Memory<B>) {
    let there: Queue<B> = Rc::new(RefCell::new(VecDeque::with_capacity(capacity)));
    let back: Queue<B> = Rc::new(RefCell::new(VecDeque::with_capacity(capacity)));
    (
        Memory { outgoing: Rc::clone(&there), incoming: Rc::clone(&back), capacity },
        Memory { outgoing: back, incoming: there, capacity },
    )
}

impl<B> Port<B> for Memory<B> {
    /// Ended once the other end is dropped and its last packet received.
    fn receive(&mut self, batch: &mut Batch<B>, _now: Instant) -> PortState {
        let mut queue = self.incoming.borrow_mut();
        while batch.room() > 0 {
            let Some(packet) = queue.pop_front() else { break };
            let _fits = batch.push(packet);
        }
        let alone = Rc::strong_count(&self.incoming) == 1;
        if alone && queue.is_empty() { PortState::Ended } else { PortState::Open }
    }

    fn transmit(&mut self, batch: &mut Batch<B>, _now: Instant) {
        let mut queue = self.outgoing.borrow_mut();
        while queue.len() < self.capacity {
            let Some(packet) = batch.pop() else { return };
            queue.push_back(packet);
        }
    }
}
