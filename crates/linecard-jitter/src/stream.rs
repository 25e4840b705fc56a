//! A stream of constant rate: when its packets are due, what is written into them, when they came.

use alloc::vec::Vec;

/// When each packet of a stream is due: packet n at start + n·period, rounded down to nanoseconds once,
/// so that the schedule never drifts.
///
/// ```
/// use linecard_jitter::stream::Schedule;
/// let schedule = Schedule { start_ns: 1_000, period_ps: 7_419_761 };
/// assert_eq!(schedule.due_ns(0), 1_000);
/// assert_eq!(schedule.due_ns(1_000_000), 1_000 + 7_419_761_000);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Schedule {
    /// When packet 0 is due.
    pub start_ns: u64,
    /// Picoseconds from packet to packet, at least 1.
    pub period_ps: u64,
}

impl Schedule {
    /// When packet `sequence` is due; saturates.
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

/// What a sink knows of one packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    /// Its number in the stream, from 0.
    pub sequence: u64,
    /// When the application had it in hand.
    pub at_ns: u64,
}

/// One stream as both its ends saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Measured {
    /// When packets were due.
    pub schedule: Schedule,
    /// When packet n was handed to the kernel, by sequence; 0 for one that the kernel refused. Empty
    /// where only the receiver was seen.
    pub sent_ns: Vec<u64>,
    /// What came, in the order in which it came.
    pub arrivals: Vec<Arrival>,
    /// Packets that the receiver's kernel dropped for want of room in the socket, by its own counter.
    pub overflowed: u64,
}

/// Where a probe packet carries what, in bytes from the start of the UDP payload. Before it stand an RTP
/// header (RFC 3550) and the 8 bytes of an ST 2022-6 payload header, so that a capture of the stream
/// is read as media.
pub mod probe {
    /// Bytes of the RTP header and the payload header behind it.
    pub const MEDIA_HEADERS: usize = 20;
    /// "LCJ1", big endian: this packet is a probe.
    pub const MAGIC: u32 = 0x4C43_4A31;
    /// Where the magic number stands: 4 bytes.
    pub const MAGIC_AT: usize = MEDIA_HEADERS;
    /// Where the sequence number stands: 8 bytes, big endian.
    pub const SEQUENCE_AT: usize = 24;
    /// Where the time at which the packet was due stands: 8 bytes, big endian, nanoseconds.
    pub const DUE_AT: usize = 32;
    /// Where the time just before the system call stands: 8 bytes, big endian, nanoseconds.
    pub const SENT_AT: usize = 40;
    /// The shortest payload of a probe.
    pub const MIN_LEN: usize = 48;

    /// The three numbers of a probe.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct Probe {
        /// The packet's number in the stream, from 0.
        pub sequence: u64,
        /// When it was due.
        pub due_ns: u64,
        /// When it was handed to the kernel.
        pub sent_ns: u64,
    }

    impl Probe {
        /// Reads a UDP payload; nothing when it is no probe.
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

        /// Writes magic and numbers; the bytes of the media headers stay.
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
