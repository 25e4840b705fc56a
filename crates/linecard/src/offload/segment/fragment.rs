//! Headers of IP fragments: RFC 791, section 2.3 and 3.2; RFC 8200, section 4.5.

use super::{HEADER_AREA, Part, SegmentError, check_lengths};
use crate::offload::{MAX_LENGTH, set_ipv4_checksum};
use crate::packet::header::{
    self, IPV4_DF, IPV4_MF, IPV4_OFFSET, Ipv4, Ipv6, PPPOE_LEN, PPPOE_LENGTH, protocol,
};
use crate::packet::{ChecksumState, Form, Layer, LayerKind, MAX_HEADER_LEN, Packet};

/// Bytes of the IPv6 fragment header.
const FRAGMENT_HEADER: usize = 8;
/// Fragment offsets count units of this many bytes.
const UNIT: usize = 8;

/// Template of the fragments' headers.
#[derive(Debug)]
pub(super) struct Fragmenting {
    /// Start of the IP header, and of a PPPoE header before it.
    network: usize,
    pppoe: Option<usize>,
    /// Bytes of the datagram's own header that all fragments carry.
    split: usize,
    /// Header bytes of the first fragment, and of the others.
    first_len: usize,
    other_len: usize,
    size: usize,
    version: Version,
}

#[derive(Debug, Clone, Copy)]
enum Version {
    /// The datagram fits and is not fragmented.
    Whole,
    V4 {
        /// Flags and offset of the datagram, which may itself be a fragment.
        flags_fragment: u16,
    },
    V6,
}

impl Fragmenting {
    /// Stores the first fragment's header in `area`.
    pub(super) fn new<B: AsRef<[u8]>>(
        packet: &Packet<B>,
        mtu: usize,
        identification: u32,
        area: &mut [u8; HEADER_AREA],
    ) -> Result<Self, SegmentError> {
        let layout = packet.layout();
        let whole = matches!(layout.form(), Form::Datagram | Form::OtherTransport | Form::Fragment);
        // A router fragments the outermost datagram. The end of the innermost one is known; with a
        // transport header, all outer datagrams end there too.
        let network = layout.outer_network().filter(|outer| {
            whole && (layout.form() == Form::Datagram || layout.network() == Some(*outer))
        });
        let network = network.ok_or(SegmentError::NotIp(layout.form()))?;
        let at = usize::from(network.offset);
        check_lengths(layout, packet.datagram_len())?;
        let len = packet.datagram_len() - at;
        let v4 = network.kind == LayerKind::Ipv4;
        let datagram = &packet.bytes()[..layout.end()];
        let (split, next_header) =
            if v4 { (ipv4_split(datagram, at), 0) } else { unfragmentable(datagram, at) };
        // With more extension headers than are followed, the last one may end anywhere.
        if split > datagram.len() {
            return Err(SegmentError::NotIp(Form::Malformed));
        }
        if split > MAX_HEADER_LEN {
            return Err(SegmentError::HeaderTooLong { len: split });
        }
        area[..split].copy_from_slice(&packet.bytes()[..split]);
        let mut plan = Self {
            network: at,
            pppoe: layout
                .layers()
                .find(|l| l.kind == LayerKind::Pppoe && l.at() < at)
                .map(Layer::at),
            split,
            first_len: split,
            other_len: split,
            size: len,
            version: Version::Whole,
        };
        if len > mtu {
            if packet.meta.checksum == ChecksumState::Partial {
                return Err(SegmentError::UnfinishedChecksum);
            }
            if v4 {
                plan.prepare_v4(area, len, mtu)?;
            } else {
                if layout.form() == Form::Fragment {
                    // RFC 8200, section 4.5: only the source fragments, and it already has.
                    return Err(SegmentError::NotIp(Form::Fragment));
                }
                plan.prepare_v6(area, next_header, identification);
            }
            plan.size = fragment_size(mtu, plan.first_len - at)?;
        }
        Ok(plan)
    }

    /// The offset in the frame of the data that is divided.
    pub(super) fn split(&self) -> usize {
        self.split
    }

    /// Data bytes of every fragment but the last.
    pub(super) fn size(&self) -> usize {
        self.size
    }

    pub(super) fn header_len(&self, part: Part) -> usize {
        if part.is_first() { self.first_len } else { self.other_len }
    }

    pub(super) fn max_header_len(&self) -> usize {
        self.first_len
    }

    /// Completes the header in `area` for one fragment; returns its length. Fragments have to be
    /// built in order: after the first, options that are not copied are removed from the area.
    pub(super) fn build(&self, area: &mut [u8; HEADER_AREA], part: Part) -> usize {
        let len = self.header_len(part);
        match self.version {
            Version::Whole => {}
            Version::V4 { flags_fragment } => self.build_v4(area, part, flags_fragment, len),
            Version::V6 => self.build_v6(area, part, len),
        }
        if let Some(pppoe) = self.pppoe {
            // At most the datagram's length, which fits.
            let field = (len - pppoe - PPPOE_LEN + part.len) as u16;
            area[pppoe + PPPOE_LENGTH..][..2].copy_from_slice(&field.to_be_bytes());
        }
        len
    }

    fn prepare_v4(
        &mut self,
        area: &[u8; HEADER_AREA],
        len: usize,
        mtu: usize,
    ) -> Result<(), SegmentError> {
        let flags_fragment = header::at::<Ipv4>(area, self.network).flags_fragment;
        if flags_fragment & IPV4_DF != 0 {
            return Err(SegmentError::DontFragment { len, mtu });
        }
        let end = usize::from(flags_fragment & IPV4_OFFSET) * UNIT + len;
        if end > MAX_LENGTH {
            return Err(SegmentError::OffsetTooLarge { end });
        }
        let options = &area[self.network + Ipv4::LEN..self.split];
        self.other_len = self.network + Ipv4::LEN + copied_options(options).1;
        self.version = Version::V4 { flags_fragment };
        Ok(())
    }

    /// Inserts a fragment header before the fragmentable part; `next_header` is the offset of the
    /// type of that part.
    fn prepare_v6(
        &mut self,
        area: &mut [u8; HEADER_AREA],
        next_header: usize,
        identification: u32,
    ) {
        let fragment = self.split;
        let kind = core::mem::replace(&mut area[next_header], protocol::FRAGMENT);
        area[fragment..fragment + 4].copy_from_slice(&[kind, 0, 0, 0]);
        area[fragment + 4..fragment + 8].copy_from_slice(&identification.to_be_bytes());
        self.first_len = self.split + FRAGMENT_HEADER;
        self.other_len = self.first_len;
        self.version = Version::V6;
    }

    fn build_v4(&self, area: &mut [u8; HEADER_AREA], part: Part, flags: u16, len: usize) {
        let options = self.network + Ipv4::LEN;
        if part.index == 1 {
            let (copied, copied_len) = copied_options(&area[options..self.split]);
            area[options..options + copied_len].copy_from_slice(&copied[..copied_len]);
        }
        let header_len = len - self.network;
        let more = if part.is_last() { flags & IPV4_MF } else { IPV4_MF };
        let offset = usize::from(flags & IPV4_OFFSET) + part.start / UNIT;
        // A header is at most 60 bytes, and a datagram's offsets fit into 13 bits.
        area[self.network] = 0x40 | (header_len / 4) as u8;
        header::set_be16(area, self.network + Ipv4::TOTAL_LEN, (header_len + part.len) as u16);
        let flags = flags & !(IPV4_OFFSET | IPV4_MF) | more | offset as u16 & IPV4_OFFSET;
        header::set_be16(area, self.network + Ipv4::FLAGS_FRAGMENT, flags);
        set_ipv4_checksum(area, self.network);
    }

    fn build_v6(&self, area: &mut [u8; HEADER_AREA], part: Part, len: usize) {
        let payload = len - self.network - Ipv6::LEN + part.len;
        header::set_be16(area, self.network + Ipv6::PAYLOAD_LEN, payload as u16);
        let more = u16::from(!part.is_last());
        // Offset in units of 8 bytes, shifted left by three: the offset in bytes.
        let word = (part.start as u16 | more).to_be_bytes();
        area[self.split + 2..self.split + 4].copy_from_slice(&word);
    }
}

/// Data bytes of a fragment: all but the last have a multiple of 8.
fn fragment_size(mtu: usize, headers: usize) -> Result<usize, SegmentError> {
    match mtu.saturating_sub(headers) / UNIT * UNIT {
        0 => Err(SegmentError::MtuTooSmall { mtu, headers }),
        size => Ok(size),
    }
}

fn ipv4_split(bytes: &[u8], network: usize) -> usize {
    network + header::at::<Ipv4>(bytes, network).header_len()
}

/// The options that every fragment carries: those with the copied flag (RFC 791, section 3.1),
/// padded to 32 bits.
fn copied_options(options: &[u8]) -> ([u8; 40], usize) {
    let (mut copied, mut len, mut rest) = ([0; 40], 0, options);
    while let [kind, tail @ ..] = rest {
        let size = match (kind, tail) {
            (0, _) => break,
            (1, _) => 1,
            (_, [size, ..]) if (2..=rest.len()).contains(&usize::from(*size)) => usize::from(*size),
            _ => break,
        };
        if kind & 0x80 != 0 {
            copied[len..len + size].copy_from_slice(&rest[..size]);
            len += size;
        }
        rest = &rest[size..];
    }
    (copied, len.next_multiple_of(4))
}

/// The start of the fragmentable part of an IPv6 packet, after the headers that routers on the path
/// read (hop-by-hop options and everything up to a routing header), and the offset of the field
/// with the type of that part's first header.
fn unfragmentable(bytes: &[u8], network: usize) -> (usize, usize) {
    let mut field = network + 6;
    let mut at = network + Ipv6::LEN;
    let mut end = (at, field);
    // A header that leaves the datagram ends the walk.
    while let (Some(kind), Some([_, units])) = (bytes.get(field), bytes.get(at..at + 2)) {
        if !matches!(*kind, protocol::HOP_BY_HOP | protocol::ROUTING | protocol::DESTINATION) {
            break;
        }
        let (kind, header) = (*kind, at);
        at += (usize::from(*units) + 1) * 8;
        field = header;
        if kind != protocol::DESTINATION {
            end = (at, field);
        }
    }
    end
}
