//! Any datagrams between sealed packets: what opens was sealed with the keys of the lane, has not been opened before,
//! and is as it was sealed; all other datagrams are refused.

use crate::draw::Draw;
use linecard_transfer::control::Suite;
use linecard_transfer::wire::{HEADER_BYTES, Header, Kind, OVERHEAD_BYTES};
use linecard_transfer_net::seal::{EPOCH_SHIFT, LaneSecret, Opener, Sealer, WINDOW, epoch_of};
use std::collections::BTreeSet;

const LANE: u16 = 3;
const CONNECTION: u32 = 7;
/// Steps of one input.
const MAX_STEPS: usize = 200;

struct Sealed {
    header: Header,
    body: Vec<u8>,
    datagram: Vec<u8>,
}

/// Input: the suite, then steps: a packet is sealed; one arrives, as it is or changed; any bytes arrive.
pub fn seal(data: &[u8]) {
    let draw = &mut Draw::new(data);
    let suite = draw.pick(&[Suite::Aes128Gcm, Suite::ChaCha20Poly1305]);
    let secret = |byte| LaneSecret::new([byte; 32]);
    let opener = |lane, connection| Opener::new(suite, &secret(1), lane, connection);
    let mut sealer = Sealer::new(suite, secret(1)).expect("a known suite");
    let mut opener = opener(LANE, CONNECTION).expect("a known suite");
    let mut sealed: Vec<Sealed> = Vec::new();
    let (mut next, mut opened, mut refused) = (0, BTreeSet::new(), 0);
    for _ in 0..MAX_STEPS {
        if draw.is_done() {
            break;
        }
        let choice = draw.below(8);
        if choice < 3 || sealed.is_empty() {
            next = skip(draw, next);
            sealed.push(packet(draw, next, &mut sealer));
            next += 1;
            continue;
        }
        let which = &sealed[sealed.len() - 1 - draw.below(16) % sealed.len()];
        let mut datagram = which.datagram.clone();
        let is_sound = match choice {
            3..6 => true,
            6 => !change(draw, &mut datagram),
            _ => {
                datagram = forged(draw, &which.header, &secret(2), suite);
                false
            }
        };
        let expected = is_sound && is_new(which.header.packet_number, &opened);
        match opener.open(&mut datagram) {
            Ok((header, body)) => {
                assert!(expected, "opened {header:?}");
                assert_eq!((header, &datagram[body]), (which.header, &which.body[..]));
                opened.insert(header.packet_number);
            }
            Err(refusal) => {
                assert!(!expected, "{:?}: {refusal}", which.header);
                refused += 1;
            }
        }
    }
    let counters = opener.counters();
    assert_eq!((counters.opened, counters.refused()), (opened.len() as u64, refused));
}

/// The number of the next packet: most follow each other, some skip a part of the window or of an epoch.
fn skip(draw: &mut Draw<'_>, next: u64) -> u64 {
    match draw.below(16) {
        0 => next + u64::from(draw.byte()),
        1 => next + WINDOW - 8 + u64::from(draw.byte() & 0x7F),
        2 => {
            // The epoch behind that of the last packet: none may be left out.
            let end = (epoch_of(next.saturating_sub(1)) + 1) << EPOCH_SHIFT;
            next.max(end - u64::from(draw.byte() & 7))
        }
        _ => next,
    }
}

fn packet(draw: &mut Draw<'_>, packet_number: u64, sealer: &mut Sealer) -> Sealed {
    let choice = draw.byte();
    let header = Header {
        kind: [Kind::Data, Kind::Repair, Kind::Ack, Kind::Probe][usize::from(choice & 3)],
        key_phase: epoch_of(packet_number) & 1 == 1,
        ack_now: choice & 4 != 0,
        lane: LANE,
        connection: CONNECTION,
        packet_number,
        chunk: draw.byte().into(),
        index: draw.byte().into(),
    };
    let len = draw.below(64);
    let mut body = draw.take(len);
    body.resize(len, 0x5A);
    let mut datagram =
        [&[0; HEADER_BYTES][..], &body, &[0; OVERHEAD_BYTES - HEADER_BYTES]].concat();
    sealer.seal(&header, &mut datagram).expect("numbers grow");
    Sealed { header, body, datagram }
}

/// By the definition: not opened before, not older than the window, of an epoch whose key is there.
fn is_new(number: u64, opened: &BTreeSet<u64>) -> bool {
    let highest = opened.last().copied();
    let epoch = highest.map_or(0, epoch_of);
    let is_recent = highest.is_none_or(|highest| number + WINDOW > highest);
    !opened.contains(&number) && is_recent && epoch_of(number).abs_diff(epoch) <= 1
}

/// Changes, cuts or extends a datagram; false if it is as it was.
fn change(draw: &mut Draw<'_>, datagram: &mut Vec<u8>) -> bool {
    let at = draw.below(256) % datagram.len();
    match draw.below(4) {
        0 => datagram.truncate(at),
        1 => datagram.push(draw.byte()),
        _ => {
            let bits = draw.byte();
            datagram[at] ^= bits;
            return bits != 0;
        }
    }
    true
}

/// Bytes of anybody: with a header that fits, sealed with other keys; or none of ours.
fn forged(draw: &mut Draw<'_>, header: &Header, secret: &LaneSecret, suite: Suite) -> Vec<u8> {
    if draw.below(2) == 0 {
        let len = draw.below(256);
        return draw.take(len);
    }
    let header = Header { packet_number: draw.byte().into(), ..*header };
    let mut datagram = vec![draw.byte(); OVERHEAD_BYTES + draw.below(64)];
    let mut sealer = Sealer::new(suite, secret.clone()).expect("a known suite");
    sealer.seal(&header, &mut datagram).expect("the first number");
    datagram
}
