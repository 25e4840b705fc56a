//! Which packets may be merged at all: a look at one packet alone.

use super::config::{ChecksumPolicy, Config, Creation};
use super::reason::Refusal;
use crate::packet::checksum::Sum;
use crate::packet::header::{self, Ipv4, Tcp, Udp, tcp_flags};
use crate::packet::{ChecksumState, Form, Layer, LayerKind, Layout, MAX_HEADER_LEN, Meta, Packet};

/// Frames shorter than this are padded on Ethernet (IEEE 802.3, frame check sequence aside).
pub(crate) const MIN_FRAME: usize = 60;

/// What is in a packet's transport checksum field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ChecksumKind {
    /// The checksum of the whole.
    Full,
    /// The sum of the pseudo header: hardware was to complete it.
    Partial,
    /// Nothing (UDP over IPv4).
    None,
}

/// Whether a short frame is padded; segmenting has to give it back as it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Padding {
    /// Long enough to need none.
    NotNeeded,
    /// Shorter than an Ethernet frame may be, as senders see their own packets.
    Missing,
    /// Filled up to 60 bytes with zeros.
    Zeros,
}

/// A packet that may be merged with others of its flow.
#[derive(Debug, Clone, Copy)]
pub(super) struct Candidate {
    pub(super) kind: LayerKind,
    pub(super) payload_len: usize,
    /// TCP sequence number, 0 for UDP.
    pub(super) sequence: u32,
    /// TCP flags, 0 for UDP.
    pub(super) flags: u16,
    pub(super) checksum: ChecksumKind,
    pub(super) padding: Padding,
    /// Sum over its pseudo header.
    pub(super) pseudo: Sum,
}

/// PSH, FIN, URG, RST and SYN: no packet is merged behind one that has them.
const END_FLAGS: u16 =
    tcp_flags::PSH | tcp_flags::FIN | tcp_flags::URG | tcp_flags::RST | tcp_flags::SYN;

impl Candidate {
    /// Looks at a packet; the payload is read only to verify its checksum.
    pub(super) fn examine<B: AsRef<[u8]>>(
        packet: &Packet<B>,
        config: &Config,
    ) -> Result<Self, Refusal> {
        let (layout, bytes) = (packet.layout(), packet.bytes());
        let transport = transport_of(layout)?;
        if packet.meta.mark == Meta::NEVER || packet.is_merged() || packet.meta.gso.is_some() {
            return Err(Refusal::Unmergeable);
        }
        if layout.header_len() > MAX_HEADER_LEN {
            return Err(Refusal::HeaderTooLong);
        }
        if bytes.len() > config.max_held_bytes {
            return Err(Refusal::TooLarge);
        }
        for layer in layout.layers() {
            if layer.kind == LayerKind::Ipv4 {
                examine_ipv4(bytes, usize::from(layer.offset))?;
            }
        }
        let payload_len = layout.payload().len();
        if payload_len == 0 {
            return Err(Refusal::NoPayload);
        }
        let (sequence, flags) = match transport.kind {
            LayerKind::Tcp => tcp_fields(bytes, transport),
            _ => (0, 0),
        };
        let padding = examine_padding(bytes, layout.end())?;
        let pseudo = layout.pseudo_sum(bytes, payload_len).ok_or(Refusal::Malformed)?;
        let checksum = examine_checksum(packet, transport, pseudo, config.checksum)?;
        Ok(Self { kind: transport.kind, payload_len, sequence, flags, checksum, padding, pseudo })
    }

    /// Whether a packet that does not merge may open or close its flow, where flows open on SYN:
    /// when its checksums are right.
    pub(super) fn controls<B: AsRef<[u8]>>(packet: &Packet<B>, config: &Config) -> bool {
        let (layout, bytes) = (packet.layout(), packet.bytes());
        let pseudo = layout.pseudo_sum(bytes, layout.payload().len());
        let (Creation::OnSyn, Some(transport), Some(pseudo)) =
            (config.creation, layout.transport(), pseudo)
        else {
            return false;
        };
        let mut ipv4 = layout.layers().iter().filter(|layer| layer.kind == LayerKind::Ipv4);
        ipv4.all(|layer| is_right(&examine_ipv4(bytes, layer.offset.into())))
            && is_right(&examine_checksum(packet, transport, pseudo, config.checksum))
    }

    /// Whether nothing may be merged behind this packet.
    #[inline]
    pub(super) fn ends(&self) -> bool {
        self.flags & END_FLAGS != 0
    }
}

#[inline]
/// What is only unusual is right.
fn is_right<T>(checked: &Result<T, Refusal>) -> bool {
    matches!(checked, Ok(_) | Err(Refusal::UnusualChecksum))
}

fn transport_of(layout: &Layout) -> Result<Layer, Refusal> {
    match layout.form() {
        Form::Datagram => layout.transport().ok_or(Refusal::Malformed),
        Form::Fragment => Err(Refusal::Fragment),
        Form::OtherTransport => Err(Refusal::OtherTransport),
        Form::NotIp => Err(Refusal::NotIp),
        Form::CutShort => Err(Refusal::CutShort),
        Form::Malformed => Err(Refusal::Malformed),
    }
}

#[inline]
fn tcp_fields(bytes: &[u8], transport: Layer) -> (u32, u16) {
    let tcp = header::at::<Tcp>(bytes, usize::from(transport.offset));
    (tcp.sequence.get(), tcp.offset_flags.get() & 0x01FF)
}

#[inline]
fn examine_ipv4(bytes: &[u8], offset: usize) -> Result<(), Refusal> {
    let ip = header::at::<Ipv4>(bytes, offset);
    if ip.header_len() != Ipv4::LEN {
        return Err(Refusal::IpOptions);
    }
    // A corrupt header must not become a valid one (fault 2 of the specification).
    if !Sum::of(&bytes[offset..offset + Ipv4::LEN]).is_valid() {
        return Err(Refusal::IpChecksum);
    }
    if ip.checksum.get() == 0xFFFF { Err(Refusal::UnusualChecksum) } else { Ok(()) }
}

#[inline]
fn examine_padding(frame: &[u8], end: usize) -> Result<Padding, Refusal> {
    let behind = &frame[end..];
    match (behind.is_empty(), end < MIN_FRAME) {
        (true, false) => Ok(Padding::NotNeeded),
        (true, true) => Ok(Padding::Missing),
        (false, true) if frame.len() == MIN_FRAME && behind.iter().all(|byte| *byte == 0) => {
            Ok(Padding::Zeros)
        }
        _ => Err(Refusal::Trailer),
    }
}

fn examine_checksum<B: AsRef<[u8]>>(
    packet: &Packet<B>,
    transport: Layer,
    pseudo: Sum,
    policy: ChecksumPolicy,
) -> Result<ChecksumKind, Refusal> {
    let (layout, bytes) = (packet.layout(), packet.bytes());
    let field = match transport.kind {
        LayerKind::Tcp => header::at::<Tcp>(bytes, usize::from(transport.offset)).checksum.get(),
        _ => header::at::<Udp>(bytes, usize::from(transport.offset)).checksum.get(),
    };
    if transport.kind == LayerKind::Udp && field == 0 {
        return match layout.network().map(|network| network.kind) {
            Some(LayerKind::Ipv4) => Ok(ChecksumKind::None),
            _ => Err(Refusal::NoChecksum),
        };
    }
    let is_partial = field == pseudo.fold();
    match (packet.meta.checksum, policy) {
        (ChecksumState::Partial, _) if is_partial => return Ok(ChecksumKind::Partial),
        (ChecksumState::Partial, _) => return Err(Refusal::Checksum),
        (ChecksumState::Valid, _) => {}
        (ChecksumState::Unknown, ChecksumPolicy::Trust) if is_partial => {
            return Ok(ChecksumKind::Partial);
        }
        (ChecksumState::Unknown, ChecksumPolicy::Trust) => {}
        (ChecksumState::Unknown, ChecksumPolicy::Verify) => {
            let datagram = &bytes[usize::from(transport.offset)..layout.end()];
            if !Sum::of(datagram).plus(pseudo).is_valid() {
                return Err(if is_partial { Refusal::PartialChecksum } else { Refusal::Checksum });
            }
        }
    }
    // Valid in both forms, but a TCP sender computes 0x0000, and that is what segmenting gives.
    if transport.kind == LayerKind::Tcp && field == 0xFFFF {
        return Err(Refusal::UnusualChecksum);
    }
    Ok(ChecksumKind::Full)
}
