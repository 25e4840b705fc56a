//! Ethernet frames in VXLAN, made byte by byte.

use super::frame::{put16, sum16};

/// An outer header of this version around `inner`, its UDP checksum computed or 0.
pub fn vxlan(inner: &[u8], v6: bool, checksum: bool, id: u16) -> Vec<u8> {
    let mut udp = vec![0xC0, 1, 0x12, 0xB5, 0, 0, 0, 0];
    let len = (16 + inner.len()) as u16;
    put16(&mut udp, 4, len);
    udp.extend([8, 0, 0, 0, 0, 0, 7, 0]);
    udp.extend(inner);
    let mut ip = Vec::new();
    let addresses = if v6 {
        ip.extend([0x60, 0, 0, 0]);
        ip.extend(len.to_be_bytes());
        ip.extend([17, 64]);
        ip.extend([[0x20, 1, 0xD, 0xB8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9]; 2].concat());
        8
    } else {
        ip.extend([0x45, 0]);
        ip.extend((20 + len).to_be_bytes());
        ip.extend(id.to_be_bytes());
        ip.extend([0x40, 0, 64, 17, 0, 0, 10, 0, 0, 9, 10, 0, 0, 9]);
        let sum = !sum16(&ip);
        put16(&mut ip, 10, sum);
        12
    };
    if checksum {
        let pseudo = [&ip[addresses..], &[0, 17], &len.to_be_bytes(), &udp].concat();
        let field = !sum16(&pseudo);
        put16(&mut udp, 6, if field == 0 { 0xFFFF } else { field });
    }
    let link = [2, 0, 0, 0, 0, 8, 2, 0, 0, 0, 0, 7];
    let kind: [u8; 2] = if v6 { [0x86, 0xDD] } else { [8, 0] };
    [&link[..], &kind, &ip, &udp].concat()
}
