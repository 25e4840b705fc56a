//! Decides whether a single packet may be merged at all.

use super::bypass::has_ip_options;
use super::config::{ChecksumPolicy, Config, Creation};
use super::reason::Refusal;
use crate::offload::exceeded_length;
use crate::packet::checksum::Sum;
use crate::packet::header::{self, Ipv4, Ipv6, PPPOE_LENGTH, Tcp, Udp, be16_at, tcp_flags};
use crate::packet::{
    ChecksumState, Form, Layer, LayerKind, Layout, MAX_HEADER_LEN, MAX_TUNNELS, Meta, Packet,
    pseudo_sum,
};

/// Frames shorter than this are padded on Ethernet (IEEE 802.3, without the frame check sequence).
pub(crate) const MIN_FRAME: usize = 60;

/// The most IPv4 headers in one packet, and the most headers with a checksum over payload.
pub(super) const MAX_NESTED: usize = MAX_TUNNELS + 1;

/// The contents of a packet's transport checksum field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum ChecksumKind {
    /// The complete checksum.
    #[default]
    Full,
    /// The sum of the pseudo header: hardware is to complete it.
    Partial,
    /// No checksum (UDP over IPv4).
    None,
}

/// Whether a short frame is padded; segmenting has to restore it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Padding {
    /// Long enough to need no padding.
    #[default]
    NotNeeded,
    /// Shorter than an Ethernet frame may be, as captured at the sender.
    Missing,
    /// Padded to 60 bytes with zeros.
    Zeros,
}

/// A packet that may be merged with others of its flow.
#[derive(Debug, Clone, Copy)]
pub(super) struct Candidate {
    pub(super) kind: LayerKind,
    pub(super) payload_len: u32,
    /// TCP sequence number, 0 for UDP.
    pub(super) sequence: u32,
    /// TCP flags, 0 for UDP.
    pub(super) flags: u16,
    pub(super) checksum: ChecksumKind,
    pub(super) padding: Padding,
    pub(super) derived: Derived,
}

/// Fields of all layers that segmenting derives, innermost layer first.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Derived {
    /// IPv4 identifications.
    pub(super) ids: [u16; MAX_NESTED],
    pub(super) id_count: u8,
    /// For each header with a checksum over payload: the sum of all derived fields that the
    /// checksum covers, the checksum included. Everything else it covers, except payload, is equal
    /// in packets that merge.
    pub(super) sums: [u64; MAX_NESTED],
    /// A bit for each header that has such a checksum.
    pub(super) summed: u8,
    pub(super) sum_count: u8,
    /// Some header's checksum is valid, but not in the form that a sender computes.
    pub(super) unusual: bool,
}

/// PSH, FIN, URG, RST and SYN: no packet is merged after one that has any of them.
pub(super) const END_FLAGS: u16 =
    tcp_flags::PSH | tcp_flags::FIN | tcp_flags::URG | tcp_flags::RST | tcp_flags::SYN;

impl Candidate {
    /// Refuses a packet that shows without its checksums that it cannot be merged.
    #[inline]
    pub(super) fn look<B: AsRef<[u8]>>(packet: &Packet<B>, config: &Config) -> Result<(), Refusal> {
        let (layout, bytes) = (packet.layout(), packet.bytes());
        let is_plain =
            packet.meta.mark != Meta::NEVER && !packet.is_merged() && packet.meta.gso.is_none();
        let fits = bytes.len() <= config.max_held_bytes.min(usize::from(u16::MAX));
        // Most packets.
        if layout.usual_layers().is_some() && is_plain && fits && layout.payload_len() > 0 {
            return examine_padding(bytes, layout.end()).map(|_| ());
        }
        transport_of(layout)?;
        if !is_plain {
            return Err(Refusal::Unmergeable);
        }
        check_limits(layout, bytes, config)?;
        if has_ip_options(bytes, layout) {
            return Err(Refusal::IpOptions);
        }
        if layout.payload().is_empty() {
            return Err(Refusal::NoPayload);
        }
        examine_padding(bytes, layout.end()).map(|_| ())
    }

    /// Examines a packet; its payload is read only to verify its checksum, while the cache lines of
    /// `ahead`, a later packet, are prefetched.
    #[inline(always)]
    pub(super) fn examine<B: AsRef<[u8]>>(
        packet: &Packet<B>,
        config: &Config,
        ahead: &[u8],
    ) -> Result<Self, Refusal> {
        let (layout, bytes) = (packet.layout(), packet.bytes());
        let transport = transport_of(layout)?;
        if packet.meta.mark == Meta::NEVER || packet.is_merged() || packet.meta.gso.is_some() {
            return Err(Refusal::Unmergeable);
        }
        check_limits(layout, bytes, config)?;
        let derived = Derived::read(bytes, layout)?;
        let payload_len = layout.payload().len();
        if payload_len == 0 {
            return Err(Refusal::NoPayload);
        }
        let padding = examine_padding(bytes, layout.end())?;
        let (sequence, flags) = match transport.kind {
            LayerKind::Tcp => tcp_fields(bytes, transport),
            _ => (0, 0),
        };
        let checksum = examine_checksum(packet, transport, config.checksum, ahead)?;
        if checksum == ChecksumKind::Partial && derived.summed > 1 {
            return Err(Refusal::PartialChecksum);
        }
        if config.device.is_some_and(|device| {
            let apart = checksum == ChecksumKind::None
                || padding == Padding::Zeros
                || flags & tcp_flags::CWR != 0;
            apart || !device.segments(layout)
        }) {
            return Err(Refusal::Undescribable);
        }
        let payload_len = payload_len as u32;
        Ok(Self { kind: transport.kind, payload_len, sequence, flags, checksum, padding, derived })
    }

    /// Whether a packet that does not merge may create or remove its flow, where flows are created
    /// at SYN: its checksums have to be valid.
    pub(super) fn controls<B: AsRef<[u8]>>(packet: &Packet<B>, config: &Config) -> bool {
        let (layout, bytes) = (packet.layout(), packet.bytes());
        let (Creation::OnSyn, Some(transport)) = (config.creation, layout.transport()) else {
            return false;
        };
        is_right(&Derived::read(bytes, layout))
            && is_right(&examine_checksum(packet, transport, config.checksum, &[]))
    }

    /// Whether no packet may be merged after this one.
    #[inline]
    pub(super) fn ends(&self) -> bool {
        self.flags & END_FLAGS != 0
    }
}

impl Derived {
    /// Reads the fields of all layers, and verifies the IPv4 headers.
    #[inline(always)]
    fn read(bytes: &[u8], layout: &Layout) -> Result<Self, Refusal> {
        let mut derived = Self::default();
        if layout.layer_count() == 2 {
            // Unrolled: most packets have two layers.
            let fields = derived.read_layer(bytes, layout, 1, 0)?;
            derived.read_layer(bytes, layout, 0, fields)?;
        } else {
            (0..layout.layer_count())
                .rev()
                .try_fold(0, |fields, index| derived.read_layer(bytes, layout, index, fields))?;
        }
        // Checked last, because no header may be trusted before all are verified.
        if derived.unusual { Err(Refusal::UnusualChecksum) } else { Ok(derived) }
    }

    /// Reads the fields of one layer; returns the sum of its fields and of all inner layers.
    #[inline(always)]
    fn read_layer(
        &mut self,
        bytes: &[u8],
        layout: &Layout,
        index: usize,
        mut fields: u64,
    ) -> Result<u64, Refusal> {
        let Some(layer) = layout.layer(index) else { return Ok(fields) };
        let at = layer.at();
        match layer.kind {
            LayerKind::Tcp => {
                let tcp = header::at::<Tcp>(bytes, at);
                let word = u64::from(tcp.offset_flags) + u64::from(tcp.checksum);
                fields += u64::from(tcp.sequence) + word;
                self.add_sum(fields + (layout.end() - at) as u64, true);
            }
            LayerKind::Udp => {
                let udp = header::at::<Udp>(bytes, at);
                let len = u64::from(udp.length);
                let checksum = u64::from(udp.checksum);
                fields += len + checksum;
                // The length is also in the pseudo header.
                self.add_sum(fields + len, checksum != 0);
            }
            LayerKind::Gre => {
                let checksum = be16_at(bytes, at + header::GRE_CHECKSUM);
                fields += u64::from(checksum);
                self.add_sum(fields, true);
                self.unusual |= checksum == 0xFFFF;
            }
            LayerKind::Ipv4 => fields += self.read_ipv4(bytes, at)?,
            LayerKind::Ipv6 => {
                fields += u64::from(header::at::<Ipv6>(bytes, at).payload_len);
            }
            LayerKind::Pppoe => fields += u64::from(be16_at(bytes, at + PPPOE_LENGTH)),
        }
        Ok(fields)
    }

    #[inline(always)]
    fn add_sum(&mut self, fields: u64, present: bool) {
        // One per tunnel and one inside: the parser follows no more.
        if let Some(sum) = self.sums.get_mut(usize::from(self.sum_count)) {
            *sum = fields;
            self.summed |= u8::from(present) << self.sum_count;
            self.sum_count += 1;
        }
    }

    #[inline(always)]
    fn read_ipv4(&mut self, bytes: &[u8], at: usize) -> Result<u64, Refusal> {
        let ip = header::at::<Ipv4>(bytes, at);
        if ip.header_len() != Ipv4::LEN {
            return Err(Refusal::IpOptions);
        }
        // A corrupt header must not become a valid one (fault 2 of the specification).
        if !Sum::of(&bytes[at..at + Ipv4::LEN]).is_valid() {
            return Err(Refusal::IpChecksum);
        }
        self.unusual |= ip.checksum == 0xFFFF;
        if let Some(id) = self.ids.get_mut(usize::from(self.id_count)) {
            *id = ip.id;
            self.id_count += 1;
        }
        Ok(u64::from(ip.total_len) + u64::from(ip.id) + u64::from(ip.checksum))
    }
}

/// Whether no packet may be merged after one with this layout.
#[inline(always)]
pub(super) fn ends(bytes: &[u8], layout: &Layout) -> bool {
    layout.transport().is_some_and(|layer| {
        layer.kind == LayerKind::Tcp
            && header::at::<Tcp>(bytes, layer.at()).offset_flags & END_FLAGS != 0
    })
}

/// An unusual checksum is valid.
fn is_right<T>(checked: &Result<T, Refusal>) -> bool {
    matches!(checked, Ok(_) | Err(Refusal::UnusualChecksum))
}

#[inline(always)]
pub(super) fn transport_of(layout: &Layout) -> Result<Layer, Refusal> {
    match layout.form() {
        Form::Datagram => layout.transport().ok_or(Refusal::Malformed),
        Form::Padded => Err(Refusal::Trailer),
        Form::Fragment => Err(Refusal::Fragment),
        Form::OtherTransport => Err(Refusal::OtherTransport),
        Form::NotIp => Err(Refusal::NotIp),
        Form::CutShort => Err(Refusal::CutShort),
        Form::Malformed => Err(Refusal::Malformed),
    }
}

#[inline(always)]
fn check_limits(layout: &Layout, bytes: &[u8], config: &Config) -> Result<(), Refusal> {
    if layout.header_len() > MAX_HEADER_LEN {
        return Err(Refusal::HeaderTooLong);
    }
    if layout.layer_count() > 2 && layout.tunnels() > config.max_tunnels {
        return Err(Refusal::TunnelDepth);
    }
    // The segmenter has to restore the packet after merging, and it refuses packets that exceed
    // their length fields.
    let too_large =
        bytes.len() > config.max_held_bytes || exceeded_length(layout, layout.end()).is_some();
    if too_large { Err(Refusal::TooLarge) } else { Ok(()) }
}

#[inline(always)]
fn tcp_fields(bytes: &[u8], transport: Layer) -> (u32, u16) {
    let tcp = header::at::<Tcp>(bytes, transport.at());
    (tcp.sequence, tcp.offset_flags & 0x01FF)
}

#[inline(always)]
pub(super) fn examine_padding(frame: &[u8], end: usize) -> Result<Padding, Refusal> {
    if frame.len() == end {
        return Ok(Padding::of_whole(end));
    }
    let zeros = frame.len() == MIN_FRAME && frame[end..].iter().all(|byte| *byte == 0);
    if zeros { Ok(Padding::Zeros) } else { Err(Refusal::Trailer) }
}

#[inline(always)]
fn examine_checksum<B: AsRef<[u8]>>(
    packet: &Packet<B>,
    transport: Layer,
    policy: ChecksumPolicy,
    ahead: &[u8],
) -> Result<ChecksumKind, Refusal> {
    let (layout, bytes) = (packet.layout(), packet.bytes());
    let field = Layout::checksum_field(transport).map_or(0, |at| be16_at(bytes, at));
    let tcp = transport.kind == LayerKind::Tcp;
    let absent = !tcp && field == 0;
    if absent && layout.network().is_none_or(|network| network.kind != LayerKind::Ipv4) {
        return Err(Refusal::NoChecksum);
    }
    let state = match packet.meta.checksum {
        // There is nothing to complete, and nothing is known of the outer checksums.
        ChecksumState::Partial if absent => ChecksumState::Unknown,
        state => state,
    };
    let kind = if absent { ChecksumKind::None } else { ChecksumKind::Full };
    if state != ChecksumState::Valid {
        let read = state == ChecksumState::Unknown && policy == ChecksumPolicy::Verify;
        let only_inside = absent && layout.layer_count() == 2;
        if read && !only_inside {
            verify(packet, transport, absent, ahead)?;
        } else if !absent && is_partial(packet, field) {
            return Ok(ChecksumKind::Partial);
        } else if !absent && state == ChecksumState::Partial {
            return Err(Refusal::Checksum);
        }
    }
    // Valid in both forms, but TCP senders compute 0x0000, and so does segmenting.
    if tcp && field == 0xFFFF { Err(Refusal::UnusualChecksum) } else { Ok(kind) }
}

/// Whether a checksum field holds only the sum of the pseudo header.
#[inline]
fn is_partial<B: AsRef<[u8]>>(packet: &Packet<B>, field: u16) -> bool {
    let layout = packet.layout();
    let pseudo = layout.pseudo_sum(packet.bytes(), layout.payload().len());
    pseudo.is_some_and(|pseudo| pseudo.fold() == field)
}

/// Verifies the transport checksum, and the outer checksums if there are any, which need no second
/// pass over the payload.
#[inline(always)]
fn verify<B: AsRef<[u8]>>(
    packet: &Packet<B>,
    transport: Layer,
    absent: bool,
    ahead: &[u8],
) -> Result<(), Refusal> {
    let (layout, bytes) = (packet.layout(), packet.bytes());
    let sum = Sum::of_ahead(&bytes[transport.at()..layout.end()], ahead);
    let pseudo = layout.pseudo_sum(bytes, layout.payload().len()).unwrap_or_default();
    if !absent && !sum.plus(pseudo).is_valid() {
        let field = Layout::checksum_field(transport).map_or(0, |at| be16_at(bytes, at));
        let partial = pseudo.fold() == field;
        return Err(if partial { Refusal::PartialChecksum } else { Refusal::Checksum });
    }
    if layout.layer_count() == 2 {
        return Ok(());
    }
    verify_outer(bytes, layout, sum)
}

/// Verifies the checksums of tunnel headers; `inner` is the sum from the innermost transport on.
#[inline(never)]
fn verify_outer(bytes: &[u8], layout: &Layout, inner: Sum) -> Result<(), Refusal> {
    let mut layers = layout.layers().rev();
    let Some(transport) = layers.next() else { return Ok(()) };
    let mut network = None;
    for layer in layout.layers() {
        if layer == transport {
            break;
        }
        let field = Layout::checksum_field(layer).map_or(0, |at| be16_at(bytes, at));
        let covered = match (layer.kind, network) {
            (LayerKind::Udp, Some(network)) if field != 0 => {
                let len = usize::from(header::at::<Udp>(bytes, layer.at()).length);
                let pseudo = pseudo_sum(bytes, network, header::protocol::UDP, len);
                Some((pseudo, layer.at() + len))
            }
            (LayerKind::Gre, Some(network)) => Some((Sum::ZERO, datagram_end(bytes, network))),
            _ => None,
        };
        if let Some((pseudo, end)) = covered {
            // Headers have even lengths, so the inner sum is not swapped.
            let around = Sum::of(&bytes[layer.at()..transport.at()]).plus(pseudo);
            // Padding of an inner frame is covered too.
            let padding = Sum::of(bytes.get(layout.end()..end).unwrap_or_default());
            let odd = (layout.end() - transport.at()) % 2 == 1;
            let padding = if odd { padding.swapped() } else { padding };
            if !around.plus(inner).plus(padding).is_valid() {
                return Err(Refusal::Checksum);
            }
        }
        network = Some(layer);
    }
    Ok(())
}

/// The end of the datagram of an outer IP header.
fn datagram_end(bytes: &[u8], network: Layer) -> usize {
    let at = network.at();
    if network.kind == LayerKind::Ipv4 {
        at + usize::from(header::at::<Ipv4>(bytes, at).total_len)
    } else {
        at + Ipv6::LEN + usize::from(header::at::<Ipv6>(bytes, at).payload_len)
    }
}
