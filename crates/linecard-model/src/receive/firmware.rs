//! Firmware shipped with the model (sources in `firmware/`), and example packets.

use super::line::Arrival;
use crate::Ps;
use crate::rv32::Image;
use crate::transmit::firmware::example_message;
use crate::transmit::{Message, MessageError};
use alloc::vec::Vec;

/// As published: 6 cycles of COM beside the transfer.
#[must_use]
pub fn published() -> Image {
    Image::flat(include_bytes!("../../../../firmware/images/receive.bin"))
}

/// The fewest cycles before the transfer that we know: everything possible runs in parallel with
/// it.
#[must_use]
pub fn best() -> Image {
    Image::flat(include_bytes!("../../../../firmware/images/receive_best.bin"))
}

/// The packets of a message segmented for an MTU of `mtu` bytes, all available at once.
///
/// # Errors
/// If the message cannot be segmented for this MTU.
pub fn packets_of(message: &Message, mtu: u16) -> Result<Vec<Arrival>, MessageError> {
    message.mss(mtu)?;
    let arrival = |bytes: &[u8]| Arrival { bytes: bytes.to_vec(), ready: Ps::ZERO };
    if message.bytes().len() <= usize::from(mtu) {
        return Ok(alloc::vec![arrival(message.bytes())]);
    }
    let mut packets = Vec::new();
    if let Ok(mut segments) = message.expected(mtu, false) {
        let mut room = alloc::vec![0; segments.max_len()];
        while let Ok(Some(written)) = segments.write_next(&mut room) {
            packets.push(arrival(&room[..written.len]));
        }
    }
    Ok(packets)
}

/// Packets of `packet_bytes` each of one message: TCP, or with `udp` fragments, `packets` of them. The
/// payload of fragments is a multiple of 8 and may be up to 7 bytes shorter.
///
/// # Errors
/// If they would have no payload, or the message would exceed IP's length.
pub fn example_packets(
    udp: bool,
    packet_bytes: u16,
    packets: usize,
) -> Result<Vec<Arrival>, MessageError> {
    let headers = if udp { 20 } else { 40 };
    let room = usize::from(packet_bytes).saturating_sub(headers);
    let each = if udp { room & !7 } else { room };
    let payload = (each * packets).saturating_sub(if udp { 8 } else { 0 });
    let message = Message::new(example_message(udp, payload), Ps::ZERO)?;
    packets_of(&message, packet_bytes)
}
