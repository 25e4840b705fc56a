//! Cutting over several calls: whoever takes segments may have no room for all of a packet's.

use linecard::offload::segment::{SegmentError, Segments, segment};
use linecard::packet::{Gso, Packet};

/// What has become of the next segments of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// So many have been dealt with.
    On(usize),
    /// So many, and those behind them have to come again.
    Later(usize),
    /// There was none.
    Ended,
}

/// Remembers how far it came with a packet whose segments were not all taken.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// The address of the packet, and how many of its segments have been dealt with.
    resume: Option<(usize, usize)>,
}

impl Progress {
    /// Cuts a packet and has `deal` take its next segments, time after time, from where it stopped
    /// when the same packet was cut last. False when `deal` says "later": the packet has to come
    /// again.
    ///
    /// # Errors
    ///
    /// Why it cannot be cut, or what `deal` says.
    pub(super) fn cut<B: AsRef<[u8]>>(
        &mut self,
        packet: &mut Packet<B>,
        deal: impl FnMut(&mut Segments<'_, B>) -> Result<Step, SegmentError>,
    ) -> Result<bool, SegmentError> {
        // The segmenter computes all checksums when nothing is said of them.
        let said = std::mem::take(&mut packet.meta.checksum);
        let all = self.go_on(packet, deal);
        packet.meta.checksum = said;
        all
    }

    fn go_on<B: AsRef<[u8]>>(
        &mut self,
        packet: &Packet<B>,
        mut deal: impl FnMut(&mut Segments<'_, B>) -> Result<Step, SegmentError>,
    ) -> Result<bool, SegmentError> {
        let place = packet.bytes().as_ptr().addr();
        let before = self.resume.take().filter(|(at, _)| *at == place);
        let gso = packet.meta.gso.unwrap_or(Gso { size: u16::MAX, ..Gso::default() });
        let mut segments = segment(packet, gso)?;
        let mut done = before.map_or(0, |(_, done)| done);
        for _ in 0..done {
            segments.next_segment();
        }
        while done < segments.count() {
            match deal(&mut segments)? {
                Step::On(count) => done += count,
                Step::Later(count) => {
                    self.resume = Some((place, done + count));
                    return Ok(false);
                }
                Step::Ended => break,
            }
        }
        Ok(true)
    }
}
