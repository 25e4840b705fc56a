//! Segmenting over several calls: the receiver of segments may not accept all of a packet's at
//! once.

use linecard::offload::segment::{SegmentError, Segments, segment};
use linecard::packet::{Gso, Packet, Piece};

/// The result of handling the next segments of a packet: see [`Progress::cut`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// This many have been handled.
    On(usize),
    /// This many have been handled; the rest has to be passed again.
    Later(usize),
    /// There were no more.
    Ended,
}

/// Remembers the position in a packet of which not all segments were accepted, for ports that write
/// segments into memory of their own; [`Segmenter`](crate::egress::Segmenter) has memory for others.
#[derive(Debug, Default)]
pub struct Progress {
    /// The address of the packet, and the number of its segments handled.
    resume: Option<(usize, usize)>,
}

impl Progress {
    /// Segments a packet and calls `deal` for its next segments repeatedly, from the position at
    /// which the same packet stopped last. Returns false if `deal` returns "later": the packet has
    /// to be passed again.
    ///
    /// # Errors
    ///
    /// Why it cannot be segmented, or the error of `deal`.
    pub fn cut<B: AsRef<[u8]>>(
        &mut self,
        packet: &mut Packet<B>,
        deal: impl FnMut(&mut Segments<'_, Piece<B>>) -> Result<Step, SegmentError>,
    ) -> Result<bool, SegmentError> {
        // The segmenter computes all checksums if their state is unknown.
        let said = std::mem::take(&mut packet.meta.checksum);
        let all = self.go_on(packet, deal);
        packet.meta.checksum = said;
        all
    }

    fn go_on<B: AsRef<[u8]>>(
        &mut self,
        packet: &Packet<B>,
        mut deal: impl FnMut(&mut Segments<'_, Piece<B>>) -> Result<Step, SegmentError>,
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
