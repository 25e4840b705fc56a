//! The parse twin: a plain parser that reads one header after the other.

use super::frame::{TCP, UDP, be16, be32};
use linecard::packet::{Form, LinkType};

/// What is known of a frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct View {
    pub(crate) form: Form,
    /// Offset of the IP header, when its addresses could be read.
    pub(crate) ip: Option<usize>,
    pub(crate) v6: bool,
    /// Protocol behind the headers followed.
    pub(crate) protocol: u8,
    /// Offset of the TCP or UDP header of a whole datagram.
    pub(crate) transport: usize,
    pub(crate) payload: usize,
    /// End of the IP datagram.
    pub(crate) end: usize,
}

impl View {
    pub(crate) fn is_tcp(&self) -> bool {
        self.protocol == TCP
    }

    pub(crate) fn payload_len(&self) -> usize {
        self.end - self.payload
    }

    /// Source and destination address.
    pub(crate) fn addresses<'a>(&self, frame: &'a [u8]) -> Option<&'a [u8]> {
        let ip = self.ip?;
        Some(if self.v6 { &frame[ip + 8..ip + 40] } else { &frame[ip + 12..ip + 20] })
    }

    /// Offset of the transport checksum.
    pub(crate) fn field(&self) -> usize {
        self.transport + if self.is_tcp() { 16 } else { 6 }
    }
}

pub(crate) fn view(link: LinkType, frame: &[u8]) -> View {
    let mut view = View {
        form: Form::NotIp,
        ip: None,
        v6: false,
        protocol: 0,
        transport: 0,
        payload: 0,
        end: frame.len(),
    };
    if let Some((offset, v6)) = network(link, frame) {
        view.v6 = v6;
        view.form =
            if v6 { ipv6(&mut view, frame, offset) } else { ipv4(&mut view, frame, offset) };
    }
    view
}

fn network(link: LinkType, frame: &[u8]) -> Option<(usize, bool)> {
    let mut at = match link {
        LinkType::Ethernet => 12,
        LinkType::LinuxSll => 14,
        LinkType::LinuxSll2 => match frame {
            [8, 0, ..] => return Some((20, false)),
            [0x86, 0xDD, ..] => return Some((20, true)),
            [0x81, 0, ..] | [0x88, 0xA8, ..] | [0x91, 0, ..] => 22,
            _ => return None,
        },
        LinkType::Loopback => {
            return match frame {
                [2, 0, 0, 0, ..] | [0, 0, 0, 2, ..] => Some((4, false)),
                [24 | 28 | 30 | 10, 0, 0, 0, ..] | [0, 0, 0, 24 | 28 | 30 | 10, ..] => {
                    Some((4, true))
                }
                _ => None,
            };
        }
        LinkType::Raw => {
            return match frame.first()? >> 4 {
                4 => Some((0, false)),
                6 => Some((0, true)),
                _ => None,
            };
        }
        LinkType::Other => return None,
    };
    let mut tags = 0;
    loop {
        if frame.len() < at + 2 {
            return None;
        }
        match be16(frame, at) {
            0x0800 => return Some((at + 2, false)),
            0x86DD => return Some((at + 2, true)),
            0x8100 | 0x88A8 | 0x9100 if tags < 4 => tags += 1,
            _ => return None,
        }
        at += 4;
    }
}

fn ipv4(view: &mut View, frame: &[u8], ip: usize) -> Form {
    if frame.len() < ip + 20 {
        return Form::CutShort;
    }
    let header_len = usize::from(frame[ip] & 15) * 4;
    let total = usize::from(be16(frame, ip + 2));
    if frame[ip] >> 4 != 4 || header_len < 20 {
        return Form::Malformed;
    }
    if frame.len() < ip + header_len {
        return Form::CutShort;
    }
    view.ip = Some(ip);
    view.protocol = frame[ip + 9];
    if total < header_len {
        return Form::Malformed;
    }
    if frame.len() < ip + total {
        return Form::CutShort;
    }
    view.end = ip + total;
    if be16(frame, ip + 6) & 0x3FFF != 0 {
        return Form::Fragment;
    }
    transport(view, frame, ip + header_len)
}

fn ipv6(view: &mut View, frame: &[u8], ip: usize) -> Form {
    if frame.len() < ip + 40 {
        return Form::CutShort;
    }
    if frame[ip] >> 4 != 6 {
        return Form::Malformed;
    }
    view.ip = Some(ip);
    view.protocol = frame[ip + 6];
    let end = ip + 40 + usize::from(be16(frame, ip + 4));
    if frame.len() < end {
        return Form::CutShort;
    }
    view.end = end;
    let mut at = ip + 40;
    // A header chain longer than eight is not followed.
    for _ in 0..=8 {
        if view.protocol == 44 {
            return Form::Fragment;
        }
        if ![0, 43, 60].contains(&view.protocol) {
            return transport(view, frame, at);
        }
        // An extension header that does not lie in the datagram contradicts the bytes present.
        if end < at + 4 {
            return Form::Malformed;
        }
        let next = at + (usize::from(frame[at + 1]) + 1) * 8;
        if end < next {
            return Form::Malformed;
        }
        // With segments left the final destination, which the checksum covers, is not the header's.
        if view.protocol == 43 && frame[at + 3] != 0 {
            return Form::OtherTransport;
        }
        view.protocol = frame[at];
        at = next;
    }
    Form::OtherTransport
}

fn transport(view: &mut View, frame: &[u8], at: usize) -> Form {
    let left = view.end - at;
    let header_len = match view.protocol {
        TCP if left >= 20 => usize::from(frame[at + 12] >> 4) * 4,
        UDP if left >= 8 && usize::from(be16(frame, at + 4)) == left => 8,
        TCP | UDP => return Form::Malformed,
        _ => return Form::OtherTransport,
    };
    if header_len > left || view.protocol == TCP && header_len < 20 {
        return Form::Malformed;
    }
    view.transport = at;
    view.payload = at + header_len;
    Form::Datagram
}

/// What "the same flow" means: link header with tags, IP version, addresses, flow label, next
/// header, extension headers, ports. None for frames that show no ports.
pub(crate) fn flow_key(frame: &[u8], view: &View, lane: u32) -> Option<Vec<u8>> {
    let (Form::Datagram, Some(ip)) = (view.form, view.ip) else { return None };
    let mut key = lane.to_be_bytes().to_vec();
    key.extend((ip as u32).to_be_bytes());
    key.extend(&frame[..ip]);
    key.extend([u8::from(view.v6), view.protocol]);
    key.extend(view.addresses(frame)?);
    if view.v6 {
        key.extend((be32(frame, ip) & 0xF_FFFF).to_be_bytes());
        key.push(frame[ip + 6]);
        key.extend(&frame[ip + 40..view.transport]);
    }
    key.extend(&frame[view.transport..view.transport + 4]);
    Some(key)
}

/// The two ends of a frame whose addresses could be read.
pub(crate) fn ends(frame: &[u8], view: &View, lane: u32) -> Option<Vec<u8>> {
    let mut ends = lane.to_be_bytes().to_vec();
    ends.extend(view.addresses(frame)?);
    Some(ends)
}
