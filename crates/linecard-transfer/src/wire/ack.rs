//! Acknowledgments: the received packets of a lane, complete chunks, and the limit for the sender.

use super::be32;
use alloc::vec::Vec;

/// Most ranges of an [`Ack`]. Older packets have been reported before, or are lost.
pub const MAX_RANGES: usize = 32;
/// Chunks above [`Ack::done_below`] that it can say are whole.
pub const DONE_BITS: u32 = 64 * DONE_WORDS as u32;
/// The same up to version 3 of the messages: only the first word is understood.
pub const FEW_DONE_BITS: u32 = 64;

/// Words of bits of whole chunks, at most. All but the first are left out at the end where they are 0.
pub(crate) const DONE_WORDS: usize = 4;

const FIXED_BYTES: usize = 36;
const RANGE_BYTES: usize = 8;
const WORD_BYTES: usize = 8;
/// The longest body of an acknowledgment.
pub(crate) const MAX_ACK_BYTES: usize =
    FIXED_BYTES + (MAX_RANGES - 1) * RANGE_BYTES + (DONE_WORDS - 1) * WORD_BYTES;

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
    /// Bit i of word w: chunk `done_below + 1 + 64 * w + i` is whole.
    pub done: [u64; DONE_WORDS],
    /// From the arrival of the highest number to the sending of this, in µs.
    pub delay_us: u32,
    /// From the highest to the lowest, never touching each other, at least one.
    pub ranges: Vec<Range>,
}

/// Why a body is not an acknowledgment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AckError {
    /// The length does not go with the number of ranges and words.
    #[error(
        "an acknowledgment of {bytes} bytes does not hold its {ranges} ranges and {words} more words of whole chunks"
    )]
    Length {
        /// Of the body.
        bytes: usize,
        /// As the body says.
        ranges: usize,
        /// As the body says.
        words: usize,
    },
    /// More words of whole chunks than allowed.
    #[error("{0} more words of whole chunks: at most {most} are allowed", most = DONE_WORDS - 1)]
    Words(usize),
    /// No range, or more than allowed.
    #[error("{0} ranges are not 1 to {MAX_RANGES}")]
    Ranges(usize),
    /// Ranges that go below zero.
    #[error("ranges go below packet number 0")]
    Below,
}

impl Ack {
    /// Appends the body to `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        let ranges = &self.ranges[..self.ranges.len().min(MAX_RANGES)];
        let Some(newest) = ranges.first() else { return };
        out.extend(self.lane.to_be_bytes());
        let [first, more @ ..] = &self.done;
        let words = more.iter().rposition(|word| *word != 0).map_or(0, |last| last + 1);
        out.extend([words as u8, ranges.len() as u8]);
        out.extend(self.window_end.to_be_bytes());
        out.extend(self.done_below.to_be_bytes());
        out.extend(first.to_be_bytes());
        out.extend(newest.last.to_be_bytes());
        out.extend(self.delay_us.to_be_bytes());
        out.extend(clamp(newest.last - newest.first).to_be_bytes());
        for pair in ranges.windows(2) {
            out.extend(clamp(pair[0].first - pair[1].last).to_be_bytes());
            out.extend(clamp(pair[1].last - pair[1].first).to_be_bytes());
        }
        more[..words].iter().for_each(|word| out.extend(word.to_be_bytes()));
    }

    /// The acknowledgment that `body` is.
    ///
    /// # Errors
    ///
    /// A length or a number of ranges or words that is not as it must be: nothing is allocated before that.
    pub fn parse(body: &[u8]) -> Result<Self, AckError> {
        if body.len() < FIXED_BYTES {
            return Err(AckError::Length { bytes: body.len(), ranges: 0, words: 0 });
        }
        let (words, count) = (usize::from(body[2]), usize::from(body[3]));
        if words >= DONE_WORDS {
            return Err(AckError::Words(words));
        }
        if count == 0 || count > MAX_RANGES {
            return Err(AckError::Ranges(count));
        }
        let more_at = FIXED_BYTES + (count - 1) * RANGE_BYTES;
        if body.len() != more_at + words * WORD_BYTES {
            return Err(AckError::Length { bytes: body.len(), ranges: count, words });
        }
        let wide = |at: usize| u64::from(be32(body, at)) << 32 | u64::from(be32(body, at + 4));
        let last = wide(20);
        let first = last.checked_sub(u64::from(be32(body, 32))).ok_or(AckError::Below)?;
        let mut ranges = Vec::with_capacity(count);
        ranges.push(Range { first, last });
        let mut above = first;
        for pair in body[FIXED_BYTES..more_at].chunks_exact(RANGE_BYTES) {
            // A gap of 0 or 1 would touch the range above: no sender writes that.
            let gap = u64::from(be32(pair, 0)).max(2);
            let last = above.checked_sub(gap).ok_or(AckError::Below)?;
            let first = last.checked_sub(u64::from(be32(pair, 4))).ok_or(AckError::Below)?;
            ranges.push(Range { first, last });
            above = first;
        }
        let mut done = [0; DONE_WORDS];
        done[0] = wide(12);
        for word in 0..words {
            done[1 + word] = wide(more_at + word * WORD_BYTES);
        }
        Ok(Self {
            lane: u16::from_be_bytes([body[0], body[1]]),
            window_end: be32(body, 4),
            done_below: be32(body, 8),
            done,
            delay_us: be32(body, 28),
            ranges,
        })
    }

    /// Whether chunk `chunk` is whole at the other end.
    #[must_use]
    pub fn is_done(&self, chunk: u32) -> bool {
        let Some(above) = chunk.checked_sub(self.done_below) else { return true };
        let word = above.checked_sub(1).and_then(|bit| self.done.get(bit as usize / 64));
        word.is_some_and(|word| word >> ((above - 1) % 64) & 1 == 1)
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
            done: core::array::from_fn(|_| if rng.chance(0.3) { 0 } else { rng.next_u64() }),
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
        body[3] = u8::MAX;
        assert_eq!(Ack::parse(&body), Err(AckError::Ranges(255)));
        body[3] = 2;
        assert_eq!(Ack::parse(&body), Err(AckError::Length { bytes: 36, ranges: 2, words: 0 }));
        body[2..4].copy_from_slice(&[3, 1]);
        assert_eq!(Ack::parse(&body), Err(AckError::Length { bytes: 36, ranges: 1, words: 3 }));
        body[2] = DONE_WORDS as u8;
        assert_eq!(Ack::parse(&body), Err(AckError::Words(4)));
    }

    #[test]
    fn an_older_peer_reads_what_is_below_its_limit() {
        let ranges = vec![Range { first: 3, last: 9 }];
        let done = [u64::MAX, 0, 0, 0];
        let ack = Ack { lane: 1, window_end: 2, done_below: 0, done, delay_us: 5, ranges };
        let mut body = Vec::new();
        ack.write(&mut body);
        assert_eq!((body.len(), &body[..4]), (FIXED_BYTES, &[0, 1, 0, 1][..]));
    }

    #[test]
    fn chunks_are_done_below_and_by_their_bit() {
        let ack = Ack {
            lane: 0,
            window_end: 0,
            done_below: 10,
            done: [0b101, 0, 0, 1 << 63],
            delay_us: 0,
            ranges: vec![Range { first: 0, last: 0 }],
        };
        let done: Vec<u32> = (8..400).filter(|&chunk| ack.is_done(chunk)).collect();
        assert_eq!(done, [8, 9, 11, 13, 10 + DONE_BITS]);
    }
}
