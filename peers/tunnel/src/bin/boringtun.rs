//! WireGuard by boringtun as a library, with one read, one datagram, one write for each packet. tun-rs only
//! opens the device, without offloads.

use boringtun::noise::{Tunn, TunnResult};
use boringtun::x25519::{PublicKey, StaticSecret};
use linecard_peers_tunnel::{Arguments, MTU, ready, some, wait};
use std::io;
use std::net::UdpSocket;
use std::time::{Duration, Instant};
use tun_rs::{DeviceBuilder, SyncDevice};

/// Room for every message: a packet has 32 more bytes, a handshake is no longer than 148.
const ROOM: usize = MTU + 256;
/// How often boringtun wants to see its timers.
const TICK: Duration = Duration::from_millis(250);

fn main() -> io::Result<()> {
    let Arguments { device, socket, local, peer, .. } = Arguments::parse()?;
    let device = DeviceBuilder::new().name(device).build_sync()?;
    device.set_nonblocking(true)?;
    let [own, other] = if local < peer { [1, 2] } else { [2, 1] };
    let secret = |number: u8| StaticSecret::from([number; 32]);
    let mut tunnel =
        Tunn::new(secret(own), PublicKey::from(&secret(other)), None, None, own.into(), None);
    let (mut read, mut room) = ([0; ROOM], [0; ROOM]);
    let mut next_tick = Instant::now();
    ready();
    loop {
        let [up, down] = wait(&device, &socket, Some(TICK))?;
        for _ in 0..up {
            let Some(len) = some(device.recv(&mut read))? else { break };
            act(tunnel.encapsulate(&read[..len], &mut room), &device, &socket)?;
        }
        for _ in 0..down {
            let Some(len) = some(socket.recv(&mut read))? else { break };
            let mut again =
                act(tunnel.decapsulate(None, &read[..len], &mut room), &device, &socket)?;
            // After a handshake, what waited for it.
            while again {
                again = act(tunnel.decapsulate(None, &[], &mut room), &device, &socket)?;
            }
        }
        if Instant::now() >= next_tick {
            act(tunnel.update_timers(&mut room), &device, &socket)?;
            next_tick = Instant::now() + TICK;
        }
    }
}

/// Does what the library asks for; whether it has to be asked again.
fn act(result: TunnResult<'_>, device: &SyncDevice, socket: &UdpSocket) -> io::Result<bool> {
    match result {
        TunnResult::WriteToNetwork(datagram) => Ok(some(socket.send(datagram))?.is_some()),
        TunnResult::WriteToTunnelV4(packet, _) | TunnResult::WriteToTunnelV6(packet, _) => {
            some(device.send(packet))?;
            Ok(false)
        }
        TunnResult::Done | TunnResult::Err(_) => Ok(false),
    }
}
