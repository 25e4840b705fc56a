//! The bus: clocks needed to move a frame from the adapter's FIFO to memory.

use crate::{Clock, ClockError, Ps};

/// The bus clock in Hz. The paper counts 30 ns to a clock, which is 33 ⅓ MHz and no whole number of
/// Hz: this one runs late by a hundred-millionth, 10 ns in a second.
pub const PCI_HZ: u64 = 33_333_333;

/// A byte at 1 Gbit/s.
pub(super) const BYTE: Ps = Ps::from_ns(8);

/// Clocks before data: arbitration, address, first answer.
const HEADER_CLOCKS: u64 = 7;
/// Bytes moved per clock.
const WORD_BYTES: u32 = 8;
/// Memory write and invalidate moves whole cache lines of the processor.
const LINE_BYTES: u32 = 32;
/// A memory write for the rest, and one to the adapter, on average.
const WRITE_CLOCKS: u64 = 8;
/// Writing the status of a frame, on average.
const STATUS_CLOCKS: u64 = 17;

/// Bus clocks by purpose; also sums of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Transfer {
    /// Before the first word.
    pub header: u64,
    /// Words of whole cache lines.
    pub data: u64,
    /// Clocks in which the adapter has no word yet.
    pub waits: u64,
    /// The partial cache line at the end.
    pub tail: u64,
    /// The frame's status.
    pub status: u64,
}

impl Transfer {
    /// All clocks.
    #[must_use]
    pub const fn clocks(&self) -> u64 {
        self.header + self.data + self.waits + self.tail + self.status
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.header += other.header;
        self.data += other.data;
        self.waits += other.waits;
        self.tail += other.tail;
        self.status += other.status;
    }
}

/// A 64 bit bus between an adapter that receives at 1 Gbit/s and memory.
#[derive(Debug, Clone, Copy)]
pub struct Bus {
    clock: Clock,
}

impl Bus {
    /// A bus of `hz` clocks a second.
    ///
    /// # Errors
    /// As [`Clock::new`].
    pub fn new(hz: u64) -> Result<Self, ClockError> {
        Ok(Self { clock: Clock::new(hz, Ps::ZERO)? })
    }

    /// Its clock.
    #[must_use]
    pub const fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Moves a frame of `len` bytes whose first byte reached the FIFO at `first_byte`, requested at
    /// `now`; returns its clocks, and the clock in which the bus is free again.
    ///
    /// A word is moved in the first clock at which it is complete. Bytes arrive and words leave at
    /// constant rates, so either the first or the last word determines the time.
    #[must_use]
    pub fn transfer(&self, now: Ps, first_byte: Ps, len: u32) -> (Transfer, u64) {
        let there = |bytes: u32| self.clock.at_or_after(arrival(first_byte, bytes));
        let begin = self.clock.at_or_after(now) + HEADER_CLOCKS;
        let whole = len - len % LINE_BYTES;
        let words = u64::from(whole / WORD_BYTES);
        let mut end = begin;
        if words > 0 {
            let last = begin.max(there(WORD_BYTES)) + words - 1;
            end = last.max(there(whole)) + 1;
        }
        let tail = if whole < len { WRITE_CLOCKS } else { 0 };
        end = end.max(there(len));
        let waits = end - begin - words;
        let transfer =
            Transfer { header: HEADER_CLOCKS, data: words, waits, tail, status: STATUS_CLOCKS };
        (transfer, end + tail + STATUS_CLOCKS)
    }

    /// Clocks of `writes` writes from the host to the adapter.
    pub(super) const fn writes(writes: u32) -> u64 {
        writes as u64 * WRITE_CLOCKS
    }
}

/// When `bytes` of a frame have arrived.
pub(super) fn arrival(first_byte: Ps, bytes: u32) -> Ps {
    first_byte + Ps(u64::from(bytes) * BYTE.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use linecard::rng::Rng;

    /// Word by word, as the bus does it.
    fn plain(bus: &Bus, now: Ps, first_byte: Ps, len: u32) -> u64 {
        let there = |bytes: u32| bus.clock.at_or_after(arrival(first_byte, bytes));
        let mut clock = bus.clock.at_or_after(now) + HEADER_CLOCKS;
        for word in 1..=len / LINE_BYTES * (LINE_BYTES / WORD_BYTES) {
            clock = clock.max(there(word * WORD_BYTES)) + 1;
        }
        clock = clock.max(there(len));
        clock + if len.is_multiple_of(LINE_BYTES) { 0 } else { WRITE_CLOCKS } + STATUS_CLOCKS
    }

    #[test]
    fn equals_word_by_word() {
        let mut rng = Rng::new(5);
        for _ in 0..2_000 {
            let bus = Bus::new([PCI_HZ, 2 * PCI_HZ, 10_000_000][rng.below(3) as usize]).unwrap();
            let (first, len) = (Ps(rng.below(1_000_000_000)), 64 + rng.below(1455) as u32);
            let now = first + Ps(rng.below(20_000_000));
            let (transfer, end) = bus.transfer(now, first, len);
            assert_eq!(end, plain(&bus, now, first, len), "{len} bytes");
            assert_eq!(end - bus.clock.at_or_after(now), transfer.clocks());
        }
    }

    /// The wait states follow from the threshold: the paper saw about 100, with a threshold that it
    /// does not state.
    #[test]
    fn a_higher_threshold_saves_wait_states() {
        let bus = Bus::new(PCI_HZ).unwrap();
        let waits =
            |threshold: u32| bus.transfer(arrival(Ps::ZERO, threshold), Ps::ZERO, 1518).0.waits;
        assert!((97..=107).contains(&waits(400)), "{}", waits(400));
        assert!((90..=100).contains(&waits(424)), "{}", waits(424));
        assert_eq!((waits(1024), waits(1518)), (0, 0));
    }
}
