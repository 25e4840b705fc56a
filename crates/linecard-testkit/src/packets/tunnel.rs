//! Encapsulations, one header each; a tunnel is a list of them around a datagram.
//!
//! VXLAN, for example, is `Ip`, `Udp`, `Vxlan`, `Ethernet`, the outermost first.

use super::frame::{Field, UDP, add16, pseudo, put16, sum16};
use super::ip::Ip;

/// One header around an inner packet.
#[derive(Debug, Clone)]
pub enum Wrap {
    /// An Ethernet frame inside a tunnel. It may go on behind its datagram, and may name another
    /// type than the inner packet.
    Ethernet { mac: u8, tags: Vec<[u8; 4]>, behind: Vec<u8>, kind: Option<u16> },
    /// MPLS labels (RFC 3032); the last gets the bottom-of-stack bit, unless all are to lack it.
    Mpls { labels: Vec<[u8; 4]>, endless: bool },
    /// PPPoE (RFC 2516) and PPP's protocol; its length is right but for `excess`.
    Pppoe { session: u16, code: u8, excess: i16 },
    /// An outer IP header.
    Ip(Ip),
    /// An outer UDP header.
    Udp { source: u16, port: u16, field: Field },
    /// GRE (RFC 2784, RFC 2890).
    Gre { key: Option<u32>, checksum: Option<Field>, sequence: Option<u32> },
    /// VXLAN (RFC 7348): flags and the reserved byte at the end.
    Vxlan { flags: u8, vni: u8, reserved: u8 },
    /// Geneve (RFC 8926): version in the upper two bits, control flag, options.
    Geneve { version: u8, control: u8, options: Vec<u8> },
}

/// How the header around a packet names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carried {
    EtherType(u16),
    Protocol(u8),
    /// A UDP header whose checksum waits for its pseudo header.
    Udp(Field),
    /// Anonymous parts: the port or a header before it says what it is.
    Known,
}

pub const ETHERNET: u16 = 0x6558;
pub const MPLS: u16 = 0x8847;
pub const PPPOE: u16 = 0x8864;

impl Wrap {
    /// Puts this header before `inner`.
    pub fn around(&self, inner: &[u8], carried: Carried) -> (Vec<u8>, Carried) {
        let kind = ether_type(carried);
        match self {
            Self::Ethernet { mac, tags, behind, kind: other } => {
                let mut bytes = vec![2, 0, 0, 0, 1, 9, 2, 0, 0, 0, 1, *mac];
                bytes.extend(tags.concat());
                bytes.extend(other.unwrap_or(kind).to_be_bytes());
                bytes.extend(inner);
                bytes.extend(behind);
                (bytes, Carried::EtherType(ETHERNET))
            }
            Self::Mpls { labels, endless } => {
                let mut bytes = labels.concat();
                let bottom = bytes.len() - 2;
                bytes[bottom] |= u8::from(!endless);
                bytes.extend(inner);
                (bytes, Carried::EtherType(MPLS))
            }
            Self::Pppoe { session, code, excess } => {
                let mut bytes = vec![0x11, *code];
                bytes.extend(session.to_be_bytes());
                let len = (2 + inner.len() as u16).wrapping_add_signed(*excess);
                bytes.extend(len.to_be_bytes());
                bytes.extend(if kind == 0x0800 { [0, 0x21] } else { [0, 0x57] });
                bytes.extend(inner);
                (bytes, Carried::EtherType(PPPOE))
            }
            Self::Ip(ip) => (ip_around(ip, inner, carried), ip_type(ip)),
            Self::Udp { source, port, field } => {
                let mut bytes = [source.to_be_bytes(), port.to_be_bytes()].concat();
                bytes.extend((8 + inner.len() as u16).to_be_bytes());
                bytes.extend([0, 0]);
                bytes.extend(inner);
                (bytes, Carried::Udp(*field))
            }
            Self::Gre { key, checksum, sequence } => {
                (gre(*key, *checksum, *sequence, (kind, inner)), Carried::Protocol(47))
            }
            Self::Vxlan { flags, vni, reserved } => {
                let header = [*flags, 0, 0, 0, 0, 0, *vni, *reserved];
                ([&header[..], inner].concat(), Carried::Known)
            }
            Self::Geneve { version, control, options } => {
                let mut bytes = vec![version << 6 | (options.len() / 4) as u8, *control];
                bytes.extend(kind.to_be_bytes());
                bytes.extend([0, 0, 7, 0]);
                bytes.extend(options);
                bytes.extend(inner);
                (bytes, Carried::Known)
            }
        }
    }
}

fn ip_type(ip: &Ip) -> Carried {
    Carried::EtherType(if ip.v6 { 0x86DD } else { 0x0800 })
}

/// The EtherType of what a link or a tunnel carries.
pub fn ether_type(carried: Carried) -> u16 {
    match carried {
        Carried::EtherType(kind) => kind,
        // Nothing that is known.
        _ => 0x88B5,
    }
}

fn ip_around(ip: &Ip, inner: &[u8], carried: Carried) -> Vec<u8> {
    let mut inner = inner.to_vec();
    let protocol = match carried {
        Carried::EtherType(0x0800) => 4,
        Carried::EtherType(0x86DD) => 41,
        Carried::EtherType(MPLS) => 137,
        Carried::Protocol(number) => number,
        Carried::Udp(field) => {
            let sum = add16(sum16(&pseudo(&ip.addresses(), UDP, inner.len())), sum16(&inner));
            put16(&mut inner, 6, outer_field(field, !sum));
            UDP
        }
        _ => 59,
    };
    [ip.header(protocol, inner.len()), inner].concat()
}

/// Content of an outer UDP checksum field.
fn outer_field(field: Field, checksum: u16) -> u16 {
    match (field, checksum) {
        (Field::None, _) => 0,
        (Field::Bad, 0x0400) => 0x0800,
        (Field::Bad, checksum) => checksum ^ 0x0400,
        (_, 0) => 0xFFFF,
        (_, checksum) => checksum,
    }
}

fn gre(
    key: Option<u32>,
    checksum: Option<Field>,
    sequence: Option<u32>,
    (kind, inner): (u16, &[u8]),
) -> Vec<u8> {
    let flag = |set: bool, bit: u8| if set { bit } else { 0 };
    let flags =
        flag(checksum.is_some(), 0x80) | flag(key.is_some(), 0x20) | flag(sequence.is_some(), 0x10);
    let mut bytes = vec![flags, 0];
    bytes.extend(kind.to_be_bytes());
    bytes.extend(checksum.map_or(vec![], |_| vec![0; 4]));
    bytes.extend(key.map_or(vec![], |key| key.to_be_bytes().to_vec()));
    bytes.extend(sequence.map_or(vec![], |number| number.to_be_bytes().to_vec()));
    bytes.extend(inner);
    let right = !sum16(&bytes);
    match checksum {
        None => {}
        // A sender computes 0 here, and 0xFFFF is the same number.
        Some(Field::Ones) if right == 0 => put16(&mut bytes, 4, 0xFFFF),
        Some(Field::Bad) => put16(&mut bytes, 4, right ^ 0x0400),
        Some(_) => put16(&mut bytes, 4, right),
    }
    bytes
}

/// A tunnel of each kind with its usual headers, by name. `index` counts packets: identifications
/// continue with it.
pub fn each_kind(index: usize) -> Vec<(&'static str, Vec<Wrap>)> {
    let v4 = || Wrap::Ip(Ip { id: 7 + index as u16, ..Ip::default() });
    let v6 = || Wrap::Ip(Ip { v6: true, ..Ip::default() });
    let udp = |port, field| Wrap::Udp { source: 50_000, port, field };
    let ethernet =
        || Wrap::Ethernet { mac: 3, tags: vec![[0x81, 0, 0, 9]], behind: Vec::new(), kind: None };
    let mpls = || Wrap::Mpls { labels: vec![[0, 1, 0, 63], [0, 2, 0x20, 63]], endless: false };
    let gre = |checksum| Wrap::Gre { key: Some(77), checksum, sequence: None };
    let vxlan = || Wrap::Vxlan { flags: 8, vni: 5, reserved: 0 };
    let geneve = || Wrap::Geneve { version: 0, control: 0, options: vec![1, 2, 3, 1, 0, 0, 0, 9] };
    vec![
        ("MPLS", vec![mpls()]),
        ("PPPoE", vec![Wrap::Pppoe { session: 4, code: 0, excess: 0 }]),
        ("IP in IPv4", vec![v4()]),
        ("IP in IPv6", vec![v6()]),
        ("MPLS in IP", vec![v4(), mpls()]),
        ("GRE", vec![v4(), gre(None)]),
        ("GRE with checksum", vec![v6(), gre(Some(Field::Good))]),
        ("Ethernet in GRE", vec![v4(), gre(Some(Field::Good)), ethernet()]),
        ("MPLS in GRE", vec![v4(), gre(None), mpls()]),
        ("MPLS in UDP", vec![v6(), udp(6635, Field::Good), mpls()]),
        ("VXLAN", vec![v4(), udp(4789, Field::None), vxlan(), ethernet()]),
        ("VXLAN with checksum", vec![v4(), udp(4789, Field::Good), vxlan(), ethernet()]),
        ("VXLAN over IPv6", vec![v6(), udp(8472, Field::Good), vxlan(), ethernet()]),
        ("Geneve", vec![v4(), udp(6081, Field::Good), geneve(), ethernet()]),
        ("IP in Geneve", vec![v6(), udp(6081, Field::None), geneve()]),
        (
            "VXLAN in GRE",
            vec![v6(), gre(Some(Field::Good)), v4(), udp(4789, Field::Good), vxlan(), ethernet()],
        ),
        (
            "PPPoE in VXLAN",
            vec![
                v4(),
                udp(4789, Field::Good),
                vxlan(),
                ethernet(),
                Wrap::Pppoe { session: 4, code: 0, excess: 0 },
            ],
        ),
        ("three deep", vec![mpls(), v4(), v4(), gre(Some(Field::Good)), v6()]),
    ]
}
