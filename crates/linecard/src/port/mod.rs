//! Ports: sources and sinks of packets.
//!
//! Faults, delays and taps are decorators of a port, so that no stage has a debug mode.

mod fault;
mod lane;
mod memory;

pub use fault::{Fault, FaultCounters, FaultRates};
pub use lane::{Lane, LaneCounters};
pub use memory::{Memory, link};

use crate::packet::Batch;
use crate::time::Instant;
use alloc::boxed::Box;
use alloc::rc::Rc;
use core::cell::RefCell;

/// Whether more can be received from a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PortState {
    /// More packets may arrive.
    Open,
    /// No more packets will arrive.
    Ended,
}

/// A source and sink of packets: memory, a capture file, an interface, a modelled NIC.
pub trait Port<B> {
    /// Adds packets that have arrived to `batch`, as long as there is room.
    fn receive(&mut self, batch: &mut Batch<B>, now: Instant) -> PortState;

    /// Transmits packets of `batch`; leaves those for which the port has no room yet.
    fn transmit(&mut self, batch: &mut Batch<B>, now: Instant);
}

impl<B, P: Port<B> + ?Sized> Port<B> for Box<P> {
    fn receive(&mut self, batch: &mut Batch<B>, now: Instant) -> PortState {
        (**self).receive(batch, now)
    }

    fn transmit(&mut self, batch: &mut Batch<B>, now: Instant) {
        (**self).transmit(batch, now);
    }
}

/// Shares a port between two pipelines of a thread: one receives from it, the other transmits to
/// it.
impl<B, P: Port<B> + ?Sized> Port<B> for Rc<RefCell<P>> {
    fn receive(&mut self, batch: &mut Batch<B>, now: Instant) -> PortState {
        self.borrow_mut().receive(batch, now)
    }

    fn transmit(&mut self, batch: &mut Batch<B>, now: Instant) {
        self.borrow_mut().transmit(batch, now);
    }
}
