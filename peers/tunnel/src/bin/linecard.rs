//! A tunnel with the offloads of Linecard.

use linecard::offload::burst::Room;
use linecard_peers_tunnel::{Arguments, COUNTER, TAG, ready, some, wait};
use linecard_tun::udp::{BatchSocket, Batcher, Receiver};
use linecard_tun::{BUFFER_LEN, Device, DeviceConfig};
use std::error::Error;

const ROOM: Room = Room { front: COUNTER, back: TAG };

fn main() -> Result<(), Box<dyn Error>> {
    let Arguments { device, socket, mut cipher, .. } = Arguments::parse()?;
    let device = Device::open(&DeviceConfig::tun(device))?;
    let (socket, mut batcher, mut merger) =
        (BatchSocket::new(socket)?, Batcher::new(), device.merger());
    let (mut frame, mut receiver, mut packets) =
        (vec![0; BUFFER_LEN], Receiver::new(4), Vec::new());
    ready();
    loop {
        let [up, down] = wait(&device, &socket, None)?;
        for _ in 0..up {
            let Some(frame) = some(device.read(&mut frame))? else { break };
            let sent =
                batcher.push(&socket, &mut frame.cut()?, ROOM, |datagram| cipher.seal(datagram));
            some(sent)?;
        }
        some(batcher.flush(&socket))?;
        for _ in 0..down {
            let Some(received) = some(receiver.receive(&socket))? else { break };
            packets.clear();
            packets.extend(received.ranges().filter_map(|place| {
                let len = cipher.open(&mut received.bytes[place.clone()])?.len();
                Some(place.start + COUNTER..place.start + COUNTER + len)
            }));
            merger.merge_burst(received.bytes, packets.drain(..), &mut |packet| {
                // A device that is down loses packets, as any network does.
                let _written = device.write(&packet);
            })?;
            if received.is_last {
                break;
            }
        }
    }
}
