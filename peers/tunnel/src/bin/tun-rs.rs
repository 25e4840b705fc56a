//! A tunnel with the offloads of tun-rs, and UDP GSO and GRO by quinn-udp.
//!
//! Packets are split into slots as long as the longest datagram, so that full packets, once encrypted in
//! place, already lie one behind the other as UDP GSO needs them. Only shorter ones are moved.

use linecard_peers_tunnel::{Arguments, COUNTER, Cipher, DATAGRAM, TAG, ready, some, wait};
use quinn_udp::{BATCH_SIZE, RecvMeta, Transmit, UdpSocketState};
use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use tun_rs::{DeviceBuilder, GROTable, IDEAL_BATCH_SIZE, SyncDevice, VIRTIO_NET_HDR_LEN};

/// Bytes of the longest packet that the device gives or takes.
const LARGE: usize = 65_536;
/// Bytes that one call sends: the longest IPv4 packet without its headers.
const MAX_SENT: usize = 65_507;
/// Packets that may come of one read, which then must find room.
const MAX_SPLIT: usize = 64;

struct Tunnel {
    device: SyncDevice,
    socket: UdpSocket,
    state: UdpSocketState,
    peer: SocketAddr,
    cipher: Cipher,
}

/// From the device to the socket.
struct Up {
    large: Vec<u8>,
    slots: Vec<[u8; DATAGRAM]>,
    sizes: Vec<usize>,
}

/// From the socket to the device.
struct Down {
    received: Vec<Vec<u8>>,
    meta: [RecvMeta; BATCH_SIZE],
    packets: Vec<Vec<u8>>,
    table: GROTable,
}

fn main() -> io::Result<()> {
    let Arguments { device, socket, peer, cipher, .. } = Arguments::parse()?;
    let device = DeviceBuilder::new().name(device).offload(true).build_sync()?;
    device.set_nonblocking(true)?;
    let state = UdpSocketState::new((&socket).into())?;
    let mut tunnel = Tunnel { device, socket, state, peer, cipher };
    let mut up = Up {
        large: vec![0; VIRTIO_NET_HDR_LEN + LARGE],
        slots: vec![[0; DATAGRAM]; IDEAL_BATCH_SIZE + MAX_SPLIT],
        sizes: vec![0; IDEAL_BATCH_SIZE + MAX_SPLIT],
    };
    let packet = || Vec::with_capacity(VIRTIO_NET_HDR_LEN * 2 + LARGE);
    let mut down = Down {
        received: vec![vec![0; LARGE]; BATCH_SIZE],
        meta: [RecvMeta::default(); BATCH_SIZE],
        packets: (0..IDEAL_BATCH_SIZE).map(|_| packet()).collect(),
        table: GROTable::default(),
    };
    ready();
    loop {
        let [from_device, from_socket] = wait(&tunnel.device, &tunnel.socket, None)?;
        if from_device > 0 {
            tunnel.send(&mut up)?;
        }
        if from_socket > 0 {
            tunnel.receive(&mut down)?;
        }
    }
}

impl Tunnel {
    fn send(&mut self, up: &mut Up) -> io::Result<()> {
        let mut count = 0;
        while count < IDEAL_BATCH_SIZE {
            let (slots, sizes) = (&mut up.slots[count..], &mut up.sizes[count..]);
            let read = self.device.recv_multiple(&mut up.large, slots, sizes, COUNTER);
            let Some(more) = some(read)? else { break };
            count += more;
        }
        for (slot, size) in up.slots.iter_mut().zip(&mut up.sizes).take(count) {
            *size += COUNTER + TAG;
            self.cipher.seal(&mut slot[..*size]);
        }
        self.send_runs(up.slots.as_flattened_mut(), &up.sizes[..count])
    }

    /// Sends runs of datagrams of one size, of which the last may be shorter, by one call each.
    fn send_runs(&self, slots: &mut [u8], sizes: &[usize]) -> io::Result<()> {
        let mut first = 0;
        while first < sizes.len() {
            let (start, size) = (first * DATAGRAM, sizes[first]);
            let (mut end, mut next) = (start + size, first + 1);
            while next < sizes.len()
                && sizes[next] <= size
                && sizes[next - 1] == size
                && next - first < self.state.max_gso_segments()
                && end - start + sizes[next] <= MAX_SENT
            {
                let from = next * DATAGRAM;
                if from != end {
                    slots.copy_within(from..from + sizes[next], end);
                }
                end += sizes[next];
                next += 1;
            }
            let (contents, segment_size) = (&slots[start..end], Some(size));
            let destination = self.peer;
            let run = Transmit { destination, contents, segment_size, ecn: None, src_ip: None };
            some(self.state.try_send((&self.socket).into(), &run))?;
            first = next;
        }
        Ok(())
    }

    fn receive(&mut self, down: &mut Down) -> io::Result<()> {
        let mut room = down.received.iter_mut().map(|buffer| IoSliceMut::new(buffer));
        let mut room: [_; BATCH_SIZE] =
            std::array::from_fn(|_| room.next().expect("as many buffers as the batch has"));
        let received = self.state.recv((&self.socket).into(), &mut room, &mut down.meta);
        let Some(buffers) = some(received)? else { return Ok(()) };
        let mut count = 0;
        for (buffer, meta) in down.received.iter_mut().zip(&down.meta).take(buffers) {
            for datagram in buffer[..meta.len].chunks_mut(meta.stride.max(1)) {
                let Some(packet) = self.cipher.open(datagram) else { continue };
                let buffer = &mut down.packets[count];
                buffer.resize(VIRTIO_NET_HDR_LEN, 0);
                buffer.extend_from_slice(packet);
                count += 1;
                if count == down.packets.len() {
                    self.write(&mut down.table, &mut down.packets)?;
                    count = 0;
                }
            }
        }
        self.write(&mut down.table, &mut down.packets[..count])
    }

    fn write(&self, table: &mut GROTable, packets: &mut [Vec<u8>]) -> io::Result<()> {
        some(self.device.send_multiple(table, packets, VIRTIO_NET_HDR_LEN))?;
        Ok(())
    }
}
