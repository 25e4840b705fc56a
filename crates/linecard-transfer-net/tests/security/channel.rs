//! The channel itself: deadlines, cuts, floods, damage.

use super::{NAME, listener, met, shared, soon, until};
use linecard_transfer::control::{Have, Message, MessageError};
use linecard_transfer_net::control::{Access, Control, ControlError, MAX_WAITING_BYTES};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

fn stored(object: u32) -> Message {
    Message::Stored { object }
}

/// The next message or error.
fn next(control: &mut Control) -> Result<Message, ControlError> {
    until(|| control.receive().transpose())
}

#[test]
fn messages_go_both_ways() {
    for access in [shared(1), Access::Open] {
        let (mut sender, mut receiver) = met(&access, &access);
        assert!(receiver.receive().unwrap().is_none());
        for round in 0..50 {
            for (from, to) in [(0, 1), (1, 0)] {
                let ends = [&mut sender, &mut receiver];
                for object in 0..=round {
                    ends[from].send(&stored(object)).unwrap();
                }
                assert!(ends[from].flush().unwrap() && !ends[from].wants_write());
                for object in 0..=round {
                    assert_eq!(next(ends[to]).unwrap(), stored(object));
                }
            }
        }
    }
}

/// Also where the last message before it comes in one read with blocks behind it.
#[test]
fn messages_are_packed_from_one_on() {
    for (access, version) in [(shared(1), 7), (Access::Open, 7), (shared(1), 6)] {
        let (mut sender, mut receiver) = met(&access, &access);
        receiver.send(&Message::Finish).unwrap();
        receiver.pack(version);
        let all: Vec<Message> = (0..5_000).map(stored).collect();
        for message in &all {
            receiver.send(message).unwrap();
        }
        assert!(receiver.flush().unwrap() && !receiver.wants_write());
        assert_eq!(next(&mut sender).unwrap(), Message::Finish);
        sender.pack(version);
        // A second time changes nothing.
        sender.pack(version);
        for message in &all {
            assert_eq!(&next(&mut sender).unwrap(), message);
        }
        sender.send(&stored(7)).unwrap();
        assert!(sender.flush().unwrap());
        assert_eq!(next(&mut receiver).unwrap(), stored(7));
        sender.close();
        drop(sender);
        assert!(matches!(next(&mut receiver), Err(ControlError::Closed)));
    }
}

/// A peer that sends no block where one has to come.
#[test]
fn what_is_no_block_is_an_error() {
    let (mut sender, mut receiver) = met(&shared(1), &shared(1));
    receiver.pack(7);
    sender.send(&Message::Finish).unwrap();
    sender.flush().unwrap();
    let error = next(&mut receiver).unwrap_err();
    assert!(matches!(error, ControlError::Packed), "{error}");
}

#[test]
fn an_end_that_does_not_read_is_found_out_and_nothing_is_lost() {
    for access in [shared(1), Access::Open] {
        let (mut sender, mut receiver) = met(&access, &access);
        let big = Message::Have(Have {
            object: 1,
            ranges: Vec::new(),
            existing: None,
            is_same: false,
            replaces: false,
            proof_key: None,
            part: None,
        });
        let mut sent = 0_u64;
        let full = loop {
            if let Err(error) = sender.send(&big) {
                break error;
            }
            sent += 1;
            // Not each by itself: a busy machine has to be done before the kernel loses patience with the path.
            if sent.is_multiple_of(256) {
                sender.flush().unwrap();
            }
        };
        assert!(matches!(full, ControlError::Full));
        assert!(sender.wants_write());
        assert!(sent > MAX_WAITING_BYTES as u64 / 64, "{sent}");
        let mut received = 0;
        while received < sent {
            sender.flush().unwrap();
            while let Some(message) = receiver.receive().unwrap() {
                assert_eq!(message, big);
                received += 1;
            }
        }
        assert!(sender.flush().unwrap());
        assert!(sender.send(&big).is_ok());
    }
}

#[test]
fn closing_is_told_from_cutting() {
    let (mut sender, mut receiver) = met(&shared(1), &shared(1));
    sender.send(&Message::Finish).unwrap();
    assert!(sender.flush().unwrap());
    sender.close();
    assert_eq!(next(&mut receiver).unwrap(), Message::Finish);
    assert!(matches!(next(&mut receiver), Err(ControlError::Closed)));

    let (mut sender, mut receiver) = met(&shared(1), &shared(1));
    sender.send(&Message::Finish).unwrap();
    assert!(sender.flush().unwrap());
    drop(sender);
    assert_eq!(next(&mut receiver).unwrap(), Message::Finish);
    assert!(matches!(next(&mut receiver), Err(ControlError::ClosedEarly)));
}

/// A handshake of each end, until `deadline`, with a peer that is made by `peer`, and how long it took.
fn against(
    (access, deadline): (&Access, Instant),
    connecting: bool,
    peer: impl FnOnce(TcpStream) + Send,
) -> (ControlError, Duration) {
    let (listener, address) = listener();
    let started = Instant::now();
    let outcome = thread::scope(|scope| {
        if connecting {
            scope.spawn(move || peer(listener.accept().unwrap().0));
            Control::connect(address, NAME, access, deadline)
        } else {
            scope.spawn(move || peer(TcpStream::connect(address).unwrap()));
            Control::accept(listener.accept().unwrap().0, access, deadline)
        }
    });
    (outcome.expect_err("no handshake with that"), started.elapsed())
}

#[test]
fn a_handshake_ends_at_its_deadline_whatever_the_other_end_does() {
    for access in [shared(1), Access::Open] {
        for connecting in [false, true] {
            let silent = |mut stream: TcpStream| {
                let _ends = stream.read_to_end(&mut Vec::new());
            };
            // Less than a handshake takes by itself, and by far.
            let deadline = || Instant::now() + Duration::from_millis(300);
            let (error, took) = against((&access, deadline()), connecting, silent);
            assert!(matches!(error, ControlError::TimedOut { .. }), "{error}");
            assert!((250..8_000).contains(&took.as_millis()), "{took:?}");
            // A byte now and then, of what may become a record or an opening.
            let start: &[u8] = match access {
                Access::Open => b"LINECARD",
                _ => &[22, 3, 1, 2, 0, 1],
            };
            let dripping = |mut stream: TcpStream| {
                let bytes = start.iter().copied().chain([0; 400]);
                for byte in bytes {
                    if stream.write_all(&[byte]).is_err() {
                        break;
                    }
                    thread::sleep(Duration::from_millis(50));
                }
            };
            let (error, took) = against((&access, deadline()), connecting, dripping);
            assert!(!matches!(error, ControlError::Io(_)), "{error}");
            assert!(took.as_millis() < 8_000, "{took:?}");
        }
    }
}

#[test]
fn an_end_that_goes_away_is_said_at_once() {
    for access in [shared(1), Access::Open] {
        for connecting in [false, true] {
            let (error, _) = against((&access, soon()), connecting, drop);
            assert!(matches!(error, ControlError::ClosedEarly), "{error}");
        }
    }
}

#[test]
fn an_older_tls_is_refused() {
    // A ClientHello of TLS 1.2 (RFC 5246): one suite, no compression, no extensions.
    let mut hello = vec![22, 3, 1, 0, 45, 1, 0, 0, 41, 3, 3];
    hello.extend([7; 32]);
    hello.extend([0, 0, 2, 0xC0, 0x2B, 1, 0]);
    let (error, _) = against((&shared(1), soon()), false, |mut stream| {
        stream.write_all(&hello).unwrap();
        let mut answer = Vec::new();
        let _end = stream.read_to_end(&mut answer);
        assert_eq!(answer.first(), Some(&21), "an alert, and no ServerHello");
    });
    assert!(matches!(error, ControlError::Tls(_)), "{error}");
}

/// An end without TLS that has accepted, and the stream that it thinks is its peer.
fn opened() -> (Control, TcpStream) {
    let (listener, address) = listener();
    let mut raw = TcpStream::connect(address).unwrap();
    raw.write_all(b"LINECARD").unwrap();
    raw.write_all(&[0; 32]).unwrap();
    let stream = listener.accept().unwrap().0;
    (Control::accept(stream, &Access::Open, soon()).unwrap(), raw)
}

#[test]
fn a_length_beyond_the_limit_is_refused_before_its_bytes_come() {
    let (mut control, mut raw) = opened();
    raw.write_all(&[0, 5, 0xFF, 0xFF, 0xFF, 0xFF]).unwrap();
    let error = next(&mut control).unwrap_err();
    assert!(matches!(error, ControlError::Message(MessageError::TooLong(u32::MAX))), "{error}");
    assert!(next(&mut control).is_err(), "and so it stays");
}

#[test]
fn a_message_that_is_cut_off_is_no_message() {
    let mut bytes = Vec::new();
    stored(7).write(&mut bytes).unwrap();
    for end in 1..bytes.len() {
        let (mut control, mut raw) = opened();
        raw.write_all(&bytes[..end]).unwrap();
        raw.shutdown(Shutdown::Write).unwrap();
        assert!(matches!(next(&mut control), Err(ControlError::ClosedEarly)));
    }
}
