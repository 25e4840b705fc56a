//! The merge twin: a list of flows that is searched from the front, whole frames, everything
//! computed from scratch when a merged packet leaves.

use super::frame::{self, CWR, FIN, PSH, RST, SYN, UDP, URG, be16, be32, put16, sum16};
use super::plain::{self, View};
use super::traffic::Arrival;
use linecard::offload::coalesce::{ChecksumPolicy, Config, Creation, Flush};
use linecard::packet::{ChecksumState, Form, Gso, LayerKind, LinkType, Meta};
use linecard::time::ns;
use std::ops::Range;

/// Average intervals without an arrival after which a flow is idle (Li, Chen, Su, IV.E).
const IDLE_INTERVALS: u64 = 10;

/// Output: the packets in it by their number of arrival, and the frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Out {
    pub packets: Vec<usize>,
    pub frame: Vec<u8>,
    pub gso: Option<Gso>,
    /// Why it was flushed; none when it was never held.
    pub flush: Option<Flush>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Full,
    Partial,
    None,
}

#[derive(Debug)]
struct Held {
    number: usize,
    frame: Vec<u8>,
    view: View,
    meta: Meta,
    /// None if its checksums keep it from merging, which is found when another packet is to join it.
    kind: Option<Kind>,
}

#[derive(Debug)]
struct Flow {
    key: Vec<u8>,
    /// Pairs of addresses, outermost first.
    ends: Vec<Vec<u8>>,
    held: Vec<Held>,
    opened: u64,
    deadline: u64,
    last: u64,
    average: Option<u64>,
}

pub struct Twin {
    config: Config,
    flows: Vec<Flow>,
    now: u64,
    pub out: Vec<Out>,
}

impl Twin {
    pub fn new(config: Config) -> Self {
        Self { config, flows: Vec::new(), now: 0, out: Vec::new() }
    }

    /// Which of these packets comes next: the first; or, where the order is restored and it is ahead of the data that its
    /// flow holds, a later one that joins them.
    pub fn next_of(&self, left: &[usize], arrivals: &[Arrival]) -> usize {
        const WINDOW: usize = 32;
        let restores = self.config.flush_at_batch_end
            && self.config.restore_order
            && self.config.creation == Creation::OnData
            && !self.config.hold_budget.is_zero()
            && !self.config.idle_floor.is_zero();
        let show = |number: usize| {
            let Arrival { link, bytes, meta, .. } = &arrivals[number];
            let view = plain::view(*link, bytes);
            let options = view.all(LayerKind::Ipv4).any(|ip| bytes[ip] != 0x45);
            let shown = view.is_tcp() && !options && view.payload <= 320;
            let key = plain::flow_key(bytes, &view, meta.lane).filter(|_| shown)?;
            let has_data = view.form == Form::Datagram && view.payload_len() > 0;
            Some((key, has_data.then(|| be32(bytes, view.transport + 4))))
        };
        let Some((key, Some(sequence))) = show(left[0]).filter(|_| restores) else { return 0 };
        let flow = self.find(&key).map(|at| &self.flows[at].held).filter(|held| !held.is_empty());
        let Some(held) = flow else { return 0 };
        let total: usize = held.iter().map(|packet| packet.view.payload_len()).sum();
        let first = &held[0];
        let expected = be32(&first.frame, first.view.transport + 4).wrapping_add(total as u32);
        if (sequence.wrapping_sub(expected) as i32) <= 0 {
            return 0;
        }
        // A packet whose flow is not visible may be of any flow.
        let is_visible = |number: usize| {
            let Arrival { link, bytes, meta, .. } = &arrivals[number];
            let view = plain::view(*link, bytes);
            let options = view.all(LayerKind::Ipv4).any(|ip| bytes[ip] != 0x45);
            let long = view.is_datagram() && view.payload > 320;
            !options && !long && plain::flow_key(bytes, &view, meta.lane).is_some()
        };
        let later = left.iter().enumerate().skip(1);
        let near = later.take_while(|(_, number)| **number <= left[0] + WINDOW);
        for (place, number) in near.take_while(|(_, number)| is_visible(**number)) {
            let Arrival { link, bytes, meta, .. } = &arrivals[*number];
            let (view, is_next) =
                (plain::view(*link, bytes), show(*number) == Some((key.clone(), Some(expected))));
            if !is_next || bytes.len() > first.frame.len() || !alike(first, bytes, &view) {
                continue;
            }
            let kind = Some(bytes).filter(|bytes| shows(bytes, &view, *meta, &self.config));
            let kind = kind.and_then(|bytes| candidate(bytes, &view, *meta, &self.config));
            let (number, frame, meta) = (*number, bytes.clone(), *meta);
            let next = Held { number, frame, view, meta, kind };
            let examined = kind.is_some() && first.kind.is_some();
            if examined && continues(held, &next) && joins(held, &next, &self.config).is_ok() {
                return place;
            }
        }
        0
    }

    pub fn held(&self) -> usize {
        self.flows.iter().map(|flow| flow.held.len()).sum()
    }

    pub fn next_wakeup(&self) -> Option<u64> {
        self.flows.iter().filter(|flow| !flow.held.is_empty()).map(|flow| flow.deadline).min()
    }

    pub fn advance(&mut self, now: u64) {
        self.now = self.now.max(now);
        for at in 0..self.flows.len() {
            let flow = &self.flows[at];
            if !flow.held.is_empty() && flow.deadline <= self.now {
                let spent = self.now - flow.opened >= ns(self.config.hold_budget);
                self.let_go(at, if spent { Flush::Budget } else { Flush::Idle });
            }
        }
    }

    pub fn flush_all(&mut self, reason: Flush) {
        (0..self.flows.len()).for_each(|at| self.let_go(at, reason));
    }

    pub fn push(&mut self, number: usize, link: LinkType, frame: &[u8], meta: Meta, now: u64) {
        self.advance(now);
        let view = plain::view(link, frame);
        let key = plain::flow_key(frame, &view, meta.lane);
        let shows = shows(frame, &view, meta, &self.config);
        let kind = if shows { candidate(frame, &view, meta, &self.config) } else { None };
        let at_once = self.config.verify_alone || self.config.creation == Creation::OnSyn;
        let holds = shows && (kind.is_some() || !at_once);
        match key.filter(|_| holds) {
            Some(key) => {
                let frame = frame.to_vec();
                self.hold(key, Held { number, frame, view, meta, kind });
            }
            None => {
                let key = plain::flow_key(frame, &view, meta.lane);
                self.pass(number, frame, &view, meta, key);
            }
        }
    }

    /// A packet that cannot merge leaves behind all held data that may be of its flow.
    fn pass(&mut self, number: usize, frame: &[u8], view: &View, meta: Meta, key: Option<Vec<u8>>) {
        // With IP options, and without visible ports, it may be of any flow between the ends.
        let options = view.all(LayerKind::Ipv4).any(|ip| frame[ip] != 0x45);
        let long = view.is_datagram() && view.payload > 320;
        match key {
            Some(key) if !options && !long => {
                if let Some(at) = self.find(&key) {
                    self.let_go(at, Flush::Bypass);
                }
                self.connection(view, frame, meta, &key);
            }
            _ if plain::is_carrier(view.protocol) => {
                let ends = plain::ends(frame, view, meta.lane);
                for at in 0..self.flows.len() {
                    if !ends.is_empty() && self.flows[at].ends.starts_with(&ends) {
                        self.let_go(at, Flush::Bypass);
                    }
                }
            }
            _ => {}
        }
        let packets = vec![number];
        self.out.push(Out { packets, frame: frame.to_vec(), gso: meta.gso, flush: None });
    }

    /// A flow opens at SYN and ends at FIN or RST, if so configured.
    fn connection(&mut self, view: &View, frame: &[u8], meta: Meta, key: &[u8]) {
        let on_syn = self.config.creation == Creation::OnSyn && view.is_tcp();
        if !on_syn || !believed(frame, view, meta, &self.config) {
            return;
        }
        let flags = tcp_flags(frame, view);
        let known = self.find(key);
        if flags & SYN != 0 && known.is_none() {
            self.open_flow(key.to_vec(), plain::ends(frame, view, meta.lane));
        } else if let (true, Some(at)) = (flags & SYN == 0 && flags & (FIN | RST) != 0, known) {
            self.flows.remove(at);
        }
    }

    fn hold(&mut self, key: Vec<u8>, next: Held) {
        let on_syn = self.config.creation == Creation::OnSyn && next.view.is_tcp();
        let ends = plain::ends(&next.frame, &next.view, next.meta.lane);
        let at = match self.find(&key) {
            Some(at) => {
                let flow = &mut self.flows[at];
                // Longer pauses count as 2³² − 2 ns.
                let delta = (self.now - flow.last).min(u64::from(u32::MAX) - 1);
                flow.average = Some(flow.average.map_or(delta, |average| (average + delta) / 2));
                flow.last = self.now;
                at
            }
            // A SYN with data (TCP Fast Open) is a SYN.
            None if on_syn && tcp_flags(&next.frame, &next.view) & SYN == 0 => {
                let (packets, gso) = (vec![next.number], next.meta.gso);
                self.out.push(Out { packets, frame: next.frame, gso, flush: None });
                return;
            }
            None => self.open_flow(key, ends),
        };
        let flags = if next.view.is_tcp() { tcp_flags(&next.frame, &next.view) } else { 0 };
        let ended = flags & (PSH | FIN | URG | RST | SYN) != 0;
        let mut short = false;
        if !self.flows[at].held.is_empty() && !continues(&self.flows[at].held, &next) {
            self.let_go(at, Flush::Displaced);
        }
        // Checksums are looked at only of packets that continue each other.
        if self.flows[at].held.first().is_some_and(|first| first.kind.is_none()) {
            let Held { number, frame, meta, .. } = self.flows[at].held.remove(0);
            self.out.push(Out { packets: vec![number], frame, gso: meta.gso, flush: None });
        }
        if let Some(first) = self.flows[at].held.first() {
            if next.kind.is_none() {
                let Held { number, frame, view, meta, .. } = next;
                let key = self.flows[at].key.clone();
                return self.pass(number, &frame, &view, meta, Some(key));
            }
            short = next.view.payload_len() < first.view.payload_len();
            if let Err(reason) = joins(&self.flows[at].held, &next, &self.config) {
                short = false;
                self.let_go(at, reason);
            }
        }
        let flow = &mut self.flows[at];
        if flow.held.is_empty() {
            flow.opened = self.now;
        }
        flow.held.push(next);
        flow.deadline = flow.opened.saturating_add(ns(self.config.hold_budget));
        if let Some(average) = flow.average {
            let pause = average.saturating_mul(IDLE_INTERVALS).max(ns(self.config.idle_floor));
            flow.deadline = flow.deadline.min(self.now.saturating_add(pause));
        }
        if ended {
            self.let_go(at, Flush::EndFlag);
        } else if short {
            self.let_go(at, Flush::ShortTail);
        }
        if on_syn && flags & (FIN | RST) != 0 {
            self.flows.remove(at);
        }
    }

    fn open_flow(&mut self, key: Vec<u8>, ends: Vec<Vec<u8>>) -> usize {
        let (held, last) = (Vec::new(), self.now);
        self.flows.push(Flow { key, ends, held, opened: 0, deadline: 0, last, average: None });
        self.flows.len() - 1
    }

    fn find(&self, key: &[u8]) -> Option<usize> {
        self.flows.iter().position(|flow| flow.key == key)
    }

    fn let_go(&mut self, at: usize, reason: Flush) {
        let held = core::mem::take(&mut self.flows[at].held);
        if held.is_empty() {
            return;
        }
        let packets = held.iter().map(|packet| packet.number).collect();
        let (frame, gso) =
            if held.len() == 1 { (held[0].frame.clone(), None) } else { merged(&held) };
        self.out.push(Out { packets, frame, gso, flush: Some(reason) });
    }
}

fn tcp_flags(frame: &[u8], view: &View) -> u16 {
    be16(frame, view.transport + 12) & 0x1FF
}

/// Packets with a wrong checksum open and close nothing.
fn believed(frame: &[u8], view: &View, meta: Meta, config: &Config) -> bool {
    let ip_valid = view.all(LayerKind::Ipv4).all(|ip| intact(frame, ip));
    let (pseudo, sum) = transport_sums(frame, view);
    ip_valid
        && match (meta.checksum, config.checksum) {
            (ChecksumState::Partial, _) => be16(frame, view.field()) == pseudo,
            (ChecksumState::Unknown, ChecksumPolicy::Verify) => {
                sum == 0xFFFF && outer_sums_valid(frame, view)
            }
            _ => true,
        }
}

/// No options, and a valid header checksum.
fn intact(frame: &[u8], ip: usize) -> bool {
    frame[ip] == 0x45 && sum16(&frame[ip..ip + 20]) == 0xFFFF
}

/// The sum of the pseudo header, and that with the transport header and payload.
fn transport_sums(frame: &[u8], view: &View) -> (u16, u16) {
    let addresses = view.addresses(frame).expect("a datagram has addresses");
    let pseudo = sum16(&frame::pseudo(addresses, view.protocol, view.end - view.transport));
    (pseudo, frame::add16(pseudo, sum16(&frame[view.transport..view.end])))
}

/// Headers around the innermost transport that have a checksum over payload: where they start, the
/// offset of the field, and the sum of the pseudo header.
/// `end` says where what a header is part of ends.
fn outer_sums(frame: &[u8], view: &View, end: impl Fn(usize) -> usize) -> Vec<(usize, usize, u16)> {
    let mut sums = Vec::new();
    for (kind, at) in &view.layers {
        match kind {
            LayerKind::Gre => sums.push((*at, at + 4, 0)),
            // 0 means none.
            LayerKind::Udp if *at != view.transport && be16(frame, at + 6) != 0 => {
                let (ip, v6) = view.network_before(*at);
                let pseudo = frame::pseudo(plain::addresses(frame, ip, v6), UDP, end(*at) - at);
                sums.push((*at, at + 6, sum16(&pseudo)));
            }
            _ => {}
        }
    }
    sums
}

/// Each covers all up to the end of its own datagram, padding inside of it included.
fn outer_sums_valid(frame: &[u8], view: &View) -> bool {
    let end = |at: usize| match view.network_before(at) {
        (ip, true) => ip + 40 + usize::from(be16(frame, ip + 4)),
        (ip, false) => ip + usize::from(be16(frame, ip + 2)),
    };
    let valid = |at: usize, pseudo| frame::add16(pseudo, sum16(&frame[at..end(at)])) == 0xFFFF;
    outer_sums(frame, view, end).iter().all(|(at, _, pseudo)| valid(*at, *pseudo))
}

/// Whether a packet may merge with others at all, as far as it shows without its checksums.
fn shows(frame: &[u8], view: &View, meta: Meta, config: &Config) -> bool {
    // Only what segmenting gives back may lie behind: zeros up to 60 bytes.
    let behind = frame.get(view.end..).unwrap_or_default();
    let padding = frame.len() == 60 && behind.iter().all(|byte| *byte == 0);
    view.form == Form::Datagram
        && meta.mark != Meta::NEVER
        && meta.gso.is_none()
        && view.payload <= 320
        && view.payload_len() > 0
        && view.networks().count() <= config.max_tunnels + 1
        && view.all(LayerKind::Ipv4).all(|ip| frame[ip] == 0x45)
        && (behind.is_empty() || padding)
}

/// Whether the checksums of such a packet let it merge, and what its checksum field holds.
fn candidate(frame: &[u8], view: &View, meta: Meta, config: &Config) -> Option<Kind> {
    // Checksums of headers are right, and such as a sender computes.
    let usual = |field: usize| be16(frame, field) != 0xFFFF;
    let ip_usual = view.all(LayerKind::Ipv4).all(|ip| intact(frame, ip) && usual(ip + 10));
    if !ip_usual || !view.all(LayerKind::Gre).all(|gre| usual(gre + 4)) {
        return None;
    }
    let read = meta.checksum != ChecksumState::Valid && config.checksum == ChecksumPolicy::Verify;
    if read && !outer_sums_valid(frame, view) {
        return None;
    }
    let field = be16(frame, view.field());
    if !view.is_tcp() && field == 0 {
        return (!view.v6).then_some(Kind::None);
    }
    let (pseudo, sum) = transport_sums(frame, view);
    // An inner checksum that hardware completes later cannot be covered by an outer one.
    let partial = (field == pseudo)
        .then_some(Kind::Partial)
        .filter(|_| outer_sums(frame, view, |_| view.end).is_empty());
    match (meta.checksum, config.checksum) {
        (ChecksumState::Partial, _) => return partial,
        (ChecksumState::Unknown, ChecksumPolicy::Trust) if field == pseudo => return partial,
        (ChecksumState::Unknown, ChecksumPolicy::Verify) if sum != 0xFFFF => return None,
        _ => {}
    }
    // Fault 14: valid, but not what a sender computes.
    (!view.is_tcp() || field != 0xFFFF).then_some(Kind::Full)
}

/// Whether a packet is the next one by its headers, sequence number and length.
fn continues(held: &[Held], next: &Held) -> bool {
    let first = &held[0];
    let total: usize = held.iter().map(|packet| packet.view.payload_len()).sum();
    let sequence = |packet: &Held| be32(&packet.frame, packet.view.transport + 4);
    alike(first, &next.frame, &next.view)
        && next.view.payload_len() <= first.view.payload_len()
        && first.meta.mark == next.meta.mark
        && (!first.view.is_tcp() || sequence(next) == sequence(first).wrapping_add(total as u32))
}

/// Whether two packets of one flow have the same headers, but for what segmenting derives.
fn alike(first: &Held, b: &[u8], view: &View) -> bool {
    let (a, transport) = (&first.frame, first.view.transport);
    let network = |(kind, at): &(LayerKind, usize)| match kind {
        // TOS, DF, TTL.
        LayerKind::Ipv4 => a[at + 1] == b[at + 1] && a[at + 6..at + 9] == b[at + 6..at + 9],
        LayerKind::Ipv6 => a[*at..at + 4] == b[*at..at + 4] && a[at + 7] == b[at + 7],
        _ => true,
    };
    (&first.view.layers, first.view.payload) == (&view.layers, view.payload)
        && first.view.layers.iter().all(network)
        && (!view.is_tcp() || same_tcp(a, b, transport..view.payload))
}

/// The flag word outside FIN and PSH, acknowledgment, window, urgent pointer, options.
fn same_tcp(a: &[u8], b: &[u8], header: Range<usize>) -> bool {
    let at = header.start;
    (be16(a, at + 12) ^ be16(b, at + 12)) & !(FIN | PSH) == 0
        && a[at + 8..at + 12] == b[at + 8..at + 12]
        && a[at + 14..at + 16] == b[at + 14..at + 16]
        && a[at + 18..header.end] == b[at + 18..header.end]
}

/// Whether `next`, which continues held data, merges into it; if not, why the held data is flushed.
fn joins(held: &[Held], next: &Held, config: &Config) -> Result<(), Flush> {
    let first = &held[0];
    let total: usize = held.iter().map(|packet| packet.view.payload_len()).sum();
    let len = next.view.payload_len();
    let padded = |packet: &Held| packet.frame.len() > packet.view.end;
    let bare = |packet: &Held| packet.frame.len() < 60;
    let all = || held.iter().chain([next]);
    let mixed = all().any(padded) && all().any(bare);
    if mixed || first.kind != next.kind || !numbers_follow(held, next) {
        return Err(Flush::Displaced);
    }
    let outermost = first.view.layers[0].1;
    let whole_len = first.view.payload - outermost + total + len;
    let packets = if first.view.is_tcp() { config.max_segments } else { config.max_datagrams };
    // Beyond 65,535 the length field of IP is 0 (BIG TCP); that of UDP cannot be, nor that of IP
    // in a tunnel or before extension headers.
    let extended = first.view.v6 && first.view.transport - outermost > 40;
    let plain_tcp = first.view.is_tcp() && first.view.layers.len() == 2 && !extended;
    let longest = if plain_tcp { 512 << 10 } else { 65_535 };
    if whole_len > config.max_bytes.min(longest) || held.len() >= usize::from(packets) {
        return Err(Flush::Size);
    }
    Ok(())
}

/// The identification of every IP header stands still or counts; every UDP header has a checksum, or none has.
fn numbers_follow(held: &[Held], next: &Held) -> bool {
    let (a, b) = (&held[0].frame, &next.frame);
    held[0].view.layers.iter().all(|(kind, at)| match kind {
        LayerKind::Ipv4 => id_follows(held, next, *at),
        LayerKind::Udp => (be16(a, at + 6) == 0) == (be16(b, at + 6) == 0),
        _ => true,
    })
}

/// The second packet's identification says whether it stands still or counts.
fn id_follows(held: &[Held], next: &Held, ip: usize) -> bool {
    let id = |packet: &Held| u32::from(be16(&packet.frame, ip + 4));
    let difference = (id(next) + 0x1_0000 - id(&held[0])) % 0x1_0000;
    match held {
        [_] => difference <= 1,
        [first, second, ..] if id(second) == id(first) => difference == 0,
        _ => difference == held.len() as u32,
    }
}

/// The frame of several packets, all lengths and checksums computed over its bytes.
fn merged(held: &[Held]) -> (Vec<u8>, Option<Gso>) {
    let (first, last) = (&held[0], &held[held.len() - 1]);
    let view = &first.view;
    let mut frame = first.frame[..view.payload].to_vec();
    for packet in held {
        frame.extend(&packet.frame[packet.view.payload..packet.view.end]);
    }
    if view.is_tcp() {
        let ends = tcp_flags(&last.frame, &last.view) & (PSH | FIN);
        let word = be16(&frame, view.transport + 12);
        put16(&mut frame, view.transport + 12, word | ends);
    }
    let is_partial = first.kind == Some(Kind::Partial);
    let how = if is_partial { ChecksumState::Partial } else { ChecksumState::Unknown };
    complete(&mut frame, view, how);
    let fixed = |ip: usize| first.frame[ip + 4..ip + 6] == held[1].frame[ip + 4..ip + 6];
    let gso = Gso {
        size: view.payload_len() as u16,
        segments: held.len() as u16,
        fixed_ids: (view.all(LayerKind::Ipv4).rev().enumerate())
            .map(|(bit, ip)| u8::from(fixed(ip)) << bit)
            .sum(),
        accecn: view.is_tcp() && tcp_flags(&first.frame, view) & CWR != 0,
        padded: held.iter().any(|packet| packet.frame.len() > packet.view.end),
    };
    (frame, Some(gso))
}

/// Sets all lengths and checksums of a frame without padding whose headers are as in `view`. A
/// UDP header without checksum stays so.
pub fn complete(frame: &mut [u8], view: &View, checksum: ChecksumState) {
    let end = frame.len();
    for (kind, at) in &view.layers {
        let len = end - at;
        match kind {
            LayerKind::Ipv4 => complete_ipv4(frame, *at),
            LayerKind::Ipv6 => put16(frame, at + 4, u16::try_from(len - 40).unwrap_or(0)),
            LayerKind::Udp => put16(frame, at + 4, len as u16),
            LayerKind::Pppoe => put16(frame, at + 4, (len - 6) as u16),
            LayerKind::Tcp | LayerKind::Gre => {}
        }
    }
    let (transport, field) = (view.transport, view.field());
    let absent = !view.is_tcp() && be16(frame, field) == 0;
    let addresses = view.addresses(frame).unwrap_or_default();
    let pseudo = sum16(&frame::pseudo(addresses, view.protocol, end - transport));
    if !absent {
        put16(frame, field, 0);
        let sum = frame::add16(pseudo, sum16(&frame[transport..]));
        put16(frame, field, as_sent(!sum, !view.is_tcp()));
    }
    // From the inside out: each covers those within.
    for (at, outer, pseudo) in outer_sums(frame, view, |_| end).into_iter().rev() {
        let udp = outer == at + 6;
        put16(frame, outer, 0);
        let sum = frame::add16(pseudo, sum16(&frame[at..]));
        put16(frame, outer, as_sent(!sum, udp));
    }
    // The outer checksum is right once hardware has completed the inner one.
    if !absent && checksum == ChecksumState::Partial {
        put16(frame, field, pseudo);
    }
}

/// RFC 768: an all-zero checksum of UDP means none.
fn as_sent(checksum: u16, udp: bool) -> u16 {
    if udp && checksum == 0 { 0xFFFF } else { checksum }
}

fn complete_ipv4(frame: &mut [u8], ip: usize) {
    let len = frame.len() - ip;
    put16(frame, ip + 2, u16::try_from(len).unwrap_or(0));
    put16(frame, ip + 10, 0);
    let header_len = usize::from(frame[ip] & 15) * 4;
    let checksum = !sum16(&frame[ip..ip + header_len]);
    put16(frame, ip + 10, checksum);
}
