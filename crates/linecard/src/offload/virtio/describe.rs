//! Describes a packet by a virtio header.

use super::check::Layers;
use super::{Format, Header, flag, gso_type};
use crate::packet::header::{self, Ipv4, Tcp, be16_at, tcp_flags};
use crate::packet::{ChecksumState, Form, Gso, Layer, LayerKind, Layout, Packet};
use core::error::Error;
use core::fmt;

/// Why no header can describe a packet. Its segments can still be sent one by one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Undescribable {
    /// Not a complete TCP or UDP datagram.
    NotADatagram(Form),
    /// To be segmented, but its checksum is not deferred to the device: see
    /// [`defer_checksum`](crate::offload::defer_checksum).
    Checksum,
    /// To be segmented, but without a UDP checksum: the device would compute one.
    NoChecksum,
    /// All its segments have the same IPv4 identification, which the device would increment; see
    /// [`Identifications`].
    FixedIds,
    /// All its segments have CWR set (Accurate ECN): the device would keep it only in the first.
    AccurateEcn,
    /// Its segments are short frames padded to 60 bytes.
    Padded,
    /// In tunnels that a device cannot segment: other than UDP tunnels, or more than one.
    Tunnels,
    /// Longer than an IP datagram, which only some devices accept ("BIG TCP").
    TooLarge(usize),
}

impl fmt::Display for Undescribable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotADatagram(form) => write!(f, "not a whole TCP or UDP datagram: {form:?}"),
            Self::Checksum => f.write_str(
                "a packet to be segmented leaves its checksum to the device; this one does not",
            ),
            Self::NoChecksum => {
                f.write_str("its datagrams have no checksum, and a device would compute one")
            }
            Self::FixedIds => f.write_str(
                "its IPv4 identifications stand still, and a device would count them up",
            ),
            Self::AccurateEcn => {
                f.write_str("all its segments have CWR, and a device would leave it on the first")
            }
            Self::Padded => f.write_str("its segments are padded, and a device would not pad them"),
            Self::Tunnels => f.write_str("in tunnels that a device cannot segment"),
            Self::TooLarge(len) => write!(f, "{len} bytes are more than an IP datagram has"),
        }
    }
}

impl Error for Undescribable {}

/// How a device that increments IPv4 identifications may treat those of a described packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Identifications {
    /// Segments that all had the same identification may get increasing ones if they are atomic
    /// datagrams ("don't fragment" is set, and they are not fragments): according to RFC 6864,
    /// section 4.1, their identification has no meaning. Many senders leave it constant.
    #[default]
    Rfc6864,
    /// Restored byte for byte: packets with a constant identification are not described.
    Exact,
}

/// A device that merged packets go to: what it can segment again.
///
/// ```
/// use linecard::offload::virtio::{Device, Format};
/// // A TUN device of any Linux: no tunnels.
/// assert_eq!(Device::default().format, Format::V1);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Device {
    /// The format of its header. Only [`Format::Tunnel`] describes packets in a UDP tunnel.
    pub format: Format,
    /// How it may treat IPv4 identifications.
    pub identifications: Identifications,
}

impl Default for Device {
    fn default() -> Self {
        Self { format: Format::V1, identifications: Identifications::default() }
    }
}

impl Device {
    /// Whether it can segment packets with these layers.
    pub(in crate::offload) fn segments(&self, layout: &Layout) -> bool {
        Layers::of(layout)
            .is_some_and(|layers| layers.tunnel.is_none() || self.format == Format::Tunnel)
    }

    /// Whether it may count up the identifications of an IPv4 header that are constant.
    pub(in crate::offload) fn may_count_up(&self, ip: &Ipv4) -> bool {
        self.identifications == Identifications::Rfc6864 && ip.is_atomic()
    }
}

impl Header {
    /// The header that describes `packet` to a device; [`Header::num_buffers`] is 0.
    ///
    /// The checksum of a merged packet has to be deferred first
    /// ([`defer_checksum`](crate::offload::defer_checksum)): devices require that.
    ///
    /// Constant identifications of atomic datagrams are described as if they increased:
    /// [`Identifications::Rfc6864`]. [`Header::of_with`] gives the choice.
    ///
    /// # Errors
    ///
    /// The reason why no header makes the device restore every byte, apart from those
    /// identifications.
    pub fn of<B: AsRef<[u8]>>(packet: &Packet<B>) -> Result<Self, Undescribable> {
        Self::of_with(packet, Identifications::default())
    }

    /// [`Header::of`] with a choice for constant `identifications`.
    ///
    /// # Errors
    ///
    /// The reason why no header describes the packet.
    pub fn of_with<B: AsRef<[u8]>>(
        packet: &Packet<B>,
        identifications: Identifications,
    ) -> Result<Self, Undescribable> {
        Self::of_frame(&Frame::of(packet), packet.meta.gso, identifications)
    }

    /// [`Header::of_with`] for the frame of a packet.
    pub(in crate::offload) fn of_frame(
        frame: &Frame<'_>,
        gso: Option<Gso>,
        identifications: Identifications,
    ) -> Result<Self, Undescribable> {
        let mut header = Self::default();
        header.describe_checksum(frame)?;
        let divided = gso.filter(|gso| frame.payload_len > usize::from(gso.size));
        if let Some(gso) = divided {
            if !ids_may_count_up(frame, gso, identifications) {
                return Err(Undescribable::FixedIds);
            }
            header.describe_gso(frame, gso)?;
        }
        Ok(header)
    }

    fn describe_checksum(&mut self, frame: &Frame<'_>) -> Result<(), Undescribable> {
        let layout = frame.layout;
        match frame.checksum {
            ChecksumState::Unknown => {}
            // In a tunnel, the flag would state that the outermost checksum was verified, which is
            // not known.
            ChecksumState::Valid if layout.tunnels() > 0 => {}
            ChecksumState::Valid => self.flags = flag::DATA_VALID,
            ChecksumState::Partial => {
                let (Form::Datagram, Some(transport)) = (layout.form(), layout.transport()) else {
                    return Err(Undescribable::NotADatagram(layout.form()));
                };
                self.flags = flag::NEEDS_CSUM;
                self.csum_start = transport.offset;
                let field = Layout::checksum_field(transport).unwrap_or_default();
                self.csum_offset = field.saturating_sub(transport.at()) as u16;
            }
        }
        Ok(())
    }

    fn describe_gso(&mut self, frame: &Frame<'_>, gso: Gso) -> Result<(), Undescribable> {
        let Frame { bytes, layout, .. } = *frame;
        if layout.form() != Form::Datagram {
            return Err(Undescribable::NotADatagram(layout.form()));
        }
        let layers = Layers::of(layout).ok_or(Undescribable::Tunnels)?;
        let outermost = layout.outer_network().map_or(0, Layer::at);
        let len = layout.header_len() + frame.payload_len - outermost;
        if len > usize::from(u16::MAX) {
            return Err(Undescribable::TooLarge(len));
        }
        self.gso_type = layers.gso_type();
        refuse_unlike(frame, &layers, gso)?;
        if layers.transport.kind == LayerKind::Tcp && has_cwr(bytes, layers.transport) {
            self.gso_type |= gso_type::ECN;
        }
        if let Some((_, udp)) = layers.tunnel {
            self.describe_tunnel(frame, udp)?;
            self.inner_nh_offset = layers.network.offset;
        }
        // Layouts have offsets of 16 bits.
        self.hdr_len = layout.header_len() as u16;
        self.gso_size = gso.size;
        Ok(())
    }

    fn describe_tunnel(&mut self, frame: &Frame<'_>, udp: Layer) -> Result<(), Undescribable> {
        let Frame { bytes, layout, .. } = *frame;
        self.outer_th_offset = udp.offset;
        let field = Layout::checksum_field(udp).map_or(0, |field| be16_at(bytes, field));
        if field != 0 {
            let covered = layout.header_len() + frame.payload_len - udp.at();
            if field != layout.pseudo_sum_of(bytes, udp, covered).fold() {
                return Err(Undescribable::Checksum);
            }
            self.flags |= flag::UDP_TUNNEL_CSUM;
        }
        Ok(())
    }
}

/// The layers that a header describes.
pub(in crate::offload) struct Frame<'a> {
    /// At least the headers.
    pub(in crate::offload) bytes: &'a [u8],
    pub(in crate::offload) layout: &'a Layout,
    /// All of it, wherever it is.
    pub(in crate::offload) payload_len: usize,
    pub(in crate::offload) checksum: ChecksumState,
}

impl<'a> Frame<'a> {
    fn of<B: AsRef<[u8]>>(packet: &'a Packet<B>) -> Self {
        Self {
            bytes: packet.bytes(),
            layout: packet.layout(),
            payload_len: packet.payload_len(),
            checksum: packet.meta.checksum,
        }
    }
}

/// Refuses packets that a device would segment differently.
fn refuse_unlike(frame: &Frame<'_>, layers: &Layers, gso: Gso) -> Result<(), Undescribable> {
    let bytes = frame.bytes;
    let tcp = layers.transport.kind == LayerKind::Tcp;
    if gso.accecn && tcp && has_cwr(bytes, layers.transport) {
        return Err(Undescribable::AccurateEcn);
    }
    if gso.padded {
        return Err(Undescribable::Padded);
    }
    let field = Layout::checksum_field(layers.transport).map_or(0, |field| be16_at(bytes, field));
    if !tcp && field == 0 {
        return Err(Undescribable::NoChecksum);
    }
    if frame.checksum != ChecksumState::Partial {
        return Err(Undescribable::Checksum);
    }
    Ok(())
}

/// Whether a device may increment the identifications of all IPv4 headers: they increase already,
/// or are those of atomic datagrams.
fn ids_may_count_up(frame: &Frame<'_>, gso: Gso, identifications: Identifications) -> bool {
    let Frame { bytes, layout, .. } = *frame;
    let v4 = layout.layers().rev().filter(|layer| layer.kind == LayerKind::Ipv4);
    v4.enumerate().filter(|(nth, _)| gso.fixed_ids >> nth & 1 != 0).all(|(_, layer)| {
        identifications == Identifications::Rfc6864
            && header::at::<Ipv4>(bytes, layer.at()).is_atomic()
    })
}

fn has_cwr(bytes: &[u8], tcp: Layer) -> bool {
    header::at::<Tcp>(bytes, tcp.at()).offset_flags & tcp_flags::CWR != 0
}
