//! A stream of constant rate: its schedule, its probe packets and their arrival times.

pub mod clocks;

use alloc::vec::Vec;

/// The schedule of a stream: packet n is due at start + n·period, rounded down to nanoseconds once,
/// so the schedule never drifts.
///
/// ```
/// use linecard_jitter::stream::Schedule;
/// let schedule = Schedule { start_ns: 1_000, period_ps: 7_419_761 };
/// assert_eq!(schedule.due_ns(0), 1_000);
/// assert_eq!(schedule.due_ns(1_000_000), 1_000 + 7_419_761_000);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Schedule {
    /// Due time of packet 0.
    pub start_ns: u64,
    /// Picoseconds between packets, at least 1.
    pub period_ps: u64,
}

impl Schedule {
    /// Due time of packet `sequence`; saturates.
    #[must_use]
    pub fn due_ns(&self, sequence: u64) -> u64 {
        let offset = u128::from(sequence) * u128::from(self.period_ps) / 1_000;
        u64::try_from(offset).map_or(u64::MAX, |offset| self.start_ns.saturating_add(offset))
    }

    /// The period, rounded to nanoseconds.
    #[must_use]
    pub fn period_ns(&self) -> u64 {
        self.period_ps.saturating_add(500) / 1_000
    }
}

/// The arrival of one packet at the sink.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    /// Sequence number of the packet, from 0.
    pub sequence: u64,
    /// Time at which the application received it.
    pub at_ns: u64,
}

/// One stream, as measured at both ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Measured {
    /// Due times of the packets.
    pub schedule: Schedule,
    /// Time at which packet n was handed to the kernel, by sequence number; 0 for a packet that the
    /// kernel refused. Empty when only the receiver was measured.
    pub sent_ns: Vec<u64>,
    /// Arrivals in order of arrival.
    pub arrivals: Vec<Arrival>,
    /// Packets that the receiver's kernel dropped because the socket buffer was full, by its own
    /// counter.
    pub overflowed: u64,
}

/// Layout of a probe packet, in bytes from the start of the UDP payload. The probe follows an RTP
/// header (RFC 3550) and the 8 bytes of an ST 2022-6 payload header, so that tools read a capture
/// of the stream as media.
pub mod probe {
    /// Bytes of the RTP header and the payload header together.
    pub const MEDIA_HEADERS: usize = 20;
    /// "LCJ1", big endian: marks a probe packet.
    pub const MAGIC: u32 = 0x4C43_4A31;
    /// Offset of the magic number: 4 bytes.
    pub const MAGIC_AT: usize = MEDIA_HEADERS;
    /// Offset of the sequence number: 8 bytes, big endian.
    pub const SEQUENCE_AT: usize = 24;
    /// Offset of the due time: 8 bytes, big endian, nanoseconds.
    pub const DUE_AT: usize = 32;
    /// Offset of the time just before the system call: 8 bytes, big endian, nanoseconds.
    pub const SENT_AT: usize = 40;
    /// The shortest payload of a probe.
    pub const MIN_LEN: usize = 48;

    /// The contents of a probe.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct Probe {
        /// Sequence number of the packet, from 0.
        pub sequence: u64,
        /// Due time.
        pub due_ns: u64,
        /// Time at which it was handed to the kernel.
        pub sent_ns: u64,
    }

    impl Probe {
        /// Reads a UDP payload; `None` when it is not a probe.
        #[must_use]
        pub fn read(payload: &[u8]) -> Option<Self> {
            let number = |at: usize| Some(u64::from_be_bytes(*payload.get(at..)?.first_chunk()?));
            let magic = u32::from_be_bytes(*payload.get(MAGIC_AT..)?.first_chunk()?);
            let probe = Self {
                sequence: number(SEQUENCE_AT)?,
                due_ns: number(DUE_AT)?,
                sent_ns: number(SENT_AT)?,
            };
            (magic == MAGIC).then_some(probe)
        }

        /// Writes the magic number and the contents; leaves the bytes of the media headers as they
        /// are.
        pub fn write(&self, payload: &mut [u8; MIN_LEN]) {
            payload[MAGIC_AT..SEQUENCE_AT].copy_from_slice(&MAGIC.to_be_bytes());
            payload[SEQUENCE_AT..DUE_AT].copy_from_slice(&self.sequence.to_be_bytes());
            payload[DUE_AT..SENT_AT].copy_from_slice(&self.due_ns.to_be_bytes());
            payload[SENT_AT..].copy_from_slice(&self.sent_ns.to_be_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::probe::{MIN_LEN, Probe};

    #[test]
    fn a_probe_is_read_as_written() {
        let probe = Probe { sequence: 7, due_ns: u64::MAX, sent_ns: 3 };
        let mut payload = [0; MIN_LEN];
        assert_eq!(Probe::read(&payload), None);
        probe.write(&mut payload);
        assert_eq!(Probe::read(&payload), Some(probe));
        assert_eq!(Probe::read(&payload[..MIN_LEN - 1]), None);
    }
}
