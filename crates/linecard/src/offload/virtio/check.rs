//! Validates a virtio header against its frame.

use super::{Header, flag, gso_type};
use crate::packet::header::be16_at;
use crate::packet::{ChecksumState, Form, Gso, Layer, LayerKind, Layout, Meta};
use core::error::Error;
use core::fmt;

/// The validated meaning of a header, to be stored in the packet's [`Meta`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Offload {
    /// State of the innermost checksum.
    pub checksum: ChecksumState,
    /// How the frame is to be segmented, if it is.
    pub gso: Option<Gso>,
}

impl Offload {
    /// `meta` with these values.
    #[must_use]
    pub fn into_meta(self, meta: Meta) -> Meta {
        Meta { checksum: self.checksum, gso: self.gso, ..meta }
    }
}

/// The field of a header that contradicts its frame. Nothing has been changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FieldError {
    /// Bits that contradict each other or the frame.
    Flags(u8),
    /// Not a known type, or not that of the frame's protocols.
    GsoType {
        /// The field.
        value: u8,
        /// How far the frame's headers could be followed.
        form: Form,
    },
    /// Segmenting would give empty segments, more than 65,535 of them, or segments that exceed IP's
    /// length.
    GsoSize(u16),
    /// Headers longer than the frame.
    HdrLen(u16),
    /// The sum to be completed does not start at the innermost transport header.
    CsumStart(u16),
    /// Not the offset of that header's checksum field.
    CsumOffset(u16),
    /// Not where the tunnel's own UDP header starts.
    OuterThOffset(u16),
    /// Not where the IP header in the tunnel starts.
    InnerNhOffset(u16),
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flags(value) => write!(
                f,
                "flags {value:#04x} contradict each other, the type of segments or the \
                 frame"
            ),
            Self::GsoType { value, form } => {
                write!(f, "gso_type {value:#04x} is unknown or not what the frame is ({form:?})")
            }
            Self::GsoSize(value) => {
                write!(f, "gso_size {value} does not divide the frame into segments")
            }
            Self::HdrLen(value) => write!(f, "hdr_len {value} is more than the frame"),
            Self::CsumStart(value) => {
                write!(f, "csum_start {value} is not where the transport header starts")
            }
            Self::CsumOffset(value) => {
                write!(f, "csum_offset {value} is not where the transport header has its checksum")
            }
            Self::OuterThOffset(value) => {
                write!(f, "outer_th_offset {value} is not where the tunnel's UDP header starts")
            }
            Self::InnerNhOffset(value) => {
                write!(f, "inner_nh_offset {value} is not where the IP header in the tunnel starts")
            }
        }
    }
}

impl Error for FieldError {}

impl FieldError {
    /// The field's name in the specification.
    #[must_use]
    pub fn field(self) -> &'static str {
        match self {
            Self::Flags(_) => "flags",
            Self::GsoType { .. } => "gso_type",
            Self::GsoSize(_) => "gso_size",
            Self::HdrLen(_) => "hdr_len",
            Self::CsumStart(_) => "csum_start",
            Self::CsumOffset(_) => "csum_offset",
            Self::OuterThOffset(_) => "outer_th_offset",
            Self::InnerNhOffset(_) => "inner_nh_offset",
        }
    }
}

/// The layers of a frame that a device can segment.
pub(super) struct Layers {
    /// IP and UDP of a tunnel.
    pub(super) tunnel: Option<(Layer, Layer)>,
    pub(super) network: Layer,
    pub(super) transport: Layer,
}

impl Layers {
    /// One IP header, or two with UDP between them; a device cannot segment other frames.
    pub(super) fn of(layout: &Layout) -> Option<Self> {
        let (Form::Datagram, Some(transport), Some(network)) =
            (layout.form(), layout.transport(), layout.network())
        else {
            return None;
        };
        let mut outer = layout.layers();
        let tunnel = match layout.layer_count() {
            2 => None,
            4 => {
                let (ip, udp) = (outer.next()?, outer.next()?);
                (ip.kind.is_ip() && udp.kind == LayerKind::Udp).then_some(())?;
                Some((ip, udp))
            }
            _ => return None,
        };
        Some(Self { tunnel, network, transport })
    }

    /// The type of the segments, without the ECN bit.
    pub(super) fn gso_type(&self) -> u8 {
        let inner = match (self.transport.kind, self.network.kind) {
            (LayerKind::Udp, _) => gso_type::UDP_L4,
            (_, LayerKind::Ipv4) => gso_type::TCPV4,
            _ => gso_type::TCPV6,
        };
        inner
            | match self.tunnel.map(|(ip, _)| ip.kind) {
                None => 0,
                Some(LayerKind::Ipv4) => gso_type::UDP_TUNNEL_IPV4,
                Some(_) => gso_type::UDP_TUNNEL_IPV6,
            }
    }
}

impl Header {
    /// Validates the header against `frame`, which has this layout, and returns its meaning. If the
    /// frame is in pieces, `frame` is the part with the headers
    /// ([`Layout::parse_head`](crate::packet::Layout::parse_head)).
    ///
    /// Fields without meaning for this frame and unknown flags are ignored (section 5.1.6.2.2), and
    /// so are `num_buffers` and `hdr_len`, unless `hdr_len` exceeds the frame. The ECN bit may be
    /// missing: CWR is set only in the first segment either way. A frame with no more payload than
    /// `gso_size` is not segmented.
    ///
    /// For a segmenter whose segments need complete checksums, set the packet's
    /// [`Meta::checksum`](crate::packet::Meta::checksum) to [`ChecksumState::Unknown`].
    ///
    /// # Errors
    ///
    /// The field that contradicts the frame.
    pub fn check(&self, frame: &[u8], layout: &Layout) -> Result<Offload, FieldError> {
        if usize::from(self.hdr_len) > frame.len().max(layout.end()) {
            return Err(FieldError::HdrLen(self.hdr_len));
        }
        let checksum = self.checksum(frame, layout)?;
        let gso = match self.gso_type {
            gso_type::NONE => None,
            _ => self.gso(frame, layout)?,
        };
        Ok(Offload { checksum, gso })
    }

    fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    fn checksum(&self, frame: &[u8], layout: &Layout) -> Result<ChecksumState, FieldError> {
        if !self.has(flag::NEEDS_CSUM) {
            // The flag covers the outermost checksum; with the other flag also the tunnel's and the
            // inner one.
            let all =
                layout.tunnels() == 0 || layout.tunnels() == 1 && self.has(flag::UDP_TUNNEL_CSUM);
            let valid = self.has(flag::DATA_VALID) && all;
            return Ok(if valid { ChecksumState::Valid } else { ChecksumState::Unknown });
        }
        if self.has(flag::RSC_INFO) {
            return Err(FieldError::Flags(self.flags));
        }
        let whole = layout.transport().filter(|_| layout.form() == Form::Datagram);
        let (start, offset) = (usize::from(self.csum_start), usize::from(self.csum_offset));
        let transport = whole.filter(|transport| transport.at() == start);
        let transport = transport.ok_or(FieldError::CsumStart(self.csum_start))?;
        if Layout::checksum_field(transport) != Some(start + offset) {
            return Err(FieldError::CsumOffset(self.csum_offset));
        }
        // The sum of a pseudo header is never 0, which means "no checksum" (RFC 768).
        if transport.kind == LayerKind::Udp && be16_at(frame, start + offset) == 0 {
            return Err(FieldError::Flags(self.flags));
        }
        Ok(ChecksumState::Partial)
    }

    fn gso(&self, frame: &[u8], layout: &Layout) -> Result<Option<Gso>, FieldError> {
        let wrong_type = FieldError::GsoType { value: self.gso_type, form: layout.form() };
        let layers = Layers::of(layout).ok_or(wrong_type)?;
        if layers.gso_type() != self.gso_type & !gso_type::ECN {
            return Err(wrong_type);
        }
        if self.gso_type & gso_type::ECN != 0 && layers.transport.kind != LayerKind::Tcp {
            return Err(wrong_type);
        }
        if let Some((_, udp)) = layers.tunnel {
            self.check_tunnel(frame, udp, layers.network)?;
        }
        self.divide(layout)
    }

    fn check_tunnel(&self, frame: &[u8], udp: Layer, inner: Layer) -> Result<(), FieldError> {
        let field = Layout::checksum_field(udp);
        let summed = field.is_some_and(|field| be16_at(frame, field) != 0);
        // Linux sets the flag for a checksum to be completed only here.
        let wanted = self.has(flag::NEEDS_CSUM) && !self.has(flag::DATA_VALID);
        if !wanted || self.has(flag::UDP_TUNNEL_CSUM) != summed {
            return Err(FieldError::Flags(self.flags));
        }
        if self.outer_th_offset != udp.offset {
            return Err(FieldError::OuterThOffset(self.outer_th_offset));
        }
        if self.inner_nh_offset != inner.offset {
            return Err(FieldError::InnerNhOffset(self.inner_nh_offset));
        }
        Ok(())
    }

    fn divide(&self, layout: &Layout) -> Result<Option<Gso>, FieldError> {
        let (size, payload) = (usize::from(self.gso_size), layout.payload().len());
        let wrong = FieldError::GsoSize(self.gso_size);
        if size == 0 {
            return Err(wrong);
        }
        if payload <= size {
            return Ok(None);
        }
        let outermost = layout.outer_network().map_or(0, |network| network.at());
        if layout.header_len() - outermost + size > usize::from(u16::MAX) {
            return Err(wrong);
        }
        let segments = u16::try_from(payload.div_ceil(size)).map_err(|_| wrong)?;
        Ok(Some(Gso { size: self.gso_size, segments, ..Gso::default() }))
    }
}
