//! Random traffic over the whole matrix of links, versions and transports. About 85 of 100 packets
//! continue their flow as a bulk sender's would; each of the others has one of many faults.

use super::frame::{
    ACK, AE, Behind, CWR, ECE, FIN, Field, Frame, IpField, PSH, RST, SYN, TCP, UDP, URG,
};
use super::headers::{Ids, tags};
use super::overlay::{self, Overlay};
use super::tunnel::Wrap;
use super::{between, pick};
use core::time::Duration;
use linecard::offload::coalesce::{ChecksumPolicy, Config, Creation};
use linecard::packet::{ChecksumState, LinkType, Meta};
use linecard::rng::Rng;
use linecard::time::Instant;

#[derive(Debug, Clone)]
pub struct Arrival {
    pub link: LinkType,
    pub bytes: Vec<u8>,
    pub meta: Meta,
    pub now: Instant,
}

#[derive(Debug)]
pub struct Scenario {
    pub config: Config,
    pub arrivals: Vec<Arrival>,
    /// The caller advances the clock at every wake-up, so that nothing is held a moment too long.
    pub punctual: bool,
}

/// Features that a scenario leaves out, beside those that it draws.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mix {
    All,
    /// All checksums as a sender computes them: somebody vouches for them.
    Vouched,
}

/// Traffic without tunnels.
pub fn scenario(rng: &mut Rng, packets: usize) -> Scenario {
    let mut nothing = |_: &mut Rng, _: LinkType| Overlay::default();
    draw(rng, packets, &mut nothing)
}

/// The same in tunnels, of which some flows share some.
pub fn tunnelled(rng: &mut Rng, packets: usize) -> Scenario {
    let mut shared: Vec<(LinkType, Overlay)> = Vec::new();
    let mut overlay = |rng: &mut Rng, link: LinkType| {
        if rng.chance(0.1) {
            return Overlay::default();
        }
        let known = shared.iter().find(|(other, _)| *other == link).filter(|_| rng.chance(0.5));
        let overlay = known.map_or_else(|| Overlay::new(rng, link), |(_, known)| known.clone());
        shared.insert(0, (link, overlay.clone()));
        overlay
    };
    let mut scenario = draw(rng, packets, &mut overlay);
    scenario.config.max_tunnels = pick(rng, &[0, 1, 2, 2, 3, 3]);
    scenario
}

fn draw(
    rng: &mut Rng,
    packets: usize,
    overlay: &mut dyn FnMut(&mut Rng, LinkType) -> Overlay,
) -> Scenario {
    let config = config(rng);
    let mix = if config.checksum == ChecksumPolicy::Trust { Mix::Vouched } else { Mix::All };
    let count = between(rng, 1, 10);
    let mut flows: Vec<Flow> =
        (0..count).map(|number| Flow::new(rng, number as u16, mix)).collect();
    flows.iter_mut().for_each(|flow| flow.overlay = overlay(rng, flow.base.link));
    let bursty = rng.chance(0.8);
    let mut now = pick(rng, &[0, 1_700_000_000_000_000_000, u64::MAX / 2]);
    let mut arrivals: Vec<Arrival> = Vec::with_capacity(packets);
    while arrivals.len() < packets {
        let flow = rng.below(count) as usize;
        for _ in 0..if bursty { between(rng, 1, 40) } else { 1 } {
            now = later(rng, now);
            let (frame, meta) = flows[flow].next(rng);
            let meta = Meta { timestamp: Instant::from_ns(now), ..meta };
            let now = meta.timestamp;
            arrivals.push(Arrival { link: frame.link, bytes: frame.bytes(), meta, now });
        }
        if rng.chance(0.1) {
            let by = pick(rng, &[1, 1, 2, 3, 5, 40]);
            delay(&mut arrivals, by);
        }
    }
    Scenario { config, arrivals, punctual: rng.chance(0.5) }
}

/// Moves the packet `by` places before the last one to the end; times stay where they are.
fn delay(arrivals: &mut [Arrival], by: usize) {
    let Some(first) = arrivals.len().checked_sub(by + 1) else { return };
    let late = &mut arrivals[first..];
    let times: Vec<Instant> = late.iter().map(|arrival| arrival.now).collect();
    late.rotate_left(1);
    late.iter_mut().zip(times).for_each(|(arrival, now)| arrival.now = now);
}

fn later(rng: &mut Rng, now: u64) -> u64 {
    match rng.below(1000) {
        0..=899 => now,
        900..=969 => now + rng.below(3_000),
        970..=994 => now + rng.below(40_000),
        995..=996 => now + rng.below(5_000_000),
        997 => now + 1_000_000_000,
        // A clock set back.
        _ => now.saturating_sub(rng.below(2_000_000)),
    }
}

fn config(rng: &mut Rng) -> Config {
    let mut config = Config { secret: rng.next_u64(), max_flows: 1024, ..Config::default() };
    config.max_held_packets = 2048;
    if rng.chance(0.2) {
        config.checksum = ChecksumPolicy::Trust;
    }
    if rng.chance(0.15) {
        config.creation = Creation::OnSyn;
    }
    if rng.chance(0.3) {
        config.max_segments = pick(rng, &[1, 2, 3, 17, 64, 64, 400, 400]);
    }
    if rng.chance(0.3) {
        config.max_datagrams = pick(rng, &[1, 2, 5, 33, 33, 64]);
    }
    if rng.chance(0.3) {
        config.max_bytes = pick(rng, &[100, 1_500, 9_000, 20_001, 65_534, usize::MAX]);
    }
    if rng.chance(0.5) {
        config.hold_budget =
            Duration::from_nanos(pick(rng, &[0, 5_000, 100_000, 300_000, 5_000_000, 30_000_000]));
    }
    if rng.chance(0.4) {
        config.idle_floor = Duration::from_nanos(pick(rng, &[0, 1_000, 10_000_000]));
    }
    config.flush_at_batch_end = rng.chance(0.3);
    config.restore_order = rng.chance(0.7);
    config.verify_alone = config.secret.is_multiple_of(3);
    config
}

#[derive(Debug)]
struct Flow {
    base: Frame,
    overlay: Overlay,
    meta: Meta,
    mss: usize,
    ids: Ids,
    /// Whether short frames are padded as on a wire.
    wire: bool,
    mix: Mix,
    /// One in this many packets is unusual.
    odd: f64,
    fill: Option<u8>,
    last: Option<(Frame, Meta)>,
    /// The connection begins with the next packet.
    fresh: bool,
}

impl Flow {
    fn new(rng: &mut Rng, number: u16, mix: Mix) -> Self {
        use LinkType::{Ethernet, LinuxSll, LinuxSll2, Loopback, Raw};
        let link = pick(rng, &[Ethernet, Ethernet, Ethernet, Raw, Loopback, LinuxSll, LinuxSll2]);
        let v6 = rng.chance(0.4);
        let udp = rng.chance(0.35);
        let ids = pick(
            rng,
            &[
                Ids::Fixed,
                Ids::Fixed,
                Ids::Counting,
                Ids::Counting,
                Ids::Counting,
                Ids::Counting,
                Ids::Random,
            ],
        );
        let plain = if udp && rng.chance(0.3) { Field::None } else { Field::Good };
        let mut meta = Meta { lane: u32::from(rng.chance(0.1)), ..Meta::default() };
        let mut field = plain;
        if plain == Field::Good && rng.chance(0.15) {
            // A sender's own packets, before its hardware.
            field = Field::Partial;
            if mix == Mix::All || rng.chance(0.5) {
                meta.checksum = ChecksumState::Partial;
            }
        } else if plain == Field::Good && mix == Mix::Vouched && rng.chance(0.5) {
            meta.checksum = ChecksumState::Valid;
        }
        let near_wrap = 0_u32.wrapping_sub(rng.below(40_000) as u32);
        let base = Frame {
            link,
            tags: tags(rng, link),
            mac: rng.below(4) as u8,
            v6,
            source: between(rng, 1, 2) as u8,
            destination: between(rng, 3, 4) as u8,
            tos: pick(rng, &[0, 2, 0xB8]),
            id: if rng.chance(0.5) {
                0_u16.wrapping_sub(rng.below(40) as u16)
            } else {
                rng.below(65_536) as u16
            },
            flags_fragment: pick(rng, &[0, 0x4000]),
            label: rng.below(1 << 20) as u32,
            extensions: if v6 && rng.chance(0.4) { extensions(rng) } else { Vec::new() },
            protocol: if udp { UDP } else { TCP },
            ports: (pick(rng, &[80, 443]), 5_000 + number),
            sequence: if rng.chance(0.5) { near_wrap } else { rng.next_u64() as u32 },
            acknowledgment: rng.next_u64() as u32,
            flags: ACK
                | if rng.chance(0.1) { pick(rng, &[AE, CWR, ECE, CWR | AE, 0x800]) } else { 0 },
            window: rng.next_u64() as u16,
            options: options(rng),
            field,
            ..Frame::default()
        };
        let mss = pick(rng, &[1, 2, 3, 5, 6, 7, 10, 18, 33, 64, 64, 101, 101, 250, 536, 1_448]);
        let odd = pick(rng, &[0.0, 0.0, 0.01, 0.03, 0.06, 0.15]);
        let fill = if rng.chance(0.2) { Some(pick(rng, &[0, 0xFF])) } else { None };
        let wire = rng.chance(0.7);
        let overlay = Overlay::default();
        Self { base, overlay, meta, mss, ids, wire, mix, odd, fill, last: None, fresh: true }
    }

    fn next(&mut self, rng: &mut Rng) -> (Frame, Meta) {
        if core::mem::take(&mut self.fresh) && self.base.protocol == TCP {
            let flags = SYN | if rng.chance(0.5) { ACK } else { 0 };
            let mut tunnel = self.overlay.wraps.clone();
            if !tunnel.is_empty() && rng.chance(self.odd) {
                self.odd_tunnel(rng, &mut tunnel);
            }
            let frame = Frame { flags, payload: Vec::new(), tunnel, ..self.base.clone() };
            return (self.finish(frame), self.meta);
        }
        let (mut len, mut meta) = (self.mss, self.meta);
        let odd = rng.chance(self.odd);
        let mut frame = self.base.clone();
        frame.payload = Vec::new();
        frame.tunnel = self.overlay.wraps.clone();
        let odd_tunnel = odd && !frame.tunnel.is_empty() && rng.chance(0.6);
        if odd_tunnel {
            self.odd_tunnel(rng, &mut frame.tunnel);
        }
        // Two things may go wrong at once.
        if odd && (!odd_tunnel || rng.chance(0.2)) {
            if rng.chance(0.3) {
                self.change(rng);
                let tunnel = frame.tunnel;
                frame = Frame { payload: Vec::new(), tunnel, ..self.base.clone() };
            } else if let Some(repeated) = self.odd_one(rng, &mut frame, &mut meta, &mut len) {
                return repeated;
            }
        }
        if frame.payload.is_empty() {
            frame.payload = vec![self.fill.unwrap_or(0); len];
            if self.fill.is_none() {
                rng.fill(&mut frame.payload);
            }
        }
        let base = &mut self.base;
        base.sequence = base.sequence.wrapping_add(frame.payload.len() as u32);
        base.id = self.ids.next(rng, base.id);
        self.overlay.advance(rng);
        if frame.protocol == TCP && frame.flags & (FIN | RST) != 0 {
            self.fresh = rng.chance(0.7);
        }
        let frame = self.finish(frame);
        self.last = Some((frame.clone(), meta));
        (frame, meta)
    }

    fn finish(&self, mut frame: Frame) -> Frame {
        if self.wire && frame.behind == Behind::Nothing {
            frame.behind = Behind::Padding;
        }
        frame
    }

    /// Changes that last: what a sender does now and then.
    fn change(&mut self, rng: &mut Rng) {
        let base = &mut self.base;
        match rng.below(9) {
            0 => base.window = base.window.wrapping_add(between(rng, 1, 9) as u16),
            1 => base.acknowledgment = base.acknowledgment.wrapping_add(1_448),
            2 | 3 => {
                if let Some(last) = base.options.last_mut() {
                    *last = last.wrapping_add(1);
                }
            }
            4 => base.options = options(rng),
            5 => base.flags ^= pick(rng, &[AE, CWR, ECE, 0x200]),
            6 => base.ttl = base.ttl.wrapping_sub(1).max(1),
            7 => base.tos ^= 3,
            _ => self.mss = (self.mss * 2).min(1_448),
        }
    }

    /// A change of the tunnel's headers, lasting or once.
    fn odd_tunnel(&mut self, rng: &mut Rng, tunnel: &mut [Wrap]) {
        if rng.chance(0.2) {
            self.overlay.change(rng);
            tunnel.clone_from_slice(&self.overlay.wraps);
        } else {
            overlay::disturb(rng, tunnel, self.mix == Mix::Vouched);
        }
    }

    /// Something out of the ordinary, once. Gives a packet that is complete as it is.
    fn odd_one(
        &mut self,
        rng: &mut Rng,
        frame: &mut Frame,
        meta: &mut Meta,
        len: &mut usize,
    ) -> Option<(Frame, Meta)> {
        let vouched = self.mix == Mix::Vouched || frame.field == Field::Partial;
        if frame.field == Field::Partial && frame.protocol == UDP && rng.chance(0.1) {
            // Without a checksum there is nothing for the hardware to complete.
            frame.field = Field::None;
        }
        match rng.below(if vouched { 27 } else { 35 }) {
            0..=2 => *len = between(rng, 1, *len as u64) as usize,
            3 => *len += between(rng, 1, 3) as usize,
            4 => frame.flags |= PSH,
            5 => frame.flags |= FIN | PSH,
            6 => frame.flags |= pick(rng, &[RST, SYN]),
            7 => (frame.flags, frame.urgent) = (frame.flags | URG, between(rng, 1, 5) as u16),
            8 => frame.urgent = 1,
            9 => frame.flags ^= pick(rng, &[AE, CWR, ECE, ACK, 0x400]),
            10 => *len = 0,
            11 => {
                let gap = between(rng, 1, 3_000) as u32;
                self.base.sequence = self.base.sequence.wrapping_add(gap);
            }
            12 | 13 => return self.last.clone(),
            14 => frame.id = rng.next_u64() as u16,
            15 => frame.flags_fragment ^= pick(rng, &[0x4000, 0x8000]),
            16 => frame.label ^= 1,
            17 => frame.ttl ^= 1,
            18 => frame.tos ^= 1,
            19 => fragment_of(rng, frame),
            20 => frame.ip_options = pick(rng, &[&[1, 1, 1, 0][..], &[0x94, 4, 0, 0]]).to_vec(),
            21 => meta.mark = pick(rng, &[1, Meta::NEVER]),
            22 => meta.lane ^= 1,
            23 => frame.mac ^= 4,
            24 => {
                // ICMP, an error about a packet perhaps, or another protocol.
                frame.protocol = pick(rng, &[1, 58, 50, 59]);
            }
            25 => frame.keep = between(rng, 1, 90) as usize,
            26 => return Some(self.garbage(rng, frame, *meta)),
            27 | 28 => frame.field = Field::Bad,
            29 => frame.ip_field = pick(rng, &[IpField::Bad, IpField::Zero, IpField::Ones]),
            30 | 31 => frame.field = Field::ComputesToZero,
            32 => frame.field = Field::Ones,
            33 => frame.field = pick(rng, &[Field::None, Field::Partial]),
            _ => {
                let mut trailer = vec![0; between(rng, 1, 50) as usize];
                if rng.chance(0.5) {
                    rng.fill(&mut trailer);
                }
                frame.behind = Behind::Bytes(trailer);
            }
        }
        if *len == 0 {
            // A pure acknowledgment: nothing is to be filled in.
            let empty = Frame { payload: Vec::new(), ..frame.clone() };
            return Some((self.finish(empty), *meta));
        }
        None
    }

    /// A packet of the flow with some bytes changed, or noise.
    fn garbage(&self, rng: &mut Rng, frame: &Frame, meta: Meta) -> (Frame, Meta) {
        let mut noise = vec![0; between(rng, 0, 120) as usize];
        rng.fill(&mut noise);
        // Nobody vouches for noise.
        let vouched = self.mix == Mix::Vouched;
        let protocols: &[u8] = if vouched { &[255] } else { &[TCP, UDP, 0, 44, 60, 255] };
        let protocol = pick(rng, protocols);
        let frame = Frame { protocol, payload: noise, ..frame.clone() };
        let mut bytes = frame.bytes();
        for _ in 0..if vouched { 0 } else { rng.below(4) } {
            let at = rng.below(bytes.len() as u64) as usize;
            bytes[at] = rng.next_u64() as u8;
        }
        (Frame { raw: Some(bytes), ..frame }, meta)
    }
}

/// One fragment of a datagram.
fn fragment_of(rng: &mut Rng, frame: &mut Frame) {
    if frame.v6 {
        let offset = pick(rng, &[0, 8, 1_400]) | 1_u16;
        let [high, low] = offset.to_be_bytes();
        frame.extensions.push((44, vec![0, high, low, 0, 0, 0, 9]));
    } else {
        frame.flags_fragment = pick(rng, &[0x2000, 0x2001, 0x0003]);
    }
}

/// Hop-by-hop and destination options of padding, and a routing header that has arrived.
fn extensions(rng: &mut Rng) -> Vec<(u8, Vec<u8>)> {
    let padding = |units: u8| {
        let mut body = vec![units, 1, units * 8 + 4];
        body.resize(usize::from(units) * 8 + 7, 0);
        body
    };
    let mut all = vec![(0, padding(rng.below(3) as u8))];
    if rng.chance(0.4) {
        // A few are still on their way: segments are left.
        all.push((43, vec![0, 0, u8::from(rng.chance(0.1)), 0, 0, 0, 0]));
    }
    if rng.chance(0.5) {
        all.push((60, padding(rng.below(2) as u8)));
    }
    let from = rng.below(all.len() as u64) as usize;
    all.drain(..from);
    all
}

fn options(rng: &mut Rng) -> Vec<u8> {
    match rng.below(4) {
        0 => Vec::new(),
        1 | 2 => {
            let mut options = vec![1, 1, 8, 10];
            options.extend(rng.next_u64().to_be_bytes());
            options
        }
        _ => {
            let mut options = vec![0; 4 * between(rng, 1, 10) as usize];
            rng.fill(&mut options);
            options
        }
    }
}
