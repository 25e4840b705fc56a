//! Fragments made by hand, at any place, right or wrong.

use super::frame::{put16, sum16};
use super::plain;
use linecard::packet::LinkType;

/// A part of a datagram's data: where it claims to be, its bytes, and whether more follow.
#[derive(Debug, Clone)]
pub struct Part {
    pub offset: usize,
    pub data: Vec<u8>,
    pub more: bool,
}

/// A datagram laid open: what every fragment of it carries, and the data.
#[derive(Debug, Clone)]
pub struct Whole {
    pub ip: usize,
    pub v6: bool,
    /// Everything before the data, without fragment header.
    header: Vec<u8>,
    /// Where the type of the data's first header stands.
    field: usize,
    pub data: Vec<u8>,
    id: u32,
}

impl Whole {
    /// IPv6 is fragmented behind the fixed header and `extensions` bytes.
    pub fn new(link: LinkType, frame: &[u8], extensions: usize, id: u32) -> Self {
        let view = plain::view(link, frame);
        let (ip, v6) = (view.ip.expect("an IP datagram"), view.v6);
        let header_len = if v6 { 40 + extensions } else { usize::from(frame[ip] & 15) * 4 };
        let (header, data) = frame[..view.end].split_at(ip + header_len);
        let (mut field, mut at) = (ip + 6, ip + 40);
        while v6 && at < header.len() {
            (field, at) = (at, at + (usize::from(frame[at + 1]) + 1) * 8);
        }
        Self { ip, v6, header: header.to_vec(), field, data: data.to_vec(), id }
    }

    /// The frame of one part.
    pub fn fragment(&self, part: &Part) -> Vec<u8> {
        let Self { ip, v6, field, .. } = *self;
        let mut bytes = self.header.clone();
        if v6 {
            let kind = core::mem::replace(&mut bytes[field], 44);
            bytes.extend([kind, 0]);
            bytes.extend((part.offset as u16 | u16::from(part.more)).to_be_bytes());
            bytes.extend(self.id.to_be_bytes());
            bytes.extend(&part.data);
            let len = bytes.len() - ip - 40;
            put16(&mut bytes, ip + 4, len as u16);
            return bytes;
        }
        bytes.extend(&part.data);
        let len = bytes.len() - ip;
        put16(&mut bytes, ip + 2, len as u16);
        put16(&mut bytes, ip + 4, self.id as u16);
        let more = if part.more { 0x2000 } else { 0 };
        put16(&mut bytes, ip + 6, more | (part.offset / 8) as u16);
        seal(&mut bytes, ip);
        bytes
    }

    /// The part with these bytes of the data, rightly marked.
    pub fn part(&self, start: usize, end: usize) -> Part {
        let data = self.data[start..end].to_vec();
        Part { offset: start, data, more: end < self.data.len() }
    }

    /// Fragments that end at these places of the data.
    pub fn cut(&self, ends: &[usize]) -> Vec<Vec<u8>> {
        let starts = core::iter::once(0).chain(ends.iter().copied());
        starts.zip(ends).map(|(start, end)| self.fragment(&self.part(start, *end))).collect()
    }
}

/// Sets the header checksum of the IPv4 header at `ip`.
pub fn seal(bytes: &mut [u8], ip: usize) {
    let header_len = usize::from(bytes[ip] & 15) * 4;
    put16(bytes, ip + 10, 0);
    let checksum = !sum16(&bytes[ip..ip + header_len]);
    put16(bytes, ip + 10, checksum);
}
