//! RTP (RFC 3550): the header, and loss and order by sequence numbers.

use alloc::vec::Vec;
use core::ops::Range;

/// Octets of the header without CSRC list and extension.
pub const HEADER: usize = 12;

/// The fixed fields, and the range of the payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// The end of a frame, for video.
    pub marker: bool,
    /// Payload type; its meaning is agreed out of band.
    pub payload_type: u8,
    /// Sequence number, modulo 65,536.
    pub sequence: u16,
    /// Time stamp, in ticks of the media clock.
    pub timestamp: u32,
    /// Synchronisation source.
    pub ssrc: u32,
    /// Range of the payload in the datagram, without padding.
    pub payload: Range<usize>,
}

impl Header {
    /// Reads the header at the start of a UDP payload of `len` octets; `bytes` may be only its
    /// beginning (as in captures with a snapshot length). `None` for other data: another version,
    /// types that are reserved for RTCP on the same port (RFC 5761, section 4), or lengths that do
    /// not fit.
    #[must_use]
    pub fn read(bytes: &[u8], len: usize) -> Option<Self> {
        let len = len.max(bytes.len());
        let fixed: &[u8; HEADER] = bytes.first_chunk()?;
        let [flags, kind, s1, s0, t3, t2, t1, t0, i3, i2, i1, i0] = *fixed;
        let payload_type = kind & 0x7F;
        if flags >> 6 != 2 || (64..=95).contains(&payload_type) {
            return None;
        }
        let mut start = HEADER + 4 * usize::from(flags & 0x0F);
        if flags & 0x10 != 0 {
            let [_, _, high, low] = *bytes.get(start..)?.first_chunk::<4>()?;
            start += 4 + 4 * usize::from(u16::from_be_bytes([high, low]));
        }
        let padding = match flags & 0x20 {
            0 => 0,
            // The length of the padding is the last octet, which a truncated packet lacks.
            _ if bytes.len() < len => 0,
            _ => usize::from(*bytes.last()?),
        };
        let end = len.checked_sub(padding)?;
        (start <= end).then_some(Self {
            marker: kind & 0x80 != 0,
            payload_type,
            sequence: u16::from_be_bytes([s1, s0]),
            timestamp: u32::from_be_bytes([t3, t2, t1, t0]),
            ssrc: u32::from_be_bytes([i3, i2, i1, i0]),
            payload: start..end,
        })
    }
}

/// Extends a counter modulo 2ⁿ beyond its range: each value is taken as the nearest to the highest
/// so far.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unwrapped {
    highest: Option<i64>,
}

impl Unwrapped {
    /// The extended number for `value` of a counter of `bits` (1 to 32) bits.
    pub fn push(&mut self, value: u32, bits: u32) -> i64 {
        let number = self.highest.map_or(i64::from(value), |highest| nearest(highest, value, bits));
        self.highest = Some(self.highest.map_or(number, |highest| highest.max(number)));
        number
    }
}

/// The number nearest to `base` whose lowest `bits` (1 to 32) bits are `value`.
#[must_use]
pub fn nearest(base: i64, value: u32, bits: u32) -> i64 {
    let range = 1_i64 << bits.clamp(1, 32);
    let ahead = i64::from(value).wrapping_sub(base).rem_euclid(range);
    base.saturating_add(if ahead < range / 2 { ahead } else { ahead - range })
}

/// Loss, reordering and duplicates of one stream.
///
/// A packet is reordered if one with a higher number came before it (RFC 4737, section 3.3), and a
/// duplicate if one with its number did. A contiguous loss of 32,768 packets or more is counted too
/// low: 16-bit numbers are ambiguous then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Order {
    /// Packets, duplicates included.
    pub received: u64,
    /// Numbers between the lowest and the highest that did not come.
    pub lost: u64,
    /// Packets that arrived after one with a higher number.
    pub reordered: u64,
    /// Packets that arrived again.
    pub duplicates: u64,
    /// Contiguous losses.
    pub loss_events: u64,
}

impl Order {
    /// Evaluates these numbers, which come from [`Unwrapped`] or a probe.
    #[must_use]
    pub fn of(numbers: &[i64]) -> Self {
        let mut order = Self { received: numbers.len() as u64, ..Self::default() };
        let mut sorted: Vec<i64> = numbers.to_vec();
        sorted.sort_unstable();
        sorted.dedup();
        order.duplicates = (numbers.len() - sorted.len()) as u64;
        for pair in sorted.windows(2) {
            let missing = pair[1].abs_diff(pair[0]) - 1;
            order.lost = order.lost.saturating_add(missing);
            order.loss_events += u64::from(missing > 0);
        }
        let mut highest = i64::MIN;
        let mut behind: Vec<i64> = Vec::new();
        for &number in numbers {
            if number < highest {
                behind.push(number);
            }
            highest = highest.max(number);
        }
        // Some of the packets behind a higher number are duplicates, which are counted separately.
        order.reordered = first_comings(numbers, behind);
        order
    }
}

/// Packets whose spacing is compared.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Counted {
    /// All.
    #[default]
    All,
    /// The first of each time stamp: the packets of one picture are sent one after the other and have the same.
    FirstOfStamp,
}

/// Interarrival jitter (RFC 3550, section 6.4.1): a mean of how much the spacing of two packets at their
/// arrival differs from that of their time stamps, of which each new difference makes a sixteenth.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Jitter {
    /// Rate of the time stamps' clock, in Hz.
    pub clock: u32,
    /// The packets that count.
    pub counted: Counted,
    /// Mean of its values after each packet but the first, in ns.
    pub mean_ns: f64,
    /// The greatest of them.
    pub max_ns: f64,
    /// The value at the end: what a receiver report would have said last.
    pub last_ns: f64,
}

impl Jitter {
    /// Of time stamps and arrivals in ns, in the order of arrival; `None` with fewer than two packets.
    ///
    /// ```
    /// use linecard_jitter::media::rtp::{Counted, Jitter};
    /// // Every 20 ms at 8,000 Hz; the last packet is 1.6 ms late.
    /// let packets = [(0, 0), (160, 20_000_000), (320, 41_600_000)];
    /// let jitter = Jitter::of(packets, 8_000, Counted::All).unwrap();
    /// assert_eq!((jitter.last_ns, jitter.max_ns, jitter.mean_ns), (100_000.0, 100_000.0, 50_000.0));
    /// ```
    #[must_use]
    pub fn of(
        packets: impl IntoIterator<Item = (i64, u64)>,
        clock: u32,
        counted: Counted,
    ) -> Option<Self> {
        let mut meter = JitterMeter::new(clock, counted);
        packets.into_iter().for_each(|packet| meter.push(packet));
        meter.jitter()
    }
}

/// Takes the packets of a stream one by one for its [`Jitter`].
#[derive(Debug, Clone, Copy)]
pub struct JitterMeter {
    jitter: Jitter,
    before: Option<(i64, u64)>,
    /// The time stamp of the first packet, whose frame may have begun before.
    cut: Option<i64>,
    sum_ns: f64,
    count: u64,
}

impl JitterMeter {
    /// A meter for time stamps of this clock, in Hz.
    #[must_use]
    pub fn new(clock: u32, counted: Counted) -> Self {
        let jitter = Jitter { clock, counted, mean_ns: 0.0, max_ns: 0.0, last_ns: 0.0 };
        Self { jitter, before: None, cut: None, sum_ns: 0.0, count: 0 }
    }

    /// The packets that count.
    #[must_use]
    pub fn counted(&self) -> Counted {
        self.jitter.counted
    }

    /// The clock, in Hz.
    #[must_use]
    pub fn clock(&self) -> u32 {
        self.jitter.clock
    }

    /// Takes the time stamp and the arrival in ns of the packet that arrived next.
    pub fn push(&mut self, packet: (i64, u64)) {
        let is_first = self.before.is_none_or(|(stamp, _)| stamp != packet.0);
        if self.jitter.counted == Counted::FirstOfStamp
            && (!is_first || *self.cut.get_or_insert(packet.0) == packet.0)
        {
            return;
        }
        let Some(before) = self.before.replace(packet) else { return };
        let ticks = i128::from(packet.0) - i128::from(before.0);
        let ns = i128::from(packet.1) - i128::from(before.1);
        let jitter = &mut self.jitter;
        let difference = (ns as f64 - ticks as f64 * 1e9 / f64::from(jitter.clock)).abs();
        jitter.last_ns += (difference - jitter.last_ns) / 16.0;
        jitter.max_ns = jitter.max_ns.max(jitter.last_ns);
        self.sum_ns += jitter.last_ns;
        self.count += 1;
    }

    /// Forgets the last packet: the next one has no difference from it.
    pub fn interrupt(&mut self) {
        (self.before, self.cut) = (None, None);
    }

    /// The jitter so far; `None` with fewer than two packets.
    #[must_use]
    pub fn jitter(&self) -> Option<Jitter> {
        let mean_ns = self.sum_ns / self.count as f64;
        (self.count > 0).then_some(Jitter { mean_ns, ..self.jitter })
    }
}

/// Clock rate of a payload type that has always the same (RFC 3551, tables 4 and 5), in Hz.
#[must_use]
pub fn fixed_clock(payload_type: u8) -> Option<u32> {
    match payload_type {
        0 | 3..=5 | 7..=9 | 12 | 13 | 15 | 18 => Some(8_000),
        6 => Some(16_000),
        10 | 11 => Some(44_100),
        14 | 25 | 26 | 28 | 31..=34 => Some(90_000),
        16 => Some(11_025),
        17 => Some(22_050),
        _ => None,
    }
}

/// How many of the numbers behind a higher one arrived for the first time.
fn first_comings(numbers: &[i64], mut behind: Vec<i64>) -> u64 {
    behind.sort_unstable();
    behind.dedup();
    let mut waiting: Vec<bool> = alloc::vec![true; behind.len()];
    let (mut highest, mut first) = (i64::MIN, 0);
    for &number in numbers {
        if let Ok(at) = behind.binary_search(&number) {
            first += u64::from(waiting[at] && number < highest);
            waiting[at] = false;
        }
        highest = highest.max(number);
    }
    first
}

#[cfg(test)]
mod tests {
    use super::*;
    use linecard::rng::Rng;

    #[test]
    fn a_header_is_read() {
        let mut bytes = alloc::vec![0x80, 0xE2, 0x12, 0x34, 0, 0, 0, 9, 0, 0, 0, 7];
        bytes.extend([1, 2, 3]);
        let header = Header::read(&bytes, 15).unwrap();
        assert!(header.marker && header.payload_type == 98 && header.sequence == 0x1234);
        assert_eq!((header.timestamp, header.ssrc, header.payload), (9, 7, 12..15));
        assert_eq!(Header::read(&bytes, 1_400).unwrap().payload, 12..1_400);
        assert_eq!(Header::read(&bytes[..11], 15), None);
        for (at, value) in [(0, 0x40), (1, 200), (0, 0x8F)] {
            let mut bad = bytes.clone();
            bad[at] = value;
            assert_eq!(Header::read(&bad, 15), None, "{at}: {value}");
        }
        // Padding of two octets, an extension of one word, and padding that is longer than the packet.
        bytes[0] = 0xA0;
        bytes[14] = 2;
        assert_eq!(Header::read(&bytes, 15).unwrap().payload, 12..13);
        bytes[14] = 200;
        assert_eq!(Header::read(&bytes, 15), None);
        bytes[0] = 0x90;
        bytes.truncate(12);
        bytes.extend([0, 0, 0, 1, 0, 0, 0, 0, 5]);
        assert_eq!(Header::read(&bytes, 21).unwrap().payload, 20..21);
    }

    /// Three packets of each picture, 100 µs apart; the first ones are on time.
    #[test]
    fn jitter_of_pictures_is_that_of_their_first_packets() {
        let packets: Vec<(i64, u64)> = (0..30_u32)
            .map(|n| (i64::from(n / 3 * 1_800), u64::from(n / 3 * 20_000_000 + n % 3 * 100_000)))
            .collect();
        let of = |counted| Jitter::of(packets.iter().copied(), 90_000, counted).unwrap().max_ns;
        assert_eq!(of(Counted::FirstOfStamp), 0.0);
        assert!(of(Counted::All) > 50_000.0);
    }

    #[test]
    fn counters_go_on_beyond_their_range() {
        let mut counter = Unwrapped::default();
        let numbers = [65_534, 65_535, 0, 65_533, 2, 1].map(|value| counter.push(value, 16));
        assert_eq!(numbers, [65_534, 65_535, 65_536, 65_533, 65_538, 65_537]);
        let mut clock = Unwrapped::default();
        assert_eq!(clock.push(u32::MAX, 32), i64::from(u32::MAX));
        assert_eq!(clock.push(5, 32), (1 << 32) + 5);
    }

    /// By the definitions, comparing every packet with all before it.
    fn twin(numbers: &[i64]) -> Order {
        let mut order = Order { received: numbers.len() as u64, ..Order::default() };
        for (at, number) in numbers.iter().enumerate() {
            let before = &numbers[..at];
            if before.contains(number) {
                order.duplicates += 1;
            } else if before.iter().any(|other| other > number) {
                order.reordered += 1;
            }
        }
        let (Some(low), Some(high)) = (numbers.iter().min(), numbers.iter().max()) else {
            return order;
        };
        let missing = |number: &i64| !numbers.contains(number);
        order.lost = (*low..*high).filter(missing).count() as u64;
        order.loss_events = (*low..*high)
            .filter(|number| missing(number) && !missing(&(number - 1)))
            .count() as u64;
        order
    }

    #[test]
    fn order_equals_the_definitions() {
        for seed in 0..2_000 {
            let mut rng = Rng::new(seed);
            let n = rng.below(30);
            let numbers: Vec<i64> = (0..n).map(|at| at as i64 + rng.below(6) as i64 - 3).collect();
            assert_eq!(Order::of(&numbers), twin(&numbers), "seed {seed}: {numbers:?}");
        }
    }

    #[test]
    fn wrapped_streams_lose_nothing() {
        for seed in 0..50 {
            let mut rng = Rng::new(seed);
            let start = rng.below(65_536) as u32;
            let mut counter = Unwrapped::default();
            let numbers: Vec<i64> =
                (0..100_000).map(|n| counter.push((start + n) & 0xFFFF, 16)).collect();
            assert_eq!(Order::of(&numbers), Order { received: 100_000, ..Order::default() });
        }
    }
}
