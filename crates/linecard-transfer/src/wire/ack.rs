//! Acknowledgments: the received packets of a lane, complete chunks, and the limit for the sender.

use super::be32;
use alloc::vec::Vec;

/// Most ranges of an [`Ack`]. Older packets have been reported before, or are lost.
pub const MAX_RANGES: usize = 32;
/// Chunks above [`Ack::done_below`] that it can say are whole.
pub const DONE_BITS: u32 = 64;

const FIXED_BYTES: usize = 36;
const RANGE_BYTES: usize = 8;

/// Packet numbers that have all arrived, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    /// The lowest.
    pub first: u64,
    /// The highest.
    pub last: u64,
}

/// The body of a packet of kind `Ack`, as in RFC 9000, section 19.3, but with fields of fixed size.
///
/// Everything but the ranges is about the connection and repeated in each: so no single packet needs
/// to arrive for a chunk to be done or for a window to open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ack {
    /// The lane whose packets are acknowledged; it may be another than the one it comes on.
    pub lane: u16,
    /// Chunks from this on must not be sent yet.
    pub window_end: u32,
    /// All chunks below are whole.
    pub done_below: u32,
    /// Bit i: chunk `done_below + 1 + i` is whole.
    pub done: u64,
    /// From the arrival of the highest number to the sending of this, in µs.
    pub delay_us: u32,
    /// From the highest to the lowest, never touching each other, at least one.
    pub ranges: Vec<Range>,
}

/// Why a body is not an acknowledgment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AckError {
    /// The length does not go with the number of ranges.
    #[error("an acknowledgment of {bytes} bytes does not hold its {ranges} ranges")]
    Length {
        /// Of the body.
        bytes: usize,
        /// As the body says.
        ranges: usize,
    },
    /// No range, or more than allowed.
    #[error("{0} ranges are not 1 to {MAX_RANGES}")]
    Ranges(usize),
    /// Ranges that go below zero.
    #[error("ranges go below packet number 0")]
    Below,
}

impl Ack {
    /// Appends the body to `out`: at most `36 + 8 * MAX_RANGES` bytes.
    pub fn write(&self, out: &mut Vec<u8>) {
        let ranges = &self.ranges[..self.ranges.len().min(MAX_RANGES)];
        let Some(newest) = ranges.first() else { return };
        out.extend(self.lane.to_be_bytes());
        out.extend((ranges.len() as u16).to_be_bytes());
        out.extend(self.window_end.to_be_bytes());
        out.extend(self.done_below.to_be_bytes());
        out.extend(self.done.to_be_bytes());
        out.extend(newest.last.to_be_bytes());
        out.extend(self.delay_us.to_be_bytes());
        out.extend(clamp(newest.last - newest.first).to_be_bytes());
        for pair in ranges.windows(2) {
            out.extend(clamp(pair[0].first - pair[1].last).to_be_bytes());
            out.extend(clamp(pair[1].last - pair[1].first).to_be_bytes());
        }
    }

    /// The acknowledgment that `body` is.
    ///
    /// # Errors
    ///
    /// A length or number of ranges that is not as it must be: nothing is allocated before that.
    pub fn parse(body: &[u8]) -> Result<Self, AckError> {
        if body.len() < FIXED_BYTES {
            return Err(AckError::Length { bytes: body.len(), ranges: 0 });
        }
        let count = usize::from(u16::from_be_bytes([body[2], body[3]]));
        if count == 0 || count > MAX_RANGES {
            return Err(AckError::Ranges(count));
        }
        if body.len() != FIXED_BYTES + (count - 1) * RANGE_BYTES {
            return Err(AckError::Length { bytes: body.len(), ranges: count });
        }
        let wide = |at: usize| u64::from(be32(body, at)) << 32 | u64::from(be32(body, at + 4));
        let last = wide(20);
        let first = last.checked_sub(u64::from(be32(body, 32))).ok_or(AckError::Below)?;
        let mut ranges = Vec::with_capacity(count);
        ranges.push(Range { first, last });
        let mut above = first;
        for pair in body[FIXED_BYTES..].chunks_exact(RANGE_BYTES) {
            // A gap of 0 or 1 would touch the range above: no sender writes that.
            let gap = u64::from(be32(pair, 0)).max(2);
            let last = above.checked_sub(gap).ok_or(AckError::Below)?;
            let first = last.checked_sub(u64::from(be32(pair, 4))).ok_or(AckError::Below)?;
            ranges.push(Range { first, last });
            above = first;
        }
        Ok(Self {
            lane: u16::from_be_bytes([body[0], body[1]]),
            window_end: be32(body, 4),
            done_below: be32(body, 8),
            done: wide(12),
            delay_us: be32(body, 28),
            ranges,
        })
    }

    /// Whether chunk `chunk` is whole at the other end.
    #[must_use]
    pub fn is_done(&self, chunk: u32) -> bool {
        let Some(above) = chunk.checked_sub(self.done_below) else { return true };
        (1..=DONE_BITS).contains(&above) && self.done >> (above - 1) & 1 == 1
    }
}

/// Distances beyond 32 bits do not come about: in flight is less.
fn clamp(distance: u64) -> u32 {
    u32::try_from(distance).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use linecard::rng::Rng;

    fn random(rng: &mut Rng) -> Ack {
        let mut ranges = Vec::new();
        let mut last = rng.below(1 << 40) + (1 << 20);
        for _ in 0..=rng.below(MAX_RANGES as u64 - 1) {
            let first = last - rng.below(100);
            ranges.push(Range { first, last });
            last = first - 2 - rng.below(50);
        }
        Ack {
            lane: rng.below(64) as u16,
            window_end: rng.next_u64() as u32,
            done_below: rng.next_u64() as u32,
            done: rng.next_u64(),
            delay_us: rng.next_u64() as u32,
            ranges,
        }
    }

    #[test]
    fn what_is_written_is_parsed() {
        let mut rng = Rng::new(2);
        for _ in 0..2_000 {
            let ack = random(&mut rng);
            let mut body = Vec::new();
            ack.write(&mut body);
            assert_eq!(Ack::parse(&body), Ok(ack));
        }
    }

    #[test]
    fn damaged_bodies_are_refused_or_sound() {
        let mut rng = Rng::new(3);
        let mut refused = 0;
        for _ in 0..20_000 {
            let mut body = Vec::new();
            random(&mut rng).write(&mut body);
            let at = rng.below(body.len() as u64) as usize;
            body[at] = rng.next_u64() as u8;
            body.truncate(body.len() - rng.below(3) as usize);
            match Ack::parse(&body) {
                Err(_) => refused += 1,
                Ok(ack) => {
                    assert!(ack.ranges.iter().all(|range| range.first <= range.last));
                    assert!(ack.ranges.windows(2).all(|pair| pair[0].first > pair[1].last + 1));
                }
            }
        }
        assert!(refused > 10_000);
    }

    #[test]
    fn a_count_alone_allocates_nothing() {
        let mut body = vec![0; FIXED_BYTES];
        body[2..4].copy_from_slice(&u16::MAX.to_be_bytes());
        assert_eq!(Ack::parse(&body), Err(AckError::Ranges(65_535)));
        body[2..4].copy_from_slice(&2_u16.to_be_bytes());
        assert_eq!(Ack::parse(&body), Err(AckError::Length { bytes: 36, ranges: 2 }));
    }

    #[test]
    fn chunks_are_done_below_and_by_their_bit() {
        let ack = Ack {
            lane: 0,
            window_end: 0,
            done_below: 10,
            done: 0b101,
            delay_us: 0,
            ranges: vec![Range { first: 0, last: 0 }],
        };
        let done: Vec<u32> = (8..80).filter(|&chunk| ack.is_done(chunk)).collect();
        assert_eq!(done, [8, 9, 11, 13]);
    }
}
