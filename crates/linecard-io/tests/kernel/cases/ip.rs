//! The rules of IPv4, IPv6 and the layers below.

use super::{Case, MIDDLE, add, change, change_all, five, sized};
use crate::frame::{DF, Frame, ICMP, MF};

pub(super) fn ipv4(cases: &mut Vec<Case>) {
    change(cases, "IPv4 TTL, third", |frame| frame.ip.ttl -= 1);
    change(cases, "IPv4 DSCP, third", |frame| frame.ip.tos = 0x20);
    change(cases, "IPv4 congestion experienced, third", |frame| frame.ip.tos = 3);
    change_all(cases, "IPv4 congestion experienced, all", |frame| frame.ip.tos = 3);
    change(cases, "IPv4 DF not set, third", |frame| frame.ip.flags_fragment = 0);
    change_all(cases, "IPv4 DF not set, all", |frame| frame.ip.flags_fragment = 0);
    change(cases, "IPv4 reserved flag, third", |frame| frame.ip.flags_fragment |= 0x8000);
    change_all(cases, "IPv4 reserved flag, all", |frame| frame.ip.flags_fragment |= 0x8000);
    change(cases, "IPv4 first fragment, third", |frame| frame.ip.flags_fragment = MF);
    change(cases, "IPv4 later fragment, third", |frame| frame.ip.flags_fragment = 4);
    change_all(cases, "IPv4 fragments, all", |frame| frame.ip.flags_fragment = MF);
    change(cases, "IPv4 options, third", |frame| frame.ip.options = vec![1; 4]);
    change_all(cases, "IPv4 options, all", |frame| frame.ip.options = vec![1; 4]);
    for (place, at) in [("first", 0), ("third", 2), ("last", 4)] {
        let mut frames = five();
        frames[at].ip.good = false;
        add(cases, format!("IPv4 checksum wrong, {place}"), frames);
    }
    change(cases, "ICMP, third", |frame| frame.protocol = ICMP);
}

pub(super) fn identifications(cases: &mut Vec<Case>) {
    for (name, ids) in [
        ("fixed", [5, 5, 5, 5, 5]),
        ("zero", [0; 5]),
        ("wraps", [65533, 65534, 65535, 0, 1]),
        ("jumps", [5, 6, 9, 10, 11]),
        ("steps by 2", [2, 4, 6, 8, 10]),
        ("falls", [5, 4, 3, 2, 1]),
        ("fixed, then counts", [5, 5, 6, 7, 8]),
        ("counts, then fixed", [5, 6, 6, 6, 6]),
        ("counts, then back", [5, 6, 5, 6, 7]),
        ("little-endian counter", [0x0100, 0x0200, 0x0300, 0x0400, 0x0500]),
    ] {
        for (flag, name_of_flag) in [(DF, "DF"), (0, "no DF")] {
            let mut frames = five();
            for (frame, id) in frames.iter_mut().zip(ids) {
                (frame.ip.id, frame.ip.flags_fragment) = (id, flag);
            }
            add(cases, format!("IPv4 identification {name}, {name_of_flag}"), frames);
        }
    }
}

/// Options that fill `len` bytes behind the "next header" byte of an extension header.
fn padding_options(len: u8, filler: u8) -> Vec<u8> {
    let mut body = vec![len / 8, 1, len - 3];
    body.resize(usize::from(len), filler);
    body
}

pub(super) fn ipv6(cases: &mut Vec<Case>) {
    let six = |change: &dyn Fn(usize, &mut Frame)| -> Vec<Frame> {
        let mut frames = five();
        for (index, frame) in frames.iter_mut().enumerate() {
            frame.ip.v6 = true;
            change(index, frame);
        }
        frames
    };
    let third = |change: &dyn Fn(&mut Frame)| {
        six(&|index, frame| {
            if index == MIDDLE {
                change(frame);
            }
        })
    };
    add(cases, "IPv6", six(&|_, _| {}));
    add(cases, "IPv6 hop limit, third", third(&|frame| frame.ip.ttl -= 1));
    add(cases, "IPv6 DSCP, third", third(&|frame| frame.ip.tos = 0x20));
    add(cases, "IPv6 congestion experienced, third", third(&|frame| frame.ip.tos = 3));
    add(cases, "IPv6 flow label, third", third(&|frame| frame.ip.label += 1));
    add(cases, "IPv6 flow label zero", six(&|_, frame| frame.ip.label = 0));
    for (name, kind) in [("hop-by-hop options", 0), ("destination options", 60)] {
        let header = |filler| vec![(kind, padding_options(7, filler))];
        add(cases, format!("IPv6 {name}, all"), six(&|_, f| f.ip.extensions = header(0)));
        add(cases, format!("IPv6 {name}, third"), third(&|f| f.ip.extensions = header(0)));
        let different = |index, frame: &mut Frame| {
            frame.ip.extensions = header(u8::from(index == MIDDLE));
        };
        add(cases, format!("IPv6 {name}, other content, third"), six(&different));
    }
    let routing = |left| vec![(43, vec![0, 0, left, 0, 0, 0, 0])];
    add(cases, "IPv6 routing header, done", six(&|_, frame| frame.ip.extensions = routing(0)));
    add(
        cases,
        "IPv6 three extension headers",
        six(&|_, frame| {
            let bodies =
                [(0, padding_options(7, 0)), (43, vec![0; 7]), (60, padding_options(15, 0))];
            frame.ip.extensions = bodies.to_vec();
        }),
    );
    let fragment = |offset: u8| vec![(44, vec![0, 0, offset, 0, 0, 0, 5])];
    add(cases, "IPv6 first fragment, third", third(&|frame| frame.ip.extensions = fragment(1)));
    add(cases, "IPv6 atomic fragment, third", third(&|frame| frame.ip.extensions = fragment(0)));
    add(
        cases,
        "IPv6 authentication header, third",
        third(&|frame| {
            frame.ip.extensions = vec![(51, [&[4, 0, 0][..], &[7; 20]].concat())];
        }),
    );
    let mut frames = sized(&[1428; 46]);
    frames.iter_mut().for_each(|frame| frame.ip.v6 = true);
    add(cases, "IPv6 sizes, 46 packets of 1428", frames);
    let mut frames = five();
    frames.iter_mut().enumerate().for_each(|(index, frame)| frame.ip.v6 = index % 2 == 1);
    add(cases, "IPv4 and IPv6 in turn", frames);
}

pub(super) fn links(cases: &mut Vec<Case>) {
    change(cases, "Ethernet source, third", |frame| frame.mac = 77);
    for (name, tags) in [
        ("802.1Q", vec![[0x81, 0, 0, 5]]),
        ("802.1ad", vec![[0x88, 0xA8, 0, 5]]),
        ("two tags", vec![[0x88, 0xA8, 0, 5], [0x81, 0, 0, 6]]),
    ] {
        change(cases, format!("VLAN {name}, third"), |frame| frame.tags = tags.clone());
        change_all(cases, format!("VLAN {name}, all"), |frame| frame.tags = tags.clone());
    }
    let short = |change: &dyn Fn(&mut Frame)| -> Vec<Frame> {
        let mut frames = sized(&[4; 5]);
        frames.iter_mut().for_each(change);
        frames
    };
    add(cases, "short frames, as sent", short(&|_| {}));
    add(cases, "short frames, padded", short(&|frame| frame.padded = true));
    let mut frames = short(&|_| {});
    frames[MIDDLE].padded = true;
    add(cases, "short frames, third padded", frames);
    let mut frames = sized(&[100, 100, 3]);
    frames[2].padded = true;
    add(cases, "padded tail", frames);
    change(cases, "trailer of 4 zeros, third", |frame| frame.behind = vec![0; 4]);
    change(cases, "trailer of 4 bytes, third", |frame| frame.behind = vec![9; 4]);
    change_all(cases, "trailer of 4 bytes, all", |frame| frame.behind = vec![9; 4]);
    change(cases, "cut short, third", |frame| frame.keep = 100);
}
