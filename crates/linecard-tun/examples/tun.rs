//! An encrypted tunnel: what the kernel sends by a TUN device goes as UDP datagrams to a peer, and
//! what comes from there goes into the device.
//!
//! ```sh
//! head -c 32 /dev/urandom > key             # the same file at both ends
//! tun tun0 192.0.2.1:5000 192.0.2.2:5000 key
//! ip addr add 10.0.0.1/30 dev tun0; ip link set tun0 mtu 1420 up
//! ```
//!
//! The kernel gives packets of up to 64 KiB. They are cut here, with room around each segment for a
//! counter and a tag, encrypted in place, and sent by one call for up to 64 (UDP GSO). Datagrams from
//! the peer are received as many at a time (UDP GRO), decrypted in place, and merged where they lie;
//! so the kernel handles one packet where it would handle forty.
//!
//! It has no protection against replayed datagrams, and no key exchange.

use linecard::offload::burst::Room;
use linecard_tun::udp::{BatchSocket, Batcher, Receiver};
use linecard_tun::{BUFFER_LEN, Device, DeviceConfig, wait_each};
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use std::error::Error;
use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::time::{Duration, UNIX_EPOCH};

/// The counter in front of a packet, and the tag behind it.
const ROOM: Room = Room { front: 8, back: 16 };
/// Bytes that wait in the kernel while a burst is handled: 2 ms of 20 Gbit/s.
const BUFFERED: usize = 5 << 20;
/// Reads of one end before the other has its turn.
const READS: usize = 64;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [name, local, peer, key] = &arguments[..] else {
        return Err("usage: tun DEVICE LOCAL PEER KEYFILE".into());
    };
    let (local, peer) = (local.parse::<SocketAddr>()?, peer.parse::<SocketAddr>()?);
    let key = UnboundKey::new(&CHACHA20_POLY1305, &std::fs::read(key)?);
    let key = LessSafeKey::new(key.map_err(|_| "the key file needs 32 bytes")?);
    // Each end has its own nonces. The counter does not repeat after a restart: it begins with the time.
    let nonce = |ours: bool, counter: &[u8]| {
        let mut nonce = [u8::from(ours == (local < peer)); 12];
        nonce[4..].copy_from_slice(counter);
        Nonce::assume_unique_for_key(nonce)
    };
    let mut counter = UNIX_EPOCH.elapsed()?.as_nanos() as u64;

    let device = Device::open(&DeviceConfig::tun(name))?;
    let socket = UdpSocket::bind(local)?;
    socket.connect(peer)?;
    let socket = BatchSocket::new(socket)?;
    socket.set_buffers(BUFFERED)?;
    let (mut batcher, mut receiver, mut merger) =
        (Batcher::new(), Receiver::new(4), device.merger());
    let (mut frame, mut packets) = (vec![0; BUFFER_LEN], Vec::new());
    loop {
        let ends = [device.as_fd(), socket.as_fd()];
        let [from_device, from_peer] = wait_each(ends, Duration::MAX)?;
        for _ in 0..if from_device { READS } else { 0 } {
            let frame = match device.read(&mut frame) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                read => read?,
            };
            // A packet that cannot be segmented, or that a full socket does not take, is lost, as in a full queue.
            let Ok(mut segments) = frame.cut() else { continue };
            let _lost = batcher.push(&socket, &mut segments, ROOM, |datagram| {
                counter += 1;
                let (front, packet) = datagram.split_at_mut(ROOM.front);
                front.copy_from_slice(&counter.to_le_bytes());
                let (packet, back) = packet.split_at_mut(packet.len() - ROOM.back);
                let tag = key.seal_in_place_separate_tag(nonce(true, front), Aad::empty(), packet);
                back.copy_from_slice(tag.expect("packets are short").as_ref());
            });
        }
        let _lost = batcher.flush(&socket);
        while from_peer && let Ok(burst) = receiver.receive(&socket) {
            packets.extend(burst.ranges().filter_map(|place| {
                let datagram = &mut burst.bytes[place.clone()];
                let (front, sealed) = datagram.split_at_mut_checked(ROOM.front)?;
                let len = key.open_in_place(nonce(false, front), Aad::empty(), sealed).ok()?.len();
                Some(place.start + ROOM.front..place.start + ROOM.front + len)
            }));
            merger.merge_burst(burst.bytes, packets.drain(..), &mut |packet| {
                // A device that is down loses packets, as any network does.
                let _lost = device.write(&packet);
            })?;
            if burst.is_last {
                break;
            }
        }
    }
}
