//! Decodes pages of the ring buffer: a time stamp, the length, events.
//!
//! Each event begins with a word: 5 bits of type and length, 27 bits of time since the previous
//! event.
//!
//! Source: `events/header_page` and `events/header_event` of tracefs, the kernel's
//! `include/linux/ring_buffer.h` and Documentation/trace/ring-buffer-design.rst.

use super::format::{Field, field};

/// Type values from here on are not event lengths.
const PADDING: u32 = 29;
const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;
/// Bits of the time in an event's first word.
const DELTA_BITS: u32 = 27;
/// Mask of the data length in a page's length word.
const LEN_MASK: u64 = (1 << 27) - 1;
/// Events were lost before this page.
const MISSED: u64 = 1 << 31;
/// In addition, their number follows the last event.
const MISSED_STORED: u64 = 1 << 30;
/// The bits that an absolute time lacks.
const HIGH_BITS: u64 = 0x1F << 59;

/// Offsets of a page's parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Layout {
    time: Field,
    filled: Field,
    data: Field,
}

impl Layout {
    /// Parses `events/header_page`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let time = field(text, "timestamp")?;
        let (filled, data) = (field(text, "commit")?, field(text, "data")?);
        (data.len > 0).then_some(Self { time, filled, data })
    }

    pub(super) fn page_len(&self) -> usize {
        self.data.at + self.data.len
    }

    /// Passes each event's time and data to `each`, and returns the number of lost events.
    pub(super) fn decode(&self, page: &[u8], each: &mut dyn FnMut(u64, &[u8])) -> u64 {
        let [time, filled] = [self.time, self.filled].map(|field| field.number(page));
        let (Some(mut at_ns), Some(filled)) = (time, filled) else { return 1 };
        let data = page.get(self.data.at..).unwrap_or_default();
        let len = (filled & LEN_MASK) as usize;
        let mut lost = match filled & (MISSED | MISSED_STORED) {
            0 => 0,
            MISSED => 1,
            _ => word(data, len).map_or(1, |low| {
                let high = word(data, len + 4).unwrap_or(0);
                if cfg!(target_endian = "little") { low | high << 32 } else { low << 32 | high }
            }),
        };
        let mut at = 0;
        while at < len {
            let Some(entry) = Entry::at(data, at) else { return lost + 1 };
            at_ns = entry.time(at_ns);
            let end = at + entry.len;
            if entry.is_end || end > len {
                lost += u64::from(!entry.is_end);
                break;
            }
            if entry.has_data {
                each(at_ns, &data[at + entry.head..end]);
            }
            at = end;
        }
        lost
    }
}

/// The header of one event.
struct Entry {
    kind: u32,
    delta: u64,
    /// The word after the first one, used by time events.
    array: u64,
    /// Length including the header, in bytes; never 0.
    len: usize,
    head: usize,
    has_data: bool,
    /// Whether the page ends here.
    is_end: bool,
}

impl Entry {
    fn at(data: &[u8], at: usize) -> Option<Self> {
        let first = word(data, at)? as u32;
        let (kind, delta) = if cfg!(target_endian = "little") {
            (first & 0x1F, first >> 5)
        } else {
            (first >> DELTA_BITS, first & ((1 << DELTA_BITS) - 1))
        };
        let entry = |len: usize, head, has_data, array| {
            let delta = u64::from(delta);
            Self { kind, delta, array, len, head, has_data, is_end: false }
        };
        Some(match kind {
            // Longer events have their length, including that word, in the second word.
            0 => entry(4 + (word(data, at + 4)? as usize).max(4), 8, true, 0),
            PADDING if delta == 0 => Self { is_end: true, ..entry(4, 4, false, 0) },
            PADDING => entry(4 + (word(data, at + 4)? as usize).max(4), 8, false, 0),
            TIME_EXTEND | TIME_STAMP => entry(8, 8, false, word(data, at + 4)?),
            words => entry(4 + 4 * words as usize, 4, true, 0),
        })
    }

    fn time(&self, before_ns: u64) -> u64 {
        let whole = (self.array << DELTA_BITS) + self.delta;
        match self.kind {
            TIME_STAMP => whole & !HIGH_BITS | before_ns & HIGH_BITS,
            _ => before_ns.wrapping_add(whole),
        }
    }
}

fn word(data: &[u8], at: usize) -> Option<u64> {
    let bytes = data.get(at..)?.first_chunk()?;
    Some(u32::from_ne_bytes(*bytes).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use linecard::rng::Rng;

    const HEADER: &str = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
        \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
        \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
        \tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n";

    fn head(kind: u32, delta: u32) -> [u8; 4] {
        let little = cfg!(target_endian = "little");
        if little { kind | delta << 5 } else { kind << 27 | delta }.to_ne_bytes()
    }

    fn page(at_ns: u64, flags: u64, data: &[&[u8]]) -> Vec<u8> {
        let data = data.concat();
        let filled = data.len() as u64 | flags;
        [&at_ns.to_ne_bytes()[..], &filled.to_ne_bytes(), &data].concat()
    }

    fn decoded(page: &[u8]) -> (Vec<(u64, Vec<u8>)>, u64) {
        let layout = Layout::parse(HEADER).expect("as kernels have it");
        let mut found = Vec::new();
        let lost = layout.decode(page, &mut |at_ns, data| found.push((at_ns, data.to_vec())));
        (found, lost)
    }

    #[test]
    fn events_of_each_kind_are_read() {
        let long = [7_u8; 120];
        let page = page(
            1_000,
            0,
            &[
                &head(2, 5),
                &[1; 8],
                // 2^27 ns and more since the last: in the second word.
                &head(TIME_EXTEND, 3),
                &2_u32.to_ne_bytes(),
                &head(0, 1),
                &124_u32.to_ne_bytes(),
                &long,
                // An event that a filter has taken away.
                &head(PADDING, 1),
                &12_u32.to_ne_bytes(),
                &[0; 8],
                &head(TIME_STAMP, 9),
                &1_000_u32.to_ne_bytes(),
                &head(1, 0),
                &[3; 4],
                &head(PADDING, 0),
                &[0; 32],
            ],
        );
        let late = 1_005 + 3 + (2 << 27) + 1;
        let last = (1_000 << 27) + 9;
        let wanted = vec![(1_005, vec![1; 8]), (late, long.to_vec()), (last, vec![3; 4])];
        assert_eq!(decoded(&page), (wanted, 0));
    }

    #[test]
    fn what_is_missing_is_counted() {
        let data = [&head(1, 0)[..], &[3; 4]];
        assert_eq!(decoded(&page(1, MISSED, &data)).1, 1);
        let mut stored = page(1, MISSED | MISSED_STORED, &data);
        stored.extend(17_u64.to_ne_bytes());
        assert_eq!(decoded(&stored), (vec![(1, vec![3; 4])], 17));
        // An event that goes beyond its page.
        assert_eq!(decoded(&page(1, 0, &[&head(9, 0), &[3; 4]])), (vec![], 1));
        assert_eq!(decoded(&[1, 2, 3]), (vec![], 1));
    }

    #[test]
    fn noise_is_survived() {
        let seed = 0x7ACE;
        let mut rng = Rng::new(seed);
        for _ in 0..2_000 {
            let bytes: Vec<u8> = (0..rng.below(200)).map(|_| rng.below(256) as u8).collect();
            let filled = bytes.len() as u64;
            let noise = [&[0; 8][..], &filled.to_ne_bytes(), &bytes].concat();
            let (found, lost) = decoded(&noise);
            assert!(found.len() as u64 + lost <= filled + 1, "seed {seed}: {noise:?}");
        }
    }
}
