//! A tunnel in user space: what the kernel sends by a TUN device goes as UDP datagrams to a peer,
//! and what comes from there goes into the device. A VPN has encryption at the marked places.
//!
//! ```sh
//! tun DEVICE LOCAL PEER          # tun tun0 192.0.2.1:5000 192.0.2.2:5000
//! ip addr add 10.0.0.1/30 dev tun0; ip link set tun0 mtu 1400 up
//! ```
//!
//! The device gives and takes packets of up to 64 KiB with a virtio header before them. Those that
//! come from it are cut here, and the datagrams from the peer are merged here: the kernel handles
//! one packet where it would handle forty. docs/howto/library.md tells it step by step. The same is done
//! on the other side: one call gives the kernel up to 64 datagrams of one size, which stay together
//! until they leave the host (UDP GSO), and one call takes as many that came together (UDP GRO).

mod sys;

use linecard::offload::coalesce::{Coalescer, Config};
use linecard::offload::segment::segment;
use linecard::offload::virtio::{Endian, FieldError, Format, Header};
use linecard::offload::{complete_checksum, defer_checksum};
use linecard::packet::{BATCH, ChecksumState, Layout, LinkType, Meta, Packet, Piece};
use linecard::time::Instant;
use quinn_udp::{RecvMeta, Transmit, UdpSocketState};
use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::mem::take;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

/// With the number of buffers: what all kernels since 2.6.32 know.
const FORMAT: Format = Format::V1;
const HEADER_LEN: usize = FORMAT.header_len();
/// The header and the largest packet, from the device and from the peer.
const ROOM: usize = HEADER_LEN + 65_535;
/// Bytes of UDP payload that the kernel takes in one call, and gives.
const MAX_SEND: usize = 65_507;
/// Calls whose datagrams are merged together.
const CALLS: usize = 8;
/// Buffers kept for datagrams: a call gives at most 64.
const MAX_FREE: usize = 64 * CALLS;
/// Datagrams that wait while a batch is handled: 2 ms of 20 Gbit/s.
const BUFFER: libc::c_int = 5 << 20;
/// What one call may write has at most 1,024 slices (`IOV_MAX`): one for the virtio header.
const MAX_SEGMENTS: u16 = 1_023;

/// What was done, printed every second in which there was something.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Account {
    read: u64,
    sent: u64,
    received: u64,
    written: u64,
    dropped: u64,
}

struct Tunnel {
    device: sys::Tun,
    peer: Peer,
    coalescer: Coalescer<Vec<u8>>,
    arrived: Vec<Vec<u8>>,
    /// Buffers not in use: what has been written gives its own back.
    free: Vec<Vec<u8>>,
    /// A packet from the device, or the datagrams of one call from the peer.
    large: Vec<u8>,
    /// Segments one behind the other.
    segments: Vec<u8>,
    account: Account,
}

/// The socket, and what the kernel offers with it.
struct Peer {
    socket: UdpSocket,
    state: UdpSocketState,
    address: SocketAddr,
}

fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [device, local, peer] = &arguments[..] else {
        return Err(io::Error::new(ErrorKind::InvalidInput, "usage: tun DEVICE LOCAL PEER"));
    };
    let address = |text: &str| text.parse::<SocketAddr>().map_err(io::Error::other);
    let peer = Peer::new(address(local)?, address(peer)?)?;
    let mut tunnel = Tunnel::new(sys::Tun::new(device, HEADER_LEN)?, peer);
    tunnel.run()
}

impl Peer {
    fn new(local: SocketAddr, address: SocketAddr) -> io::Result<Self> {
        let socket = UdpSocket::bind(local)?;
        socket.connect(address)?;
        sys::enlarge_buffers(&socket, BUFFER)?;
        // It makes the socket non-blocking and asks for UDP GRO.
        let state = UdpSocketState::new((&socket).into())?;
        Ok(Self { socket, state, address })
    }

    /// Sends `frames`, of `size` bytes each but for the last; gives how many were lost to a full
    /// socket, which drops as a full queue does.
    fn send(&self, frames: &[u8], size: usize) -> u64 {
        // (Encrypt here, frame by frame.)
        let at_once = self.state.max_gso_segments().min(MAX_SEND / size).max(1) * size;
        let mut lost = 0;
        for contents in frames.chunks(at_once) {
            let segment_size = (contents.len() > size).then_some(size);
            let destination = self.address;
            let all = Transmit { destination, ecn: None, contents, segment_size, src_ip: None };
            if self.state.try_send((&self.socket).into(), &all).is_err() {
                lost += contents.len().div_ceil(size) as u64;
            }
        }
        lost
    }

    /// Takes datagrams that came together into `room`: bytes, and bytes of each but for the last.
    fn receive(&self, room: &mut [u8]) -> io::Result<(usize, usize)> {
        let mut meta = [RecvMeta::default()];
        self.state.recv((&self.socket).into(), &mut [IoSliceMut::new(room)], &mut meta)?;
        Ok((meta[0].len, meta[0].stride.max(1)))
    }
}

impl Tunnel {
    fn new(device: sys::Tun, peer: Peer) -> Self {
        let config = Config {
            // Nobody waits behind an empty socket: what has come is written at once. To merge
            // across wake-ups, leave this out and call `advance` at `next_wakeup`.
            flush_at_batch_end: true,
            max_segments: MAX_SEGMENTS,
            secret: sys::random(),
            ..Config::default()
        };
        Self {
            device,
            peer,
            coalescer: Coalescer::new(config),
            arrived: Vec::new(),
            free: Vec::new(),
            large: vec![0; ROOM],
            segments: Vec::new(),
            account: Account::default(),
        }
    }

    fn run(&mut self) -> io::Result<()> {
        let (start, mut told, mut seconds) = (std::time::Instant::now(), self.account, 0);
        loop {
            sys::wait(&self.device, &self.peer.socket, Duration::from_secs(1))?;
            let second = start.elapsed().as_secs();
            if second != std::mem::replace(&mut seconds, second) && told != self.account {
                told = self.account;
                eprintln!("tun: {told:?}");
            }
            self.take_from_device()?;
            // Time is an argument: one look at the clock for a whole batch.
            let now = Instant::from_ns(start.elapsed().as_nanos() as u64);
            self.take_from_peer(now)?;
        }
    }

    /// Takes packets from the device until there is none, at most a batch.
    fn take_from_device(&mut self) -> io::Result<()> {
        let mut large = take(&mut self.large);
        for _ in 0..BATCH {
            let len = match self.device.file().read(&mut large) {
                Ok(len) => len,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            };
            self.account.read += 1;
            if self.cut(&mut large[..len]).is_err() {
                self.account.dropped += 1;
            }
        }
        self.large = large;
        Ok(())
    }

    /// Sends a packet behind its virtio header, cut if that says so, with complete checksums.
    fn cut(&mut self, bytes: &mut [u8]) -> Result<(), FieldError> {
        let Some(header) = Header::read(bytes, FORMAT, Endian::Little) else { return Ok(()) };
        let frame = &mut bytes[HEADER_LEN..];
        let layout = Layout::parse(LinkType::Raw, frame);
        let offload = match header.check(frame, &layout) {
            Ok(offload) => offload,
            // A checksum in a tunnel that is not followed: computed without a look at protocols.
            Err(FieldError::CsumStart(_)) if header.gso_type == 0 => {
                header.complete_checksum(frame)?;
                Default::default()
            }
            Err(error) => return Err(error),
        };
        // "Unknown" makes the segmenter compute all checksums.
        let mut packet = Packet::with_layout(&mut *frame, LinkType::Raw, layout, Meta::default());
        let Some(gso) = offload.gso else {
            if offload.checksum == ChecksumState::Partial {
                complete_checksum(&mut packet);
            }
            self.send(packet.bytes(), packet.bytes().len());
            return Ok(());
        };
        // It was checked, and cannot fail any more.
        let Ok(mut segments) = segment(&packet, gso) else { return Ok(()) };
        let (mut room, mut size, mut end) = (take(&mut self.segments), 0, 0);
        room.resize(room.len().max(segments.count() * segments.max_len()), 0);
        while let Ok(Some(written)) = segments.write_next(&mut room[end..]) {
            // All have one length, but for the last, and so can leave together.
            size = written.len.max(size);
            end += written.len;
        }
        self.send(&room[..end], size);
        self.segments = room;
        Ok(())
    }

    fn send(&mut self, frames: &[u8], size: usize) {
        let lost = self.peer.send(frames, size);
        self.account.sent += frames.len().div_ceil(size) as u64 - lost;
        self.account.dropped += lost;
    }

    /// Takes datagrams from the peer until there is none, in a few calls, and merges them.
    fn take_from_peer(&mut self, now: Instant) -> io::Result<()> {
        for _ in 0..CALLS {
            // An error may also be that of a datagram sent before: nobody listens yet.
            let Ok((len, size)) = self.peer.receive(&mut self.large) else { break };
            for datagram in self.large[..len].chunks(size) {
                // (Decrypt here.) The copy lets each packet keep its own as long as it is held.
                let mut buffer = self.free.pop().unwrap_or_default();
                buffer.clear();
                buffer.extend_from_slice(datagram);
                self.account.received += 1;
                self.arrived.push(buffer);
            }
        }
        // Nothing is known of the checksums: they are verified before packets merge.
        let meta = Meta { timestamp: now, ..Meta::default() };
        let mut out = Vec::with_capacity(BATCH);
        let (arrived, source) = (&mut self.arrived, (LinkType::Raw, meta));
        self.coalescer.push_frames(arrived, source, now, &mut |packet, _| out.push(packet));
        for packet in out {
            self.write(packet)?;
        }
        Ok(())
    }

    /// Writes a packet to the device: merged ones whole where a virtio header can say so.
    fn write(&mut self, mut packet: Packet<Vec<u8>>) -> io::Result<()> {
        if packet.is_merged() {
            // All that merged was verified, and the kernel takes large packets only so.
            defer_checksum(&mut packet);
        }
        match describe(&packet) {
            Some(header) => {
                // Behind the datagram of a merged packet is the padding of a short frame.
                let end = if packet.is_merged() { packet.layout().end() } else { ROOM };
                let first = &packet.bytes()[..end.min(packet.bytes().len())];
                let pieces = packet.chain().iter().map(Piece::bytes);
                self.account.written += 1;
                write_frame(&self.device, [&header[..], first].into_iter().chain(pieces))?;
            }
            // One by one: with CWR on all of them, say.
            None => self.write_segments(&mut packet)?,
        }
        let (buffer, mut chain) = packet.into_parts();
        self.free.push(buffer);
        self.free.extend(chain.drain(..).map(Piece::into_buffer));
        self.free.truncate(MAX_FREE);
        // The list goes back, so that the next merged packet needs no memory.
        self.coalescer.recycle(chain);
        Ok(())
    }

    fn write_segments(&mut self, packet: &mut Packet<Vec<u8>>) -> io::Result<()> {
        packet.meta.checksum = ChecksumState::Unknown;
        let gso = packet.meta.gso.unwrap_or_default();
        let Ok(mut segments) = segment(packet, gso) else { return Ok(()) };
        self.segments.resize(self.segments.len().max(segments.max_len()), 0);
        while let Ok(Some(written)) = segments.write_next(&mut self.segments) {
            self.account.written += 1;
            let frame = &self.segments[..written.len];
            write_frame(&self.device, [&[0; HEADER_LEN][..], frame].into_iter())?;
        }
        Ok(())
    }
}

fn describe(packet: &Packet<Vec<u8>>) -> Option<[u8; HEADER_LEN]> {
    let mut bytes = [0; HEADER_LEN];
    Header::of(packet).ok()?.write(&mut bytes, FORMAT, Endian::Little)?;
    Some(bytes)
}

fn write_frame<'a>(device: &sys::Tun, slices: impl Iterator<Item = &'a [u8]>) -> io::Result<()> {
    let slices: Vec<_> = slices.map(IoSlice::new).collect();
    match device.file().write_vectored(&slices) {
        // The device is down, or the kernel does not want this packet: it is lost, as on a wire.
        Err(error) if matches!(error.raw_os_error(), Some(libc::EIO | libc::EINVAL)) => Ok(()),
        other => other.map(drop),
    }
}
