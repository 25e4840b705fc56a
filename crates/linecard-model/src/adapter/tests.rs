//! Both adapters beside each other, and beside the crate's own segmentation.

use super::firmware::image;
use super::receive::receive;
use super::{
    Adapter, AdapterError, AdapterResults, Config, Firmware, Host, Kind, Load, Mismatch, Path,
    segments, simulate,
};
use crate::{Clock, Ps};
use alloc::string::ToString;
use alloc::vec::Vec;
use linecard::rng::Rng;
use linecard_config::{Frequency, Rate};

const HEADERS: usize = 14 + 20 + 20;

/// A message of TCP over IPv4 with some payload.
fn message(rng: &mut Rng, payload: usize) -> Vec<u8> {
    let mut bytes = alloc::vec![0; HEADERS + payload];
    rng.fill(&mut bytes);
    bytes[12..14].copy_from_slice(&[8, 0]);
    let total = (40 + payload) as u16;
    bytes[14..26].copy_from_slice(&[0x45, 0, 0, 0, 0xFF, 0xFE, 0, 0, 64, 6, 0, 0]);
    bytes[16..18].copy_from_slice(&total.to_be_bytes());
    bytes[46] = 0x50;
    bytes[47] &= 0x9F;
    bytes
}

fn config(kind: Kind, mtu: usize) -> Config {
    let adapter = Adapter { kind, mtu, ..Adapter::default() };
    Config { adapter, ..Config::default() }
}

fn run(kind: Kind, messages: &[Vec<u8>]) -> AdapterResults {
    simulate(&config(kind, 1_500), messages).expect("a run")
}

#[test]
fn both_send_what_segmentation_makes() {
    let mut rng = Rng::new(3);
    for _ in 0..40 {
        let mtu = 256 + rng.below(1_300) as usize;
        let count = 1 + rng.below(5);
        let messages: Vec<_> = (0..count)
            .map(|_| {
                let most = [1_000, 65_000][rng.below(2) as usize];
                let payload = rng.below(most);
                message(&mut rng, payload as usize)
            })
            .collect();
        let expected = segments(&messages, mtu).expect("it can be segmented");
        for kind in [Kind::ZeroCopy, Kind::StoreAndForward] {
            let outcome = simulate(&config(kind, mtu), &messages).expect("a run");
            assert!(outcome.frames == expected, "{kind:?}, MTU {mtu}");
            assert_eq!((outcome.faults, outcome.dropped), (0, 0));
        }
    }
}

/// Promise (Hardware model): The zero-copy adapter moves payload 0 times through its memory, the
/// store-and-forward one 2 times, and both send the same frames.
#[test]
fn payload_stays_out_of_embedded_memory_or_passes_it_twice() {
    let mut rng = Rng::new(4);
    let messages: Vec<_> = (0..8).map(|_| message(&mut rng, 64_000)).collect();
    let [zero, stored] = [Kind::ZeroCopy, Kind::StoreAndForward].map(|kind| run(kind, &messages));
    assert_eq!(zero.payload_bytes, 8 * 64_000);
    assert_eq!(zero.embedded_payload_bytes, 0);
    assert_eq!(stored.embedded_payload_bytes, 2 * stored.payload_bytes);
    assert!(
        zero.first < stored.first && zero.last < stored.last,
        "{:?}",
        (zero.first, stored.first)
    );
    assert!(zero.embedded_bytes * 10 < stored.embedded_bytes);
}

#[test]
fn data_no_larger_than_the_mtu_go_as_one_packet() {
    let mut rng = Rng::new(5);
    let messages = [0, 1, 1_460, 1_461].map(|payload| message(&mut rng, payload));
    let outcome = run(Kind::ZeroCopy, &messages);
    assert_eq!((outcome.single_packets, outcome.frames.len()), (3, 5));
}

/// Payload goes to host memory, and wrong payload does not.
#[test]
fn received_frames_are_checked_by_firmware() {
    let mut rng = Rng::new(7);
    let messages: Vec<_> = (0..3).map(|_| message(&mut rng, 20_000)).collect();
    let frames = segments(&messages, 1_500).expect("it can be segmented");
    for (kind, times) in [(Kind::ZeroCopy, 0), (Kind::StoreAndForward, 2)] {
        let config = config(kind, 1_500);
        let load = Load { path: Path::Receive, ..config.load.clone() };
        let all = simulate(&Config { load, ..config.clone() }, &messages).expect("a run");
        assert!(all.frames == frames && all.dropped == 0, "{kind:?}");
        assert_eq!(all.embedded_payload_bytes, times * all.payload_bytes, "{kind:?}");
        assert_eq!(all.host_bus_bytes, 60_000, "{kind:?}");
        // A bit of payload, of the TCP header, and of the IP header.
        for at in [700, 40, 22] {
            let mut wrong = frames.clone();
            wrong[5][at] ^= 4;
            let outcome = receive(&config, &image(), &wrong).expect("a run");
            wrong.remove(5);
            assert!(outcome.frames == wrong && outcome.dropped == 1, "{kind:?}, byte {at}");
            assert_eq!(outcome.mismatch, None, "{kind:?}, byte {at}");
        }
    }
}

/// Runs the adapter's receiving side with one word of its firmware replaced. The sixth frame is damaged.
fn receive_with(word: u32, instead: u32) -> (Vec<Vec<u8>>, Result<AdapterResults, AdapterError>) {
    let mut image = image();
    let words = image.segments[0].bytes.as_chunks_mut::<4>().0;
    let at = words.iter().position(|bytes| *bytes == word.to_le_bytes()).expect("the word");
    words[at] = instead.to_le_bytes();
    let mut rng = Rng::new(8);
    let messages = [20_000, 9_000].map(|payload| {
        let mut bytes = message(&mut rng, payload);
        // It acknowledges 8 bytes more than it begins with, so that a wrong place is one in the stream.
        (bytes[41], bytes[45]) = (0, 8);
        bytes.copy_within(38..41, 42);
        bytes
    });
    let mut frames = segments(&messages, 1_500).expect("it can be segmented");
    frames[5][700] ^= 4;
    let outcome = receive(&config(Kind::ZeroCopy, 1_500), &image, &frames);
    (frames, outcome)
}

/// Promise (Hardware model): Firmware of the zero-copy adapter that delivers received payload at a wrong place in its
/// stream, twice, never, or although it is damaged is found, and told with frame, field, and both values.
#[test]
fn wrong_answers_to_received_frames_are_named() {
    const NOTHING: u32 = 0x13;
    for (word, instead, frame, field) in [
        (0x000c_2703, 0x004c_2703, 0, "TCP sequence number"), // lw a4, 0(s8): the acknowledgment's
        (0xe367_94e3, NOTHING, 5, "deliveries"),              // bne, to where it refuses
        (0x1967_8263, NOTHING, 0, "deliveries"),              // beq, to the sum of TCP
        (0x00e7_ac23, NOTHING, 0, "answers"),                 // sw a4, DELIVER
        (0xe1df_f06f, 0xe15f_f06f, 0, "answers"),             // j to wfi: to where it refuses
    ] {
        let (frames, outcome) = receive_with(word, instead);
        let outcome = outcome.expect("a run");
        let [seq, ack] = [38, 42]
            .map(|at| u32::from_be_bytes(*frames[0][at..].first_chunk().expect("a header")));
        let (expected, got) = match (field, frame) {
            ("deliveries", 0) => (1, 0),
            ("deliveries", _) => (0, 1),
            ("answers", _) => (1, if instead == NOTHING { 0 } else { 2 }),
            _ => (seq, ack),
        };
        // The host has what the firmware makes of the stream.
        let has_moved = expected == seq;
        assert_eq!(outcome.frames.iter().any(|frame| !frames.contains(frame)), has_moved);
        let mismatch = Mismatch { frame, field, expected, got };
        assert_eq!(outcome.mismatch, Some(mismatch), "{instead:#x}");
        let said = alloc::format!("frame {frame}: {field}: expected {expected}, got {got}");
        assert_eq!(mismatch.to_string(), said);
    }
    // j to itself.
    let error = receive_with(0xe1df_f06f, 0x0000_006f).1.expect_err("no end").to_string();
    assert!(error.contains("0: the firmware does not wait for the next one: Reached"), "{error}");
}

/// The second frame is stored while the core has the first, and not behind what happens to that later.
#[test]
fn memory_is_taken_in_the_order_of_time() {
    let messages = [message(&mut Rng::new(9), 2 * 1_460)];
    let frames = segments(&messages, 1_500).expect("it can be segmented");
    let slow = Firmware { mhz: Frequency::from_mhz(1) };
    for (kind, stored) in [(Kind::StoreAndForward, 1_460), (Kind::ZeroCopy, 0)] {
        let config = Config { firmware: slow, ..config(kind, 1_500) };
        let outcome = receive(&config, &image(), &frames).expect("a run");
        let rate = |bytes: u64, rate: Rate| Ps::of_bits(8 * bytes, rate.bits_per_second());
        let memory = |bytes| rate(bytes, config.adapter.embedded);
        let clock = Clock::new(1_000_000, Ps::ZERO).expect("a clock");
        let look = memory(54) + clock.cycles(outcome.core_cycles / 2);
        let first = rate(1_514 + 24, config.adapter.wire) + memory(54 + stored) + look;
        // The first leaves memory while the header of the second waits.
        let both = first + memory(stored) + look + memory(stored) + rate(1_460, config.host.bus);
        assert_eq!(outcome.last, both, "{kind:?}");
    }
}

#[test]
fn what_lies_outside_the_windows_is_a_fault() {
    let mut rng = Rng::new(6);
    let messages: Vec<_> = (0..4).map(|_| message(&mut rng, 10_000)).collect();
    // All of the first message, and the header and some packets of the second.
    let window = messages[0].len() as u64 + 4_000;
    for kind in [Kind::ZeroCopy, Kind::StoreAndForward] {
        let host = Host { window, ..Host::default() };
        let config = Config { host, ..config(kind, 1_500) };
        let outcome = simulate(&config, &messages).expect("a run");
        assert!(outcome.faults >= 3 && outcome.faults == outcome.dropped, "{outcome:?}");
        let whole = segments(&messages[..1], 1_500).expect("it can be segmented");
        assert!(outcome.frames.starts_with(&whole) && outcome.frames.len() < 2 * whole.len());
    }
}

#[test]
fn what_cannot_be_sent_is_refused() {
    let config = Config::default();
    let error = simulate(&config, &[alloc::vec![0; 100]]).expect_err("no TCP");
    assert!(matches!(error, AdapterError::Message(0)));
    let refused = |change: fn(&mut Config)| {
        let mut config = Config::default();
        change(&mut config);
        simulate(&config, &[]).expect_err("refused").to_string()
    };
    let mtu = refused(|config| config.adapter.mtu = 40);
    assert_eq!(mtu, "adapter.mtu: 40 is out of range: choose 256 to 9216");
    let wire = refused(|config| config.adapter.wire = Rate::new(0));
    assert_eq!(wire, "adapter.wire: 0 is out of range: choose 1K to 100T");
    assert!(refused(|config| config.firmware.mhz = Frequency::from_hz(0)).contains("firmware.mhz"));
}
