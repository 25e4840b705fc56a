//! ST 2110-30 and -31: channels and bits of a sample, by the payload. A session description would name both.
//!
//! ST 2110-31 carries AES3 subframes of 32 bits (AM824), whose labels tell: of every two subframes, the first has the
//! bit F, the second has not. ST 2110-30 carries samples of 16 or 24 bits without labels. Their octets per sampling time
//! can be three channels of 16 bits or two of 24; the content decides, because consecutive samples of a channel are
//! near each other, and octets of a wrong width are not.

/// Octets of an AM824 subframe, and of a pair of them.
const SUBFRAME: usize = 4;
const PAIR: usize = 2 * SUBFRAME;
/// Bits of an AM824 label: two that are zero, B (start of a block), F (first subframe).
const ZEROS: u8 = 0xC0;
const BLOCK: u8 = 0x20;
const FIRST: u8 = 0x10;
/// Packets whose content is compared.
const COMPARED: u32 = 64;
/// Samples of the wrong width change more than those of the right one, at least this many times.
const CLEAR: u64 = 3;
/// Samples change by this much on average, or they do not tell.
const CHANGE: u64 = 16;

/// Channels of a stream, and bits of a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Channels {
    /// Channels.
    pub count: u32,
    /// Bits of a sample: 16 or 24, in AM824 always 24.
    pub bits: u8,
}

/// Whether a payload can be AM824.
#[must_use]
pub fn is_am824(payload: &[u8], len: usize) -> bool {
    let first = |label: u8| label & (ZEROS | FIRST) == FIRST;
    let second = |label: u8| label & (ZEROS | BLOCK | FIRST) == 0;
    let is_pair = |pair: &[u8]| first(pair[0]) && second(pair[SUBFRAME]);
    len.is_multiple_of(PAIR) && payload.len() >= PAIR && payload.chunks_exact(PAIR).all(is_pair)
}

/// By how much samples change if they have 16 bits, and if they have 24.
#[derive(Debug, Clone, Copy, Default)]
pub struct Widths {
    packets: u32,
    /// Sums of differences in the upper 16 bits, and their numbers.
    sixteen: (u64, u64),
    twenty_four: (u64, u64),
}

impl Widths {
    /// Takes a payload of so many samples per channel.
    pub fn push(&mut self, payload: &[u8], samples: usize) {
        if self.packets == COMPARED || samples < 2 || !payload.len().is_multiple_of(samples) {
            return;
        }
        self.packets += 1;
        let frame = payload.len() / samples;
        for (octets, sums) in [(2, &mut self.sixteen), (3, &mut self.twenty_four)] {
            if !frame.is_multiple_of(octets) {
                continue;
            }
            for at in (0..payload.len() - frame).step_by(octets) {
                let upper = |at: usize| i16::from_be_bytes([payload[at], payload[at + 1]]);
                sums.0 += u64::from(upper(at).abs_diff(upper(at + frame)));
                sums.1 += 1;
            }
        }
    }

    /// The channels that the octets of a sampling time can be, the most plausible alone if the content decides.
    pub fn channels(&self, octets: u32) -> impl Iterator<Item = Channels> + use<> {
        let mean = |(sum, count): (u64, u64)| sum / count.max(1);
        let (sixteen, twenty_four) = (mean(self.sixteen), mean(self.twenty_four));
        let is_less = |one: u64, other: u64| other >= CHANGE && one.saturating_mul(CLEAR) <= other;
        let excluded = if octets.is_multiple_of(6) && is_less(sixteen, twenty_four) {
            24
        } else if octets.is_multiple_of(6) && is_less(twenty_four, sixteen) {
            16
        } else {
            0
        };
        [24_u8, 16].into_iter().filter_map(move |bits| {
            let of_sample = u32::from(bits) / 8;
            let fits = octets > 0 && octets.is_multiple_of(of_sample) && bits != excluded;
            fits.then_some(Channels { count: octets / of_sample, bits })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn labels_tell_am824() {
        let pair = [0x38, 1, 2, 3, 0x08, 4, 5, 6];
        assert!(is_am824(&pair.repeat(6), 48));
        assert!(!is_am824(&pair.repeat(6), 49) && !is_am824(&[], 0));
        assert!(!is_am824(&[0; 48], 48) && !is_am824(&[0x10; 48], 48));
        let block_in_the_second = [0x30, 1, 2, 3, 0x20, 4, 5, 6];
        assert!(!is_am824(&block_in_the_second, 8));
    }

    /// A sawtooth of 48 samples, on `count` channels of `bits`.
    fn sound(count: usize, bits: u8) -> Vec<u8> {
        let sample = |n: usize, channel: usize| {
            let value = (n as i32 * 70_001 + channel as i32 * 333_333) << 8;
            value.to_be_bytes()[..usize::from(bits / 8)].to_vec()
        };
        let all = (0..48).flat_map(|n| (0..count).map(move |channel| (n, channel)));
        all.flat_map(|(n, channel)| sample(n, channel)).collect()
    }

    fn found(payload: &[u8]) -> Vec<Channels> {
        let mut widths = Widths::default();
        widths.push(payload, 48);
        widths.channels(payload.len() as u32 / 48).collect()
    }

    #[test]
    fn the_content_tells_16_bits_from_24() {
        let three = Channels { count: 3, bits: 16 };
        let two = Channels { count: 2, bits: 24 };
        assert_eq!(found(&sound(2, 24)), [two]);
        assert_eq!(found(&sound(3, 16)), [three]);
        assert_eq!(found(&sound(2, 16)), [Channels { count: 2, bits: 16 }]);
        assert_eq!(found(&sound(1, 24)), [Channels { count: 1, bits: 24 }]);
        // Silence can be both.
        assert_eq!(found(&[0; 288]), [two, three]);
        assert_eq!(found(&[]), []);
    }
}
