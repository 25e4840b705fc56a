//! Packets that are decrypted, and packets that are refused.

use super::*;
use linecard::rng::Rng;
use linecard_transfer::control::Suite;
use linecard_transfer::wire::{HEADER_BYTES, Header, Kind, OVERHEAD_BYTES};

const SEALED: [Suite; 2] = [Suite::Aes128Gcm, Suite::ChaCha20Poly1305];
const EPOCH: u64 = 1 << EPOCH_SHIFT;
const LANE: u16 = 3;
const CONNECTION: u32 = 0xC0FF_EE00;

fn header(packet_number: u64) -> Header {
    Header {
        kind: Kind::Data,
        key_phase: false,
        ack_now: false,
        lane: LANE,
        connection: CONNECTION,
        packet_number,
        chunk: 5,
        index: 77,
    }
}

fn secret() -> LaneSecret {
    LaneSecret::new([9; 32])
}

fn sealer(suite: Suite) -> Sealer {
    Sealer::new(suite, secret()).unwrap()
}

fn opener(suite: Suite) -> Opener {
    Opener::new(suite, &secret(), LANE, CONNECTION).unwrap()
}

fn body(number: u64, bytes: usize) -> Vec<u8> {
    let mut body = vec![0; bytes];
    Rng::new(number).fill(&mut body);
    body
}

/// A sealed packet with a body of its number.
fn sealed(sealer: &mut Sealer, number: u64, bytes: usize) -> Vec<u8> {
    let mut datagram = vec![0; HEADER_BYTES];
    datagram.extend(body(number, bytes));
    datagram.extend([0xAA; OVERHEAD_BYTES - HEADER_BYTES]);
    sealer.seal(&header(number), &mut datagram).unwrap();
    datagram
}

/// A sealer whose next packet may have this number, however far off.
fn sealer_at(suite: Suite, number: u64) -> Sealer {
    let mut sealer = sealer(suite);
    for epoch in 1..=epoch_of(number) {
        sealed(&mut sealer, epoch << EPOCH_SHIFT, 0);
        sealer.rewind(epoch << EPOCH_SHIFT);
    }
    sealer
}

fn open(opener: &mut Opener, datagram: &[u8]) -> Result<u64, Refusal> {
    let mut datagram = datagram.to_vec();
    let (header, range) = opener.open(&mut datagram)?;
    assert_eq!(datagram[range.clone()], body(header.packet_number, range.len()));
    Ok(header.packet_number)
}

#[test]
fn what_is_sealed_is_opened() {
    for suite in [Suite::Aes128Gcm, Suite::ChaCha20Poly1305, Suite::None] {
        let (mut sealer, mut opener) = (sealer(suite), opener(suite));
        for (number, bytes) in [(0, 0), (1, 1), (2, 15), (3, 16), (4, 1_408), (9, 8_896)] {
            let datagram = sealed(&mut sealer, number, bytes);
            let clear = datagram[HEADER_BYTES..].starts_with(&body(number, bytes));
            assert_eq!(clear, suite == Suite::None || bytes == 0);
            assert_eq!(open(&mut opener, &datagram), Ok(number));
        }
        assert_eq!(opener.counters(), Counters { opened: 6, ..Counters::default() });
    }
    assert!(Sealer::new(Suite::Other(9), secret()).is_err());
    assert!(Opener::new(Suite::Other(9), &secret(), 0, 0).is_err());
}

/// RFC 9001 has the same construction: sealing by hand with `ring` gives the same bytes.
#[test]
fn a_sealed_packet_is_what_the_text_says() {
    let (key, mut nonce) = secret().keys(Suite::Aes128Gcm).unwrap();
    nonce[11] ^= 0x34;
    nonce[10] ^= 0x12;
    let datagram = sealed(&mut sealer(Suite::Aes128Gcm), 0x1234, 100);
    let mut by_hand = body(0x1234, 100);
    let nonce = ring::aead::Nonce::assume_unique_for_key(nonce);
    let aad = ring::aead::Aad::from(header(0x1234).to_bytes());
    key.seal_in_place_append_tag(nonce, aad, &mut by_hand).unwrap();
    assert_eq!(datagram[HEADER_BYTES..], by_hand);
}

#[test]
fn any_bit_that_changes_is_noticed() {
    for suite in SEALED {
        let datagram = sealed(&mut sealer(suite), 0, 200);
        let mut opener = opener(suite);
        for bit in 0..datagram.len() * 8 {
            let mut changed = datagram.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(opener.open(&mut changed).is_err(), "bit {bit}");
        }
        for end in 0..datagram.len() {
            assert!(opener.open(&mut datagram[..end].to_vec()).is_err(), "cut at {end}");
        }
        let longer = [&datagram[..], &[0]].concat();
        assert!(open(&mut opener, &longer).is_err());
        // None of that has changed anything.
        assert_eq!(open(&mut opener, &datagram), Ok(0));
        let counters = opener.counters();
        assert_eq!(counters.refused(), 240 * 9 + 1);
        assert!(counters.forged > 1_000 && counters.malformed > 0 && counters.opened == 1);
    }
}

#[test]
fn a_packet_is_taken_once_in_any_order() {
    let mut rng = Rng::new(41);
    for suite in SEALED {
        let (mut sealer, mut opener) = (sealer(suite), opener(suite));
        let mut packets: Vec<_> = (0..400).map(|number| sealed(&mut sealer, number, 20)).collect();
        for index in (1..packets.len()).rev() {
            packets.swap(index, rng.below(index as u64 + 1) as usize);
        }
        for packet in &packets {
            assert!(open(&mut opener, packet).is_ok());
            assert!(matches!(open(&mut opener, packet), Err(Refusal::Replayed(_))));
        }
        for packet in &packets {
            assert!(matches!(open(&mut opener, packet), Err(Refusal::Replayed(_))));
        }
        assert_eq!((opener.counters().opened, opener.counters().replayed), (400, 800));
    }
}

#[test]
fn the_window_reaches_as_far_as_it_says() {
    let (mut sealer, mut opener) = (sealer(Suite::Aes128Gcm), opener(Suite::Aes128Gcm));
    let [old, edge] = [0, 1].map(|number| sealed(&mut sealer, number, 0));
    let high = sealed(&mut sealer, WINDOW, 0);
    // A forged packet far ahead does not move it.
    let mut forged = sealed(&mut sealer, WINDOW + 5_000, 0);
    forged[HEADER_BYTES] ^= 1;
    assert_eq!(open(&mut opener, &forged), Err(Refusal::Forged));
    assert_eq!(open(&mut opener, &high), Ok(WINDOW));
    assert_eq!(open(&mut opener, &old), Err(Refusal::TooOld(0)));
    assert_eq!(open(&mut opener, &edge), Ok(1));
    assert_eq!(open(&mut opener, &edge), Err(Refusal::Replayed(1)));
    assert_eq!(opener.counters().too_old, 1);
}

#[test]
fn key_phases_flip_by_themselves_in_any_order() {
    let mut rng = Rng::new(42);
    for suite in SEALED {
        let mut sealer = sealer_at(suite, EPOCH - 60);
        let mut opener = opener(suite);
        for epoch in 1..5 {
            let flip = epoch * EPOCH;
            let numbers = (flip - 50..flip + 50).collect::<Vec<_>>();
            let mut packets: Vec<_> =
                numbers.iter().map(|number| sealed(&mut sealer, *number, 8)).collect();
            for (number, packet) in numbers.iter().zip(&packets) {
                assert_eq!(u64::from(packet[1] & 1), epoch_of(*number) & 1);
            }
            for index in (1..packets.len()).rev() {
                packets.swap(index, rng.below(index as u64 + 1) as usize);
            }
            for packet in &packets {
                assert!(open(&mut opener, packet).is_ok());
            }
            // To the end of this epoch, with packets that are not needed for that.
            sealer.rewind(flip + EPOCH - 60);
        }
        assert_eq!(opener.counters().refused(), 0);
        assert_eq!(opener.counters().opened, 400);
    }
}

#[test]
fn other_epochs_have_no_key() {
    let suite = Suite::Aes128Gcm;
    let mut opener = opener(suite);
    let far = sealed(&mut sealer_at(suite, 2 * EPOCH), 2 * EPOCH, 8);
    assert_eq!(open(&mut opener, &far), Err(Refusal::Epoch(2)));
    let next = sealed(&mut sealer_at(suite, EPOCH), EPOCH, 8);
    assert_eq!(open(&mut opener, &next), Ok(EPOCH));
    assert_eq!(open(&mut opener, &far), Ok(2 * EPOCH));
    let first = sealed(&mut sealer(suite), 0, 8);
    assert_eq!(open(&mut opener, &first), Err(Refusal::Epoch(0)));
    // The bit in the header is not what chooses the key.
    let mut other_phase = sealed(&mut sealer_at(suite, 2 * EPOCH), 2 * EPOCH + 1, 8);
    other_phase[1] ^= 1;
    assert_eq!(open(&mut opener, &other_phase), Err(Refusal::KeyPhase));
    assert_eq!((opener.counters().epoch, opener.counters().key_phase), (2, 1));
}

#[test]
fn a_lane_opens_only_its_own_packets() {
    let suite = Suite::Aes128Gcm;
    let datagram = sealed(&mut sealer(suite), 0, 50);
    let mut other_lane = Opener::new(suite, &secret(), LANE + 1, CONNECTION).unwrap();
    assert_eq!(open(&mut other_lane, &datagram), Err(Refusal::Lane(LANE)));
    let mut other_connection = Opener::new(suite, &secret(), LANE, 1).unwrap();
    assert_eq!(open(&mut other_connection, &datagram), Err(Refusal::Connection(CONNECTION)));
    let mut other_secret = Opener::new(suite, &LaneSecret::new([8; 32]), LANE, CONNECTION).unwrap();
    assert_eq!(open(&mut other_secret, &datagram), Err(Refusal::Forged));
    let mut other_suite = opener(Suite::ChaCha20Poly1305);
    assert_eq!(open(&mut other_suite, &datagram), Err(Refusal::Forged));
    // Nor where its header is rewritten to fit.
    let mut rewritten = datagram.clone();
    rewritten[3] = LANE as u8 + 1;
    assert_eq!(open(&mut other_lane, &rewritten), Err(Refusal::Forged));
}

#[test]
fn a_worn_out_key_opens_nothing_any_more() {
    let suite = Suite::ChaCha20Poly1305;
    let mut opener = opener(suite).with_max_forged(3);
    let datagram = sealed(&mut sealer(suite), 0, 10);
    let mut forged = datagram.clone();
    forged[30] ^= 1;
    for _ in 0..3 {
        assert_eq!(open(&mut opener, &forged), Err(Refusal::Forged));
    }
    assert_eq!(open(&mut opener, &datagram), Err(Refusal::WornOut));
}

#[test]
fn a_number_is_never_used_twice() {
    let mut sealer = sealer(Suite::Aes128Gcm);
    let mut datagram = vec![0; OVERHEAD_BYTES];
    assert_eq!(sealer.seal(&header(5), &mut datagram), Ok(()));
    assert_eq!(sealer.seal(&header(5), &mut datagram), Err(SealError::Reused(5)));
    assert_eq!(sealer.seal(&header(4), &mut datagram), Err(SealError::Reused(4)));
    let leap = 2 * EPOCH;
    assert_eq!(sealer.seal(&header(leap), &mut datagram), Err(SealError::Leap(leap)));
    let last = 1 << 62;
    assert_eq!(sealer.seal(&header(last), &mut datagram), Err(SealError::Reused(last)));
    let short = OVERHEAD_BYTES - 1;
    assert_eq!(sealer.seal(&header(6), &mut datagram[..short]), Err(SealError::Short(short)));
    assert_eq!(sealer.seal(&header(6), &mut datagram), Ok(()), "nothing of that used a number");
}

#[test]
fn what_is_printed_of_a_lane_is_its_state_and_no_secret() {
    for suite in SEALED {
        let (mut sealer, mut opener) = (sealer(suite), opener(suite));
        assert_eq!(open(&mut opener, &sealed(&mut sealer, 5, 8)), Ok(5));
        let printed = format!("{sealer:?}");
        assert!(
            printed.contains(&format!("{suite:?}")) && printed.contains("free: 6"),
            "{printed}"
        );
        let printed_opener = format!("{opener:?}");
        for part in ["lane: 3", "connection: 3237998080", "epoch: 0", "opened: 1"] {
            assert!(printed_opener.contains(part), "{printed_opener}");
        }
        // The secret is nines: as numbers, in hexadecimal, or by its name it would show.
        for text in [printed, printed_opener] {
            assert!(!text.contains("9, 9") && !text.contains("0909"), "{text}");
            assert!(!text.contains("ecret") && !text.contains("key:"), "{text}");
        }
    }
}

#[test]
fn noise_is_refused() {
    let mut rng = Rng::new(43);
    for suite in SEALED {
        let mut opener = opener(suite);
        for _ in 0..5_000 {
            let mut noise = vec![0; rng.below(120) as usize];
            rng.fill(&mut noise);
            if noise.len() > HEADER_BYTES && rng.chance(0.8) {
                noise[..HEADER_BYTES].copy_from_slice(&header(rng.below(100)).to_bytes());
            }
            assert!(opener.open(&mut noise).is_err());
        }
        assert!(opener.counters().forged > 2_000);
    }
}
