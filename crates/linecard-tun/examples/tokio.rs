//! The tunnel of the example `tun` on tokio, both directions in one task. The two programs can be each
//! other's peers.
//!
//! ```sh
//! head -c 32 /dev/urandom > key             # the same file at both ends
//! tokio tun0 192.0.2.1:5000 192.0.2.2:5000 key
//! ip addr add 10.0.0.1/30 dev tun0; ip link set tun0 mtu 1420 up
//! ```
//!
//! tokio waits for the device and the socket, which are read and written as without it. There is no
//! timer, because nothing is held from one burst to the next.

use linecard::offload::burst::Room;
use linecard_tun::tokio::{AsyncDevice, AsyncSocket};
use linecard_tun::udp::{BatchSocket, Batcher, Receiver};
use linecard_tun::{BUFFER_LEN, Device, DeviceConfig};
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use std::error::Error;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, UdpSocket};
use std::time::UNIX_EPOCH;

/// The counter in front of a packet, and the tag behind it.
const ROOM: Room = Room { front: 8, back: 16 };
/// Bytes that wait in the kernel while a burst is handled: 2 ms of 20 Gbit/s.
const BUFFERED: usize = 5 << 20;
/// Reads of one end before the other has its turn.
const READS: usize = 64;

struct Tunnel {
    device: AsyncDevice,
    socket: AsyncSocket,
    key: LessSafeKey,
    /// Each end has its own nonces.
    is_lower: bool,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [name, local, peer, key] = &arguments[..] else {
        return Err("usage: tokio DEVICE LOCAL PEER KEYFILE".into());
    };
    let (local, peer) = (local.parse::<SocketAddr>()?, peer.parse::<SocketAddr>()?);
    let key = UnboundKey::new(&CHACHA20_POLY1305, &std::fs::read(key)?);
    let key = LessSafeKey::new(key.map_err(|_| "the key file needs 32 bytes")?);
    let socket = UdpSocket::bind(local)?;
    socket.connect(peer)?;
    let socket = BatchSocket::new(socket)?;
    socket.set_buffers(BUFFERED)?;
    let device = AsyncDevice::new(Device::open(&DeviceConfig::tun(name))?)?;
    let tunnel = Tunnel { device, socket: AsyncSocket::new(socket)?, key, is_lower: local < peer };
    tokio::try_join!(upload(&tunnel), download(&tunnel))?;
    Ok(())
}

/// From the device to the peer.
async fn upload(tunnel: &Tunnel) -> io::Result<()> {
    let (mut batcher, mut frame) = (Batcher::new(), vec![0; BUFFER_LEN]);
    // The counter does not repeat after a restart: it begins with the time.
    let mut counter = UNIX_EPOCH.elapsed().unwrap_or_default().as_nanos() as u64;
    loop {
        tunnel.device.readable().await?;
        for _ in 0..READS {
            let frame = match tunnel.device.try_read(&mut frame) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                read => read?,
            };
            // A packet that cannot be segmented, or that a full socket does not take, is lost, as in a full queue.
            let Ok(mut segments) = frame.cut() else { continue };
            let _lost = batcher.push(tunnel.socket.get_ref(), &mut segments, ROOM, |datagram| {
                counter += 1;
                tunnel.seal(counter, datagram);
            });
        }
        let _lost = batcher.flush(tunnel.socket.get_ref());
    }
}

/// From the peer to the device.
async fn download(tunnel: &Tunnel) -> io::Result<()> {
    let device = tunnel.device.get_ref();
    let (mut receiver, mut merger, mut packets) = (Receiver::new(4), device.merger(), Vec::new());
    loop {
        // An error concerns an earlier datagram, which the peer did not receive.
        if let Ok(burst) = tunnel.socket.receive(&mut receiver).await {
            packets.extend(burst.ranges().filter_map(|place| {
                let len = tunnel.open(&mut burst.bytes[place.clone()])?;
                Some(place.start + ROOM.front..place.start + ROOM.front + len)
            }));
            let merged = merger.merge_burst(burst.bytes, packets.drain(..), &mut |packet| {
                // A device that is down loses packets, as any network does.
                let _lost = device.write(&packet);
            });
            merged.map_err(io::Error::other)?;
        }
    }
}

impl Tunnel {
    fn nonce(&self, ours: bool, counter: &[u8]) -> Nonce {
        let mut nonce = [u8::from(ours == self.is_lower); 12];
        nonce[4..].copy_from_slice(counter);
        Nonce::assume_unique_for_key(nonce)
    }

    fn seal(&self, counter: u64, datagram: &mut [u8]) {
        let (front, packet) = datagram.split_at_mut(ROOM.front);
        front.copy_from_slice(&counter.to_le_bytes());
        let (packet, back) = packet.split_at_mut(packet.len() - ROOM.back);
        let nonce = self.nonce(true, front);
        let tag = self.key.seal_in_place_separate_tag(nonce, Aad::empty(), packet);
        back.copy_from_slice(tag.expect("packets are short").as_ref());
    }

    /// Bytes of the packet, if it is the peer's.
    fn open(&self, datagram: &mut [u8]) -> Option<usize> {
        let (front, sealed) = datagram.split_at_mut_checked(ROOM.front)?;
        let opened = self.key.open_in_place(self.nonce(false, front), Aad::empty(), sealed);
        Some(opened.ok()?.len())
    }
}
