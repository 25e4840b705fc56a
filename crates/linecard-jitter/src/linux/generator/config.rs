//! Configuration of a stream.

use crate::linux::clock::Wait;
use crate::linux::preset::{Headers, Preset};
use crate::stream::Schedule;
use crate::stream::probe::MIN_LEN;
use linecard_io::placement::{Placement, PlacementError};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

/// Maximum number of packets: each time takes 8 bytes.
pub const MAX_COUNT: u64 = 100_000_000;
/// Longest UDP payload over IPv4 in bytes.
pub const MAX_PAYLOAD: usize = 65_507;
/// Longest period: an hour.
const MAX_PERIOD_PS: u64 = 3_600_000_000_000_000;

/// Pauses of a schedule: `gap_ps` in addition to the period after each `packets` packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    /// Packets per frame, at least 1.
    pub packets: u32,
    /// Picoseconds; 0 for an even stream.
    pub gap_ps: u64,
}

impl Gap {
    /// An even stream.
    pub const NONE: Self = Self { packets: 1, gap_ps: 0 };

    /// Time from the first packet to this one's due time, in picoseconds.
    #[must_use]
    pub fn offset_ps(&self, period_ps: u64, sequence: u64) -> u128 {
        let frames = sequence / u64::from(self.packets.max(1));
        u128::from(sequence) * u128::from(period_ps) + u128::from(frames) * u128::from(self.gap_ps)
    }

    /// Due time of a packet; saturates.
    #[must_use]
    pub fn due_ns(&self, schedule: Schedule, sequence: u64) -> u64 {
        if self.gap_ps == 0 {
            return schedule.due_ns(sequence);
        }
        let offset = self.offset_ps(schedule.period_ps, sequence) / 1_000;
        u64::try_from(offset).map_or(u64::MAX, |offset| schedule.start_ns.saturating_add(offset))
    }
}

/// A stream, and how it is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GeneratorConfig {
    /// Target address.
    pub target: SocketAddr,
    /// Source address. Default: any address and port.
    pub bind: Option<SocketAddr>,
    /// Picoseconds between packets, 1 to 3.6e15 (an hour). Default: 7,419,761, ST 2022-6 of
    /// 1080i59.94.
    pub period_ps: u64,
    /// Pauses of the stream. Default: none.
    pub gap: Gap,
    /// Number of packets, 1 to [`MAX_COUNT`]. Default: 1,000,000.
    pub count: u64,
    /// Bytes of the UDP payload including all headers, [`MIN_LEN`] to [`MAX_PAYLOAD`]. Default:
    /// 1,396.
    pub payload_len: usize,
    /// Headers before the payload. Default: ST 2022-6 of 1080i59.94.
    pub headers: Headers,
    /// How the sender waits. Default: it reads the clock.
    pub wait: Wait,
    /// Core and priority of the sending thread. Default: unchanged.
    pub placement: Placement,
}

/// Why a stream cannot be sent.
#[derive(Debug, thiserror::Error)]
pub enum GeneratorError {
    /// The period is out of range.
    #[error("a period of {0} ps cannot be kept: take one from 1 ps to an hour")]
    Period(u64),
    /// Too few packets, or too many.
    #[error("{0} packets are not a stream: take 1 to {MAX_COUNT}, whose times fit into memory")]
    Count(u64),
    /// Too short, or too long.
    #[error("a payload of {0} bytes is not a probe: take {MIN_LEN} to {MAX_PAYLOAD}")]
    Payload(usize),
    /// The socket cannot be bound.
    #[error("cannot send from {address}: {source}; name an address of this host")]
    Bind {
        /// The source address.
        address: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
    /// There is no route to the target.
    #[error("cannot send to {address}: {source}; see `ip route get {}`", address.ip())]
    Connect {
        /// The target address.
        address: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
    /// The thread cannot be placed as configured.
    #[error(transparent)]
    Placement(#[from] PlacementError),
}

impl GeneratorConfig {
    /// The default stream to `target`.
    #[must_use]
    pub fn new(target: SocketAddr) -> Self {
        let preset = &crate::linux::preset::PRESETS[0];
        let config = Self {
            target,
            bind: None,
            period_ps: preset.period_ps,
            gap: Gap::NONE,
            count: 1_000_000,
            payload_len: preset.payload_len,
            headers: preset.headers,
            wait: Wait::Spin,
            placement: Placement::default(),
        };
        config.like(preset)
    }

    /// The same stream with period, length and headers of a preset.
    #[must_use]
    pub fn like(self, preset: &Preset) -> Self {
        let Preset { period_ps, gap_ps, payload_len, headers, .. } = *preset;
        let gap = Gap { packets: headers.frame_packets, gap_ps };
        Self { period_ps, gap, payload_len, headers, ..self }
    }

    /// Number of packets in this time, at least 1.
    #[must_use]
    pub fn packets_in(&self, time: Duration) -> u64 {
        let frame = u128::from(self.gap.packets.max(1));
        let frame_ps = (frame * u128::from(self.period_ps) + u128::from(self.gap.gap_ps)).max(1);
        let packets = time.as_nanos().saturating_mul(1_000 * frame).div_ceil(frame_ps);
        u64::try_from(packets).unwrap_or(u64::MAX).max(1)
    }

    pub(super) fn check(&self) -> Result<(), GeneratorError> {
        if !(1..=MAX_PERIOD_PS).contains(&self.period_ps) || self.gap.gap_ps > MAX_PERIOD_PS {
            return Err(GeneratorError::Period(self.period_ps.max(self.gap.gap_ps)));
        }
        if !(1..=MAX_COUNT).contains(&self.count) {
            return Err(GeneratorError::Count(self.count));
        }
        if !(MIN_LEN..=MAX_PAYLOAD).contains(&self.payload_len) {
            return Err(GeneratorError::Payload(self.payload_len));
        }
        Ok(())
    }

    pub(super) fn source(&self) -> SocketAddr {
        self.bind.unwrap_or_else(|| match self.target {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> GeneratorConfig {
        GeneratorConfig::new(([127, 0, 0, 1], 9).into())
    }

    #[test]
    fn ranges_are_kept() {
        assert!(config().check().is_ok());
        for count in [0, MAX_COUNT + 1] {
            let result = GeneratorConfig { count, ..config() }.check();
            assert!(matches!(result, Err(GeneratorError::Count(_))));
        }
        for payload_len in [0, MIN_LEN - 1, MAX_PAYLOAD + 1] {
            let result = GeneratorConfig { payload_len, ..config() }.check();
            assert!(matches!(result, Err(GeneratorError::Payload(_))));
        }
        for period_ps in [0, u64::MAX] {
            let result = GeneratorConfig { period_ps, ..config() }.check();
            assert!(matches!(result, Err(GeneratorError::Period(_))));
        }
    }

    #[test]
    fn gaps_come_after_frames() {
        let schedule = Schedule { start_ns: 100, period_ps: 10_000 };
        let gap = Gap { packets: 3, gap_ps: 5_000 };
        let due: Vec<u64> = (0..7).map(|sequence| gap.due_ns(schedule, sequence)).collect();
        assert_eq!(due, [100, 110, 120, 135, 145, 155, 170]);
        assert_eq!(Gap::NONE.due_ns(schedule, 7), schedule.due_ns(7));
        assert_eq!(gap.due_ns(schedule, u64::MAX), u64::MAX);
    }

    #[test]
    fn a_time_has_its_packets() {
        assert_eq!(config().packets_in(Duration::from_nanos(7_420)), 2);
        assert_eq!(config().packets_in(Duration::ZERO), 1);
        let gapped = config().like(Preset::named("st2110-20:1080p50-gapped").unwrap());
        assert_eq!(gapped.packets_in(Duration::from_secs(1)), 4_320 * 50);
        assert!(gapped.packets_in(Duration::MAX) > MAX_COUNT);
    }
}
