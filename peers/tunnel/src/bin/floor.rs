//! No tunnel, but the least that one with these offloads costs: the same calls of the kernel, the same cipher, and one
//! copy. Packets of up to 64 KiB are neither segmented nor merged: they travel in pieces, with the virtio header that the
//! kernel gave, and the other end writes them as they were. What a library of offloads adds is beyond this.

use linecard::offload::virtio::{Endian, Format, Header};
use linecard_peers_tunnel::{Arguments, COUNTER, DATAGRAM, MTU, TAG, ready, some, wait};
use linecard_tun::udp::{BatchSocket, Receiver};
use linecard_tun::{BUFFER_LEN, Device, DeviceConfig};
use std::error::Error;

/// The virtio header.
const HEADER: usize = Format::V1.header_len();
/// In front of the first piece: 1, the virtio header, and the length of the packet. In front of the others: 0.
const FIRST: usize = 1 + HEADER + 4;

/// A packet that is received.
#[derive(Default)]
struct Packet {
    header: Header,
    bytes: Vec<u8>,
    len: usize,
}

fn main() -> Result<(), Box<dyn Error>> {
    let Arguments { device, socket, mut cipher, .. } = Arguments::parse()?;
    let device = Device::open(&DeviceConfig::tun(device))?;
    let (socket, mut receiver) = (BatchSocket::new(socket)?, Receiver::new(4));
    let (mut frame, mut run) = (vec![0; BUFFER_LEN], vec![0; 2 * BUFFER_LEN]);
    let (mut pieces, mut begun) = (Vec::new(), Packet::default());
    ready();
    loop {
        let [up, down] = wait(&device, &socket, None)?;
        for _ in 0..up {
            let Some(frame) = some(device.read(&mut frame))? else { break };
            let (mut rest, mut end) = (&*frame.bytes, 0);
            while end == 0 || !rest.is_empty() {
                let datagram = &mut run[end..end + DATAGRAM];
                let front = if end == 0 { FIRST } else { 1 };
                let (piece, behind) = rest.split_at(rest.len().min(MTU - front));
                datagram[COUNTER] = u8::from(end == 0);
                if end == 0 {
                    let head = &mut datagram[COUNTER + 1..COUNTER + FIRST];
                    frame.header.write(head, Format::V1, Endian::Little).ok_or("no header")?;
                    head[HEADER..].copy_from_slice(&(rest.len() as u32).to_le_bytes());
                }
                let len = COUNTER + front + piece.len();
                datagram[len - piece.len()..len].copy_from_slice(piece);
                cipher.seal(&mut datagram[..len + TAG]);
                (rest, end) = (behind, end + len + TAG);
            }
            some(socket.send(&run[..end], DATAGRAM))?;
        }
        for _ in 0..down {
            let Some(burst) = some(receiver.receive(&socket))? else { break };
            pieces.extend(burst.ranges().filter_map(|place| {
                let len = cipher.open(&mut burst.bytes[place.clone()])?.len();
                Some(place.start + COUNTER..place.start + COUNTER + len)
            }));
            forward(
                &device,
                &pieces.drain(..).map(|place| &burst.bytes[place]).collect::<Vec<_>>(),
                &mut begun,
            );
            if burst.is_last {
                break;
            }
        }
    }
}

/// Writes the packets whose pieces have all arrived; copies what a burst ends with.
fn forward(device: &Device, pieces: &[&[u8]], begun: &mut Packet) {
    let mut slices: Vec<&[u8]> = Vec::with_capacity(pieces.len() + 1);
    let held = std::mem::take(&mut begun.bytes);
    let mut have = held.len();
    slices.push(&held);
    for piece in pieces {
        let piece = match piece {
            [1, rest @ ..] if rest.len() >= FIRST - 1 => {
                let (head, payload) = rest.split_at(FIRST - 1);
                begun.header = Header::read(head, Format::V1, Endian::Little).unwrap_or_default();
                let len: [u8; 4] = head[HEADER..].try_into().expect("four bytes");
                begun.len = u32::from_le_bytes(len) as usize;
                // Of a packet that lacks a piece, nothing is left.
                slices.clear();
                have = 0;
                payload
            }
            [0, payload @ ..] if begun.len > 0 => payload,
            _ => continue,
        };
        slices.push(piece);
        have += piece.len();
        if have == begun.len {
            // A device that is down loses packets, as any network does.
            let _written = device.write_frame(&begun.header, &slices);
            slices.clear();
            (have, begun.len) = (0, 0);
        }
    }
    begun.bytes = slices.concat();
}
