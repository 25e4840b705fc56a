//! The first messages: what the sender supports, and what the receiver has chosen.

use super::field::{Fields, Frame, Tag};
use super::{
    MAX_CHUNK_BYTES, MAX_FEC_KINDS, MAX_SUITES, MAX_VERSIONS, MAX_WINDOW_CHUNKS, MIN_CHUNK_BYTES,
    MIN_PAYLOAD_BYTES, MessageError,
};
use crate::wire::{MAX_BODY_BYTES, MAX_LANES};
use alloc::vec::Vec;
use core::fmt;
use core::net::{IpAddr, Ipv6Addr, SocketAddr};

/// The encryption of packets on lanes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Suite {
    /// AES with 128 bits in Galois/Counter Mode.
    Aes128Gcm,
    /// `ChaCha20` with Poly1305 (RFC 8439).
    ChaCha20Poly1305,
    /// No encryption: only within one machine.
    None,
    /// Unknown to this version; never chosen.
    Other(u16),
}

impl Suite {
    /// Its number in messages.
    #[must_use]
    pub const fn code(self) -> u16 {
        match self {
            Self::None => 0,
            Self::Aes128Gcm => 1,
            Self::ChaCha20Poly1305 => 2,
            Self::Other(code) => code,
        }
    }

    /// The suite with this number.
    #[must_use]
    pub const fn of(code: u16) -> Self {
        match code {
            0 => Self::None,
            1 => Self::Aes128Gcm,
            2 => Self::ChaCha20Poly1305,
            other => Self::Other(other),
        }
    }
}

impl fmt::Display for Suite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Aes128Gcm => f.write_str("aes-128-gcm"),
            Self::ChaCha20Poly1305 => f.write_str("chacha20-poly1305"),
            Self::Other(code) => write!(f, "unknown ({code})"),
        }
    }
}

/// A scheme of forward error correction: groups of `k` data packets with `m` that repair them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FecScheme {
    /// 0 none, 1 XOR, 2 Reed–Solomon, 3 duplicate; others are for later versions.
    pub kind: u8,
    /// Data packets of a group; 0 without a scheme.
    pub k: u8,
    /// Repair packets of a group; `k + m` is at most 256.
    pub m: u8,
}

/// The transport of a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LaneKind {
    /// Datagrams.
    Udp,
    /// A connection.
    Tcp,
}

impl fmt::Display for LaneKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Udp => "udp",
            Self::Tcp => "tcp",
        })
    }
}

/// A lane that the sender proposes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaneOffer {
    /// Its transport.
    pub kind: LaneKind,
    /// The rate at which the sender will send on it, bit/s; 0 if congestion control determines it.
    pub rate_bits_per_second: u64,
}

/// How the sender distributes chunks over lanes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Each chunk over one lane: the highest throughput.
    Stable,
    /// Each chunk over all lanes, according to their rates: the lowest latency. The next starts
    /// when the previous one has left the queues of all lanes.
    LowLatency,
    /// Stable as long as there are chunks for all lanes, otherwise low latency: at the end, and for
    /// slow sources.
    Auto,
}

/// Capabilities and proposals of the sender.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hello {
    /// Message versions that it supports, 1 to [`MAX_VERSIONS`].
    pub versions: Vec<u16>,
    /// Suites that it accepts, 1 to [`MAX_SUITES`].
    pub suites: Vec<Suite>,
    /// Kinds of forward error correction that it supports (see [`FecScheme::kind`]).
    pub fec_kinds: Vec<u8>,
    /// The scheme that it will use.
    pub fec: FecScheme,
    /// Bytes of a chunk: a power of two, [`MIN_CHUNK_BYTES`] to [`MAX_CHUNK_BYTES`].
    pub chunk_bytes: u32,
    /// Bytes of a packet's body, [`MIN_PAYLOAD_BYTES`] to [`MAX_BODY_BYTES`].
    pub payload_bytes: u32,
    /// The lanes, 1 to [`MAX_LANES`].
    pub lanes: Vec<LaneOffer>,
    /// How many of the lanes, the last ones, go to addresses of the receiver's other interfaces, where it has any:
    /// not all. An older receiver answers them as any lane.
    pub spares: usize,
    /// How chunks are distributed over lanes.
    pub mode: Mode,
    /// Addresses of the sender: first that of its control connection, then that of each lane,
    /// unspecified if it has none. The receiver selects its end of each lane by them. Empty if the
    /// sender names none.
    pub sources: Vec<IpAddr>,
    /// A dry run: the receiver answers with its stored data, and changes nothing. A sender that
    /// asks for this offers version 2 only, as version 1 does not know it.
    pub dry_run: bool,
    /// When everything has arrived, what the sender has not may be removed from the folders that were
    /// sent. Version 2, too.
    pub delete: bool,
    /// Symbolic links will come that lead out of the folder that is sent. Version 7: an older receiver would skip this, and
    /// refuse each of them when it has come.
    pub links_out: bool,
}

const VERSIONS: Tag = (1, "versions");
const SUITES: Tag = (2, "suites");
const FEC_KINDS: Tag = (3, "kinds of error correction");
const FEC: Tag = (4, "error correction");
const CHUNK_BYTES: Tag = (5, "chunk size");
const PAYLOAD_BYTES: Tag = (6, "payload size");
const LANES: Tag = (7, "lanes");
const MODE: Tag = (8, "mode");
const SOURCES: Tag = (9, "addresses of the sender");
const DRY_RUN: Tag = (10, "dry run");
const DELETE: Tag = (11, "delete");
const SPARES: Tag = (12, "spare lanes");
const LINKS_OUT: Tag = (13, "links that lead out");

impl Hello {
    pub(super) fn write(&self, frame: &mut Frame<'_>) {
        frame.list(VERSIONS.0, &self.versions, |version, out| out.extend(version.to_be_bytes()));
        frame.list(SUITES.0, &self.suites, |suite, out| out.extend(suite.code().to_be_bytes()));
        frame.bytes(FEC_KINDS.0, &self.fec_kinds);
        frame.bytes(FEC.0, &[self.fec.kind, self.fec.k, self.fec.m]);
        frame.number(CHUNK_BYTES.0, self.chunk_bytes);
        frame.number(PAYLOAD_BYTES.0, self.payload_bytes);
        frame.list(LANES.0, &self.lanes, |lane, out| {
            out.push(lane.kind as u8);
            out.extend(lane.rate_bits_per_second.to_be_bytes());
        });
        frame.number(MODE.0, self.mode as u8);
        if !self.sources.is_empty() {
            frame.list(SOURCES.0, &self.sources, |source, out| out.extend(octets(*source)));
        }
        if self.dry_run {
            frame.bytes(DRY_RUN.0, &[]);
        }
        if self.delete {
            frame.bytes(DELETE.0, &[]);
        }
        if self.links_out {
            frame.bytes(LINKS_OUT.0, &[]);
        }
        if self.spares > 0 {
            frame.number(SPARES.0, self.spares as u16);
        }
    }

    pub(super) fn read(fields: &Fields<'_>) -> Result<Self, MessageError> {
        let chunk_bytes: u32 = fields.number(CHUNK_BYTES)?;
        let sound = (MIN_CHUNK_BYTES..=MAX_CHUNK_BYTES).contains(&chunk_bytes);
        if !sound || !chunk_bytes.is_power_of_two() {
            return Err(MessageError::Value { field: CHUNK_BYTES.1, value: chunk_bytes.into() });
        }
        let payload_bytes: u32 = fields.number(PAYLOAD_BYTES)?;
        if !(MIN_PAYLOAD_BYTES..=MAX_BODY_BYTES as u32).contains(&payload_bytes) {
            return Err(MessageError::Value {
                field: PAYLOAD_BYTES.1,
                value: payload_bytes.into(),
            });
        }
        let mode = match fields.number::<u8>(MODE)? {
            0 => Mode::Stable,
            1 => Mode::LowLatency,
            2 => Mode::Auto,
            other => return Err(MessageError::Value { field: MODE.1, value: other.into() }),
        };
        let lanes = fields.list(LANES, (1, MAX_LANES))?;
        let versions = fields.list(VERSIONS, (1, MAX_VERSIONS))?;
        let suites = fields.list(SUITES, (1, MAX_SUITES))?;
        let sources: &[[u8; 16]] = match fields.maybe(SOURCES)? {
            Some(_) => fields.list(SOURCES, (1 + lanes.len(), 1 + lanes.len()))?,
            None => &[],
        };
        let spares: u16 = fields.maybe_number(SPARES)?.unwrap_or(0);
        if usize::from(spares) >= lanes.len() {
            return Err(MessageError::Value { field: SPARES.1, value: spares.into() });
        }
        Ok(Self {
            spares: spares.into(),
            sources: sources.iter().map(|ip| Ipv6Addr::from(*ip).to_canonical()).collect(),
            fec: FecScheme::read(fields.array(FEC)?)?,
            fec_kinds: fields.bytes(FEC_KINDS, MAX_FEC_KINDS)?.to_vec(),
            versions: versions.iter().map(|version| u16::from_be_bytes(*version)).collect(),
            suites: suites.iter().map(|suite| Suite::of(u16::from_be_bytes(*suite))).collect(),
            lanes: lanes.iter().map(LaneOffer::read).collect::<Result<_, _>>()?,
            chunk_bytes,
            payload_bytes,
            mode,
            dry_run: fields.maybe(DRY_RUN)?.is_some(),
            delete: fields.maybe(DELETE)?.is_some(),
            links_out: fields.maybe(LINKS_OUT)?.is_some(),
        })
    }
}

impl FecScheme {
    /// No error correction.
    pub const NONE: Self = Self { kind: 0, k: 0, m: 0 };

    /// Values of unknown kinds are not interpreted, but sizes have to fit an index.
    fn read([kind, k, m]: [u8; 3]) -> Result<Self, MessageError> {
        let none_has_none = kind != 0 || (k == 0 && m == 0);
        let some_has_some = kind == 0 || k > 0;
        if none_has_none && some_has_some && u16::from(k) + u16::from(m) <= 256 {
            Ok(Self { kind, k, m })
        } else {
            let value = u64::from(u32::from_be_bytes([0, kind, k, m]));
            Err(MessageError::Value { field: FEC.1, value })
        }
    }
}

impl LaneOffer {
    fn read(&[kind, ref rate @ ..]: &[u8; 9]) -> Result<Self, MessageError> {
        let kind = match kind {
            0 => LaneKind::Udp,
            1 => LaneKind::Tcp,
            other => return Err(MessageError::Value { field: LANES.1, value: other.into() }),
        };
        Ok(Self { kind, rate_bits_per_second: u64::from_be_bytes(*rate) })
    }
}

/// The receiver's choices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Welcome {
    /// The version of all further messages and packets.
    pub version: u16,
    /// The encryption of packets.
    pub suite: Suite,
    /// The connection number in every packet's header.
    pub connection: u32,
    /// The most chunks in flight, 1 to [`MAX_WINDOW_CHUNKS`].
    pub window_chunks: u32,
    /// The destination of each lane of the [`Hello`], in its order; port 0 for a spare one that has none.
    pub lanes: Vec<SocketAddr>,
}

const VERSION: Tag = (1, "version");
const SUITE: Tag = (2, "suite");
const CONNECTION: Tag = (3, "connection");
const WINDOW: Tag = (4, "window");
const ADDRESSES: Tag = (5, "addresses");

impl Welcome {
    pub(super) fn write(&self, frame: &mut Frame<'_>) {
        frame.number(VERSION.0, self.version);
        frame.number(SUITE.0, self.suite.code());
        frame.number(CONNECTION.0, self.connection);
        frame.number(WINDOW.0, self.window_chunks);
        frame.list(ADDRESSES.0, &self.lanes, |address, out| {
            out.extend(octets(address.ip()));
            out.extend(address.port().to_be_bytes());
        });
    }

    pub(super) fn read(fields: &Fields<'_>) -> Result<Self, MessageError> {
        let window_chunks = fields.number(WINDOW)?;
        if !(1..=MAX_WINDOW_CHUNKS).contains(&window_chunks) {
            return Err(MessageError::Value { field: WINDOW.1, value: window_chunks.into() });
        }
        let lanes = fields.list::<18>(ADDRESSES, (1, MAX_LANES))?;
        Ok(Self {
            version: fields.number(VERSION)?,
            suite: Suite::of(fields.number(SUITE)?),
            connection: fields.number(CONNECTION)?,
            window_chunks,
            lanes: lanes.iter().map(address).collect(),
        })
    }
}

/// An address as it stands in a message.
fn octets(ip: IpAddr) -> [u8; 16] {
    match ip {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}

/// 16 bytes of address, IPv4 as RFC 4291, section 2.5.5.2, has it, and the port.
fn address(&[ref ip @ .., high, low]: &[u8; 18]) -> SocketAddr {
    SocketAddr::new(Ipv6Addr::from(*ip).to_canonical(), u16::from_be_bytes([high, low]))
}
