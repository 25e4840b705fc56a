//! Memory does not grow with the capture: the peak of the command, fed through a pipe, stays
//! below 100 MB, whatever the capture does.
//!
//! 300 MB in the normal run; 10 GB, as promised, with `LINECARD_LONG=1`.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test stops at the first surprise")]

mod block;
mod frames;
mod peak;
#[path = "../support/mod.rs"]
mod support;

use block::{Section, packet};
use frames::{Frames, pcap_header};
use linecard_testkit::{is_long, say};
use peak::{Peak, feed};
use std::sync::{Mutex, MutexGuard};

/// The promised limit.
const LIMIT: u64 = 100_000_000;
/// Of the hostile captures, which only have to be longer than memory may become.
const HOSTILE: u64 = 250_000_000;

/// One at a time: three busy processes share the machine's cores already.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn below_limit(what: &str, peaks: &[Peak]) {
    for peak in peaks {
        say(&format!("{what}: {} peaked at {} MB", peak.command, peak.bytes / 1_000_000));
        assert!(peak.bytes > 1_000_000, "no peak was seen: {peak:?}");
        assert!(peak.bytes < LIMIT, "{what}: {peak:?}");
    }
}

/// Feeds frames, merged and taken apart again; gives packets in and packets merged.
fn merged_and_back(what: &str, options: &[&str], bytes: u64, frames: &mut Frames) -> (u64, u64) {
    let header = pcap_header();
    let (mut left, mut packets) = (bytes, 0);
    let mut fill = |out: &mut Vec<u8>| {
        if packets == 0 {
            out.extend(header);
        }
        while left > 0 && out.len() < 1 << 20 {
            left = left.saturating_sub(frames.put(out) as u64);
            packets += 1;
        }
    };
    let (peaks, [coalesced, cut]) = feed(options, &mut fill);
    below_limit(what, &peaks);
    let count = |json: &serde_json::Value, section: &str, key: &str| -> u64 {
        json[section][key].as_u64().unwrap_or_else(|| panic!("no {section}.{key}: {json}"))
    };
    assert_eq!(count(&coalesced, "merging", "packets_in"), packets, "{what}");
    assert_eq!(count(&cut, "packets", "packets_out"), packets, "{what}: lost on the way back");
    (packets, count(&coalesced, "merging", "merged"))
}

/// Promise (Captures): Memory does not grow with a capture: below 100 MB for 300 MB streamed, and
/// for 10 GB with `LINECARD_LONG=1`.
#[test]
fn a_long_capture() {
    let _alone = alone();
    let bytes = if is_long() { 10_000_000_000 } else { 300_000_000 };
    let mut frames = Frames { flows: 64, burst: 16, step_us: 1, ..Frames::default() };
    let (packets, merged) = merged_and_back("long", &[], bytes, &mut frames);
    assert!(merged > packets * 8 / 10, "{merged} of {packets} merged: too little is held");
    if !is_long() {
        say("10 GB are fed with LINECARD_LONG=1; 300 MB were now");
    }
}

/// No time passes, so that no timer expires.
#[test]
fn all_timestamps_equal() {
    let _alone = alone();
    for burst in [1, 30] {
        let mut frames = Frames { flows: 4_000, burst, step_us: 0, ..Frames::default() };
        let (_, merged) = merged_and_back("no time passes", &[], HOSTILE, &mut frames);
        assert!(merged > 1_000);
    }
}

/// The first packet is held for ten seconds, and everything else has to wait behind it.
#[test]
fn a_flow_held_while_others_stream() {
    let _alone = alone();
    let mut frames =
        Frames { flows: 16, burst: 40, step_us: 1, first_alone: true, ..Frames::default() };
    let options = ["--hold", "10s"];
    let (packets, merged) = merged_and_back("one held", &options, HOSTILE, &mut frames);
    assert!(merged > packets / 2);
}

#[test]
fn a_million_flows() {
    let _alone = alone();
    let mut frames =
        Frames { flows: 1_000_000, burst: 1, payload: 120, step_us: 0, ..Frames::default() };
    // Each flow comes twice, with a million others between.
    let (packets, _) = merged_and_back("a million flows", &[], 2_000_000 * 190, &mut frames);
    assert!(packets >= 2_000_000, "{packets}");
}

/// Feeds a pcapng section whose blocks `next` writes, until this many bytes are through.
fn section(what: &str, bytes: u64, mut next: impl FnMut(&mut Section) + Send) {
    let mut section = Section::new();
    let mut left = bytes;
    let mut fill = |out: &mut Vec<u8>| {
        while left > 0 && section.bytes.len() < 1 << 20 {
            let before = section.bytes.len();
            next(&mut section);
            left = left.saturating_sub((section.bytes.len() - before) as u64);
        }
        out.append(&mut section.bytes);
    };
    let (peaks, _) = feed(&["--hold", "10s"], &mut fill);
    below_limit(what, &peaks);
}

/// Large packets, which wait behind a small one, in turn with bursts of small ones, of such number
/// that another part of the buffers kept for reuse is used each time: they must not all become
/// large.
#[test]
fn large_and_small_in_turns() {
    let _alone = alone();
    let large = vec![0; 125_000];
    let mut round = 0;
    section("large and small", HOSTILE * 2, |section| {
        for _ in 0..1 + round * 7 % 10 * 110 {
            let number = section.packets;
            section.packet(&packet(number, 0), &[]);
        }
        for _ in 0..if round % 2 == 0 { 0 } else { 240 } {
            section.packet(&large, &[]);
        }
        // Everything held is flushed.
        section.seconds += 20;
        round += 1;
    });
}

/// Blocks that are not packets wait behind a held packet too.
#[test]
fn large_blocks_behind_a_held_packet() {
    let _alone = alone();
    let body = vec![0xAA; 1_000_000];
    section("large blocks", HOSTILE, |section| {
        if section.packets == 0 {
            section.packet(&packet(0, 0), &[]);
        }
        section.block(0x0BAD, &body);
    });
}

/// The options of a packet take memory as well.
#[test]
fn large_options_behind_a_held_packet() {
    let _alone = alone();
    let comment = vec![b'x'; 60_000];
    section("large options", HOSTILE, |section| {
        let number = section.packets;
        section.packet(&packet(number, 0), &[(1, &comment)]);
    });
}

/// Different options for every packet: the distinct sets are kept.
#[test]
fn different_options_for_every_packet() {
    let _alone = alone();
    let mut comment = vec![b'x'; 60_000];
    section("different options", HOSTILE, |section| {
        let number = section.packets;
        comment[..4].copy_from_slice(&number.to_le_bytes());
        let options: Vec<(u16, &[u8])> = (0..16).map(|_| (1, &comment[..])).collect();
        section.packet(&packet(number, 0), &options);
    });
}

/// Segment metadata that puts every segment far behind: `segment` alone must bound the packets that
/// wait.
#[test]
fn segments_that_claim_to_belong_far_behind() {
    let _alone = alone();
    let comment = vec![b'x'; 60_000];
    section("far behind", HOSTILE, |section| {
        let number = section.packets;
        let metadata = block::metadata_of_two(700, 1_000_000);
        section.packet(&packet(number, 1_400), &[(1, &comment), (0xCC4C, &metadata)]);
    });
}
