//! Derived traffic: what Linux sends, field by field, in the mixtures that the figures are for.

use super::trace::Trace;
use linecard::packet::LinkType;
use linecard::packet::checksum::reference_sum;
use linecard::rng::Rng;

/// Bytes that a sender hands down at once: the last segment of each is short and has PSH.
const SEND: usize = 60_000;
const PSH: u8 = 0x08;
const ACK: u8 = 0x10;

/// Addresses and protocol of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Tcp4,
    Tcp6,
    /// TCP over IPv4 without options.
    Bare4,
    Udp4,
    /// TCP over IPv4 over Ethernet in VXLAN over IPv4.
    Vxlan,
}

/// One sender and what it sends next.
#[derive(Debug)]
struct Flow {
    kind: Kind,
    number: u32,
    id: u16,
    sequence: u32,
    /// Bytes left of the large send at work.
    left: usize,
}

impl Flow {
    fn new(kind: Kind, number: u32) -> Self {
        let sequence = number.wrapping_mul(0x9E37_79B9);
        Self { kind, number, id: sequence as u16, sequence, left: SEND }
    }

    /// The next segment of at most `size` bytes; `last` ends the large send.
    fn send(&mut self, trace: &mut Trace, sums: &[u16], size: usize, last: bool) {
        let len = if self.kind == Kind::Udp4 { size } else { size.min(self.left) };
        self.left -= len.min(self.left);
        let push = last || self.left == 0;
        let header = self.header(len, if push { ACK | PSH } else { ACK }, sums[len]);
        trace.push(&header, len);
        self.id = self.id.wrapping_add(1);
        self.sequence = self.sequence.wrapping_add(len as u32);
        if push {
            self.left = SEND;
        }
    }

    fn header(&self, payload_len: usize, flags: u8, payload_sum: u16) -> Vec<u8> {
        let mut transport = self.transport(payload_len, flags);
        let transport_len = transport.len() + payload_len;
        let (ip, addresses, number) = self.network(transport_len);
        let pseudo = [addresses, vec![0, number], (transport_len as u16).to_be_bytes().to_vec()];
        let parts = [reference_sum(&pseudo.concat()), reference_sum(&transport), payload_sum];
        let checksum = complement(&parts).to_be_bytes();
        let field = if self.kind == Kind::Udp4 { 6 } else { 16 };
        // UDP sends 0xFFFF for 0 (RFC 768).
        let no_sum = self.kind == Kind::Udp4 && checksum == [0, 0];
        transport[field..field + 2].copy_from_slice(if no_sum { &[0xFF; 2] } else { &checksum });
        let ethertype = if self.kind == Kind::Tcp6 { [0x86, 0xDD] } else { [8, 0] };
        let link = [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
        let mut header = if self.kind == Kind::Vxlan {
            self.outer(14 + ip.len() + transport_len)
        } else {
            Vec::new()
        };
        [&link[..], &ethertype, &ip, &transport].iter().for_each(|part| header.extend(*part));
        header
    }

    /// Headers in front of an Ethernet frame of `len` bytes in VXLAN (RFC 7348), without a UDP
    /// checksum, as senders have it.
    fn outer(&self, len: usize) -> Vec<u8> {
        let outer = Self { kind: Kind::Udp4, ..*self };
        let (ip, _, _) = outer.network(16 + len);
        let mut udp = vec![0xC0, 1, 0x12, 0xB5, 0, 0, 0, 0];
        udp[4..6].copy_from_slice(&(16 + len as u16).to_be_bytes());
        let vxlan = [8, 0, 0, 0, 0, 0, 7, 0];
        [&[2, 0, 0, 0, 0, 4, 2, 0, 0, 0, 0, 3, 8, 0][..], &ip, &udp, &vxlan].concat()
    }

    /// IP header, its addresses, and the protocol number.
    fn network(&self, transport_len: usize) -> (Vec<u8>, Vec<u8>, u8) {
        let [a, b, c, d] = self.number.to_be_bytes();
        if self.kind == Kind::Tcp6 {
            let mut ip = vec![0x60, 0, 0, d];
            ip.extend((transport_len as u16).to_be_bytes());
            ip.extend([6, 64, 0x20, 1, 0x0D, 0xB8, 0, 0, 0, 0, 0, 0, 0, 0, a, b, c, d]);
            ip.extend([0x20, 1, 0x0D, 0xB8, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1]);
            let addresses = ip[8..].to_vec();
            return (ip, addresses, 6);
        }
        let number = if self.kind == Kind::Udp4 { 17 } else { 6 };
        let [len, id] = [(transport_len + 20) as u16, self.id].map(u16::to_be_bytes);
        let addresses = vec![10, b, c, d, 192, 0, 2, 1];
        let mut ip = vec![0x45, 0, len[0], len[1], id[0], id[1], 0x40, 0, 64, number, 0, 0];
        ip.extend(&addresses);
        let checksum = complement(&[reference_sum(&ip)]).to_be_bytes();
        ip[10..12].copy_from_slice(&checksum);
        (ip, addresses, number)
    }

    /// TCP, with the timestamp option as Linux writes it unless it is bare, or UDP; checksum zero.
    fn transport(&self, payload_len: usize, flags: u8) -> Vec<u8> {
        let port = (40_000 + (self.number % 20_000) as u16).to_be_bytes();
        let mut bytes = vec![port[0], port[1], 0x14, 0x51];
        if self.kind == Kind::Udp4 {
            bytes.extend((payload_len as u16 + 8).to_be_bytes());
            bytes.extend([0, 0]);
            return bytes;
        }
        bytes.extend(self.sequence.to_be_bytes());
        let bare = self.kind == Kind::Bare4;
        bytes.extend([0, 0, 0, 1, if bare { 0x50 } else { 0x80 }, flags, 1, 0xF5, 0, 0, 0, 0]);
        if !bare {
            bytes.extend([1, 1, 8, 10, 1, 2, 3, 4, 5, 6, 7, 8]);
        }
        bytes
    }
}

fn complement(sums: &[u16]) -> u16 {
    let sum: u32 = sums.iter().map(|sum| u32::from(*sum)).sum();
    let sum = (sum & 0xFFFF) + (sum >> 16);
    !(((sum & 0xFFFF) + (sum >> 16)) as u16)
}

/// Random payload and the sum of every even-numbered prefix that is used.
fn payload(lens: &[usize]) -> (Vec<u8>, Vec<u16>) {
    let longest = lens.iter().copied().max().unwrap_or(0);
    let mut bytes = vec![0; longest];
    Rng::new(7).fill(&mut bytes);
    let mut sums = vec![0; longest + 1];
    for len in lens {
        sums[*len] = reference_sum(&bytes[..*len]);
    }
    (bytes, sums)
}

/// `flows` flows of one kind in runs of `run` packets, as their senders' large sends arrive
/// interleaved; at least `packets` packets of `size` bytes of payload.
pub(crate) fn runs(
    name: &str,
    kind: Kind,
    (flows, run): (u32, usize),
    (size, packets): (usize, usize),
) -> Trace {
    let (payload, sums) = payload(&[size, SEND % size]);
    let mut trace = Trace::new(name, LinkType::Ethernet, payload);
    let mut senders: Vec<Flow> = (0..flows).map(|number| Flow::new(kind, number)).collect();
    while trace.len() < packets {
        for sender in &mut senders {
            for _ in 0..run {
                sender.send(&mut trace, &sums, size, false);
            }
        }
    }
    trace
}

/// `flows` flows, each of which sends `each` packets of 1448 bytes; `window` of them are under
/// way at once, and whose packet comes next is chance: bursts see as many flows as packets.
pub(crate) fn spread(name: &str, flows: u32, window: u32, each: usize) -> Trace {
    let (payload, sums) = payload(&[1448]);
    let mut trace = Trace::new(name, LinkType::Ethernet, payload);
    let mut rng = Rng::new(9);
    let mut next = window.min(flows);
    let mut open: Vec<(Flow, usize)> =
        (0..next).map(|number| (Flow::new(Kind::Tcp4, number), each)).collect();
    while !open.is_empty() {
        let chosen = rng.below(open.len() as u64) as usize;
        let (flow, left) = &mut open[chosen];
        *left -= 1;
        flow.send(&mut trace, &sums, 1448, *left == 0);
        if *left > 0 {
            continue;
        }
        if next < flows {
            open[chosen] = (Flow::new(Kind::Tcp4, next), each);
            next += 1;
        } else {
            open.swap_remove(chosen);
        }
    }
    trace
}

/// 64 flows as those of [`runs`], and `percent` of a hundred packets of `flows` flows that send one
/// short packet now and then, always the same.
pub(crate) fn hostile((percent, flows): (usize, usize), packets: usize) -> Trace {
    const SHORT: usize = 18;
    let (payload, sums) = payload(&[1448, SEND % 1448, SHORT]);
    let mut trace = Trace::new(format!("{percent} % hostile"), LinkType::Ethernet, payload);
    let mut senders: Vec<Flow> = (0..64).map(|number| Flow::new(Kind::Tcp4, number)).collect();
    let (mut sent, mut attacks) = (0, 0);
    for number in 0..packets {
        // Spread as evenly as whole packets allow.
        if number * percent % 100 >= 100 - percent {
            let kind = [Kind::Tcp4, Kind::Udp4, Kind::Tcp6, Kind::Vxlan][attacks % flows % 4];
            let mut flow = Flow::new(kind, (1 << 20) + (attacks % flows) as u32);
            flow.send(&mut trace, &sums, SHORT, false);
            attacks += 1;
        } else {
            senders[sent / 16 % 64].send(&mut trace, &sums, 1448, false);
            sent += 1;
        }
    }
    trace
}

/// Datagrams of 40, 576 and 1500 bytes, 7 to 4 to 1, of a thousand flows, a third of them UDP, in short runs.
pub(crate) fn imix(packets: usize) -> Trace {
    const LENS: [[usize; 3]; 2] = [[0, 536, 1460], [12, 548, 1472]];
    let (payload, sums) = payload(&LENS.concat());
    let mut trace = Trace::new("IMIX", LinkType::Ethernet, payload);
    let mut rng = Rng::new(11);
    let kind = |flow: u32| if flow.is_multiple_of(3) { Kind::Udp4 } else { Kind::Bare4 };
    let mut senders: Vec<Flow> = (0..1_000).map(|flow| Flow::new(kind(flow), flow)).collect();
    let mut chosen = 0;
    while trace.len() < packets {
        if rng.chance(0.5) {
            chosen = rng.below(1_000) as usize;
        }
        let sender = &mut senders[chosen];
        let lens = LENS[usize::from(sender.kind == Kind::Udp4)];
        let len = lens[[0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2][rng.below(12) as usize]];
        sender.left = SEND;
        sender.send(&mut trace, &sums, len, false);
    }
    trace
}

/// Requests of 400 clients, their answers of 1 to 12 segments, and an acknowledgment of every second one.
pub(crate) fn web(packets: usize) -> Trace {
    const REQUEST: usize = 300;
    let (payload, sums) = payload(&[0, REQUEST, 1448]);
    let mut trace = Trace::new("web", LinkType::Ethernet, payload);
    let mut rng = Rng::new(13);
    let mut flows: Vec<Flow> = (0..800).map(|flow| Flow::new(Kind::Tcp4, flow)).collect();
    while trace.len() < packets {
        let client = 2 * rng.below(400) as usize;
        let segments = 1 + rng.below(12) as usize;
        flows[client].send(&mut trace, &sums, REQUEST, true);
        for number in 1..=segments {
            flows[client + 1].send(&mut trace, &sums, 1448, number == segments);
        }
        (0..segments.div_ceil(2)).for_each(|_| flows[client].send(&mut trace, &sums, 0, false));
    }
    trace
}

/// A frame to be cut: headers of `kind` before `len` bytes of payload, checksum not computed.
pub(crate) fn large(kind: Kind, number: u32, len: usize) -> Vec<u8> {
    let mut frame = Flow::new(kind, number).header(len, ACK | PSH, 0);
    let start = frame.len();
    frame.resize(start + len, 0);
    Rng::new(u64::from(number)).fill(&mut frame[start..]);
    frame
}
