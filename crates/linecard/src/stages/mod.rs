//! The stages, one per file.

/// The methods of a stage whose offload, the field of this name, passes packets on through the field `ready`.
macro_rules! through_queue {
    ($offload:ident) => {
        fn process(&mut self, input: &mut Batch<B>, now: Instant, output: &mut Batch<B>) {
            let Self { $offload: offload, ready, stopping } = self;
            offload.advance(now, &mut |packet, _| ready.push_back(packet));
            loop {
                if !give(ready, output) {
                    return;
                }
                match input.pop() {
                    Some(packet) => {
                        offload.push(packet, now, &mut |packet, _| ready.push_back(packet));
                    }
                    None if *stopping && offload.held() > 0 => {
                        offload.flush_all(&mut |packet, _| ready.push_back(packet));
                    }
                    None => return,
                }
            }
        }

        fn next_wakeup(&self) -> Option<Instant> {
            if self.ready.is_empty() { self.$offload.next_wakeup() } else { Some(Instant::ZERO) }
        }

        fn stop(&mut self) {
            self.stopping = true;
        }

        fn held(&self) -> usize {
            self.$offload.held() + self.ready.len()
        }
    };
}

mod ack_filter;
mod active_ack;
mod coalesce;
mod forward;
mod reassemble;
mod resequence;
mod segment;

pub use ack_filter::AckFilter;
pub use active_ack::ActiveAck;
pub use coalesce::{Coalesce, FlowObserver, Receiver};
pub use forward::Forward;
pub use reassemble::Reassemble;
pub use resequence::Resequence;
pub use segment::Segment;

use crate::packet::{Batch, Packet};
use alloc::collections::VecDeque;

/// Moves ready packets to the output; false if that is full and packets are left.
fn give<B>(ready: &mut VecDeque<Packet<B>>, output: &mut Batch<B>) -> bool {
    while let Some(packet) = ready.pop_front() {
        if let Err(packet) = output.push(packet) {
            ready.push_front(packet);
            return false;
        }
    }
    true
}
