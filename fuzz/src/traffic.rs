//! Traffic drawn from bytes: a few flows, in tunnels or not, whose packets go on as a sender's
//! would unless a byte says what is to go wrong.

use crate::draw::{Draw, LINKS};
use linecard::packet::Meta;
use linecard::time::Instant;
use linecard_testkit::packets::frame::{ACK, Behind, Field, Frame, IpField, TCP, UDP};
use linecard_testkit::packets::traffic::Arrival;
use linecard_testkit::packets::tunnel::{Wrap, each_kind};

/// Packets of one input: enough to fill tiny limits, few enough for a thousand inputs a second.
pub(crate) const MOST: usize = 48;

/// One sender.
struct Flow {
    frame: Frame,
    /// Added to the identification of each packet.
    id_step: u16,
    len: usize,
}

impl Flow {
    fn draw(draw: &mut Draw<'_>, number: u8) -> Self {
        let frame = frame(draw, number);
        let len = draw.pick(&[100, 1, 2, 5, 18, 46, 7, 300, 0]);
        Self { frame, id_step: draw.pick(&[1, 0, 0xFFFF]), len }
    }

    /// The next packet; what comes behind it goes on from there.
    fn next(&mut self, draw: &mut Draw<'_>, change: bool) -> Frame {
        let mut frame = self.frame.clone();
        frame.payload = vec![frame.sequence as u8; self.len];
        if change {
            disturb(draw, &mut frame);
        }
        self.frame.sequence = self.frame.sequence.wrapping_add(frame.payload.len() as u32);
        self.frame.id = self.frame.id.wrapping_add(self.id_step);
        for wrap in &mut self.frame.tunnel {
            if let Wrap::Ip(ip) = wrap {
                ip.id = ip.id.wrapping_add(self.id_step);
            }
        }
        frame
    }
}

/// A frame without payload.
pub(crate) fn frame(draw: &mut Draw<'_>, number: u8) -> Frame {
    let kind = draw.byte();
    let tunnels = each_kind(0);
    let tunnel = draw.below(2 * tunnels.len());
    Frame {
        link: draw.pick(&LINKS[..5]),
        tunnel: tunnels.into_iter().nth(tunnel).map(|(_, wraps)| wraps).unwrap_or_default(),
        v6: kind & 1 != 0,
        protocol: if kind & 2 != 0 { UDP } else { TCP },
        // Some share their ends, and differ in their ports only.
        source: 1 + number * (kind >> 2 & 1),
        ports: (1000 + u16::from(number), 2000),
        tags: if kind & 8 != 0 { vec![[0x81, 0, 0, 7]] } else { Vec::new() },
        options: match kind >> 4 & 3 {
            1 => vec![1, 1, 8, 10, 0, 0, 0, 9, 0, 0, 0, 7],
            2 => vec![1; 4],
            _ => Vec::new(),
        },
        field: if kind & 0x40 != 0 { Field::None } else { Field::Good },
        sequence: if kind & 0x80 != 0 { u32::MAX - 300 } else { 1 },
        flags: ACK,
        payload: Vec::new(),
        ..Frame::default()
    }
}

/// Something out of the ordinary.
pub(crate) fn disturb(draw: &mut Draw<'_>, frame: &mut Frame) {
    match draw.below(26) {
        0 => frame.flags ^= 1 << draw.below(9),
        1 => frame.flags = draw.word() & 0xFFF,
        2 => frame.window ^= draw.word(),
        3 => frame.acknowledgment = frame.acknowledgment.wrapping_add(draw.byte().into()),
        4 => frame.acknowledgment = frame.acknowledgment.wrapping_sub(draw.byte().into()),
        5 => frame.tos = draw.byte(),
        6 => frame.ttl = draw.byte(),
        7 => frame.id = draw.word(),
        8 => frame.flags_fragment = draw.word() & 0xE007,
        9 => frame.sequence = frame.sequence.wrapping_add(u32::from(draw.byte()) * 20),
        10 => frame.sequence = frame.sequence.wrapping_sub(u32::from(draw.byte()) * 20),
        11 => frame.payload.truncate(draw.below(256)),
        12 => frame.payload.resize(draw.below(256), 3),
        13 => frame.options = vec![draw.byte(); 4 * draw.below(11)],
        14 => {
            let fields = [Field::ComputesToZero, Field::Ones, Field::Bad, Field::None];
            frame.field = draw.pick(&[&fields[..], &[Field::Partial, Field::Good]].concat());
        }
        15 => frame.ip_field = draw.pick(&[IpField::Bad, IpField::Zero, IpField::Ones]),
        16 => frame.behind = Behind::Padding,
        17 => frame.behind = Behind::Bytes(vec![draw.byte(); draw.below(60)]),
        18 => frame.keep = draw.below(256),
        19 => frame.ip_options = draw.pick(&[&[1_u8, 1, 1, 0][..], &[0x94, 4, 0, 0]]).to_vec(),
        20 => {
            let kind = draw.pick(&[0, 43, 60, 44]);
            frame.extensions.push((kind, vec![0, draw.byte(), 0, 0, 0, 0, 0]));
        }
        21 => frame.protocol = draw.pick(&[1, 4, 6, 17, 41, 47, 50, 58, 137]),
        22 => frame.tunnel.truncate(draw.below(6)),
        23 => frame.tunnel.extend(draw_tunnel(draw)),
        24 => frame.urgent = draw.word(),
        _ => frame.label ^= u32::from(draw.byte()),
    }
}

fn draw_tunnel(draw: &mut Draw<'_>) -> Vec<Wrap> {
    let mut tunnels = each_kind(draw.below(4));
    tunnels.swap_remove(draw.below(tunnels.len())).1
}

/// Bytes changed, cut off or added.
pub(crate) fn damage(draw: &mut Draw<'_>, bytes: &mut Vec<u8>) {
    match draw.below(4) {
        0 => bytes.truncate(draw.below(256)),
        1 => bytes.resize(bytes.len() + draw.below(64), 0),
        _ if bytes.is_empty() => {}
        _ => {
            let at = draw.below(256) % bytes.len();
            bytes[at] = draw.byte();
        }
    }
}

/// Frames of some flows, each with the time of its arrival, which mostly does not go back.
pub(crate) fn arrivals(draw: &mut Draw<'_>) -> Vec<Arrival> {
    let count = 1 + draw.below(3) as u8;
    let mut flows: Vec<Flow> = (0..count).map(|number| Flow::draw(draw, number)).collect();
    let (mut arrivals, mut times, mut now) = (Vec::<Arrival>::new(), Vec::new(), 0_u64);
    while !draw.is_done() && arrivals.len() < MOST {
        let choice = draw.byte();
        let which = usize::from(choice & 3) % flows.len();
        let flow = &mut flows[which];
        let mut meta = Meta::default();
        let mut packets = 1;
        match choice >> 2 {
            0..24 => {}
            24..30 => now += u64::from(draw.byte()) << draw.pick(&[0, 8, 14]),
            30 => now = now.saturating_sub(u64::from(draw.word())),
            31..36 => disturb(draw, &mut flow.frame),
            // A packet is lost.
            36..38 => drop(flow.next(draw, false)),
            38..40 => packets = 2 + draw.below(16),
            40 => meta.lane = draw.below(2) as u32,
            41 => meta.mark = draw.pick(&[1, Meta::NEVER]),
            _ => packets = 0,
        }
        for _ in 0..packets {
            let frame = flow.next(draw, false);
            arrivals.push(Arrival {
                link: frame.link,
                bytes: frame.bytes(),
                meta,
                now: Instant::ZERO,
            });
        }
        if packets == 0 {
            let mut arrival =
                Arrival { link: flow.frame.link, bytes: Vec::new(), meta, now: Instant::ZERO };
            match choice >> 2 {
                // Late: moved to the front of others.
                42..46 => {
                    let late = arrivals.len().saturating_sub(1 + draw.below(16));
                    arrival = arrivals.pop().unwrap_or(arrival);
                    arrivals.insert(late.min(arrivals.len()), arrival);
                    continue;
                }
                46..48 => match arrivals.len() {
                    0 => continue,
                    len => arrival = arrivals[len - 1 - draw.below(16) % len].clone(),
                },
                48..50 => {
                    arrival.bytes = flow.next(draw, false).bytes();
                    damage(draw, &mut arrival.bytes);
                }
                50 => {
                    let len = draw.below(256);
                    arrival.bytes = draw.take(len);
                }
                _ => {
                    let frame = flow.next(draw, true);
                    (arrival.link, arrival.bytes) = (frame.link, frame.bytes());
                }
            }
            arrivals.push(arrival);
        }
        times.resize(arrivals.len(), now);
    }
    times.resize(arrivals.len(), now);
    for (arrival, now) in arrivals.iter_mut().zip(times) {
        arrival.now = Instant::from_ns(now);
        arrival.meta.timestamp = arrival.now;
    }
    arrivals
}
