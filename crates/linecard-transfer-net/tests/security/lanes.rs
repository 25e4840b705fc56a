//! Keys of lanes, as both ends derive them.

use super::{authorizing, met, shared};
use linecard_transfer::control::Suite;
use linecard_transfer::wire::{HEADER_BYTES, Header, Kind, OVERHEAD_BYTES};
use linecard_transfer_net::control::{Access, Control, ControlError};
use linecard_transfer_net::keys::Identity;
use linecard_transfer_net::seal::{Opener, Refusal, Sealer};

const CONNECTION: u32 = 99;

fn keys(control: &mut Control, suite: Suite, lane: u16) -> (Sealer, Opener) {
    control.lane(suite, CONNECTION, lane).unwrap()
}

fn packet(sealer: &mut Sealer, lane: u16, packet_number: u64) -> Vec<u8> {
    let header = Header {
        kind: Kind::Data,
        key_phase: false,
        ack_now: false,
        lane,
        connection: CONNECTION,
        packet_number,
        chunk: 0,
        index: 0,
    };
    let mut datagram = vec![0x55; OVERHEAD_BYTES + 64];
    sealer.seal(&header, &mut datagram).unwrap();
    datagram
}

#[test]
fn both_ends_have_the_same_keys_for_a_lane_and_no_others() {
    let [sender, receiver] = [(); 2].map(|()| Identity::generate().unwrap());
    let with_keys = (authorizing(&sender, &[&receiver]), authorizing(&receiver, &[&sender]));
    for (connecting, accepting) in [with_keys, (shared(3), shared(3))] {
        for suite in [Suite::Aes128Gcm, Suite::ChaCha20Poly1305] {
            let (mut sender, mut receiver) = met(&connecting, &accepting);
            let (mut sealer, mut back) = keys(&mut sender, suite, 0);
            let (mut answers, mut opener) = keys(&mut receiver, suite, 0);
            let (_, mut opener_of_lane_1) = keys(&mut receiver, suite, 1);

            let there = packet(&mut sealer, 0, 0);
            assert_eq!(opener.open(&mut there.clone()).unwrap().1, 24..88);
            let and_back = packet(&mut answers, 0, 0);
            assert!(back.open(&mut and_back.clone()).is_ok());
            // Reflected.
            assert_eq!(back.open(&mut packet(&mut sealer, 0, 1)), Err(Refusal::Forged));
            // Moved to another lane.
            let mut moved = there.clone();
            moved[3] = 1;
            assert_eq!(opener_of_lane_1.open(&mut moved), Err(Refusal::Forged));

            // Of another connection between the same ends.
            let (mut again, _) = met(&connecting, &accepting);
            let (mut other, _) = keys(&mut again, suite, 0);
            assert_eq!(opener.open(&mut packet(&mut other, 0, 5)), Err(Refusal::Forged));
        }
    }
}

#[test]
fn keys_of_a_lane_are_given_out_once() {
    let (mut control, _other) = met(&shared(3), &shared(3));
    let suite = Suite::Aes128Gcm;
    assert!(control.lane(suite, CONNECTION, 63).is_ok());
    assert!(matches!(control.lane(suite, CONNECTION, 63), Err(ControlError::Lane(63))));
    assert!(matches!(control.lane(suite, CONNECTION, 64), Err(ControlError::Lane(64))));
    assert!(control.lane(suite, CONNECTION, 0).is_ok());
}

#[test]
fn a_channel_with_keys_has_no_lanes_without() {
    let (mut control, _other) = met(&shared(3), &shared(3));
    assert!(!control.suites().contains(&Suite::None));
    for suite in [Suite::None, Suite::Other(9)] {
        assert!(matches!(control.lane(suite, CONNECTION, 0), Err(ControlError::Suite(_))));
    }
    let (mut open, mut other) = met(&Access::Open, &Access::Open);
    assert_eq!(open.suites(), [Suite::None]);
    assert!(matches!(open.lane(Suite::Aes128Gcm, CONNECTION, 0), Err(ControlError::Suite(_))));
    let (mut sealer, _) = keys(&mut open, Suite::None, 2);
    let (_, mut opener) = keys(&mut other, Suite::None, 2);
    let datagram = packet(&mut sealer, 2, 0);
    assert_eq!(datagram[HEADER_BYTES], 0x55, "in the clear");
    assert!(opener.open(&mut datagram.clone()).is_ok());
    assert_eq!(opener.open(&mut datagram.clone()), Err(Refusal::Replayed(0)));
}
