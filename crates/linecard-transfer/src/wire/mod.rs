//! Packets of a lane: a header of 24 bytes in the clear, a body, and a tag of 16 bytes.
//!
//! The header is the associated data of the seal, and its packet number is the nonce: nothing in a
//! packet can be changed unnoticed. All numbers are in network byte order. A packet is never looked
//! at beyond its length; malformed packets are refused before anything is allocated for it.
//!
//! ```text
//!  0       1       2       4               8
//! +-------+-------+-------+---------------+-------------------------------+
//! |ver|typ| flags | lane  |  connection   |         packet number         |
//! +-------+-------+-------+---------------+-------------------------------+
//! |     chunk     |     index     |  body … | tag (16)
//! +---------------+---------------+
//! 16              20              24
//! ```

mod ack;
mod probe;

pub use ack::{Ack, AckError, DONE_BITS, FEW_DONE_BITS, MAX_RANGES, Range};
pub(crate) use ack::{DONE_WORDS, MAX_ACK_BYTES};
pub use probe::Probe;

/// Version of the packets, in the upper half of the first byte.
pub const VERSION: u8 = 1;
/// Bytes of a [`Header`].
pub const HEADER_BYTES: usize = 24;
/// Bytes of the authentication tag behind the body.
pub const TAG_BYTES: usize = 16;
/// Bytes that a packet has besides its body.
pub const OVERHEAD_BYTES: usize = HEADER_BYTES + TAG_BYTES;
/// The longest body: a UDP datagram over IPv4 without options, less the overhead.
pub const MAX_BODY_BYTES: usize = 65_507 - OVERHEAD_BYTES;
/// Most lanes of a connection.
pub const MAX_LANES: usize = 64;
/// Packet numbers end here: the nonce has 96 bits, the number 64, and no key is used that long.
pub const MAX_PACKET_NUMBER: u64 = 1 << 62;

/// Type of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Bytes of a chunk: `index` is the packet's place in it.
    Data,
    /// Repair of lost data: `index` is the group, shifted by 8, and the row of the code.
    Repair,
    /// Received packets, see [`Ack`].
    Ack,
    /// Whether the lane works, and its peer, see [`Probe`].
    Probe,
    /// The lane will not be used any more.
    Close,
    /// A part of a control message, or the confirmation of received ones: for the caller.
    Control,
}

/// The first 24 bytes of a packet.
///
/// ```
/// use linecard_transfer::wire::{Header, Kind};
/// let header = Header {
///     kind: Kind::Data, key_phase: false, ack_now: true,
///     lane: 3, connection: 7, packet_number: 1 << 40, chunk: 12, index: 4_095,
/// };
/// assert_eq!(Header::parse(&header.to_bytes()), Ok(header));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Type of the packet.
    pub kind: Kind,
    /// Which of two neighbouring keys seals it (as RFC 9001, section 6).
    pub key_phase: bool,
    /// The sender has nothing more to send: acknowledge at once.
    pub ack_now: bool,
    /// The lane it was sent on, below [`MAX_LANES`].
    pub lane: u16,
    /// The connection, chosen by the receiver of data.
    pub connection: u32,
    /// Counts the packets of a lane and direction from 0, retransmissions too; the nonce.
    pub packet_number: u64,
    /// Number of the chunk in the connection; 0 where there is none.
    pub chunk: u32,
    /// Place in the chunk; 0 where there is none.
    pub index: u32,
}

impl Header {
    /// That of a packet which belongs to no chunk.
    #[must_use]
    pub const fn without_chunk(kind: Kind, lane: u16, connection: u32, packet_number: u64) -> Self {
        let (key_phase, ack_now) = (false, false);
        Self { kind, key_phase, ack_now, lane, connection, packet_number, chunk: 0, index: 0 }
    }
}

/// Why bytes are not a packet of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// Shorter than header and tag.
    #[error("a packet of {0} bytes is shorter than {OVERHEAD_BYTES}, a header and a tag")]
    Short(usize),
    /// Another version.
    #[error("packet version {0} is not {VERSION}")]
    Version(u8),
    /// A type that this version does not have.
    #[error("packet type {0} is not known")]
    Kind(u8),
    /// A lane that cannot be.
    #[error("lane {0} is not below {MAX_LANES}")]
    Lane(u16),
    /// A packet number that cannot be.
    #[error("packet number {0} is beyond 2^62")]
    PacketNumber(u64),
}

const KEY_PHASE: u8 = 1;
const ACK_NOW: u8 = 2;

impl Header {
    /// The header as it is sent.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[0] = (VERSION << 4) | self.kind.code();
        bytes[1] = u8::from(self.key_phase) * KEY_PHASE + u8::from(self.ack_now) * ACK_NOW;
        bytes[2..4].copy_from_slice(&self.lane.to_be_bytes());
        bytes[4..8].copy_from_slice(&self.connection.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.packet_number.to_be_bytes());
        bytes[16..20].copy_from_slice(&self.chunk.to_be_bytes());
        bytes[20..24].copy_from_slice(&self.index.to_be_bytes());
        bytes
    }

    /// The header that `packet` begins with. Unknown flags are left out: they are for later versions.
    ///
    /// # Errors
    ///
    /// Another version or type, or numbers that cannot be. The tag's room is not asked for here.
    pub fn parse(packet: &[u8]) -> Result<Self, HeaderError> {
        let Some(bytes) = packet.first_chunk::<HEADER_BYTES>() else {
            return Err(HeaderError::Short(packet.len()));
        };
        if bytes[0] >> 4 != VERSION {
            return Err(HeaderError::Version(bytes[0] >> 4));
        }
        let header = Self {
            kind: Kind::of(bytes[0] & 15)?,
            key_phase: bytes[1] & KEY_PHASE != 0,
            ack_now: bytes[1] & ACK_NOW != 0,
            lane: u16::from_be_bytes([bytes[2], bytes[3]]),
            connection: be32(bytes, 4),
            packet_number: u64::from(be32(bytes, 8)) << 32 | u64::from(be32(bytes, 12)),
            chunk: be32(bytes, 16),
            index: be32(bytes, 20),
        };
        if usize::from(header.lane) >= MAX_LANES {
            return Err(HeaderError::Lane(header.lane));
        }
        if header.packet_number >= MAX_PACKET_NUMBER {
            return Err(HeaderError::PacketNumber(header.packet_number));
        }
        Ok(header)
    }

    /// Header and sealed body of a whole packet.
    ///
    /// # Errors
    ///
    /// As [`Header::parse`], and packets without room for a tag.
    pub fn split(packet: &[u8]) -> Result<(Self, &[u8]), HeaderError> {
        if packet.len() < OVERHEAD_BYTES {
            return Err(HeaderError::Short(packet.len()));
        }
        Ok((Self::parse(packet)?, &packet[HEADER_BYTES..]))
    }
}

impl Kind {
    const fn code(self) -> u8 {
        match self {
            Self::Data => 0,
            Self::Repair => 1,
            Self::Ack => 2,
            Self::Probe => 3,
            Self::Close => 4,
            Self::Control => 5,
        }
    }

    const fn of(code: u8) -> Result<Self, HeaderError> {
        Ok(match code {
            0 => Self::Data,
            1 => Self::Repair,
            2 => Self::Ack,
            3 => Self::Probe,
            4 => Self::Close,
            5 => Self::Control,
            other => return Err(HeaderError::Kind(other)),
        })
    }
}

/// The big-endian number at `offset` of bytes whose length has been checked.
fn be32(bytes: &[u8], offset: usize) -> u32 {
    let word = bytes.get(offset..offset + 4).and_then(|word| word.first_chunk::<4>());
    word.map_or(0, |word| u32::from_be_bytes(*word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use linecard::rng::Rng;

    #[test]
    fn what_is_parsed_is_written_again() {
        let mut rng = Rng::new(1);
        let mut parsed = 0;
        for _ in 0..20_000 {
            let mut bytes = [0; HEADER_BYTES];
            rng.fill(&mut bytes);
            bytes[0] = VERSION << 4 | (bytes[0] & 7);
            bytes[1] &= 3;
            bytes[2] = 0;
            bytes[8] &= 0x3F;
            if let Ok(header) = Header::parse(&bytes) {
                assert_eq!(header.to_bytes(), bytes);
                parsed += 1;
            }
        }
        assert!(parsed > 1_000);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let good = Header {
            kind: Kind::Probe,
            key_phase: true,
            ack_now: false,
            lane: 0,
            connection: 1,
            packet_number: 2,
            chunk: 0,
            index: 0,
        }
        .to_bytes();
        let with = |at: usize, byte: u8| {
            let mut bytes = good;
            bytes[at] = byte;
            Header::parse(&bytes)
        };
        assert_eq!(Header::parse(&good[..23]), Err(HeaderError::Short(23)));
        assert_eq!(Header::split(&good), Err(HeaderError::Short(24)));
        assert_eq!(with(0, 0x23), Err(HeaderError::Version(2)));
        assert_eq!(with(0, 0x16), Err(HeaderError::Kind(6)));
        assert_eq!(with(2, 1), Err(HeaderError::Lane(256)));
        assert!(matches!(with(8, 0x40), Err(HeaderError::PacketNumber(_))));
        assert_eq!(with(1, 0xFD).map(|header| header.key_phase), Ok(true));
    }
}
