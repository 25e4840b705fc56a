//! The rules of UDP.

use super::{Case, MIDDLE, add, sized};
use crate::frame::{Field, Frame, UDP};

fn datagrams_of(lens: &[usize], change: &dyn Fn(usize, &mut Frame)) -> Vec<Frame> {
    let mut frames = sized(lens);
    for (index, frame) in frames.iter_mut().enumerate() {
        frame.protocol = UDP;
        change(index, frame);
    }
    frames
}

pub(super) fn datagrams(cases: &mut Vec<Case>) {
    for (version, v6) in [("IPv4", false), ("IPv6", true)] {
        let mut one = |name: &str, lens: &[usize], change: &dyn Fn(usize, &mut Frame)| {
            let frames = datagrams_of(lens, &|index, frame| {
                frame.ip.v6 = v6;
                change(index, frame);
            });
            add(cases, format!("UDP over {version}{name}"), frames);
        };
        let third = |change: &'static dyn Fn(&mut Frame)| {
            move |index: usize, frame: &mut Frame| {
                if index == MIDDLE {
                    change(frame);
                }
            }
        };
        one("", &[100; 5], &|_, _| {});
        one(", short tail", &[100, 100, 50], &|_, _| {});
        one(", shorter in the middle", &[100, 100, 50, 100, 100], &|_, _| {});
        one(", longer follows", &[100, 100, 101, 101], &|_, _| {});
        one(", falling", &[40, 30, 20, 10], &|_, _| {});
        one(", growing", &[10, 20, 30, 40], &|_, _| {});
        one(", 1 byte each", &[1; 5], &|_, _| {});
        one(", empty, third", &[100, 100, 0, 100, 100], &|_, _| {});
        one(", empty, all", &[0; 4], &|_, _| {});
        one(", 60 of 1000", &[1000; 60], &|_, _| {});
        one(", 63 of 1200", &[1200; 63], &|_, _| {});
        one(", 63 of 20", &[20; 63], &|_, _| {});
        one(", checksum wrong, third", &[100; 5], &third(&|frame| frame.field = Field::Bad));
        one(", checksum wrong, first", &[100; 5], &|index, frame| {
            frame.field = if index == 0 { Field::Bad } else { Field::Good };
        });
        one(", checksum none, third", &[100; 5], &third(&|frame| frame.field = Field::None));
        one(", checksum none, all", &[100; 5], &|_, frame| frame.field = Field::None);
        one(
            ", checksum 0xFFFF, third",
            &[100; 5],
            &third(&|frame| {
                frame.field = Field::ComputesToZero;
            }),
        );
        one(", checksum 0xFFFF, all", &[100; 5], &|_, frame| frame.field = Field::ComputesToZero);
        one(", trailer, third", &[100; 5], &third(&|frame| frame.behind = vec![9; 2]));
        one(", TTL, third", &[100; 5], &third(&|frame| frame.ip.ttl -= 1));
        one(", ECN, third", &[100; 5], &third(&|frame| frame.ip.tos = 3));
        one(", ports, third", &[100; 5], &third(&|frame| frame.ports.0 += 1));
    }
    for (name, ids) in [
        ("fixed", [5, 5, 5, 5, 5]),
        ("jumps", [5, 6, 9, 10, 11]),
        ("at random", [5, 900, 3, 77, 4]),
    ] {
        let frames = datagrams_of(&[100; 5], &|index, frame| frame.ip.id = ids[index]);
        add(cases, format!("UDP, IPv4 identification {name}"), frames);
    }
}
