//! Messages of the host, with the parameters that the firmware needs.

use crate::Ps;
use alloc::vec::Vec;
use linecard::offload::segment::{SegmentError, Segments, fragment, segment};
use linecard::packet::header::{self, IPV4_DF, Ipv4, Tcp};
use linecard::packet::{Form, Gso, LayerKind, LinkType, Meta, Packet, Piece};

/// Flags that only the last segment of a message carries: FIN and PSH.
const LAST_ONLY: u16 = 0x0009;

/// A message: an IPv4 packet of up to 65,535 bytes, longer than the MTU or not.
///
/// TCP is segmented, every other datagram is fragmented.
#[derive(Debug, Clone)]
pub struct Message {
    packet: Packet<Vec<u8>>,
    kind: Kind,
    header_len: usize,
    /// When the host has it ready.
    pub ready: Ps,
}

/// How a message is divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// TCP segments.
    Tcp,
    /// Fragments of the datagram.
    Udp,
}

/// Why the model cannot send a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// Not a complete IPv4 packet without options.
    #[error(
        "{len} bytes are not a whole IPv4 packet without options and tunnels: the firmware \
         segments nothing else"
    )]
    NotIpv4 {
        /// Bytes given.
        len: usize,
    },
    /// It is a fragment already.
    #[error("the message is a fragment: give whole datagrams")]
    Fragment,
    /// It has to be fragmented, but must not be.
    #[error(
        "a datagram of {len} bytes says \"don't fragment\" and is longer than the MTU of {mtu}"
    )]
    DontFragment {
        /// Bytes of the datagram.
        len: usize,
        /// The MTU.
        mtu: u16,
    },
    /// No payload fits behind the headers.
    #[error("an MTU of {mtu} leaves no room for payload behind {headers} bytes of headers")]
    NoRoom {
        /// The MTU.
        mtu: u16,
        /// Bytes of the message's headers.
        headers: usize,
    },
}

impl Message {
    /// A message from the bytes of an IP packet, ready at `ready`.
    ///
    /// # Errors
    /// When it is not a whole IPv4 datagram without IP options.
    pub fn new(bytes: Vec<u8>, ready: Ps) -> Result<Self, MessageError> {
        let len = bytes.len();
        let packet = Packet::new(bytes, LinkType::Raw, Meta::default());
        let layout = packet.layout();
        let network = layout.network().filter(|layer| layer.kind == LayerKind::Ipv4);
        if layout.form() == Form::Fragment {
            return Err(MessageError::Fragment);
        }
        // A length of 0 stands for more than 64 KiB, which the firmware does not support.
        let total_len = header::get::<Ipv4>(packet.bytes(), 0).map(|ip| ip.total_len);
        let whole = total_len.map(usize::from) == Some(len)
            && layout.end() == len
            && layout.layer_count() <= 2;
        if network.is_none() || !whole || packet.bytes().first() != Some(&0x45) {
            return Err(MessageError::NotIpv4 { len });
        }
        let tcp = layout.form() == Form::Datagram
            && layout.transport().is_some_and(|layer| layer.kind == LayerKind::Tcp);
        let kind = if tcp { Kind::Tcp } else { Kind::Udp };
        let header_len = if tcp { layout.header_len() } else { Ipv4::LEN };
        Ok(Self { packet, kind, header_len, ready })
    }

    /// Its bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.packet.bytes()
    }

    /// How it is divided.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Bytes of headers.
    #[must_use]
    pub fn header_len(&self) -> usize {
        self.header_len
    }

    /// Payload of a full packet at this MTU.
    ///
    /// # Errors
    /// If the MTU is too small, or it must not be fragmented.
    pub fn mss(&self, mtu: u16) -> Result<usize, MessageError> {
        let room = usize::from(mtu).saturating_sub(self.header_len);
        let mss = if self.kind == Kind::Udp { room & !7 } else { room };
        if mss == 0 {
            return Err(MessageError::NoRoom { mtu, headers: self.header_len });
        }
        let len = self.bytes().len();
        if self.kind == Kind::Udp && len > usize::from(mtu) && self.may_not_be_fragmented() {
            return Err(MessageError::DontFragment { len, mtu });
        }
        Ok(mss)
    }

    /// TCP data offset and flags: for all segments but the last, and for the last.
    pub(super) fn flags(&self) -> Option<(u16, u16)> {
        let field = || header::at::<Tcp>(self.bytes(), Ipv4::LEN).offset_flags;
        (self.kind == Kind::Tcp).then(field).map(|last| (last & !LAST_ONLY, last))
    }

    /// The packets that this project's own offload makes of it.
    pub(crate) fn expected(
        &self,
        mtu: u16,
        fixed_ids: bool,
    ) -> Result<Segments<'_, Piece<Vec<u8>>>, SegmentError> {
        match self.kind {
            Kind::Udp => fragment(&self.packet, usize::from(mtu), 0),
            Kind::Tcp => {
                let size = mtu.saturating_sub(u16::try_from(self.header_len).unwrap_or(mtu));
                // The firmware has one header for all segments, so CWR is on all or none of them.
                let gso = Gso { size, fixed_ids: fixed_ids.into(), accecn: true, ..Gso::default() };
                segment(&self.packet, gso)
            }
        }
    }

    /// Whether its packets may all carry the message's identification (RFC 6864, section 4.1).
    pub(super) fn may_not_be_fragmented(&self) -> bool {
        header::at::<Ipv4>(self.bytes(), 0).flags_fragment & IPV4_DF != 0
    }
}
