//! WireGuard by boringtun as a library, with UDP GSO and GRO by quinn-udp. The device has no offloads: one read
//! or write for each packet.

use boringtun::noise::{Tunn, TunnResult};
use boringtun::x25519::{PublicKey, StaticSecret};
use linecard_peers_tunnel::{Arguments, MTU, ready, some, wait};
use quinn_udp::{BATCH_SIZE, RecvMeta, Transmit, UdpSocketState};
use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};
use tun_rs::{DeviceBuilder, SyncDevice};

/// Room for every message: a packet has 32 more bytes, a handshake is no longer than 148.
const ROOM: usize = MTU + 256;
/// Bytes of the longest batch of datagrams that is received.
const LARGE: usize = 65_536;
/// Bytes that one call sends: the longest IPv4 packet without its headers.
const MAX_SENT: usize = 65_507;
/// How often boringtun wants to see its timers.
const TICK: Duration = Duration::from_millis(250);

struct Tunnel {
    tunnel: Tunn,
    device: SyncDevice,
    socket: UdpSocket,
    state: UdpSocketState,
    peer: SocketAddr,
    /// A packet as read or decrypted.
    packet: [u8; ROOM],
    run: Run,
}

/// Datagrams of one size, of which the last may be shorter, one behind the other.
struct Run {
    room: Vec<u8>,
    start: usize,
    end: usize,
    size: usize,
    count: usize,
}

fn main() -> io::Result<()> {
    let Arguments { device, socket, local, peer, .. } = Arguments::parse()?;
    let device = DeviceBuilder::new().name(device).build_sync()?;
    device.set_nonblocking(true)?;
    let [own, other] = if local < peer { [1, 2] } else { [2, 1] };
    let secret = |number: u8| StaticSecret::from([number; 32]);
    let public = PublicKey::from(&secret(other));
    let mut tunnel = Tunnel {
        tunnel: Tunn::new(secret(own), public, None, None, own.into(), None),
        device,
        state: UdpSocketState::new((&socket).into())?,
        socket,
        peer,
        packet: [0; ROOM],
        run: Run { room: vec![0; 2 * LARGE], start: 0, end: 0, size: 0, count: 0 },
    };
    let mut received = vec![vec![0; LARGE]; BATCH_SIZE];
    let mut next_tick = Instant::now();
    ready();
    loop {
        let [up, down] = wait(&tunnel.device, &tunnel.socket, Some(TICK))?;
        tunnel.send(up)?;
        if down > 0 {
            tunnel.receive(&mut received)?;
        }
        if Instant::now() >= next_tick {
            let timers = tunnel.tunnel.update_timers(&mut tunnel.packet);
            if let TunnResult::WriteToNetwork(datagram) = timers {
                some(tunnel.socket.send(datagram))?;
            }
            next_tick = Instant::now() + TICK;
        }
    }
}

impl Tunnel {
    fn send(&mut self, count: usize) -> io::Result<()> {
        for _ in 0..count {
            let Some(len) = some(self.device.recv(&mut self.packet))? else { break };
            let room = &mut self.run.room[self.run.end..];
            let result = self.tunnel.encapsulate(&self.packet[..len], room);
            let TunnResult::WriteToNetwork(datagram) = result else { continue };
            let len = datagram.len();
            self.append(len)?;
        }
        self.flush()
    }

    /// Appends the datagram that lies behind the run, and sends what it cannot be appended to.
    fn append(&mut self, len: usize) -> io::Result<()> {
        let run = &self.run;
        let is_closed = !(run.end - run.start).is_multiple_of(run.size);
        let is_full =
            run.count == self.state.max_gso_segments() || run.end - run.start + len > MAX_SENT;
        if run.count > 0 && (is_closed || is_full || len > run.size) {
            self.send_run()?;
            self.run.start = self.run.end;
            self.run.count = 0;
        }
        if self.run.count == 0 {
            self.run.size = len;
        }
        self.run.end += len;
        self.run.count += 1;
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.run.count > 0 {
            self.send_run()?;
        }
        (self.run.start, self.run.end, self.run.count) = (0, 0, 0);
        Ok(())
    }

    fn send_run(&self) -> io::Result<()> {
        let contents = &self.run.room[self.run.start..self.run.end];
        let (destination, segment_size) = (self.peer, Some(self.run.size));
        let run = Transmit { destination, contents, segment_size, ecn: None, src_ip: None };
        some(self.state.try_send((&self.socket).into(), &run))?;
        Ok(())
    }

    fn receive(&mut self, buffers: &mut [Vec<u8>]) -> io::Result<()> {
        let mut room = buffers.iter_mut().map(|buffer| IoSliceMut::new(buffer));
        let mut room: [_; BATCH_SIZE] =
            std::array::from_fn(|_| room.next().expect("as many buffers as the batch has"));
        let mut meta = [RecvMeta::default(); BATCH_SIZE];
        let received = self.state.recv((&self.socket).into(), &mut room, &mut meta);
        let Some(count) = some(received)? else { return Ok(()) };
        for (buffer, meta) in buffers.iter().zip(&meta).take(count) {
            for datagram in buffer[..meta.len].chunks(meta.stride.max(1)) {
                let mut again = self.accept(datagram)?;
                // After a handshake, what waited for it.
                while again {
                    again = self.accept(&[])?;
                }
            }
        }
        Ok(())
    }

    /// One datagram of the peer; whether the library has to be asked again.
    fn accept(&mut self, datagram: &[u8]) -> io::Result<bool> {
        match self.tunnel.decapsulate(None, datagram, &mut self.packet) {
            TunnResult::WriteToNetwork(datagram) => Ok(some(self.socket.send(datagram))?.is_some()),
            TunnResult::WriteToTunnelV4(packet, _) | TunnResult::WriteToTunnelV6(packet, _) => {
                some(self.device.send(packet))?;
                Ok(false)
            }
            TunnResult::Done | TunnResult::Err(_) => Ok(false),
        }
    }
}
