//! Generated traffic: applications that send large packets ([`Application`]), and a sink that checks every byte of
//! what arrives ([`Verify`]).

mod stream;
mod verify;

use linecard::packet::header::{self, Ipv4, Ipv6, Tcp, protocol, tcp_flags};
use linecard::packet::{Batch, Gso, LinkType, Meta, Packet, Pool, PoolBuffer};
use linecard::port::{Port, PortState};
use linecard::time::Instant;
use stream::{MAX_RUN, Stream};
pub use verify::{Verify, VerifyCounters};

/// Ethernet header.
const LINK_LEN: usize = 14;
/// TCP header with the timestamp option and two bytes of padding before it (RFC 7323).
const TCP_LEN: usize = 32;
/// Source port of flow 0; flow numbers are added.
const FIRST_PORT: u16 = 10_000;
/// Flows per address pair.
const PORTS: usize = 50_000;

/// IP version of generated traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Family {
    /// IPv4.
    #[default]
    V4,
    /// IPv6.
    V6,
}

impl Family {
    fn network_len(self) -> usize {
        match self {
            Self::V4 => Ipv4::LEN,
            Self::V6 => Ipv6::LEN,
        }
    }

    fn header_len(self) -> usize {
        LINK_LEN + self.network_len() + TCP_LEN
    }
}

/// The traffic that applications send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Workload {
    /// Number of flows, which send in turn.
    pub flows: usize,
    /// Number of the first flow.
    pub first_flow: usize,
    /// Increment of flow numbers: with lanes, each takes every n-th flow.
    pub flow_step: usize,
    /// Bytes of one send.
    pub send_len: usize,
    /// Largest IP packet on the wire, in bytes.
    pub mtu: usize,
    /// IP version.
    pub family: Family,
    /// Seed of the data sent.
    pub seed: u64,
}

impl Workload {
    /// Payload bytes of a full segment; 0 if the MTU has no room for any.
    #[must_use]
    pub fn segment_size(&self) -> usize {
        self.mtu.saturating_sub(self.family.network_len() + TCP_LEN)
    }

    /// Bytes of a buffer for a large packet.
    #[must_use]
    pub fn packet_len(&self) -> usize {
        self.family.header_len() + self.max_payload()
    }

    /// Payload of the largest packet handed to the segmenter: whole segments within the 65,535
    /// bytes that an IP packet may have.
    fn max_payload(&self) -> usize {
        let room = 65_535 - self.family.network_len() - TCP_LEN;
        let size = self.segment_size().max(1);
        (room / size * size).min(MAX_RUN)
    }
}

/// A port that emits large sends: TCP packets of up to 64 KiB with a segment size.
#[derive(Debug)]
pub struct Application {
    workload: Workload,
    stream: Stream,
    pool: Pool,
    flows: Vec<Sender>,
    turn: usize,
    stopped: bool,
    sent: u64,
}

#[derive(Debug, Clone, Default)]
struct Sender {
    offset: u64,
    /// Bytes left of the current send.
    left: usize,
    id: u16,
}

impl Application {
    /// Applications that take buffers of [`Workload::packet_len`] bytes from `pool`.
    #[must_use]
    pub fn new(workload: Workload, pool: Pool) -> Self {
        Self {
            stream: Stream::new(workload.seed),
            flows: vec![Sender::default(); workload.flows],
            workload,
            pool,
            turn: 0,
            stopped: false,
            sent: 0,
        }
    }

    /// Ends sending.
    pub fn stop(&mut self) {
        self.stopped = true;
    }

    /// Payload bytes sent so far.
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// The next packet of the current flow.
    fn next_packet<B: AsRef<[u8]> + From<PoolBuffer>>(
        &mut self,
        now: Instant,
    ) -> Option<Packet<B>> {
        let mut buffer = self.pool.take()?;
        let flow = self.workload.first_flow + self.turn * self.workload.flow_step;
        let sender = &mut self.flows[self.turn];
        if sender.left == 0 {
            sender.left = self.workload.send_len;
        }
        let len = sender.left.min(self.workload.max_payload());
        sender.left -= len;
        let header_len = self.workload.family.header_len();
        let bytes = buffer.as_mut();
        write_header(bytes, flow, sender, len, self.workload.family);
        let data = self.stream.bytes(flow, sender.offset, len);
        bytes[header_len..header_len + len].copy_from_slice(data);
        buffer.truncate(header_len + len);
        let size = self.workload.segment_size();
        let segments = len.div_ceil(size) as u16;
        sender.offset += len as u64;
        sender.id = sender.id.wrapping_add(segments);
        self.sent += len as u64;
        if sender.left == 0 {
            self.turn = (self.turn + 1) % self.flows.len();
        }
        let gso = Some(Gso { size: size as u16, segments, ..Gso::default() });
        let meta = Meta { timestamp: now, gso, ..Meta::default() };
        Some(Packet::new(buffer.into(), LinkType::Ethernet, meta))
    }
}

impl<B: AsRef<[u8]> + From<PoolBuffer>> Port<B> for Application {
    fn receive(&mut self, batch: &mut Batch<B>, now: Instant) -> PortState {
        while !self.stopped && batch.room() > 0 {
            let Some(packet) = self.next_packet(now) else { break };
            let _fits = batch.push(packet);
        }
        if self.stopped { PortState::Ended } else { PortState::Open }
    }

    /// These applications only send; received packets are dropped.
    fn transmit(&mut self, batch: &mut Batch<B>, _now: Instant) {
        batch.drain().for_each(drop);
    }
}

/// The flow number of a packet, by its addresses and ports.
fn flow_number(bytes: &[u8], network: usize, transport: usize) -> usize {
    let low = if bytes[network] >> 4 == 4 { network + 14 } else { network + 22 };
    let pair = usize::from(u16::from_be_bytes([bytes[low], bytes[low + 1]]));
    let port = usize::from(header::at::<Tcp>(bytes, transport).source);
    pair * PORTS + port.wrapping_sub(FIRST_PORT.into())
}

/// Link, network and TCP header; the segmenter computes checksums.
fn write_header(bytes: &mut [u8], flow: usize, sender: &Sender, len: usize, family: Family) {
    let transport = LINK_LEN + family.network_len();
    bytes[..12].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1]);
    let pair = ((flow / PORTS) as u16).to_be_bytes();
    match family {
        Family::V4 => {
            bytes[12..LINK_LEN].copy_from_slice(&[0x08, 0x00]);
            let ip = Ipv4 {
                version_ihl: 0x45,
                tos: 0,
                total_len: (Ipv4::LEN + TCP_LEN + len) as u16,
                id: sender.id,
                flags_fragment: header::IPV4_DF,
                ttl: 64,
                protocol: protocol::TCP,
                checksum: 0,
                source: [10, 0, pair[0], pair[1]],
                destination: [10, 1, pair[0], pair[1]],
            };
            header::put(bytes, LINK_LEN, &ip);
        }
        Family::V6 => {
            bytes[12..LINK_LEN].copy_from_slice(&[0x86, 0xDD]);
            let address =
                |side: u8| [0xFD, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, side, pair[0], pair[1]];
            let ip = Ipv6 {
                version_class_label: 0x6000_0000,
                payload_len: (TCP_LEN + len) as u16,
                next_header: protocol::TCP,
                hop_limit: 64,
                source: address(0),
                destination: address(1),
            };
            header::put(bytes, LINK_LEN, &ip);
        }
    }
    write_tcp(&mut bytes[transport..transport + TCP_LEN], flow, sender);
}

fn write_tcp(bytes: &mut [u8], flow: usize, sender: &Sender) {
    const ACK: u16 = 0x0010;
    let last = if sender.left == 0 { tcp_flags::PSH } else { 0 };
    let words = (TCP_LEN / 4) as u16;
    let tcp = Tcp {
        source: FIRST_PORT + (flow % PORTS) as u16,
        destination: 5_001,
        // Streams are longer than sequence numbers, which wrap.
        sequence: sender.offset as u32,
        acknowledgment: 1,
        offset_flags: words << 12 | ACK | last,
        window: 512,
        checksum: 0,
        urgent: 0,
    };
    header::put(bytes, 0, &tcp);
    bytes[Tcp::LEN..].copy_from_slice(&[1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 1]);
}
