//! Streams that arrive by a certain interface of several.

use crate::lab::alone;
use linecard_io::lab::{Cable, Host, Lab};
use linecard_jitter::linux::watch::{Buffers, Receiver};
use std::net::UdpSocket;
use std::time::Duration;

/// Longest wait for packets.
const PATIENCE: u32 = 60_000;

/// Packets of a receiver that arrive until one is empty, which is sent last.
fn received(receiver: &Receiver) -> Vec<u8> {
    let (mut buffers, mut came, mut is_last) = (Buffers::default(), Vec::new(), false);
    for _ in 0..PATIENCE {
        let take = |arrival: &linecard_jitter::media::live::Arrival<'_>| {
            came.extend_from_slice(arrival.payload);
            is_last |= arrival.payload.is_empty();
        };
        if receiver.receive(&mut buffers, take).unwrap() == 0 {
            if is_last {
                return came;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    panic!("the last packet did not arrive after {came:?}");
}

/// Promise (Jitter): Of a group or an address with an interface, only packets that arrive by that interface are watched.
#[test]
fn streams_are_received_by_the_interface_that_is_named() {
    let _alone = alone();
    let lab = match Lab::new(Cable::default()) {
        Ok(lab) => lab,
        Err(error) => return linecard_testkit::skip("two interfaces", error),
    };
    lab.add_lanes(&[100_000_000; 2]).unwrap();
    // The same group twice, and an address of this host that is the first interface's.
    for ip in ["239.7.7.7".to_owned(), Host::Own.lane_address(0).to_string()] {
        let open = |lane: u8, port: u16| {
            let target = format!("{ip}:{port}%lane{lane}").parse().unwrap();
            lab.enter(Host::Own, || Receiver::open(target)).unwrap().unwrap()
        };
        let first = open(0, 0);
        let port = first.target().address.port();
        assert!(port > 0, "a port was chosen");
        let second = open(1, port);
        let send = |lane: u8, payloads: &[&[u8]]| {
            let from = Host::Peer.lane_address(lane);
            let sender = lab.enter(Host::Peer, || UdpSocket::bind((from, 0))).unwrap().unwrap();
            rustix::net::sockopt::set_ip_multicast_if(&sender, &from).unwrap();
            payloads.iter().for_each(|payload| {
                sender.send_to(payload, (ip.as_str(), port)).unwrap();
            });
        };
        send(0, &[b"a", b"b", b""]);
        assert_eq!(received(&first), b"ab");
        let mut buffers = Buffers::default();
        assert_eq!(second.receive(&mut buffers, |_| ()).unwrap(), 0, "{ip}");
        if ip.starts_with("239") {
            send(1, &[b"c", b""]);
            assert_eq!(received(&second), b"c");
            assert_eq!(first.receive(&mut buffers, |_| ()).unwrap(), 0, "{ip}");
        }
    }
}
