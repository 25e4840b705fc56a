//! Random tunnels: chains of encapsulations that make sense, how their headers change from packet to packet, and faults
//! in them.

use super::frame::{Field, IpField};
use super::headers::{Ids, tags};
use super::ip::Ip;
use super::tunnel::Wrap;
use super::{between, pick};
use linecard::packet::LinkType;
use linecard::rng::Rng;

/// The headers around a flow's datagrams.
#[derive(Debug, Clone, Default)]
pub struct Overlay {
    pub wraps: Vec<Wrap>,
    /// How identifications continue in each outer IP header.
    ids: Vec<Ids>,
}

/// Headers that may enclose the packet built so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Around {
    /// Anything that names an EtherType: a link, Ethernet in a tunnel, GRE.
    Type,
    /// An IP header in an IP header.
    Ip,
}

impl Overlay {
    pub fn new(rng: &mut Rng, link: LinkType) -> Self {
        let mut overlay = Self::default();
        let bare = matches!(link, LinkType::Raw | LinkType::Loopback);
        let mut around = if bare { Around::Ip } else { Around::Type };
        // Four are one more than are followed.
        for _ in 0..pick(rng, &[1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 3, 3, 4]) {
            around = overlay.add_tunnel(rng, around);
        }
        overlay
    }

    /// Adds one tunnel inside those there are.
    fn add_tunnel(&mut self, rng: &mut Rng, around: Around) -> Around {
        if around == Around::Type && rng.chance(0.25) {
            self.wraps.push(if rng.chance(0.5) { mpls(rng) } else { pppoe(rng) });
            if rng.chance(0.5) {
                // These two alone carry no other but IP.
                return Around::Ip;
            }
        }
        self.wraps.push(Wrap::Ip(outer_ip(rng)));
        let counting = if rng.chance(0.9) { Ids::Counting } else { Ids::Random };
        self.ids.push(if rng.chance(0.3) { Ids::Fixed } else { counting });
        match rng.below(6) {
            0 => Around::Ip,
            1 => {
                self.wraps.push(mpls(rng));
                Around::Ip
            }
            2 | 3 => self.add_udp(rng),
            _ => self.add_gre(rng),
        }
    }

    fn add_udp(&mut self, rng: &mut Rng) -> Around {
        let port = pick(rng, &[4789, 4789, 8472, 6081, 6081, 6635]);
        let field = pick(rng, &[Field::None, Field::Good]);
        self.wraps.push(Wrap::Udp { source: 50_000 + rng.below(3) as u16, port, field });
        match port {
            6635 => {
                self.wraps.push(mpls(rng));
                return Around::Ip;
            }
            6081 => {
                let options = vec![7; 4 * pick(rng, &[0, 0, 1, 2, 5, 40])];
                self.wraps.push(Wrap::Geneve { version: 0, control: 0, options });
            }
            _ => self.wraps.push(Wrap::Vxlan { flags: 8, vni: rng.below(2) as u8, reserved: 0 }),
        }
        if port != 6081 || rng.chance(0.7) {
            self.wraps.push(ethernet(rng));
        }
        Around::Type
    }

    fn add_gre(&mut self, rng: &mut Rng) -> Around {
        let checksum = if rng.chance(0.4) { Some(Field::Good) } else { None };
        let key = if rng.chance(0.4) { Some(rng.below(2) as u32) } else { None };
        self.wraps.push(Wrap::Gre { key, checksum, sequence: None });
        if rng.chance(0.4) {
            self.wraps.push(ethernet(rng));
        }
        Around::Type
    }

    /// Goes on to the next packet.
    pub fn advance(&mut self, rng: &mut Rng) {
        for (ip, ids) in networks(&mut self.wraps).zip(&self.ids) {
            ip.id = ids.next(rng, ip.id);
        }
    }

    /// A change that lasts: another way through the network, or congestion there.
    pub fn change(&mut self, rng: &mut Rng) {
        let Some(ip) = any_network(rng, &mut self.wraps) else { return };
        match rng.below(3) {
            0 => ip.ttl = ip.ttl.wrapping_sub(1).max(1),
            1 => ip.tos ^= 3,
            _ => ip.flags_fragment ^= 0x4000,
        }
    }
}

fn networks(wraps: &mut [Wrap]) -> impl Iterator<Item = &mut Ip> {
    wraps.iter_mut().filter_map(|wrap| if let Wrap::Ip(ip) = wrap { Some(ip) } else { None })
}

fn any_network<'a>(rng: &mut Rng, wraps: &'a mut [Wrap]) -> Option<&'a mut Ip> {
    let count = networks(wraps).count() as u64;
    networks(wraps).nth(rng.below(count) as usize)
}

fn outer_ip(rng: &mut Rng) -> Ip {
    let v6 = rng.chance(0.4);
    // The tunnel encapsulation limit (RFC 2473, section 4.1.1), as Linux sends it.
    let limit = vec![(60, vec![0, 4, 1, 4, 1, 1, 0])];
    Ip {
        v6,
        // Sometimes the ends of a tunnel are those of the inner packet.
        source: pick(rng, &[101, 101, 101, 1]),
        destination: pick(rng, &[102, 103, 3]),
        tos: pick(rng, &[0, 2, 0xB8]),
        id: pick(rng, &[0, 65_530, 40_000]),
        flags_fragment: pick(rng, &[0, 0x4000]),
        label: rng.below(1 << 20) as u32,
        extensions: if v6 && rng.chance(0.3) { limit } else { Vec::new() },
        ..Ip::default()
    }
}

fn ethernet(rng: &mut Rng) -> Wrap {
    let tags = if rng.chance(0.3) { tags(rng, LinkType::Ethernet) } else { Vec::new() };
    Wrap::Ethernet { mac: rng.below(2) as u8, tags, behind: Vec::new(), kind: None }
}

fn mpls(rng: &mut Rng) -> Wrap {
    let count = between(rng, 1, 3) as u8;
    let labels = (0..count).map(|label| [0, label, rng.below(2) as u8 * 0x10, 63]).collect();
    Wrap::Mpls { labels, endless: false }
}

fn pppoe(rng: &mut Rng) -> Wrap {
    Wrap::Pppoe { session: rng.below(2) as u16, code: 0, excess: 0 }
}

/// Something out of the ordinary in one of the headers, once. Faults that break checksums are left
/// out when checksums are vouched for.
pub fn disturb(rng: &mut Rng, wraps: &mut [Wrap], vouched: bool) {
    let at = rng.below(wraps.len() as u64) as usize;
    match &mut wraps[at] {
        Wrap::Ip(ip) => disturb_ip(rng, ip, vouched),
        Wrap::Udp { source, field, port } => match rng.below(if vouched { 3 } else { 5 }) {
            0 => *source ^= 1,
            1 => *field = if *field == Field::None { Field::Good } else { Field::None },
            2 => *port = pick(rng, &[4789, 6081, 6635, 4790]),
            _ => *field = Field::Bad,
        },
        Wrap::Gre { key, checksum, sequence } => match rng.below(if vouched { 3 } else { 5 }) {
            0 => *key = pick(rng, &[None, Some(7)]),
            1 => *sequence = Some(rng.below(9) as u32),
            2 => *checksum = pick(rng, &[None, Some(Field::Good)]),
            _ => *checksum = pick(rng, &[Some(Field::Bad), Some(Field::Ones)]),
        },
        Wrap::Ethernet { mac, tags, behind, kind } => match rng.below(4) {
            0 => *mac ^= 1,
            1 => tags.push([0x81, 0, 0, 5]),
            // Filled up to the shortest frame, or just longer.
            2 => {
                *behind = vec![0; between(rng, 1, 40) as usize];
                if rng.chance(0.3) {
                    rng.fill(behind);
                }
            }
            _ => *kind = pick(rng, &[Some(0x0806), Some(0x0800), Some(0x86DD), Some(0x6558)]),
        },
        Wrap::Mpls { labels, endless } => match rng.below(3) {
            0 => labels[0][1] ^= 0x40,
            1 => *labels = vec![[0, 1, 0, 63]; between(rng, 1, 10) as usize],
            _ => *endless = true,
        },
        Wrap::Pppoe { session, code, excess } => match rng.below(3) {
            0 => *session ^= 1,
            1 => *code = 9,
            _ => *excess = pick(rng, &[-60, -30, -2, -1, 1]),
        },
        Wrap::Vxlan { flags, vni, reserved } => match rng.below(3) {
            0 => *flags = pick(rng, &[0, 0x0C]),
            1 => *vni ^= 1,
            _ => *reserved = 1,
        },
        Wrap::Geneve { version, control, options } => match rng.below(4) {
            0 => *version = 1,
            1 => *control = pick(rng, &[0x80, 0x40]),
            2 => *options = vec![9; 4 * between(rng, 0, 63) as usize],
            _ => options.iter_mut().for_each(|byte| *byte ^= 1),
        },
    }
}

fn disturb_ip(rng: &mut Rng, ip: &mut Ip, vouched: bool) {
    match rng.below(if vouched { 8 } else { 10 }) {
        0 => ip.tos ^= pick(rng, &[1, 3]),
        1 => ip.ttl ^= 1,
        2 => ip.id = rng.next_u64() as u16,
        3 => ip.flags_fragment ^= pick(rng, &[0x4000, 0x8000]),
        4 => ip.label ^= 1,
        5 if ip.v6 => ip.extensions = vec![(44, vec![0, 0, 1, 0, 0, 0, 9])],
        5 => ip.flags_fragment = pick(rng, &[0x2000, 0x2001, 0x0003]),
        6 if !ip.v6 => ip.options = pick(rng, &[&[1, 1, 1, 0][..], &[0x94, 4, 0, 0]]).to_vec(),
        6 => ip.extensions = vec![(0, vec![0, 1, 4, 0, 0, 0, 0])],
        7 => ip.destination ^= 8,
        _ => ip.field = pick(rng, &[IpField::Bad, IpField::Zero, IpField::Ones]),
    }
}
