//! Any frames at any times: merged and cut again they are what they were, in order per lane of
//! equal marks, and nothing is lost.
//!
//! Input: a byte of configuration, then frames as length (2 bytes), time step and link type.
#![no_main]

use libfuzzer_sys::fuzz_target;
use linecard::offload::coalesce::{ChecksumPolicy, Coalescer, Config, Flush};
use linecard::offload::segment::{fragment, segment};
use linecard::packet::{LinkType, Meta, Packet};
use linecard::time::Instant;

const LINKS: [LinkType; 5] = [
    LinkType::Raw,
    LinkType::Ethernet,
    LinkType::LinuxSll,
    LinkType::LinuxSll2,
    LinkType::Loopback,
];

fuzz_target!(|data: &[u8]| {
    let Some((setting, mut rest)) = data.split_first() else { return };
    let config = Config {
        checksum: ChecksumPolicy::Verify,
        max_flows: 8,
        max_held_packets: 1 + usize::from(setting & 15),
        max_segments: 2 + u16::from(setting >> 4),
        ..Config::default()
    };
    let link = LINKS[usize::from(setting % 5)];
    let (mut frames, mut out) = (Vec::new(), Vec::new());
    let (mut coalescer, mut now) = (Coalescer::new(config), Instant::ZERO);
    while let [high, low, step, tail @ ..] = rest {
        let len = usize::from(u16::from_be_bytes([*high, *low])).min(tail.len());
        let (frame, behind) = tail.split_at(len);
        rest = behind;
        now = now.plus_ns(u64::from(*step) << 12);
        let meta = Meta { timestamp: now, ..Meta::default() };
        let packet = Packet::new(frame.to_vec(), link, meta);
        frames.push(frame.to_vec());
        coalescer.push(packet, now, &mut |packet, _| out.push(packet));
    }
    coalescer.flush_all(Flush::Stop, &mut |packet, _| out.push(packet));
    assert_eq!(coalescer.held(), 0);

    let mut back = Vec::new();
    for packet in &out {
        let mut room = vec![0; 70_000];
        if let Ok(mut fragments) = fragment(packet, 68 + usize::from(*setting) * 4, 1) {
            while let Ok(Some(_)) = fragments.write_next(&mut room) {}
        }
        match packet.meta.gso {
            None => back.push(packet.bytes().to_vec()),
            Some(gso) => {
                let mut segments = segment(packet, gso).expect("what was merged can be cut");
                let mut frame = vec![0; segments.max_len()];
                while let Some(written) = segments.write_next(&mut frame).expect("there is room") {
                    back.push(frame[..written.len].to_vec());
                }
            }
        }
    }
    frames.sort();
    back.sort();
    assert_eq!(frames, back);
});
