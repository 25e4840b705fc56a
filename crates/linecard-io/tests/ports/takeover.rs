//! An interface taken over: packet sockets receive its packets, and the kernel does not.

use crate::lab::{MOMENT, cable, inside, ip, open, packet, pool, receive, send};
use linecard::packet::Meta;
use linecard::packet::checksum::Sum;
use linecard_io::port::Takeover;
use linecard_tun::interface;
use std::net::UdpSocket;

/// A UDP datagram of `number` to port 7 of 10.9.9.2 at this MAC address.
fn datagram(to: [u8; 6], number: u8) -> Vec<u8> {
    let mut frame = [to, [2, 0, 0, 0, 0, 9]].concat();
    frame.extend([0x08, 0]);
    let mut ip = [0x45, 0, 0, 46, 0, number, 0, 0, 64, 17, 0, 0, 10, 9, 9, 1, 10, 9, 9, 2];
    let checksum = Sum::of(&ip).checksum().to_be_bytes();
    ip[10..12].copy_from_slice(&checksum);
    frame.extend(ip);
    frame.extend([0, 9, 0, 7, 0, 26, 0, 0]);
    frame.extend([number; 18]);
    frame
}

/// Promise (Live interfaces): Packets of an attached interface reach the port and not the kernel's
/// protocols, for packet sockets since Linux 6.6.
#[test]
fn packets_come_to_the_port_and_not_to_the_kernel_while_it_lives() {
    inside("an interface taken over", || {
        cable();
        ip("address add 10.9.9.2/24 dev vb");
        let mac = interface::mac("vb").expect("Ethernet");
        let kernel = UdpSocket::bind("10.9.9.2:7").expect("the address is there");
        kernel.set_read_timeout(Some(MOMENT)).expect("a moment");
        let (mut from, mut to) = (open("va", |_| ()), open("vb", |_| ()));
        for (number, is_taken) in [(1, false), (2, true), (3, false)] {
            let takeover = is_taken.then(|| Takeover::new("vb")).transpose();
            let Ok(_takeover) =
                takeover.map_err(|why| linecard_testkit::skip("a port that is taken over", why))
            else {
                return;
            };
            let frame = datagram(mac, number);
            send(&mut from, vec![packet(&pool(), &frame, Meta::default())]);
            let came = receive(&mut to, 1);
            assert_eq!(came[0].bytes(), frame, "the port gets it anyway");
            let got = kernel.recv(&mut [0; 64]);
            assert_eq!(got.is_err(), is_taken, "datagram {number}");
        }
    });
}

#[test]
fn an_interface_that_is_not_there_is_named() {
    inside("a takeover of nothing", || {
        let text = Takeover::new("nothing").expect_err("not there").to_string();
        assert!(text.contains("nothing"), "{text}");
    });
}
