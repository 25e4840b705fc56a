//! Packets in packets, with what the kernel makes of them.

use super::{Case, sized};
use crate::frame::{Frame, Ip, Tunnel};

/// Name, the bytes between the headers, and the device whose UDP port the kernel must know.
type Kind = (&'static str, Tunnel, Option<(&'static str, &'static str)>);

const TUNNELS: [Kind; 6] = [
    ("IP", Tunnel::Ip, None),
    ("GRE", Tunnel::Gre, None),
    ("VXLAN", Tunnel::Vxlan { checksum: false }, Some(("vxlan", "4789"))),
    ("VXLAN with checksum", Tunnel::Vxlan { checksum: true }, Some(("vxlan", "4789"))),
    ("Geneve", Tunnel::Geneve { checksum: false }, Some(("geneve", "6081"))),
    ("Geneve with checksum", Tunnel::Geneve { checksum: true }, Some(("geneve", "6081"))),
];

const ALL: &str = "1+2+3+4+5";
const NOT_THE_THIRD: &str = "1+2 3 4+5";
const FROM_THE_THIRD: &str = "1+2 3+4+5";

type Change = fn(usize, &mut Frame);

/// The change, and the kernel's result.
const RULES: [(&str, Change, &str); 8] = [
    ("", |_, _| {}, ALL),
    (", outer TTL, third", |at, frame| frame.outer[0].0.ttl -= third(at), NOT_THE_THIRD),
    (", outer ECN, third", |at, frame| frame.outer[0].0.tos = third(at), NOT_THE_THIRD),
    (", inner TTL, third", |at, frame| frame.ip.ttl -= third(at), NOT_THE_THIRD),
    (", inner ECN, third", |at, frame| frame.ip.tos = third(at), NOT_THE_THIRD),
    (", inner PSH, third", |at, frame| frame.flags |= 8 * u16::from(third(at)), "1+2+3 4+5"),
    (
        ", inner acknowledgment, third",
        |at, frame| {
            frame.acknowledgment += u32::from(third(at));
        },
        NOT_THE_THIRD,
    ),
    (", inner ports, third", |at, frame| frame.ports.0 += u16::from(third(at)), NOT_THE_THIRD),
];

/// Of outer IPv4 headers.
const OUTER_IPV4: [(&str, Change, &str); 3] = [
    (", outer identification fixed", |_, frame| frame.outer[0].0.id = 3, ALL),
    (
        ", outer identification jumps",
        |at, frame| {
            frame.outer[0].0.id += 7 * u16::from(third(at));
        },
        NOT_THE_THIRD,
    ),
    (
        ", outer DF, third",
        |at, frame| {
            frame.outer[0].0.flags_fragment ^= 0x4000 * u16::from(third(at));
        },
        NOT_THE_THIRD,
    ),
];

/// Of inner IPv4 headers.
const INNER_IPV4: [(&str, Change, &str); 3] = [
    (", inner identification fixed", |_, frame| frame.ip.id = 3, ALL),
    (
        ", inner identification moves on",
        |at, frame| {
            frame.ip.id += 7 * u16::from(at >= 2);
        },
        FROM_THE_THIRD,
    ),
    (
        ", inner DF, third",
        |at, frame| {
            frame.ip.flags_fragment ^= 0x4000 * u16::from(third(at));
        },
        NOT_THE_THIRD,
    ),
];

fn third(index: usize) -> u8 {
    u8::from(index == 2)
}

fn version(v6: bool) -> &'static str {
    if v6 { "IPv6" } else { "IPv4" }
}

fn outer(v6: bool, index: usize) -> Ip {
    Ip { v6, ends: (21, 22), id: 900 + index as u16, ..Ip::default() }
}

/// All cases that the kernel can be asked: `device` adds one of a kind and port, if it can.
pub(crate) fn tunnels(mut device: impl FnMut(&str, &str) -> bool) -> Vec<Case> {
    let (mut cases, mut devices) = (Vec::new(), Vec::new());
    for (kind, tunnel, needs) in TUNNELS {
        if let Some((name, port)) = needs
            && !devices.iter().any(|(known, there)| *known == name && *there)
        {
            if devices.iter().any(|(known, _)| *known == name) {
                continue;
            }
            let there = device(name, port);
            devices.push((name, there));
            if !there {
                continue;
            }
        }
        for (outside, inside) in [(false, false), (false, true), (true, false), (true, true)] {
            one_tunnel(&mut cases, kind, tunnel, outside, inside);
        }
    }
    let mut frames = sized(&[100; 5]);
    for (index, frame) in frames.iter_mut().enumerate() {
        let one = (outer(false, index), Tunnel::Ip);
        frame.outer = vec![one.clone(), one];
    }
    let name = "IPv4 in IP over IPv4, twice".to_owned();
    cases.push(Case { name, frames, kernel: Some("1 2 3 4 5") });
    for inside in [false, true] {
        sessions(&mut cases, inside);
    }
    cases
}

/// Of PPPoE, which the kernel may or may not have: what it makes of it is in the table of
/// differences.
const IN_SESSIONS: [(&str, Change); 7] = [
    ("", |_, _| {}),
    (", session, third", |at, frame| frame.session = Some(5 + u16::from(third(at)))),
    (", TTL, third", |at, frame| frame.ip.ttl -= third(at)),
    (", ECN, third", |at, frame| frame.ip.tos = third(at)),
    (", FIN, third", |at, frame| frame.flags |= u16::from(third(at))),
    (", PSH, third", |at, frame| frame.flags |= 8 * u16::from(third(at))),
    (", ports, third", |at, frame| frame.ports.0 += u16::from(third(at))),
];

fn sessions(cases: &mut Vec<Case>, inside: bool) {
    for (rule, change) in IN_SESSIONS {
        let mut frames = sized(&[100, 100, 100, 100, 30]);
        for (index, frame) in frames.iter_mut().enumerate() {
            (frame.ip.v6, frame.session) = (inside, Some(5));
            change(index, frame);
        }
        let name = format!("{} in PPPoE{rule}", version(inside));
        cases.push(Case { name, frames, kernel: None });
    }
}

fn one_tunnel(cases: &mut Vec<Case>, kind: &str, tunnel: Tunnel, outside: bool, inside: bool) {
    let outer_rules = OUTER_IPV4.iter().filter(|_| !outside);
    let inner_rules = INNER_IPV4.iter().filter(|_| !inside);
    for (rule, change, kernel) in RULES.iter().chain(outer_rules).chain(inner_rules) {
        let mut frames = sized(&[100, 100, 100, 100, 30]);
        for (index, frame) in frames.iter_mut().enumerate() {
            frame.ip.v6 = inside;
            frame.outer = vec![(outer(outside, index), tunnel)];
            change(index, frame);
        }
        let name = format!("{} in {kind} over {}{rule}", version(inside), version(outside));
        cases.push(Case { name, frames, kernel: Some(kernel) });
    }
}
