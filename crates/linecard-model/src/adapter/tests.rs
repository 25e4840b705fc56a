//! Both adapters beside each other, and beside the crate's own segmentation.

use super::{AdapterError, Config, Kind, Outcome, simulate};
use alloc::vec::Vec;
use linecard::offload::segment::segment;
use linecard::packet::{Gso, LinkType, Meta, Packet};
use linecard::rng::Rng;

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

fn segments(message: &[u8], mtu: usize) -> Vec<Vec<u8>> {
    let packet = Packet::new(message, LinkType::Ethernet, Meta::default());
    let gso = Gso { size: (mtu - 40) as u16, ..Gso::default() };
    let mut segments = segment(&packet, gso).expect("it can be cut");
    let mut frames = Vec::new();
    let mut room = alloc::vec![0; segments.max_len()];
    while let Some(written) = segments.write_next(&mut room).expect("there is room") {
        frames.push(room[..written.len].to_vec());
    }
    frames
}

fn run(kind: Kind, messages: &[Vec<u8>]) -> Outcome {
    simulate(&Config { kind, ..Config::default() }, messages).expect("a run")
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
        let expected: Vec<_> = messages.iter().flat_map(|message| segments(message, mtu)).collect();
        for kind in [Kind::ZeroCopy, Kind::StoreAndForward] {
            let config = Config { kind, mtu, ..Config::default() };
            let outcome = simulate(&config, &messages).expect("a run");
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

#[test]
fn what_lies_outside_the_windows_is_a_fault() {
    let mut rng = Rng::new(6);
    let messages: Vec<_> = (0..4).map(|_| message(&mut rng, 10_000)).collect();
    // All of the first message, and the header and some packets of the second.
    let host_window = messages[0].len() as u64 + 4_000;
    for kind in [Kind::ZeroCopy, Kind::StoreAndForward] {
        let config = Config { kind, host_window, ..Config::default() };
        let outcome = simulate(&config, &messages).expect("a run");
        assert!(outcome.faults >= 3 && outcome.faults == outcome.dropped, "{outcome:?}");
        let whole = segments(&messages[0], 1_500);
        assert!(outcome.frames.starts_with(&whole) && outcome.frames.len() < 2 * whole.len());
    }
}

#[test]
fn what_cannot_be_sent_is_refused() {
    let config = Config::default();
    let error = simulate(&config, &[alloc::vec![0; 100]]).expect_err("no TCP");
    assert_eq!(error, AdapterError::Message(0));
    assert!(simulate(&Config { mtu: 40, ..config }, &[]).is_err());
    assert!(simulate(&Config { wire_bps: 0, ..config }, &[]).is_err());
    assert!(simulate(&Config { firmware_hz: 0, ..config }, &[]).is_err());
}
