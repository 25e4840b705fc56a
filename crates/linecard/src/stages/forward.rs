//! A stage that only forwards, for pipelines that connect two ports.

use crate::packet::Batch;
use crate::stage::Stage;
use crate::time::Instant;

/// Moves packets from input to output unchanged.
///
/// ```
/// use linecard::packet::{Batch, LinkType, Meta, Packet};
/// use linecard::stage::Stage;
/// use linecard::stages::Forward;
/// use linecard::time::Instant;
/// let (mut input, mut output) = (Batch::new(), Batch::new());
/// let _fits = input.push(Packet::new([0_u8; 60], LinkType::Ethernet, Meta::default()));
/// Forward::default().process(&mut input, Instant::ZERO, &mut output);
/// assert_eq!((input.len(), output.len()), (0, 1));
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct Forward {
    /// Packets moved.
    pub packets: u64,
}

impl<B> Stage<B> for Forward {
    fn name(&self) -> &'static str {
        "forward"
    }

    fn process(&mut self, input: &mut Batch<B>, _now: Instant, output: &mut Batch<B>) {
        self.packets += output.append(input) as u64;
    }

    fn counters(&self, visit: &mut dyn FnMut(&'static str, u64)) {
        visit("packets", self.packets);
    }
}
