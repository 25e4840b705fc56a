//! Datagrams: segmented and merged by the kernel, and a lane without a peer.

use super::{failure, loopback, random, take, take_all, through};
use linecard_transfer_net::lane::{
    At, Datagrams, Lane, LaneError, LocalEnd, MAX_DATAGRAM_BYTES, ReceiveBuffer, Udp,
};
use std::net::{Ipv6Addr, UdpSocket};

fn pair() -> (Udp, Udp) {
    let far = Udp::bind(&loopback()).unwrap();
    let near = Udp::connect(&loopback(), far.local_addr().unwrap()).unwrap();
    (near, far)
}

#[test]
fn many_datagrams_go_by_one_call_and_come_as_they_were() {
    for (stride, count) in [(1_408, 46), (1_408, 1), (100, 64), (1, 64), (8_896, 7), (4_096, 15)] {
        let (mut near, mut far) = pair();
        // The last one is shorter.
        let bytes = random(stride * count - stride / 3);
        let datagrams = Datagrams { bytes: &bytes, stride };
        assert_eq!(near.send(&datagrams).unwrap(), count);
        assert_eq!(near.send_calls(), 1, "{count} of {stride} bytes");
        let came = take_all(&mut far, count);
        assert!(came.iter().map(Vec::as_slice).eq(datagrams.iter()), "{count} of {stride} bytes");
    }
}

#[test]
fn merged_datagrams_come_by_fewer_calls_than_they_are() {
    let (mut near, mut far) = pair();
    let bytes = random(1_408 * 46);
    let all = Datagrams { bytes: &bytes, stride: 1_408 };
    for _ in 0..4 {
        assert_eq!(near.send(&all).unwrap(), 46);
    }
    let mut received = ReceiveBuffer::new();
    assert_eq!(take(&mut far, &mut received).len(), 4 * 46);
}

#[test]
fn a_call_takes_as_many_as_fit_and_tells_how_many() {
    let (mut near, mut far) = pair();
    let bytes = random(100 * 1_408);
    let datagrams = Datagrams { bytes: &bytes, stride: 1_408 };
    assert_eq!(near.send(&datagrams).unwrap(), 46);
    let tiny = Datagrams { bytes: &bytes[..1_000], stride: 10 };
    assert_eq!(near.send(&tiny).unwrap(), 64);
    assert_eq!(near.send(&Datagrams { bytes: &[], stride: 10 }).unwrap(), 0);
    assert_eq!(take_all(&mut far, 110).len(), 110);
}

#[test]
fn all_arrive_or_are_counted_as_dropped() {
    let (mut near, mut far) = pair();
    let bytes = random(1_408 * 46);
    let datagrams = Datagrams { bytes: &bytes, stride: 1_408 };
    let (mut sent, mut received) = (0, ReceiveBuffer::new());
    // Twice the capacity of the buffer, which is not read meanwhile.
    while far.dropped() == 0 && sent < 200_000 {
        sent += near.send(&datagrams).unwrap();
    }
    let mut came = 0;
    while let count @ 1.. = take(&mut far, &mut received).len() {
        came += count;
    }
    assert!(sent < 200_000 && came > 0, "{came} of {sent}");
    // A merged packet that finds no room is one drop to the kernel, of up to 46 datagrams.
    let lost = sent - came;
    let drops = far.dropped() as usize;
    assert!((drops..=46 * drops).contains(&lost), "{lost} of {sent} lost, {drops} drops");
}

#[test]
fn what_is_longer_than_the_mtu_is_refused_by_name_and_others_still_pass() {
    let (mut near, mut far) = pair();
    assert_eq!(near.max_datagram(), MAX_DATAGRAM_BYTES);
    let longest = random(MAX_DATAGRAM_BYTES);
    assert_eq!(through(&mut near, &mut far, &Datagrams::one(&longest)).len(), 1);
    let longer = random(MAX_DATAGRAM_BYTES + 1);
    let refused = near.send(&Datagrams::one(&longer)).unwrap_err();
    assert!(matches!(refused, LaneError::TooLong { bytes: 65_508, limit: 65_507 }));
    assert!(refused.to_string().contains("MTU"));
    assert_eq!(near.send(&Datagrams::one(&longest)).unwrap(), 1);
}

#[test]
fn a_peer_that_is_gone_is_a_dead_lane_and_may_come_back() {
    let (mut near, far) = pair();
    let address = far.local_addr().unwrap();
    near.send(&Datagrams::one(b"hello")).unwrap();
    drop(far);
    let dead = failure(|| near.send(&Datagrams::one(b"anybody there?")));
    assert!(matches!(dead, LaneError::Dead(_)) && dead.may_recover(), "{dead}");
    let LocalEnd::Address(ip) = loopback().local else { unreachable!() };
    let mut far = Udp::bind(&At { local: LocalEnd::Address(ip), port: address.port() }).unwrap();
    // An error noted for the old peer may be reported once more.
    let _told = near.send(&Datagrams::one(b"again"));
    near.send(&Datagrams::one(b"again")).unwrap();
    assert_eq!(take_all(&mut far, 1)[0], b"again");
}

#[test]
fn the_receiving_end_says_who_sends_and_answers_when_told_to() {
    let (mut near, mut far) = pair();
    near.send(&Datagrams::one(b"ping")).unwrap();
    let mut received = ReceiveBuffer::new();
    while far.receive(&mut received).unwrap() == 0 {}
    let source = received.datagrams().next().unwrap().source.unwrap();
    assert_eq!(source, near.local_addr().unwrap());
    assert!(far.send(&Datagrams::one(b"pong")).is_err());
    far.answer_to(source);
    far.send(&Datagrams::one(b"pong")).unwrap();
    assert_eq!(take_all(&mut near, 1), [b"pong"]);
    // The sending end receives from no other address.
    let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
    stranger.send_to(b"x", source).unwrap();
    assert!(take(&mut near, &mut received).is_empty());
    assert!(far.describe().contains(&source.to_string()));
}

#[test]
fn ipv6_is_as_good() {
    let at = At { local: LocalEnd::Address(Ipv6Addr::LOCALHOST.into()), port: 0 };
    let Ok(mut far) = Udp::bind(&at) else {
        linecard_testkit::skip("lanes over IPv6", "this host has no IPv6");
        return;
    };
    let mut near = Udp::connect(&at, far.local_addr().unwrap()).unwrap();
    let bytes = random(1_408 * 46);
    let datagrams = Datagrams { bytes: &bytes, stride: 1_408 };
    assert_eq!(near.send(&datagrams).unwrap(), 46);
    assert!(take_all(&mut far, 46).iter().map(Vec::as_slice).eq(datagrams.iter()));
}

#[test]
fn lanes_that_cannot_open_say_so_in_one_line() {
    let (_near, far) = pair();
    let peer = far.local_addr().unwrap();
    let at = |text: &str| text.parse::<linecard_transfer_net::lane::Spec>().unwrap();
    for (spec, says) in [
        ("192.0.2.77", "no such address"),
        ("nosuchif0", "no interface `nosuchif0`"),
        ("::1", "of different families"),
    ] {
        let error = at(spec).connect(peer).unwrap_err().to_string();
        assert!(error.contains(says) && error.lines().count() == 1, "{spec}: {error}");
    }
    let taken = format!("127.0.0.1:{}", peer.port());
    let error = at(&taken).listen().unwrap_err().to_string();
    assert!(error.contains("in use"), "{error}");
}

#[test]
fn an_interface_is_a_lane_of_its_own() {
    let spec: linecard_transfer_net::lane::Spec = "if:lo".parse().unwrap();
    let far = spec.listen();
    let Ok(far) = far else {
        linecard_testkit::skip("a lane bound to an interface", far.unwrap_err());
        return;
    };
    let peer = (std::net::Ipv4Addr::LOCALHOST, far.local_addr().unwrap().port()).into();
    let mut near = spec.connect(peer).unwrap();
    let linecard_transfer_net::lane::Listener::Udp(mut far) = far else { unreachable!() };
    assert_eq!(near.send(&Datagrams::one(b"by name")).unwrap(), 1);
    assert_eq!(take_all(&mut far, 1), [b"by name"]);
    assert!(near.note().is_none_or(|note| note.lines().count() == 1));
}

/// Datagrams of decreasing and increasing length, which nobody merges: more than one call takes.
#[test]
fn a_lane_is_drained_when_all_that_has_come_is_taken() {
    let (mut near, mut far) = pair();
    let bytes = random(1_000);
    for count in [1, 2, 31, 32, 33, 100] {
        for number in 0..count {
            let datagram = &bytes[..1 + number * 37 % 999];
            assert_eq!(near.send(&Datagrams { bytes: datagram, stride: 1_000 }).unwrap(), 1);
        }
        let (mut received, mut taken) = (ReceiveBuffer::new(), 0);
        while taken < count {
            taken += take(&mut far, &mut received).len();
            assert!(!far.is_drained() || taken == count, "{taken} of {count}");
        }
        assert_eq!(take(&mut far, &mut received).len(), 0);
    }
    near.send(&Datagrams { bytes: &bytes, stride: 1_000 }).unwrap();
    assert_eq!((take(&mut far, &mut ReceiveBuffer::new()).len(), far.is_drained()), (1, true));
}
