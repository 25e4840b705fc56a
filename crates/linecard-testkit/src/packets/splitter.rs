//! The split twins: segments and fragments made byte by byte, and an obvious reassembler.

use super::coalescer::complete;
use super::frame::{CWR, FIN, PSH, be16, be32, put16, put32, sum16};
use super::plain::View;
use linecard::offload::segment::{Class, SegmentError, Segments};
use linecard::packet::{ChecksumState, Gso, LayerKind, Piece};

/// Role of a segment in its message, by its place.
pub fn class(index: usize, count: usize) -> Class {
    match (index == 0, index + 1 == count) {
        (true, true) => Class::Ssm,
        (true, false) => Class::Bom,
        (false, false) => Class::Com,
        (false, true) => Class::Eom,
    }
}

/// All segments, fetched as slices and written, which have to be equal.
pub fn collect<B: AsRef<[u8]>>(
    mut slices: Segments<Piece<B>>,
    mut copies: Segments<Piece<B>>,
) -> Vec<Vec<u8>> {
    let count = slices.count();
    let longest = slices.max_len();
    let mut all = Vec::new();
    while let Some(segment) = slices.next_segment() {
        assert_eq!(segment.class, class(all.len(), count));
        let mut bytes = segment.header.to_vec();
        segment.payload.for_each(|slice| bytes.extend(slice));
        bytes.resize(bytes.len() + segment.padding, 0);
        let mut room = vec![0xCC; bytes.len()];
        if let Some(small) = bytes.len().checked_sub(1) {
            let refused = copies.write_next(&mut room[..small]);
            let expected = SegmentError::OutputTooSmall { room: small, needed: bytes.len() };
            assert_eq!(refused, Err(expected));
        }
        let written = copies.write_next(&mut room).expect("room").expect("as many");
        assert_eq!((written.len, written.class), (bytes.len(), class(all.len(), count)));
        assert!(room == bytes, "copied and sliced segments differ");
        assert!(bytes.len() <= longest);
        all.push(bytes);
    }
    assert_eq!(copies.write_next(&mut []), Ok(None));
    assert_eq!(all.len(), count);
    all
}

/// Cuts a whole TCP or UDP frame without padding.
pub fn split(frame: &[u8], view: &View, gso: Gso, checksum: ChecksumState) -> Vec<Vec<u8>> {
    let (header, payload) = frame.split_at(view.payload);
    let chunks: Vec<&[u8]> = match payload {
        [] => vec![payload],
        _ => payload.chunks(gso.size.into()).collect(),
    };
    let count = chunks.len();
    let segment = |(index, chunk): (usize, &&[u8])| {
        let mut bytes = [header, chunk].concat();
        for (bit, ip) in view.all(LayerKind::Ipv4).rev().enumerate() {
            let step = if gso.fixed_ids >> bit & 1 != 0 { 0 } else { index as u16 };
            let id = be16(&bytes, ip + 4).wrapping_add(step);
            put16(&mut bytes, ip + 4, id);
        }
        if view.is_tcp() {
            let at = view.transport;
            let sequence =
                be32(&bytes, at + 4).wrapping_add((index * usize::from(gso.size)) as u32);
            put32(&mut bytes, at + 4, sequence);
            let mut word = be16(&bytes, at + 12);
            if index + 1 != count {
                word &= !(FIN | PSH);
            }
            if index != 0 && !gso.accecn {
                word &= !CWR;
            }
            put16(&mut bytes, at + 12, word);
        }
        complete(&mut bytes, view, checksum);
        if gso.padded {
            bytes.resize(bytes.len().max(60), 0);
        }
        bytes
    };
    chunks.iter().enumerate().map(segment).collect()
}

/// Cuts the outermost datagram of a frame without padding, as a router does; none when that is
/// impossible.
pub fn fragment_outer(frame: &[u8], view: &View, mtu: usize, id: u32) -> Option<Vec<Vec<u8>>> {
    let (ip, v6) = view.networks().next()?;
    let mut fragments = fragment(frame, ip, v6, mtu, id)?;
    // A PPPoE header on the way gets the new length.
    for pppoe in view.all(LayerKind::Pppoe).filter(|pppoe| *pppoe < ip) {
        for bytes in &mut fragments {
            let len = bytes.len() - pppoe - 6;
            put16(bytes, pppoe + 4, len as u16);
        }
    }
    Some(fragments)
}

/// Cuts an IP datagram (from the link header to its end) into fragments for `mtu`; none when that
/// is impossible.
pub fn fragment(frame: &[u8], ip: usize, v6: bool, mtu: usize, id: u32) -> Option<Vec<Vec<u8>>> {
    if frame.len() - ip <= mtu {
        return Some(vec![frame.to_vec()]);
    }
    // Offsets of fragments reach no further ("BIG TCP").
    let counted = frame.len() - ip - if v6 { 40 } else { 0 };
    if counted > 65_535 {
        return None;
    }
    if v6 { fragment_v6(frame, ip, mtu, id) } else { fragment_v4(frame, ip, mtu) }
}

/// RFC 791, section 3.2.
fn fragment_v4(frame: &[u8], ip: usize, mtu: usize) -> Option<Vec<Vec<u8>>> {
    let header_len = usize::from(frame[ip] & 15) * 4;
    let flags = be16(frame, ip + 6);
    if flags & 0x4000 != 0 || mtu < header_len + 8 {
        return None;
    }
    let data = &frame[ip + header_len..];
    let mut fragments = Vec::new();
    let size = (mtu - header_len) / 8 * 8;
    for (index, chunk) in data.chunks(size).enumerate() {
        let mut bytes = frame[..ip + 20].to_vec();
        let options = &frame[ip + 20..ip + header_len];
        bytes.extend(if index == 0 { options.to_vec() } else { copied(options) });
        let header_len = bytes.len() - ip;
        bytes.extend(chunk);
        bytes[ip] = 0x40 | (header_len / 4) as u8;
        let len = bytes.len() - ip;
        put16(&mut bytes, ip + 2, len as u16);
        let last = index * size + chunk.len() == data.len();
        let more = if last { flags & 0x2000 } else { 0x2000 };
        let offset = flags & 0x1FFF;
        put16(&mut bytes, ip + 6, flags & 0x8000 | more | (offset + (index * size / 8) as u16));
        put16(&mut bytes, ip + 10, 0);
        let checksum = !sum16(&bytes[ip..ip + header_len]);
        put16(&mut bytes, ip + 10, checksum);
        fragments.push(bytes);
    }
    Some(fragments)
}

/// Options whose first bit says "copied", and zeros up to a multiple of four. One that lies about its
/// length ends the list.
fn copied(options: &[u8]) -> Vec<u8> {
    let (mut all, mut rest) = (Vec::new(), options);
    while let [kind, tail @ ..] = rest {
        if *kind == 0 {
            break;
        }
        let len = if *kind == 1 { 1 } else { tail.first().map_or(0, |len| usize::from(*len)) };
        if len > rest.len() || len < 2 && *kind != 1 {
            break;
        }
        if *kind >= 128 {
            all.extend(&rest[..len]);
        }
        rest = &rest[len..];
    }
    all.resize(all.len().next_multiple_of(4), 0);
    all
}

/// RFC 8200, section 4.5: the fragment header follows the routing header, else the hop-by-hop
/// options, else the IPv6 header.
fn fragment_v6(frame: &[u8], ip: usize, mtu: usize, id: u32) -> Option<Vec<Vec<u8>>> {
    let (mut field, mut at) = (ip + 6, ip + 40);
    let mut place = (field, at);
    while [0, 43, 60].contains(&frame[field]) {
        let en_route = frame[field] != 60;
        field = at;
        at += (usize::from(frame[at + 1]) + 1) * 8;
        if en_route {
            place = (field, at);
        }
    }
    let (field, at) = place;
    let headers = at - ip + 8;
    if mtu < headers + 8 {
        return None;
    }
    let size = (mtu - headers) / 8 * 8;
    let data = &frame[at..];
    let fragment = |(index, chunk): (usize, &[u8])| {
        let mut bytes = frame[..at].to_vec();
        let next = core::mem::replace(&mut bytes[field], 44);
        let more = u16::from(index * size + chunk.len() < data.len());
        bytes.extend([next, 0]);
        bytes.extend(((index * size) as u16 | more).to_be_bytes());
        bytes.extend(id.to_be_bytes());
        bytes.extend(chunk);
        let len = bytes.len() - ip - 40;
        put16(&mut bytes, ip + 4, len as u16);
        bytes
    };
    Some(data.chunks(size).enumerate().map(fragment).collect())
}

/// Puts fragments of one datagram together, whatever their order: the first one's headers, and the
/// data by offset. No check that they belong together.
pub fn reassemble(fragments: &[Vec<u8>], ip: usize, v6: bool) -> Vec<u8> {
    let mut data = Vec::new();
    let mut headers = Vec::new();
    for fragment in fragments {
        let (start, offset) = if v6 {
            let (field, at) = fragment_header(fragment, ip);
            let offset = usize::from(be16(fragment, at + 2) & 0xFFF8);
            if offset == 0 {
                headers = fragment[..at].to_vec();
                headers[field] = fragment[at];
            }
            (at + 8, offset)
        } else {
            let start = ip + usize::from(fragment[ip] & 15) * 4;
            let offset = usize::from(be16(fragment, ip + 6) & 0x1FFF) * 8;
            if offset == 0 {
                headers = fragment[..start].to_vec();
            }
            (start, offset)
        };
        let chunk = &fragment[start..];
        data.resize(data.len().max(offset + chunk.len()), 0xEE);
        data[offset..offset + chunk.len()].copy_from_slice(chunk);
    }
    let header_len = headers.len();
    let mut frame = [headers, data].concat();
    let len = frame.len() - ip;
    if v6 {
        put16(&mut frame, ip + 4, (len - 40) as u16);
    } else {
        put16(&mut frame, ip + 2, len as u16);
        let flags = be16(&frame, ip + 6) & 0xC000;
        put16(&mut frame, ip + 6, flags);
        put16(&mut frame, ip + 10, 0);
        let checksum = !sum16(&frame[ip..header_len]);
        put16(&mut frame, ip + 10, checksum);
    }
    frame
}

/// Where the IPv6 fragment header's type stands, and where it starts.
pub fn fragment_header(frame: &[u8], ip: usize) -> (usize, usize) {
    let (mut field, mut at) = (ip + 6, ip + 40);
    while frame[field] != 44 {
        field = at;
        at += (usize::from(frame[at + 1]) + 1) * 8;
    }
    (field, at)
}
