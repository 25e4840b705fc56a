//! WireGuard by boringtun as a library, with the offloads of Linecard.

use boringtun::noise::{Tunn, TunnResult};
use boringtun::x25519::{PublicKey, StaticSecret};
use linecard_peers_tunnel::{Arguments, ready, some, wait};
use linecard_tun::udp::{BatchSocket, Batcher, Receiver};
use linecard_tun::{BUFFER_LEN, Device, DeviceConfig};
use std::error::Error;
use std::time::Duration;

/// Batches that are received at once.
const BATCHES: usize = 4;
/// Bytes that boringtun needs beyond a packet: 32, or for a handshake 148 in all.
const ROOM: usize = 148;
/// How often boringtun wants to see its timers, at least.
const TICK: Duration = Duration::from_millis(250);

fn main() -> Result<(), Box<dyn Error>> {
    let Arguments { device, socket, local, peer, .. } = Arguments::parse()?;
    let device = Device::open(&DeviceConfig::tun(device))?;
    let (socket, mut batcher) = (BatchSocket::new(socket)?, Batcher::new());
    let [own, other] = if local < peer { [1, 2] } else { [2, 1] };
    let [secret, peer] = [own, other].map(|number| StaticSecret::from([number; 32]));
    let mut tunnel = Tunn::new(secret, PublicKey::from(&peer), None, None, own.into(), None);
    let (mut receiver, mut merger) = (Receiver::new(BATCHES), device.merger());
    let (mut frame, mut opened) = (vec![0; BUFFER_LEN], vec![0; BATCHES * BUFFER_LEN]);
    let mut packets = Vec::new();
    ready();
    loop {
        let [up, down] = wait(&device, &socket, Some(TICK))?;
        for _ in 0..up {
            let Some(frame) = some(device.read(&mut frame))? else { break };
            let seal = |packet: &[u8], room: &mut [u8]| match tunnel.encapsulate(packet, room) {
                TunnResult::WriteToNetwork(datagram) => datagram.len(),
                _ => 0,
            };
            some(batcher.push_with(&socket, &mut frame.cut()?, ROOM, seal))?;
        }
        some(batcher.flush(&socket))?;
        for _ in 0..down {
            let Some(burst) = some(receiver.receive(&socket))? else { break };
            let mut end = 0;
            for place in burst.ranges() {
                let mut result = tunnel.decapsulate(None, &burst.bytes[place], &mut opened[end..]);
                // A handshake is answered; then follow packets that waited for it.
                while let TunnResult::WriteToNetwork(datagram) = result {
                    some(socket.send(datagram, datagram.len()))?;
                    result = tunnel.decapsulate(None, &[], &mut opened[end..]);
                }
                if let TunnResult::WriteToTunnelV4(packet, _)
                | TunnResult::WriteToTunnelV6(packet, _) = result
                {
                    packets.push(end..end + packet.len());
                    end += packet.len();
                }
            }
            merger.merge_burst(&mut opened, packets.drain(..), &mut |packet| {
                // A device that is down loses packets, as any network does.
                let _written = device.write(&packet);
            })?;
            if burst.is_last {
                break;
            }
        }
        if let TunnResult::WriteToNetwork(datagram) = tunnel.update_timers(&mut opened) {
            some(socket.send(datagram, datagram.len()))?;
        }
    }
}
