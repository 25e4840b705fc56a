//! Derived traffic: the same from the same seed, in the mixtures that the figures are for.

use crate::chance::Chance;
use crate::packet::{ACK, FIN, Fields, Kind, PSH, SYN, Sums, header};
use crate::trace::Trace;

/// Bytes that a sender hands down at once: the last segment of each is short and has PSH.
const SEND: usize = 60_000;
/// Payload of a full segment behind an Ethernet MTU of 1500 and TCP timestamps.
pub const FULL: usize = 1448;

/// A trace that grows, and what its packets share.
struct Maker {
    trace: Trace,
    sums: Sums,
}

impl Maker {
    fn new(longest: usize, seed: u64) -> Self {
        let mut chance = Chance::new(seed);
        let payload: Vec<u8> = (0..longest).map(|_| chance.next() as u8).collect();
        Self { sums: Sums::of(&payload), trace: Trace::new(payload) }
    }

    fn push(&mut self, fields: &Fields, len: usize) {
        self.trace.push(&header(fields, len, self.sums.first(len)), len);
    }
}

/// One direction of a flow, and what it sends next.
#[derive(Debug, Clone)]
struct Flow {
    fields: Fields,
    /// Bytes left of the large send at work.
    left: usize,
}

impl Flow {
    fn new(kind: Kind, flow: u32) -> Self {
        let sequence = flow.wrapping_mul(0x9E37_79B9);
        let fields = Fields {
            kind,
            flow,
            back: false,
            id: sequence as u16,
            sequence,
            acknowledgment: 1,
            flags: ACK,
        };
        Self { fields, left: SEND }
    }

    /// A segment of `len` bytes.
    fn send(&mut self, to: &mut Maker, len: usize, flags: u8) {
        self.fields.flags = flags;
        to.push(&self.fields, len);
        let counted = len as u32 + u32::from(flags & (SYN | FIN) != 0);
        self.fields.id = self.fields.id.wrapping_add(1);
        self.fields.sequence = self.fields.sequence.wrapping_add(counted);
    }

    /// The next segment of at most `size` bytes of a stream of large sends.
    fn stream(&mut self, to: &mut Maker, size: usize) {
        if self.fields.kind == Kind::Udp4 {
            return self.send(to, size, ACK);
        }
        let len = size.min(self.left);
        self.left -= len;
        let last = self.left == 0;
        self.send(to, len, if last { ACK | PSH } else { ACK });
        if last {
            self.left = SEND;
        }
    }
}

/// `flows` flows of one kind in runs of `run` packets, as their senders' large sends arrive
/// interleaved.
pub fn runs(kind: Kind, flows: u32, run: usize, size: usize, packets: usize) -> Trace {
    let mut maker = Maker::new(size, 7);
    let mut senders: Vec<Flow> = (0..flows).map(|flow| Flow::new(kind, flow)).collect();
    while maker.trace.frames.len() < packets {
        for sender in &mut senders {
            (0..run).for_each(|_| sender.stream(&mut maker, size));
        }
    }
    maker.trace
}

/// A packet of each of `known` flows, which is not timed; then `flows` of them, far apart, send
/// `each` packets, `window` of them active at once; the flow of the next packet is random.
pub fn spread(known: u32, flows: u32, window: u32, each: usize) -> Trace {
    let mut maker = Maker::new(FULL, 7);
    let mut known: Vec<Flow> = (0..known).map(|flow| Flow::new(Kind::Tcp4, flow)).collect();
    known.iter_mut().for_each(|flow| flow.send(&mut maker, FULL, ACK | PSH));
    maker.trace.timed_from = known.len();
    let apart = known.len() / flows as usize;
    let mut coming = known.into_iter().step_by(apart).take(flows as usize).map(|f| (f, each));
    let mut chance = Chance::new(9);
    let mut open: Vec<(Flow, usize)> = coming.by_ref().take(window as usize).collect();
    while !open.is_empty() {
        let chosen = chance.below(open.len());
        let (flow, left) = &mut open[chosen];
        *left -= 1;
        flow.send(&mut maker, FULL, if *left == 0 { ACK | PSH } else { ACK });
        if *left > 0 {
            continue;
        }
        match coming.next() {
            Some(next) => open[chosen] = next,
            None => drop(open.swap_remove(chosen)),
        }
    }
    maker.trace
}

/// Frames of 64, 594 and 1518 bytes, 7 to 4 to 1 (check sequence included), of `flows` flows, a
/// third of them UDP, in short runs.
pub fn imix(flows: usize, packets: usize) -> Trace {
    let mut maker = Maker::new(1500, 7);
    let mut chance = Chance::new(11);
    let kind = |flow: usize| if flow.is_multiple_of(3) { Kind::Udp4 } else { Kind::Bare4 };
    let mut senders: Vec<Flow> =
        (0..flows).map(|flow| Flow::new(kind(flow), flow as u32)).collect();
    let mut chosen = 0;
    while maker.trace.frames.len() < packets {
        if chance.one_in(2) {
            chosen = chance.below(flows);
        }
        let datagram = match chance.below(12) {
            0..7 => 40,
            7..11 => 576,
            _ => 1500,
        };
        let sender = &mut senders[chosen];
        let headers = sender.fields.kind.ip_len() + sender.fields.kind.transport_len();
        sender.send(&mut maker, datagram - headers, ACK);
    }
    maker.trace
}

/// Requests and responses of `clients` connections at a time, both directions, as a host between
/// them sees it: handshake, one to eight requests, responses in trains of growing length, pure
/// acknowledgments, end.
pub fn web(clients: u32, packets: usize) -> Trace {
    let mut maker = Maker::new(FULL, 7);
    let mut chance = Chance::new(13);
    let mut open: Vec<Connection> = (0..clients).map(|n| Connection::new(n, &mut chance)).collect();
    let mut next = clients;
    while maker.trace.frames.len() < packets {
        let chosen = chance.below(open.len());
        if !open[chosen].step(&mut maker, &mut chance) {
            open[chosen] = Connection::new(next, &mut chance);
            next += 1;
        }
    }
    maker.trace
}

/// One connection between a client and a server.
struct Connection {
    client: Flow,
    server: Flow,
    open: bool,
    requests: usize,
    /// Bytes of the response at work that have not been sent.
    response: usize,
    /// Segments that the server sends before it waits (its congestion window).
    train: usize,
}

impl Connection {
    fn new(number: u32, chance: &mut Chance) -> Self {
        let client = Flow::new(Kind::Tcp4, number);
        let mut server = client.clone();
        server.fields.back = true;
        server.fields.sequence = client.fields.sequence.rotate_left(16) ^ 0x5555;
        let requests = chance.between(1, 8);
        Self { client, server, open: false, requests, response: 0, train: 10 }
    }

    /// The next packets, back to back; false once the connection has ended.
    fn step(&mut self, to: &mut Maker, chance: &mut Chance) -> bool {
        if !self.open {
            self.open = true;
            self.client(to, 0, SYN);
            self.server(to, 0, SYN | ACK);
            self.client(to, 0, ACK);
        } else if self.response > 0 {
            self.respond(to);
        } else if self.requests > 0 {
            self.requests -= 1;
            self.client(to, chance.between(150, FULL), ACK | PSH);
            self.server(to, 0, ACK);
            self.response = response_len(chance);
        } else {
            self.server(to, 0, FIN | ACK);
            self.client(to, 0, FIN | ACK);
            self.server(to, 0, ACK);
            return false;
        }
        true
    }

    /// One train of the response, and the acknowledgments of every second segment.
    fn respond(&mut self, to: &mut Maker) {
        let mut sent = 0;
        while self.response > 0 && sent < self.train {
            let len = self.response.min(FULL);
            self.response -= len;
            sent += 1;
            self.server(to, len, if self.response == 0 { ACK | PSH } else { ACK });
        }
        for _ in 0..sent.div_ceil(2) {
            self.client(to, 0, ACK);
        }
        self.train = (self.train * 2).min(44);
    }

    fn client(&mut self, to: &mut Maker, len: usize, flags: u8) {
        self.client.fields.acknowledgment = self.server.fields.sequence;
        self.client.send(to, len, flags);
    }

    fn server(&mut self, to: &mut Maker, len: usize, flags: u8) {
        self.server.fields.acknowledgment = self.client.fields.sequence;
        self.server.send(to, len, flags);
    }
}

/// Most responses are some thousand bytes, few are large: a power of two by chance from 512 B to
/// 512 KiB, small ones likelier, and chance below it.
fn response_len(chance: &mut Chance) -> usize {
    let power = chance.below(11).min(chance.below(11));
    let top = 512 << power;
    chance.between(top / 2, top)
}

/// Delays one packet in twenty behind one to `most` others.
pub fn reorder(trace: &mut Trace, most: usize) {
    let mut chance = Chance::new(17);
    let mut index = 0;
    while index + most < trace.frames.len() {
        if chance.one_in(20) {
            let by = chance.between(1, most);
            trace.frames[index..=index + by].rotate_left(1);
            index += by;
        }
        index += 1;
    }
}

/// Loses one packet in a hundred.
pub fn lose(trace: &mut Trace) {
    let mut chance = Chance::new(19);
    trace.frames.retain(|_| !chance.one_in(100));
}

/// A frame to be cut: headers before `len` bytes of payload, the last with PSH.
pub fn large(kind: Kind, flow: u32, len: usize) -> Vec<u8> {
    let mut fields = Flow::new(kind, flow).fields;
    fields.flags = ACK | PSH;
    let mut frame = header(&fields, len, 0);
    let mut chance = Chance::new(u64::from(flow));
    frame.extend((0..len).map(|_| chance.next() as u8));
    frame
}
