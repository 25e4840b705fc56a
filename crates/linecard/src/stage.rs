//! The trait that every stage implements.

use crate::packet::Batch;
use crate::time::Instant;

/// A state machine: it takes packets and the time, and returns packets and the time of its next
/// wake-up.
///
/// A stage reads no clock and no random source, and does no I/O, so a test bench, a live pipeline
/// and the hardware model run the same stages.
///
/// ```
/// use linecard::packet::{Batch, LinkType, Meta, Packet};
/// use linecard::stage::Stage;
/// use linecard::time::Instant;
///
/// /// Drops every packet of a given lane.
/// struct Block { lane: u32, dropped: u64 }
///
/// impl<B> Stage<B> for Block {
///     fn name(&self) -> &'static str { "block" }
///     fn process(&mut self, input: &mut Batch<B>, _now: Instant, output: &mut Batch<B>) {
///         while output.room() > 0 {
///             let Some(packet) = input.pop() else { return };
///             if packet.meta.lane == self.lane {
///                 self.dropped += 1;
///             } else {
///                 let _fits = output.push(packet);
///             }
///         }
///     }
///     fn counters(&self, visit: &mut dyn FnMut(&'static str, u64)) {
///         visit("dropped", self.dropped);
///     }
/// }
///
/// let (mut input, mut output) = (Batch::new(), Batch::new());
/// let _fits = input.push(Packet::new([0_u8; 60], LinkType::Ethernet, Meta::default()));
/// let mut block = Block { lane: 0, dropped: 0 };
/// block.process(&mut input, Instant::ZERO, &mut output);
/// assert_eq!((block.dropped, output.len()), (1, 0));
/// ```
pub trait Stage<B> {
    /// A short name for reports.
    fn name(&self) -> &'static str;

    /// Moves packets from `input` to `output` until one is empty or the other full. Packets left in
    /// `input` stay there for the next call, which is how a full output exerts back pressure.
    /// Called with an empty input too, so that timers can fire.
    fn process(&mut self, input: &mut Batch<B>, now: Instant, output: &mut Batch<B>);

    /// When the stage has to be called even if no packet arrives; `None` if it has no timer
    /// pending.
    fn next_wakeup(&self) -> Option<Instant> {
        None
    }

    /// Declares the end of input: held packets leave in the next calls of `process`.
    fn stop(&mut self) {}

    /// The number of packets held inside.
    fn held(&self) -> usize {
        0
    }

    /// Calls `visit` with the name and value of each counter.
    fn counters(&self, visit: &mut dyn FnMut(&'static str, u64));
}
