//! Properties of an interface, from its section: link type, snapshot length, clock.

use super::options::{IF_TSOFFSET, IF_TSRESOL, find};
use super::{Damage, Endianness};

/// Most interfaces kept for one section. The obsolete packet block could name no more; 1.5 MiB.
pub const MAX_INTERFACES: usize = 65_536;

const NS_PER_SECOND: i128 = 1_000_000_000;

/// An interface description, reduced to what reading needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Interface {
    pub(super) link_type: u16,
    pub(super) snaplen: u32,
    pub(super) clock: Clock,
}

impl Interface {
    /// Bytes before the options in the block's body.
    pub(super) const FIXED: usize = 8;

    /// Reads the body of an interface description block of at least [`Self::FIXED`] bytes.
    pub(super) fn parse(body: &[u8], endianness: Endianness) -> Option<Self> {
        let options = body.get(Self::FIXED..)?;
        let resolution = find(options, IF_TSRESOL, endianness).and_then(|v| v.first().copied());
        let offset = find(options, IF_TSOFFSET, endianness).and_then(|v| endianness.i64_in(v));
        Some(Self {
            link_type: endianness.u16_at(body, 0)?,
            snaplen: endianness.u32_at(body, 4)?,
            clock: Clock {
                resolution: resolution.unwrap_or(Clock::MICROSECONDS.resolution),
                offset_seconds: offset.unwrap_or(0),
            },
        })
    }
}

/// The interfaces of a section, at most [`MAX_INTERFACES`].
#[derive(Debug, Default)]
pub(super) struct Interfaces(Vec<Interface>);

impl Interfaces {
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    pub(super) fn all(&self) -> &[Interface] {
        &self.0
    }

    pub(super) fn add(&mut self, interface: Interface) -> Result<(), Damage> {
        if self.0.len() == MAX_INTERFACES {
            return Err(Damage::TooManyInterfaces);
        }
        self.0.push(interface);
        Ok(())
    }

    pub(super) fn get(&self, interface: u32) -> Result<&Interface, Damage> {
        let known = self.0.len();
        self.0.get(interface as usize).ok_or(Damage::NoSuchInterface { interface, known })
    }
}

/// How ticks become time: `if_tsresol` as in the file, and `if_tsoffset`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Clock {
    /// 10^-n seconds, or 2^-n with the top bit set.
    pub(super) resolution: u8,
    pub(super) offset_seconds: i64,
}

impl Clock {
    pub(super) const MICROSECONDS: Self = Self { resolution: 6, offset_seconds: 0 };
    pub(super) const NANOSECONDS: Self = Self { resolution: 9, offset_seconds: 0 };

    /// Nanoseconds since 1970, held within what a `u64` can say.
    #[inline]
    pub(super) fn timestamp_ns(self, ticks: u64) -> u64 {
        match self {
            Self::MICROSECONDS => ticks.saturating_mul(1000),
            Self::NANOSECONDS => ticks,
            _ => self.nanoseconds(ticks).0.clamp(0, i128::from(u64::MAX)) as u64,
        }
    }

    /// Nanoseconds since 1970, rounded down, and whether nothing was rounded away.
    pub(super) fn nanoseconds(self, ticks: u64) -> (i128, bool) {
        let (since, exact) = if self.resolution & 0x80 == 0 {
            decimal(ticks, u32::from(self.resolution))
        } else {
            binary(ticks, u32::from(self.resolution & 0x7f))
        };
        (since as i128 + i128::from(self.offset_seconds) * NS_PER_SECOND, exact)
    }

    /// Whether every timestamp is a whole number of microseconds.
    pub(super) fn fits_microseconds(self) -> bool {
        // 2^-6 seconds are 15,625 microseconds; 2^-7 are not a whole number.
        self.resolution & 0x7f <= 6
    }
}

/// Ticks of 10^-power seconds as nanoseconds.
fn decimal(ticks: u64, power: u32) -> (u128, bool) {
    let ticks = u128::from(ticks);
    if power <= 9 {
        return (ticks * 10_u128.pow(9 - power), true);
    }
    match 10_u128.checked_pow(power - 9) {
        Some(unit) => (ticks / unit, ticks.is_multiple_of(unit)),
        None => (0, ticks == 0),
    }
}

/// Ticks of 2^-power seconds as nanoseconds; `power` is at most 127.
fn binary(ticks: u64, power: u32) -> (u128, bool) {
    let scaled = u128::from(ticks) * NS_PER_SECOND as u128;
    let whole = scaled >> power;
    (whole, whole << power == scaled)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ns(resolution: u8, offset_seconds: i64, ticks: u64) -> u64 {
        Clock { resolution, offset_seconds }.timestamp_ns(ticks)
    }

    #[test]
    fn every_resolution_gives_nanoseconds() {
        assert_eq!(ns(0, 0, 5), 5_000_000_000);
        assert_eq!(ns(3, 0, 5), 5_000_000);
        assert_eq!(ns(6, 0, 5), 5_000);
        assert_eq!(ns(9, 0, 5), 5);
        assert_eq!(ns(12, 0, 5_999), 5);
        assert_eq!(ns(127, 0, u64::MAX), 0);
        assert_eq!(ns(0x80, 0, 5), 5_000_000_000);
        assert_eq!(ns(0x80 | 1, 0, 5), 2_500_000_000);
        assert_eq!(ns(0x80 | 32, 0, 1 << 31), 500_000_000);
        assert_eq!(ns(0x80 | 64, 0, 1 << 63), 500_000_000);
        assert_eq!(ns(0xff, 0, u64::MAX), 0);
    }

    #[test]
    fn offsets_add_and_saturate() {
        assert_eq!(ns(6, 2, 5), 2_000_005_000);
        assert_eq!(ns(9, -1, 1_000_000_005), 5);
        assert_eq!(ns(9, -2, 1_000_000_005), 0);
        assert_eq!(ns(9, i64::MIN, u64::MAX), 0);
        assert_eq!(ns(9, i64::MAX, 0), u64::MAX);
        assert_eq!(ns(6, 0, u64::MAX), u64::MAX);
        assert_eq!(ns(0, 0, u64::MAX), u64::MAX);
    }

    #[test]
    fn rounding_is_known() {
        let exact =
            |resolution, ticks| Clock { resolution, offset_seconds: 0 }.nanoseconds(ticks).1;
        assert!(exact(12, 3_000) && !exact(12, 3_001));
        assert!(exact(0x80 | 9, 1) && !exact(0x80 | 10, 1) && exact(0x80 | 10, 2));
        assert!(exact(127, 0) && !exact(127, 1));
    }
}
