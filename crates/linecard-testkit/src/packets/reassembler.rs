//! The reassembly twin: one list of datagrams that is searched, and a map from byte to value for
//! each. Written from the specification; sources are distinguished exactly.

use super::fragments::seal;
use super::frame::{be16, put16};
use super::plain;
use super::runner::{Buffer, numbers, packet};
use super::splitter::{self, fragment_header};
use super::traffic::Arrival;
use linecard::offload::reassemble::{Config, Exit, GiveUp, Pass, Reassembler};
use linecard::packet::{Form, LayerKind, LinkType, Packet};
use linecard::time::Instant;
use std::collections::BTreeMap;

/// Output: the frame, which arrivals it is made of, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Left {
    pub packets: Vec<usize>,
    pub frame: Vec<u8>,
    pub exit: Exit,
}

/// The real thing and all that has left it.
pub struct Real {
    pub reassembler: Reassembler<Buffer>,
    pub out: Vec<(Packet<Buffer>, Exit)>,
}

impl Real {
    pub fn new(link: LinkType, config: Config) -> Self {
        Self { reassembler: Reassembler::new(link, config), out: Vec::new() }
    }

    pub fn push(&mut self, number: usize, arrival: &Arrival) {
        let out = &mut self.out;
        self.reassembler.push(packet(number, arrival), arrival.now, &mut |p, e| out.push((p, e)));
        assert!(self.reassembler.is_consistent());
    }

    pub fn advance(&mut self, now: Instant) {
        let out = &mut self.out;
        self.reassembler.advance(now, &mut |p, e| out.push((p, e)));
    }

    pub fn stop(&mut self) {
        let out = &mut self.out;
        self.reassembler.flush_all(&mut |p, e| out.push((p, e)));
        assert!(self.reassembler.is_consistent());
        assert_eq!((self.reassembler.held(), self.reassembler.datagrams()), (0, 0));
    }

    pub fn left(&self) -> Vec<Left> {
        let left = |(packet, exit): &(Packet<Buffer>, Exit)| Left {
            packets: numbers(packet),
            frame: frame_of(packet, *exit),
            exit: *exit,
        };
        self.out.iter().map(left).collect()
    }

    pub fn exits(&self) -> Vec<(Vec<usize>, Exit)> {
        self.out.iter().map(|(packet, exit)| (numbers(packet), *exit)).collect()
    }
}

/// The frame; of a datagram made whole, without what lay behind its first fragment.
pub fn frame_of(packet: &Packet<Buffer>, exit: Exit) -> Vec<u8> {
    if exit != Exit::Reassembled {
        assert!(!packet.is_merged());
        return packet.bytes().to_vec();
    }
    let mut frame = packet.header().to_vec();
    packet.payload().for_each(|slice| frame.extend(slice));
    frame
}

/// A fragment as a plain reader sees it.
#[derive(Debug, Clone)]
struct Piece {
    number: usize,
    /// The frame up to the end of its datagram, and all of it.
    datagram: Vec<u8>,
    frame: Vec<u8>,
    ip: usize,
    v6: bool,
    /// Where the header ends that the whole keeps, and where the data starts.
    header_end: usize,
    start: usize,
    offset: usize,
    more: bool,
    key: Vec<u8>,
    /// Lane and IPv4 address, or network of 64 bits.
    source: Vec<u8>,
    /// All headers with a length or a mark, outermost first; the last is the fragment's own.
    layers: Vec<(LayerKind, usize)>,
    /// Of each IP header among them.
    ecn: Vec<u8>,
}

impl Piece {
    fn data(&self) -> &[u8] {
        &self.datagram[self.start..]
    }

    fn end(&self) -> usize {
        self.offset + self.data().len()
    }

    fn read(number: usize, arrival: &Arrival) -> Result<Self, Pass> {
        let (frame, meta) = (&arrival.bytes, &arrival.meta);
        let view = plain::view(arrival.link, frame);
        let (Form::Fragment, Some(ip)) = (view.form, view.ip) else {
            return Err(Pass::NotAFragment);
        };
        if meta.mark == u32::MAX {
            return Err(Pass::Unmergeable);
        }
        let datagram = frame[..view.end].to_vec();
        for (kind, at) in &view.layers {
            right_as_it_is(&datagram, *kind, *at)?;
        }
        let mut key = [meta.lane.to_be_bytes(), meta.mark.to_be_bytes()].concat();
        // The key of VLANs: the link header without its addresses.
        let link = match arrival.link {
            LinkType::Ethernet => 12,
            LinkType::LinuxSll => 14,
            LinkType::LinuxSll2 => 20,
            _ => 0,
        };
        key.extend(envelope(frame, link, ip, &view.layers));
        key.push(u8::from(view.v6));
        key.extend(view.addresses(frame).expect("it has some"));
        let mut source = meta.lane.to_be_bytes().to_vec();
        source.extend(if view.v6 { &frame[ip + 8..ip + 16] } else { &frame[ip + 12..ip + 16] });
        let mut piece = Self {
            source,
            number,
            frame: frame.clone(),
            ip,
            v6: view.v6,
            header_end: 0,
            start: 0,
            offset: 0,
            more: false,
            key,
            ecn: view.networks().map(|(ip, v6)| mark(frame, ip, v6)).collect(),
            layers: view.layers,
            datagram,
        };
        if view.v6 {
            piece.read_v6()?;
        } else {
            piece.read_v4();
        }
        if piece.header_end > 320 { Err(Pass::HeaderTooLong) } else { Ok(piece) }
    }

    fn read_v4(&mut self) {
        let (frame, ip) = (&self.datagram, self.ip);
        self.header_end = ip + usize::from(frame[ip] & 15) * 4;
        self.start = self.header_end;
        self.offset = usize::from(be16(frame, ip + 6) & 0x1FFF) * 8;
        self.more = be16(frame, ip + 6) & 0x2000 != 0;
        let id_and_protocol = [frame[ip + 4], frame[ip + 5], frame[ip + 9]];
        self.key.extend(id_and_protocol);
    }

    fn read_v6(&mut self) -> Result<(), Pass> {
        let (_, at) = fragment_header(&self.datagram, self.ip);
        let Some(header) = self.datagram.get(at..at + 8) else { return Err(Pass::Malformed) };
        (self.header_end, self.start) = (at, at + 8);
        self.offset = usize::from(be16(header, 2) & 0xFFF8);
        self.more = header[3] & 1 != 0;
        self.key.extend(&header[4..]);
        Ok(())
    }

    fn fault(&self) -> Option<GiveUp> {
        let len = self.data().len();
        let outermost = self.layers.iter().find(|(kind, _)| plain::is_ip(*kind));
        let (kind, ip) = outermost.expect("it is IP");
        let most = if *kind == LayerKind::Ipv6 { 65_535 + 40 } else { 65_535 };
        if len == 0 {
            Some(GiveUp::Empty)
        } else if self.more && !len.is_multiple_of(8) {
            Some(GiveUp::Uneven)
        } else if self.header_end - ip + self.end() > most {
            Some(GiveUp::TooLong)
        } else if self.offset == 0 && !self.has_headers() {
            Some(GiveUp::HeaderChain)
        } else {
            None
        }
    }

    fn has_headers(&self) -> bool {
        let data = self.data();
        let (mut kind, mut at) = if self.v6 {
            (self.datagram[self.header_end], 0)
        } else {
            (self.datagram[self.ip + 9], 0)
        };
        while self.v6 && [0, 43, 60].contains(&kind) {
            if data.len() < at + 2 || data.len() < at + (usize::from(data[at + 1]) + 1) * 8 {
                return false;
            }
            (kind, at) = (data[at], at + (usize::from(data[at + 1]) + 1) * 8);
        }
        let needed = match kind {
            6 if data.len() < at + 20 => return false,
            6 => 20.max(usize::from(data[at + 12] >> 4) * 4),
            17 | 58 => 8,
            59 => 0,
            _ => 1,
        };
        // Headers are looked for in the first 512 bytes.
        at + needed <= data.len() && self.header_end + at + needed <= 512
    }
}

#[derive(Debug, Clone)]
struct Datagram {
    key: Vec<u8>,
    source: Vec<u8>,
    v6: bool,
    deadline: Instant,
    refused: bool,
    /// In the order of arrival.
    held: Vec<Piece>,
}

impl Datagram {
    fn end(&self) -> Option<usize> {
        self.held.iter().find(|piece| !piece.more).map(Piece::end)
    }

    fn bytes(&self) -> usize {
        self.held.iter().map(|piece| piece.frame.len()).sum()
    }

    fn misfit(&self, new: &Piece, config: &Config) -> Option<Misfit> {
        let same = |old: &Piece| {
            (old.offset, old.more) == (new.offset, new.more) && old.data() == new.data()
        };
        if self.held.iter().any(same) {
            return Some(Misfit::Duplicate);
        }
        let beyond = self.end().is_some_and(|end| {
            new.end() > end || !new.more && new.end() != end || new.more && new.end() == end
        });
        if beyond || !new.more && self.held.iter().any(|old| old.end() > new.end()) {
            return Some(Misfit::Fault(GiveUp::End));
        }
        let taken: Vec<usize> = self.held.iter().flat_map(|old| old.offset..old.end()).collect();
        if taken.iter().any(|byte| (new.offset..new.end()).contains(byte)) {
            return Some(Misfit::Fault(GiveUp::Overlap));
        }
        if self.held.len() >= usize::from(config.max_fragments.max(2)) {
            return Some(Misfit::Fault(GiveUp::TooMany));
        }
        let mixed =
            |old: &Piece| old.ecn.iter().zip(&new.ecn).any(|(old, new)| (*old == 0) != (*new == 0));
        self.held.iter().any(mixed).then_some(Misfit::Fault(GiveUp::Ecn))
    }

    /// The whole frame, when every byte has arrived.
    fn whole(&self) -> Option<Left> {
        let end = self.end()?;
        let mut bytes = BTreeMap::new();
        for piece in &self.held {
            bytes.extend((piece.offset..).zip(piece.data()));
        }
        if bytes.len() != end {
            return None;
        }
        let mut in_order: Vec<&Piece> = self.held.iter().collect();
        in_order.sort_by_key(|piece| piece.offset);
        let ip = in_order[0].ip;
        let datagrams: Vec<Vec<u8>> = in_order.iter().map(|piece| piece.datagram.clone()).collect();
        let mut frame = splitter::reassemble(&datagrams, ip, self.v6);
        for piece in &self.held {
            let ip = piece.layers.iter().filter(|(kind, _)| plain::is_ip(*kind));
            for ((kind, at), _) in ip.zip(&piece.ecn).filter(|(_, ecn)| **ecn == 3) {
                frame[at + 1] |= if *kind == LayerKind::Ipv6 { 0x30 } else { 3 };
            }
        }
        set_lengths(&mut frame, &in_order[0].layers);
        let packets = in_order.iter().map(|piece| piece.number).collect();
        Some(Left { packets, frame, exit: Exit::Reassembled })
    }
}

/// Whether what a header says stays right, or can be made right, when the datagram is whole.
fn right_as_it_is(frame: &[u8], kind: LayerKind, at: usize) -> Result<(), Pass> {
    match kind {
        LayerKind::Ipv4 => {
            let mut sealed = frame.to_vec();
            seal(&mut sealed, at);
            let (field, right) = (be16(frame, at + 10), be16(&sealed, at + 10));
            // 0 and 0xFFFF are the same number in ones' complement.
            let valid = field == right || (field, right) == (0xFFFF, 0);
            if valid { Ok(()) } else { Err(Pass::IpChecksum) }
        }
        // An outer checksum covers what has not come yet.
        LayerKind::Udp if be16(frame, at + 6) != 0 => Err(Pass::OuterChecksum),
        LayerKind::Gre => Err(Pass::OuterChecksum),
        _ => Ok(()),
    }
}

/// The bytes before the IP header at `ip`, without the fields that differ between fragments in a
/// tunnel: lengths and checksums, identification, TTL, traffic class, and the hashes of the inner
/// flow, which fragments do not show.
fn envelope(frame: &[u8], link: usize, ip: usize, layers: &[(LayerKind, usize)]) -> Vec<u8> {
    let (mut all, mut done) = (Vec::new(), link);
    for (kind, at) in layers.iter().filter(|(_, at)| *at < ip) {
        let layer = &frame[*at..];
        all.extend(&frame[done..*at]);
        done = at
            + match kind {
                LayerKind::Ipv4 => {
                    all.extend([layer[0], layer[6], layer[7], layer[9]]);
                    all.extend(&layer[12..20]);
                    20
                }
                LayerKind::Ipv6 => {
                    all.push(layer[6]);
                    all.extend(&layer[8..40]);
                    40
                }
                LayerKind::Udp => {
                    all.extend(&layer[2..4]);
                    8
                }
                LayerKind::Pppoe => {
                    all.extend(&layer[..4]);
                    6
                }
                LayerKind::Gre | LayerKind::Tcp => 0,
            };
    }
    all.extend(&frame[done..ip]);
    all
}

/// The congestion mark of an IP header.
fn mark(frame: &[u8], ip: usize, v6: bool) -> u8 {
    if v6 { frame[ip + 1] >> 4 & 3 } else { frame[ip + 1] & 3 }
}

/// Lengths and header checksums of all headers, for the frame as it is.
fn set_lengths(frame: &mut [u8], layers: &[(LayerKind, usize)]) {
    for (kind, at) in layers {
        let len = (frame.len() - at) as u16;
        match kind {
            LayerKind::Ipv4 => {
                put16(frame, at + 2, len);
                seal(frame, *at);
            }
            LayerKind::Ipv6 => put16(frame, at + 4, (frame.len() - at - 40) as u16),
            LayerKind::Udp => put16(frame, at + 4, len),
            LayerKind::Pppoe => put16(frame, at + 4, len - 6),
            LayerKind::Gre | LayerKind::Tcp => {}
        }
    }
}

/// Whether the headers of the whole, those of a tunnel in the fragments included, lie in the
/// first fragment.
fn shows_headers(link: LinkType, frame: &[u8], first: &Piece) -> bool {
    plain::view(link, frame).headers <= first.header_end + first.data().len()
}

enum Misfit {
    Duplicate,
    Fault(GiveUp),
}

/// The twin.
pub struct Twin {
    link: LinkType,
    config: Config,
    now: Instant,
    /// Incomplete or given up, each in the order in which they became so.
    list: Vec<Datagram>,
    pub left: Vec<Left>,
    pub dropped: Vec<usize>,
}

impl Twin {
    pub fn new(link: LinkType, config: Config) -> Self {
        let (list, left, dropped) = (Vec::new(), Vec::new(), Vec::new());
        Self { link, config, now: Instant::ZERO, list, left, dropped }
    }

    pub fn push(&mut self, number: usize, arrival: &Arrival) {
        self.advance(arrival.now);
        let piece = match Piece::read(number, arrival) {
            Ok(piece) if piece.frame.len() > self.share(self.config.max_held_bytes) => {
                return self.leave(number, &arrival.bytes, Exit::Passed(Pass::TooLarge));
            }
            Ok(piece) => piece,
            Err(why) => return self.leave(number, &arrival.bytes, Exit::Passed(why)),
        };
        if piece.v6 && piece.offset == 0 && !piece.more {
            let datagrams = [piece.datagram.clone()];
            let mut frame = splitter::reassemble(&datagrams, piece.ip, true);
            set_lengths(&mut frame, &piece.layers);
            if !shows_headers(arrival.link, &frame, &piece) {
                return self.leave(number, &arrival.bytes, Exit::GivenUp(GiveUp::HeaderChain));
            }
            return self.leave(number, &frame, Exit::Reassembled);
        }
        self.admit(piece);
    }

    pub fn advance(&mut self, now: Instant) {
        self.now = self.now.max(now);
        loop {
            let due = self.list.iter().filter(|datagram| datagram.deadline <= self.now);
            let order = |datagram: &&Datagram| (datagram.deadline, datagram.v6, datagram.refused);
            let Some(next) = due.min_by_key(order) else { return };
            let key = next.key.clone();
            self.give_up(&key, GiveUp::Timeout, false);
        }
    }

    pub fn stop(&mut self) {
        while let Some(key) = self.forgettable() {
            self.give_up(&key, GiveUp::Stop, false);
        }
    }

    pub fn held(&self) -> usize {
        self.list.iter().map(|datagram| datagram.held.len()).sum()
    }

    fn admit(&mut self, piece: Piece) {
        if self.find(&piece.key).is_none() {
            self.open(&piece);
        }
        let datagram = self.find(&piece.key).expect("just made").clone();
        if datagram.refused {
            return self.leave(piece.number, &piece.frame, Exit::Passed(Pass::Refused));
        }
        let fault = piece.fault().map(Misfit::Fault);
        match fault.or_else(|| datagram.misfit(&piece, &self.config)) {
            Some(Misfit::Duplicate) if self.config.drop_duplicates => {
                self.dropped.push(piece.number);
            }
            Some(Misfit::Duplicate) => {
                self.leave(piece.number, &piece.frame, Exit::Passed(Pass::Duplicate));
            }
            Some(Misfit::Fault(why)) => {
                self.give_up(&piece.key, why, true);
                self.leave(piece.number, &piece.frame, Exit::GivenUp(why));
            }
            None => self.hold(piece),
        }
    }

    fn open(&mut self, piece: &Piece) {
        let source = piece.source.clone();
        let own: Vec<&Datagram> = self.list.iter().filter(|d| d.source == source).collect();
        if own.len() >= self.share(self.config.max_datagrams) {
            let first = own.iter().find(|datagram| datagram.refused).unwrap_or(&own[0]);
            let key = first.key.clone();
            self.give_up(&key, GiveUp::Share, false);
        }
        if self.list.len() >= self.config.max_datagrams.max(1)
            && let Some(key) = self.forgettable()
        {
            self.give_up(&key, GiveUp::TableFull, false);
        }
        let timeout = if piece.v6 { self.config.timeout_v6 } else { self.config.timeout_v4 };
        let deadline = self.now.plus(timeout);
        let (key, v6, held) = (piece.key.clone(), piece.v6, Vec::new());
        self.list.push(Datagram { key, source, v6, deadline, refused: false, held });
    }

    fn hold(&mut self, piece: Piece) {
        let mut why = GiveUp::Share;
        while let Some((key, reason)) = self.in_the_way(&piece) {
            self.give_up(&key, reason, true);
            why = if key == piece.key { reason } else { why };
        }
        let at = self.list.iter().position(|d| d.key == piece.key).expect("given up, not gone");
        if self.list[at].refused {
            return self.leave(piece.number, &piece.frame, Exit::GivenUp(why));
        }
        self.list[at].held.push(piece);
        let Some(left) = self.list[at].whole() else { return };
        let first = self.list[at].held.iter().find(|piece| piece.offset == 0);
        if shows_headers(self.link, &left.frame, first.expect("it is whole")) {
            self.list.remove(at);
            self.left.push(left);
        } else {
            let key = self.list[at].key.clone();
            self.give_up(&key, GiveUp::HeaderChain, true);
        }
    }

    /// Datagrams to give up before the piece may be held.
    fn in_the_way(&self, piece: &Piece) -> Option<(Vec<u8>, GiveUp)> {
        let live: Vec<&Datagram> = self.list.iter().filter(|d| !d.refused).collect();
        let own: Vec<&Datagram> =
            live.iter().filter(|d| d.source == piece.source).copied().collect();
        let count = |all: &[&Datagram]| all.iter().map(|d| d.held.len()).sum::<usize>();
        let bytes =
            |all: &[&Datagram]| all.iter().map(|d| d.bytes()).sum::<usize>() + piece.frame.len();
        let Config { max_held_fragments, max_held_bytes, .. } = self.config;
        if count(&own) >= self.share(max_held_fragments) || bytes(&own) > self.share(max_held_bytes)
        {
            return Some((own[0].key.clone(), GiveUp::Share));
        }
        let full = count(&live) >= max_held_fragments.max(1) || bytes(&live) > max_held_bytes;
        full.then(|| (live[0].key.clone(), GiveUp::HeldLimit))
    }

    fn share(&self, bound: usize) -> usize {
        (bound / self.config.shares.max(1)).max(1)
    }

    /// The datagram to be forgotten for another: one given up, else the oldest.
    fn forgettable(&self) -> Option<Vec<u8>> {
        let refused = self.list.iter().filter(|datagram| datagram.refused);
        let refused = refused.min_by_key(|datagram| (datagram.deadline, datagram.v6));
        refused.or(self.list.first()).map(|datagram| datagram.key.clone())
    }

    fn give_up(&mut self, key: &[u8], why: GiveUp, remember: bool) {
        let at = self.list.iter().position(|datagram| datagram.key == key).expect("it is there");
        let mut datagram = self.list.remove(at);
        for piece in core::mem::take(&mut datagram.held) {
            self.leave(piece.number, &piece.frame, Exit::GivenUp(why));
        }
        if remember {
            let timeout = if datagram.v6 { self.config.timeout_v6 } else { self.config.timeout_v4 };
            (datagram.refused, datagram.deadline) = (true, self.now.plus(timeout));
            self.list.push(datagram);
        }
    }

    fn find(&self, key: &[u8]) -> Option<&Datagram> {
        self.list.iter().find(|datagram| datagram.key == key)
    }

    fn leave(&mut self, number: usize, frame: &[u8], exit: Exit) {
        self.left.push(Left { packets: vec![number], frame: frame.to_vec(), exit });
    }
}
