//! A tunnel as one writes it first: one read, one datagram, one write for each packet. tun-rs only opens the
//! device, without offloads.

use linecard_peers_tunnel::{Arguments, COUNTER, DATAGRAM, MTU, TAG, ready, some, wait};
use std::io;
use tun_rs::DeviceBuilder;

fn main() -> io::Result<()> {
    let Arguments { device, socket, mut cipher, .. } = Arguments::parse()?;
    let device = DeviceBuilder::new().name(device).build_sync()?;
    device.set_nonblocking(true)?;
    ready();
    let mut buffer = [0; DATAGRAM];
    loop {
        let [up, down] = wait(&device, &socket, None)?;
        for _ in 0..up {
            let Some(len) = some(device.recv(&mut buffer[COUNTER..COUNTER + MTU]))? else { break };
            let datagram = &mut buffer[..COUNTER + len + TAG];
            cipher.seal(datagram);
            some(socket.send(datagram))?;
        }
        for _ in 0..down {
            let Some(len) = some(socket.recv(&mut buffer))? else { break };
            if let Some(packet) = cipher.open(&mut buffer[..len]) {
                some(device.send(packet))?;
            }
        }
    }
}
