//! A transfer whose other end has the right keys and says anything: nothing panics, bounds hold, and no
//! chunk is done or whole that cannot be.

use linecard::time::Instant;
use linecard_transfer::fec::{Repair, Scheme};
use linecard_transfer::lane::{AckSettings, LaneSettings};
use linecard_transfer::layout::Layout;
use linecard_transfer::receive::{Arrival, ReceiveEvent, ReceiveSettings, Receiver};
use linecard_transfer::send::{SendEvent, SendSettings, Sender};
use linecard_transfer::store::Store;
use linecard_transfer::wire::Header;
use std::collections::BTreeSet;
use std::net::SocketAddr;

const LANES: usize = 3;
/// Windows, and chunks that are sent: with the larger ones, further words of whole chunks are used.
const WINDOWS: [u32; 2] = [4, 200];
const CHUNKS: [u32; 2] = [12, 150];
/// In full chunks without repair.
const MEMORIES: [u64; 2] = [3, 150];
const PAYLOAD: u32 = 100;
const CHUNK: u32 = 1_000;

/// Input: a choice of a scheme, a window and memory, then packets: time passed in 10 µs, a length, a header of 24 bytes, a body.
pub fn transfer(data: &[u8]) {
    let Some((&choice, rest)) = data.split_first() else { return };
    let schemes = ["none", "xor:3", "rs:4,2", "duplicate"];
    let fec: Scheme = schemes[usize::from(choice & 3)].parse().expect("a scheme");
    let (window, memory) = (usize::from(choice >> 2 & 1), usize::from(choice >> 3 & 1));
    to_receiver(rest, fec, (WINDOWS[window], MEMORIES[memory] * u64::from(CHUNK)));
    to_sender(rest, fec, CHUNKS[window]);
}

/// Header, body and time of each packet that parses.
fn packets(mut data: &[u8]) -> impl Iterator<Item = (Header, &[u8], Instant)> {
    let mut now = 0;
    std::iter::from_fn(move || {
        loop {
            let [passed, length, rest @ ..] = data else { return None };
            now += u64::from(*passed) * 10_000;
            let end = rest.len().min(24 + usize::from(*length));
            let (packet, after) = rest.split_at(end);
            data = after;
            if let Ok(header) = Header::parse(packet) {
                return Some((header, &packet[24..], Instant::from_ns(now)));
            }
        }
    })
}

fn to_receiver(data: &[u8], fec: Scheme, (window, memory_bytes): (u32, u64)) {
    let settings = ReceiveSettings {
        connection: 0,
        lanes: LANES,
        payload_bytes: PAYLOAD,
        chunk_bytes: CHUNK,
        fec,
        window,
        memory_bytes,
        ack: AckSettings::default(),
    };
    let mut receiver = Receiver::new(settings, &[], 1).expect("such chunks can be cut");
    let mut store = Store::new(CHUNK, PAYLOAD, fec);
    let full = Layout::new(CHUNK, PAYLOAD, fec).expect("such chunks can be cut").memory_bytes();
    let mut given_up = BTreeSet::new();
    for (header, body, now) in packets(data) {
        match header.index & 7 {
            7 if receiver.announce(header.chunk, header.index >> 3).is_ok() => {
                store.announce(header.chunk, header.index >> 3);
            }
            // The chunk is given up.
            6 if header.chunk < receiver.announce_end() && given_up.insert(header.chunk) => {
                let chunks = header.chunk..header.chunk + 1;
                store.discard(chunks.clone());
                receiver.skip(chunks);
            }
            _ => {}
        }
        // From one of two addresses.
        let from = SocketAddr::from(([192, 0, 2, 1], 4_000 + u16::from(header.key_phase)));
        let arrival = receiver.receive_from(&header, (body, Some(from)), now);
        match arrival {
            Arrival::Data { chunk, offset, of } => {
                assert!(chunk < receiver.window_end() && offset + body.len() as u32 <= of);
            }
            Arrival::Repair { chunk, .. } => {
                assert!(chunk < receiver.window_end() && body.len() <= PAYLOAD as usize);
            }
            _ => {}
        }
        store.put(arrival, body);
        assert!(store.held_bytes() <= memory_bytes.max(full), "more is held than may be");
        while let Some(event) = receiver.next_event() {
            match event {
                ReceiveEvent::Whole { chunk, bytes } => {
                    assert!(bytes > 0 && bytes <= CHUNK);
                    assert!(store.take(chunk).is_some_and(|all| all.len() >= bytes as usize));
                    receiver.taken(chunk);
                }
                ReceiveEvent::Repair { chunk, group, bytes, missing } => {
                    assert!(missing != [0; 4]);
                    let _consistent = store.repair(chunk, group, bytes, &missing);
                }
            }
        }
        for lane in 0..LANES {
            for reply in 0.. {
                assert!(reply < 4, "a lane has an answer and an acknowledgment at a time");
                if receiver.poll(lane, now).is_none() {
                    break;
                }
            }
        }
    }
}

fn to_sender(data: &[u8], fec: Scheme, chunks: u32) {
    let lanes = [
        LaneSettings { rate_bits_per_second: 100_000_000, ..LaneSettings::default() },
        LaneSettings::default(),
        LaneSettings { stream: true, ..LaneSettings::default() },
    ];
    let settings = SendSettings {
        payload_bytes: PAYLOAD,
        fec: Repair::Fixed(fec),
        window_end: 2,
        ..SendSettings::default()
    };
    let mut sender = Sender::new(settings, &lanes, 1);
    let mut offered = 0;
    let mut out = Vec::new();
    for (header, body, now) in packets(data) {
        while sender.room() > 0 && offered < chunks {
            sender.offer(offered, CHUNK - offered).expect("such chunks can be cut");
            offered += 1;
        }
        sender.receive(&header, body, now);
        sender.tick(now);
        for lane in 0..LANES {
            out.clear();
            sender.poll(lane, now, 16, &mut out);
            assert!(out.iter().all(|departure| usize::from(departure.header.lane) == lane));
            let _when = sender.next_wakeup(lane);
        }
        while let Some(event) = sender.next_event() {
            if let SendEvent::Done { chunk, .. } = event {
                assert!(chunk < offered);
            }
        }
    }
}
