//! A link: what is left of its rate, and what reads and writes put on it.

/// The rates that there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Generation {
    /// 2.5 GT/s, 8b/10b.
    Gen1,
    /// 5 GT/s, 8b/10b.
    Gen2,
    /// 8 GT/s, 128b/130b.
    Gen3,
    /// 16 GT/s, 128b/130b.
    Gen4,
    /// 32 GT/s, 128b/130b.
    Gen5,
    /// 64 GT/s, PAM4 in flits of 256 bytes, of which 236 carry transactions.
    Gen6,
}

impl Generation {
    /// All of them, the slowest first.
    pub const ALL: [Self; 6] =
        [Self::Gen1, Self::Gen2, Self::Gen3, Self::Gen4, Self::Gen5, Self::Gen6];

    const fn transfers_per_second(self) -> u64 {
        match self {
            Self::Gen1 => 2_500_000_000,
            Self::Gen2 => 5_000_000_000,
            Self::Gen3 => 8_000_000_000,
            Self::Gen4 => 16_000_000_000,
            Self::Gen5 => 32_000_000_000,
            Self::Gen6 => 64_000_000_000,
        }
    }

    /// Bits that carry something, of so many.
    const fn encoding(self) -> (u64, u64) {
        match self {
            Self::Gen1 | Self::Gen2 => (8, 10),
            Self::Gen3 | Self::Gen4 | Self::Gen5 => (128, 130),
            Self::Gen6 => (236, 256),
        }
    }

    /// Symbol times that a receiver takes to answer (PCI Express Base Specification, section 3.6.3.1).
    const fn internal_delay(self) -> u64 {
        match self {
            Self::Gen1 => 19,
            Self::Gen2 => 70,
            _ => 115,
        }
    }
}

/// Why a link cannot be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// No such width.
    #[error("{0} lanes: choose 1, 2, 4, 8, 16 or 32")]
    Lanes(u32),
    /// No such size.
    #[error("{name} is {value}: choose a power of two from {low} to 4096")]
    Size {
        /// Of what.
        name: &'static str,
        /// What was given.
        value: u32,
        /// The least.
        low: u32,
    },
}

/// A link as it was negotiated.
///
/// For the eight lanes of Gen3 below the paper has 62.96 Gbit/s, which is 7.87 a lane, and 57.88 for
/// transactions.
///
/// ```
/// use linecard_model::pcie::{Generation, Link};
/// let link = Link::new(Generation::Gen3, 8)?;
/// assert_eq!(link.raw_bps() / 1_000_000, 63_015);
/// assert_eq!(link.tlp_bps() / 10_000_000, 5_788);
/// # Ok::<(), linecard_model::pcie::LinkError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    generation: Generation,
    lanes: u32,
    max_payload: u32,
    max_read: u32,
    completion: u32,
}

/// Bytes on the link in each direction, their framing included.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traffic {
    /// From the device to the host.
    pub up: u64,
    /// From the host to the device.
    pub down: u64,
}

impl Traffic {
    /// Both together.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self { up: self.up + other.up, down: self.down + other.down }
    }

    /// So many times.
    #[must_use]
    pub const fn times(self, count: u64) -> Self {
        Self { up: self.up * count, down: self.down * count }
    }

    /// The same seen from the other end.
    #[must_use]
    pub const fn reversed(self) -> Self {
        Self { up: self.down, down: self.up }
    }
}

impl Link {
    /// A link with payloads of at most 256 bytes, reads of at most 512 and completions as long as a
    /// payload may be: what the paper takes.
    ///
    /// # Errors
    /// A number of lanes that is not 1, 2, 4, 8, 16 or 32.
    pub const fn new(generation: Generation, lanes: u32) -> Result<Self, LinkError> {
        if !lanes.is_power_of_two() || lanes > 32 {
            return Err(LinkError::Lanes(lanes));
        }
        Ok(Self { generation, lanes, max_payload: 256, max_read: 512, completion: 256 })
    }

    /// The same with other sizes in bytes: payload of a packet (MPS), of a read request (MRRS), and of
    /// a completion, which is MPS, or the read completion boundary (RCB) where a chipset cuts there.
    ///
    /// # Errors
    /// A size that is no power of two from 128 (64 for completions) to 4096.
    pub fn with_sizes(self, mps: u32, mrrs: u32, completion: u32) -> Result<Self, LinkError> {
        for (name, value, low) in [("MPS", mps, 128), ("MRRS", mrrs, 128), ("RCB", completion, 64)]
        {
            if !value.is_power_of_two() || !(low..=4_096).contains(&value) {
                return Err(LinkError::Size { name, value, low });
            }
        }
        Ok(Self { max_payload: mps, max_read: mrrs, completion: completion.min(mps), ..self })
    }

    /// Bits per second in each direction after encoding.
    #[must_use]
    pub const fn raw_bps(&self) -> u64 {
        let (carrying, of) = self.generation.encoding();
        self.generation.transfers_per_second() / of * carrying * self.lanes as u64
    }

    /// Bits per second for transactions: without acknowledgments, flow control and SKP ordered sets.
    ///
    /// As the paper counts: an acknowledgment and an update of credits, 8 bytes each, as often as the
    /// specification recommends at the latest, and 4 bytes of SKP in 1538. A flit has its own
    /// bytes for all that.
    #[must_use]
    pub fn tlp_bps(&self) -> u64 {
        if self.generation == Generation::Gen6 {
            return self.raw_bps();
        }
        let raw = self.raw_bps();
        raw - raw * 16 / self.acknowledge_symbols() - raw * 4 / 1_538
    }

    /// Symbol times after which a packet is acknowledged at the latest (PCI Express Base Specification,
    /// section 3.6.3.1).
    fn acknowledge_symbols(&self) -> u64 {
        let tenths = match (self.lanes, self.max_payload) {
            (..=4, ..=256) => 14,
            (8, ..=256) => 25,
            (16.., ..=256) => 30,
            (16.., _) => 20,
            _ => 10,
        };
        let packet = u64::from(self.max_payload) + 28;
        packet * tenths / (10 * u64::from(self.lanes)) + self.generation.internal_delay()
    }

    /// The device writes `bytes` to the host.
    #[must_use]
    pub const fn write(&self, bytes: u64) -> Traffic {
        let packets = bytes.div_ceil(self.max_payload as u64);
        Traffic { up: bytes + packets * self.framed(12), down: 0 }
    }

    /// The device reads `bytes` from the host.
    #[must_use]
    pub const fn read(&self, bytes: u64) -> Traffic {
        let requests = bytes.div_ceil(self.max_read as u64);
        let completions = bytes.div_ceil(self.completion as u64);
        Traffic { up: requests * self.framed(12), down: bytes + completions * self.framed(8) }
    }

    /// What a packet needs beside its data: 4 bytes that all have, `header` bytes, and up to Gen5
    /// another 8 for start, sequence number and CRC. 24 bytes for writes and read requests with 64 bit
    /// addresses, 20 for completions.
    const fn framed(&self, header: u64) -> u64 {
        let framing = if matches!(self.generation, Generation::Gen6) { 0 } else { 8 };
        framing + 4 + header
    }

    /// How often in a second the link carries `traffic`.
    #[must_use]
    pub fn times_per_second(&self, traffic: Traffic) -> f64 {
        let bytes = traffic.up.max(traffic.down).max(1);
        self.tlp_bps() as f64 / 8.0 / bytes as f64
    }

    /// Bits per second of data, where `bytes` of it cause `traffic`.
    #[must_use]
    pub fn data_bps(&self, bytes: u64, traffic: Traffic) -> f64 {
        self.times_per_second(traffic) * bytes as f64 * 8.0
    }

    pub(super) const fn max_read(&self) -> u64 {
        self.max_read as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(generation: Generation, lanes: u32) -> Link {
        Link::new(generation, lanes).unwrap()
    }

    /// Table 3-9 of the specification, 8 GT/s and above, and two lines of 3-7 and 3-8.
    #[test]
    fn packets_are_acknowledged_as_often_as_specified() {
        let symbols = |generation, lanes, mps| {
            link(generation, lanes).with_sizes(mps, 512, 64).unwrap().acknowledge_symbols()
        };
        for (lanes, expected) in [
            (1, [333, 512, 655, 1167]),
            (4, [169, 214, 250, 378]),
            (8, [163, 203, 182, 246]),
            (16, [144, 168, 182, 246]),
            (32, [129, 141, 148, 180]),
        ] {
            let ours = [128, 256, 512, 1024].map(|mps| symbols(Generation::Gen3, lanes, mps));
            assert_eq!(ours, expected, "x{lanes}");
        }
        assert_eq!(symbols(Generation::Gen1, 1, 256), 416);
        assert_eq!(symbols(Generation::Gen2, 16, 1024), 201);
    }

    #[test]
    fn a_packet_has_the_published_overhead() {
        let link = link(Generation::Gen3, 8);
        assert_eq!(link.write(256), Traffic { up: 256 + 24, down: 0 });
        assert_eq!(link.write(257), Traffic { up: 257 + 48, down: 0 });
        assert_eq!(link.read(513), Traffic { up: 48, down: 513 + 60 });
        let chunks = link.with_sizes(256, 512, 64).unwrap();
        assert_eq!(chunks.read(512), Traffic { up: 24, down: 512 + 160 });
    }

    #[test]
    fn bandwidth_saws_with_the_size_of_a_packet() {
        let link = link(Generation::Gen3, 8);
        let bps = |bytes| link.data_bps(bytes, link.write(bytes));
        assert!(bps(256) > bps(255) && bps(257) < bps(256) && bps(512) > bps(257));
    }

    #[test]
    fn what_no_link_can_be_is_refused() {
        assert_eq!(Link::new(Generation::Gen4, 3), Err(LinkError::Lanes(3)));
        assert_eq!(Link::new(Generation::Gen4, 64), Err(LinkError::Lanes(64)));
        let link = link(Generation::Gen4, 4);
        assert!(link.with_sizes(100, 512, 64).is_err() && link.with_sizes(128, 8_192, 64).is_err());
    }
}
