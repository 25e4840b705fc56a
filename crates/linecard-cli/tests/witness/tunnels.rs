//! Captures of every encapsulation, made here: the same bytes in every run.

use linecard_testkit::packets::frame::{ACK, Field, Frame, PSH, UDP};
use linecard_testkit::packets::tunnel::{Wrap, each_kind};
use std::fs;
use std::path::Path;

/// Packets of each flow, and payload of each but the last.
const PACKETS: usize = 6;
const SIZE: usize = 1_000;

/// Flows in every tunnel, of TCP and UDP over IPv4 and IPv6, all as a sender sends them.
pub(crate) fn good() -> Vec<Vec<u8>> {
    (0..each_kind(0).len() * 4).flat_map(|number| flow(number, |_, _| ())).collect()
}

/// The same with things that go wrong in some of them; those packets must stay what they are.
pub(crate) fn odd() -> Vec<Vec<u8>> {
    let frames = (0..each_kind(0).len() * 4).flat_map(|number| {
        flow(number, |index, frame| match (index, number % 5) {
            (2, 0) => frame.field = Field::Bad,
            (3, 1) => frame.flags_fragment = 0x2000,
            (2, 2) => frame.tunnel.iter_mut().for_each(spoil_checksum),
            (3, 3) => frame.tunnel.iter_mut().for_each(pad_or_number),
            (3, 4) => frame.tunnel.iter_mut().for_each(carry_another),
            _ => {}
        })
    });
    frames.collect()
}

/// One flow, by number: the kind of its tunnel, then its versions and protocol.
fn flow(number: usize, change: impl Fn(usize, &mut Frame)) -> Vec<Vec<u8>> {
    let (kind, inside) = (number / 4, number % 4);
    let frame = |index: usize| {
        let (last, tcp) = (index + 1 == PACKETS, inside < 2);
        let mut frame = Frame {
            tunnel: each_kind(index).remove(kind).1,
            v6: inside % 2 == 1,
            ports: (20_000, 30_000 + number as u16),
            flags: if last { ACK | PSH } else { ACK },
            payload: vec![b'x'; if last { SIZE / 2 + 1 } else { SIZE }],
            ..Frame::bulk(index, SIZE)
        };
        if !tcp {
            frame.protocol = UDP;
        }
        change(index, &mut frame);
        frame.bytes()
    };
    (0..PACKETS).map(frame).collect()
}

fn spoil_checksum(wrap: &mut Wrap) {
    match wrap {
        Wrap::Udp { field, .. } => *field = Field::Bad,
        Wrap::Gre { checksum, .. } => *checksum = Some(Field::Bad),
        _ => {}
    }
}

fn pad_or_number(wrap: &mut Wrap) {
    match wrap {
        Wrap::Ethernet { behind, .. } => *behind = vec![0; 3],
        Wrap::Gre { sequence, .. } => *sequence = Some(5),
        _ => {}
    }
}

fn carry_another(wrap: &mut Wrap) {
    match wrap {
        // An experimental type.
        Wrap::Ethernet { kind, .. } => *kind = Some(0x88B5),
        Wrap::Pppoe { code, .. } => *code = 7,
        _ => {}
    }
}

/// Writes a pcap file, a packet every 10 µs.
pub(crate) fn write(file: &Path, frames: &[Vec<u8>]) {
    let mut bytes = Vec::new();
    // Magic, version 2.4, no time zone, snap length, Ethernet.
    for word in [0xA1B2_C3D4, 0x0004_0002, 0, 0, 262_144, 1_u32] {
        bytes.extend(word.to_le_bytes());
    }
    for (number, frame) in frames.iter().enumerate() {
        let len = frame.len() as u32;
        for word in [1_700_000_000, number as u32 * 10, len, len] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(frame);
    }
    fs::write(file, bytes).unwrap();
}
