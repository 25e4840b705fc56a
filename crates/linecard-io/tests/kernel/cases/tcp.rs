//! The rules of TCP.

use super::{Case, MIDDLE, add, change, change_all, five, sized};
use crate::frame::{ACK, AE, CWR, ECE, FIN, Field, Frame, PSH, RST, SYN, URG, content};

const FLAGS: [(&str, u16); 12] = [
    ("FIN", FIN),
    ("SYN", SYN),
    ("RST", RST),
    ("PSH", PSH),
    ("ACK", ACK),
    ("URG", URG),
    ("ECE", ECE),
    ("CWR", CWR),
    ("AE", AE),
    ("reserved 1", 0x200),
    ("reserved 2", 0x400),
    ("reserved 3", 0x800),
];

/// Every flag set (ACK: cleared) on one packet and on all.
pub(super) fn flags(cases: &mut Vec<Case>) {
    add(cases, "TCP", five());
    for (name, flag) in FLAGS {
        for (place, at) in [("first", 0), ("third", 2), ("last", 4)] {
            let mut frames = five();
            frames[at].flags ^= flag;
            add(cases, format!("TCP {name}, {place}"), frames);
        }
        change_all(cases, format!("TCP {name}, all"), |frame| frame.flags ^= flag);
    }
    change(cases, "TCP FIN and PSH, third", |frame| frame.flags |= FIN | PSH);
    change(cases, "TCP ECE and CWR, third", |frame| frame.flags |= ECE | CWR);
    change_all(cases, "TCP AE, CWR and ECE, all", |frame| frame.flags |= AE | ECE | CWR);
    let mut frames = five();
    frames[..MIDDLE].iter_mut().for_each(|frame| frame.flags |= CWR);
    add(cases, "TCP CWR, first two", frames);
}

pub(super) fn fields(cases: &mut Vec<Case>) {
    change(cases, "TCP acknowledgment, third", |frame| frame.acknowledgment += 1);
    change(cases, "TCP window, third", |frame| frame.window += 1);
    change(cases, "TCP window zero, third", |frame| frame.window = 0);
    change(cases, "TCP urgent pointer without URG, third", |frame| frame.urgent = 9);
    change_all(cases, "TCP urgent pointer without URG, all", |frame| frame.urgent = 9);
    let mut frames = five();
    for (index, frame) in frames.iter_mut().enumerate() {
        frame.acknowledgment += 1000 * (index as u32 / 3);
    }
    add(cases, "TCP acknowledgment moves on once", frames);
    for (place, at) in [("first", 0), ("third", 2), ("last", 4)] {
        let mut frames = five();
        frames[at].field = Field::Bad;
        add(cases, format!("TCP checksum wrong, {place}"), frames);
    }
    change(cases, "TCP checksum 0x0000, third", |frame| frame.field = Field::ComputesToZero);
    change(cases, "TCP checksum 0xFFFF for 0x0000, third", |frame| frame.field = Field::Ones);
    change_all(cases, "TCP checksum 0x0000, all", |frame| frame.field = Field::ComputesToZero);
}

fn timestamps(value: u32) -> Vec<u8> {
    let mut bytes = vec![1, 1, 8, 10];
    bytes.extend(value.to_be_bytes());
    bytes.extend([0, 0, 0, 9]);
    bytes
}

pub(super) fn options(cases: &mut Vec<Case>) {
    change_all(cases, "TCP timestamps, equal", |frame| frame.options = timestamps(7));
    let mut frames = five();
    for (index, frame) in frames.iter_mut().enumerate() {
        frame.options = timestamps(7 + index as u32 / 3);
    }
    add(cases, "TCP timestamps tick once", frames.clone());
    for (index, frame) in frames.iter_mut().enumerate() {
        frame.options = timestamps(7 + index as u32);
    }
    add(cases, "TCP timestamps tick each time", frames);
    change(cases, "TCP options on the third only", |frame| frame.options = timestamps(7));
    let mut frames = five();
    frames.iter_mut().for_each(|frame| frame.options = timestamps(7));
    frames[MIDDLE].options = Vec::new();
    add(cases, "TCP options not on the third", frames);
    let mut frames = five();
    frames.iter_mut().for_each(|frame| frame.options = timestamps(7));
    frames[MIDDLE].options.rotate_left(2);
    add(cases, "TCP options in another order, third", frames);
    change_all(cases, "TCP options of 40 bytes", |frame| frame.options = vec![1; 40]);
    change(cases, "TCP selective acknowledgment, third", |frame| {
        frame.options = vec![1, 1, 5, 10, 0, 0, 0, 1, 0, 0, 0, 9];
    });
}

pub(super) fn sizes(cases: &mut Vec<Case>) {
    let bulk = |lens: &[usize]| sized(lens);
    add(cases, "TCP sizes, short tail", bulk(&[100, 100, 50]));
    add(cases, "TCP sizes, tail of 1", bulk(&[100, 100, 1]));
    add(cases, "TCP sizes, shorter in the middle", bulk(&[100, 100, 50, 100, 100]));
    add(cases, "TCP sizes, longer follows", bulk(&[100, 100, 101, 101]));
    add(cases, "TCP sizes, growing", bulk(&[10, 20, 30, 40]));
    add(cases, "TCP sizes, falling", bulk(&[40, 30, 20, 10]));
    add(cases, "TCP sizes, 1 byte each", bulk(&[1; 20]));
    add(cases, "TCP sizes, odd", bulk(&[101, 101, 101, 33]));
    add(cases, "TCP sizes, jumbo", bulk(&[8948; 9]));
    add(cases, "TCP sizes, 60 packets of 10", bulk(&[10; 60]));
    add(cases, "TCP sizes, 46 packets of 1448", bulk(&[1448; 46]));
    let mut lens = [1448; 46];
    lens[45] = 335;
    add(cases, "TCP sizes, 65535 bytes", bulk(&lens));
    lens[45] = 336;
    add(cases, "TCP sizes, 65536 bytes", bulk(&lens));
    add(cases, "TCP acknowledgment without data, third", bulk(&[100, 100, 0, 100, 100]));
    add(cases, "TCP acknowledgment without data, first", bulk(&[0, 100, 100]));
    add(cases, "TCP acknowledgments only", bulk(&[0; 4]));
    for (name, flag) in [("FIN", FIN), ("RST", RST), ("SYN", SYN)] {
        let mut frames = bulk(&[100, 100, 0, 100, 100]);
        frames[MIDDLE].flags |= flag;
        add(cases, format!("TCP {name} without data, third"), frames);
    }
}

pub(super) fn sequences(cases: &mut Vec<Case>) {
    change(cases, "TCP sequence, third ahead", |frame| frame.sequence += 1);
    change(cases, "TCP sequence, third behind", |frame| frame.sequence -= 1);
    let order = |numbers: &[usize]| -> Vec<Frame> {
        numbers.iter().map(|index| Frame::bulk(*index, 100)).collect()
    };
    add(cases, "TCP sequence, one missing", order(&[0, 1, 3, 4]));
    add(cases, "TCP sequence, two exchanged", order(&[0, 2, 1, 3, 4]));
    add(cases, "TCP sequence, duplicate", order(&[0, 1, 1, 2, 3]));
    add(cases, "TCP sequence, backwards", order(&[4, 3, 2, 1, 0]));
    add(cases, "TCP sequence, first again", order(&[0, 1, 2, 0, 1, 2]));
    change_all(cases, "TCP sequence, beyond 2^32", |frame| {
        frame.sequence = frame.sequence.wrapping_sub(250);
    });
    change_all(cases, "TCP sequence, at 2^32", |frame| {
        frame.sequence = frame.sequence.wrapping_sub(201);
    });
}

pub(super) fn flows(cases: &mut Vec<Case>) {
    let interleaved = |flows: usize, change: &dyn Fn(usize, &mut Frame)| -> Vec<Frame> {
        let one = |index: usize| {
            let payload = content(index, 100);
            let mut frame = Frame { payload, ..Frame::bulk(index / flows, 100) };
            change(index % flows, &mut frame);
            frame
        };
        (0..flows * 4).map(one).collect()
    };
    add(
        cases,
        "two flows, other addresses",
        interleaved(2, &|flow, frame| {
            frame.ip.ends = (flow as u8 + 1, 99);
        }),
    );
    add(
        cases,
        "two flows, other ports",
        interleaved(2, &|flow, frame| {
            frame.ports.0 += flow as u16;
        }),
    );
    add(
        cases,
        "two directions",
        interleaved(2, &|flow, frame| {
            if flow == 1 {
                (frame.ports, frame.ip.ends) = ((2000, 1000), (2, 1));
            }
        }),
    );
    add(cases, "eight flows", interleaved(8, &|flow, frame| frame.ports.0 += flow as u16));
    add(cases, "nine flows", interleaved(9, &|flow, frame| frame.ports.0 += flow as u16));
    add(
        cases,
        "TCP and UDP of one pair of ports",
        interleaved(2, &|flow, frame| {
            frame.protocol = [6, 17][flow];
        }),
    );
    let mut frames = interleaved(2, &|flow, frame| frame.ports.0 += flow as u16);
    frames[6].flags |= PSH;
    add(cases, "two flows, one ends with PSH", frames);
}
