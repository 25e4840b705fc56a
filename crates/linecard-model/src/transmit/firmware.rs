//! Firmware that comes with the model; sources are in `firmware/`.

use crate::rv32::Image;
use alloc::vec::Vec;

/// Approach 1: headers copied through the core's registers, as published (table 3).
#[must_use]
pub fn approach_1() -> Image {
    Image::flat(include_bytes!("../../../../firmware/images/approach1.bin"))
}

/// Approach 2: headers updated in place, as published (tables 1 and 2).
#[must_use]
pub fn approach_2() -> Image {
    Image::flat(include_bytes!("../../../../firmware/images/approach2.bin"))
}

/// The fewest cycles we know for the published hardware.
#[must_use]
pub fn best() -> Image {
    Image::flat(include_bytes!("../../../../firmware/images/best.bin"))
}

/// Approach 2 written in C: its steady packets cost what those of [`approach_2`] do.
#[must_use]
pub fn compiled() -> Image {
    Image::flat(include_bytes!("../../../../firmware/images/lso.bin"))
}

/// A message to try designs with: TCP that must not be fragmented or, with `udp`, a UDP datagram that
/// may be; `payload` bytes that count up.
///
/// At most 65,507 bytes, so that headers fit.
#[must_use]
pub fn example_message(udp: bool, payload: usize) -> Vec<u8> {
    let payload = payload.min(65_507);
    let header: &[u8] = if udp { &UDP } else { &TCP };
    let mut bytes = Vec::with_capacity(20 + header.len() + payload);
    bytes.extend(IPV4);
    bytes.extend(header);
    // 251 is prime: no two words of a packet are equal by accident.
    bytes.extend((0..payload).map(|at| (at % 251) as u8));
    let total = u16::try_from(bytes.len()).unwrap_or(u16::MAX).to_be_bytes();
    bytes[2..4].copy_from_slice(&total);
    if udp {
        let len = u16::try_from(8 + payload).unwrap_or(u16::MAX).to_be_bytes();
        bytes[6] = 0;
        bytes[9] = 17;
        bytes[24..26].copy_from_slice(&len);
    }
    bytes
}

const IPV4: [u8; 20] =
    [0x45, 0, 0, 0, 0x12, 0x34, 0x40, 0, 64, 6, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2];
const TCP: [u8; 20] =
    [0x13, 0x88, 0x27, 0x10, 1, 2, 3, 4, 5, 6, 7, 8, 0x50, 0x18, 2, 0, 0, 0, 0, 0];
const UDP: [u8; 8] = [0x13, 0x88, 0x27, 0x10, 0, 0, 0, 0];
