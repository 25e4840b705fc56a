//! Transfers that end early: each end reports why, and none waits forever.

use crate::ends;
use linecard_transfer_net::receive::{ReceiveError, receive};
use linecard_transfer_net::send::{SendError, send};
use std::fs;
use std::io::Write;
use std::net::{Ipv6Addr, TcpListener, TcpStream};

#[test]
fn the_other_end_is_told_who_stopped() {
    let folder = tempfile::tempdir().expect("a folder");
    let from = folder.path().join("from.bin");
    fs::write(&from, vec![7; 8 << 20]).expect("there is room");
    let (mut send_options, receive_options, listener) =
        ends::options(&from, &folder.path().join("to"));
    send_options.rate_bits_per_second = Some(20_000_000);
    let stop = &send_options.stop;
    let (sent, got) = std::thread::scope(|scope| {
        let receiving = scope.spawn(|| receive(&receive_options, &listener, &mut |_| {}));
        let sent = send(&send_options, &mut |_| stop.stop());
        (sent, receiving.join().expect("the receiver does not panic"))
    });
    assert!(matches!(sent, Err(SendError::Stopped)), "{sent:?}");
    let Err(ReceiveError::Ended(text)) = got else { panic!("{got:?}") };
    assert!(text.contains("stopped"), "{text}");
}

#[test]
fn a_stranger_does_not_end_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let from = folder.path().join("from.bin");
    fs::write(&from, b"a few bytes").expect("there is room");
    let (send_options, receive_options, listener) = ends::options(&from, &folder.path().join("to"));
    let mut stranger =
        TcpStream::connect(listener.local_addr().expect("it listens")).expect("it can be reached");
    stranger.write_all(b"GET / HTTP/1.1\r\n\r\n").expect("it listens");
    let (sent, got) = ends::run(&send_options, &receive_options, &listener);
    assert_eq!((sent.expect("sent").bytes, got.expect("received").bytes), (11, 11));
}

/// A listener for both families calls a sender of IPv4 by an address of IPv6.
#[test]
fn a_listener_for_both_families() {
    let folder = tempfile::tempdir().expect("a folder");
    let from = folder.path().join("from.bin");
    fs::write(&from, b"a few bytes").expect("there is room");
    let (mut send_options, receive_options, _) = ends::options(&from, &folder.path().join("to"));
    // A host without IPv6 has no such listener.
    let Ok(listener) = TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0)) else { return };
    send_options.peer.set_port(listener.local_addr().expect("it listens").port());
    let (sent, got) = ends::run(&send_options, &receive_options, &listener);
    assert_eq!((sent.expect("sent").bytes, got.expect("received").bytes), (11, 11));
}

/// A receiver to which many connect at once ends handshakes, of which those cut in the middle were errors.
#[test]
fn a_connection_that_is_cut_before_an_answer_is_tried_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let from = folder.path().join("from.bin");
    fs::write(&from, b"a few bytes").expect("there is room");
    let (send_options, receive_options, listener) = ends::options(&from, &folder.path().join("to"));
    let (sent, got) = std::thread::scope(|scope| {
        let receiving = scope.spawn(|| {
            for _ in 0..3 {
                drop(listener.accept().expect("it is back"));
            }
            receive(&receive_options, &listener, &mut |_| {})
        });
        let sent = send(&send_options, &mut |_| {});
        (sent, receiving.join().expect("the receiver does not panic"))
    });
    assert_eq!((sent.expect("sent").bytes, got.expect("received").bytes), (11, 11));
}
