//! A path that lets the control connection through and no datagrams.

use crate::ends;
use linecard_transfer::control::{Have, Message, Welcome};
use linecard_transfer_net::control::{Access, Control};
use linecard_transfer_net::send::{SendError, send};
use std::net::{TcpListener, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A receiver whose lanes never answer, until `stop`.
fn deaf(listener: &TcpListener, access: &Access, stop: &AtomicBool) {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback is there");
    let address = socket.local_addr().expect("it is bound");
    let stream = listener.accept().expect("the sender connects").0;
    let deadline = Instant::now() + Duration::from_secs(20);
    let mut control = Control::accept(stream, access, deadline).expect("it has the key");
    while !stop.load(Ordering::Relaxed) {
        let answer = match control.receive() {
            Ok(Some(Message::Hello(hello))) => Message::Welcome(Welcome {
                version: hello.versions[0],
                suite: control.suites()[0],
                connection: 7,
                window_chunks: 4,
                lanes: vec![address; hello.lanes.len()],
            }),
            Ok(Some(Message::Object(object))) => Message::Have(Have {
                object: object.id,
                ranges: Vec::new(),
                existing: None,
                is_same: false,
                replaces: false,
                proof_key: None,
                part: None,
            }),
            Ok(_) => {
                std::thread::sleep(Duration::from_millis(5));
                continue;
            }
            Err(_) => return,
        };
        control.send(&answer).expect("it fits");
        control.flush().expect("the sender is there");
    }
}

#[test]
fn lanes_that_never_answer_are_named_as_tcp() {
    let folder = tempfile::tempdir().expect("a folder");
    let from = folder.path().join("from.bin");
    std::fs::write(&from, vec![7; 100_000]).expect("there is room");
    let (_, _, listener) = ends::options(&from, &folder.path().join("to"));
    let stop = AtomicBool::new(false);
    let advice = |lanes: &[&str]| {
        let mut options = ends::options(&from, folder.path()).0;
        options.peer = listener.local_addr().expect("it listens");
        options.patience = Duration::from_secs(8);
        options.lanes = lanes.iter().map(|lane| lane.parse().expect("a lane")).collect();
        std::thread::scope(|scope| {
            scope.spawn(|| deaf(&listener, &options.access, &stop));
            let mut notes = Vec::new();
            let sent = send(&options, &mut |progress| notes.clone_from(&progress.notes));
            stop.store(true, Ordering::Relaxed);
            (sent, notes)
        })
    };
    let (sent, notes) = advice(&["127.0.0.1,rate=50M", "127.0.0.1"]);
    stop.store(false, Ordering::Relaxed);
    // Long before the end, with the usual patience.
    assert!(notes.len() == 1 && notes[0].contains("a firewall may be in the way"), "{notes:?}");
    let Err(error @ SendError::NeverReached { .. }) = sent else { panic!("{sent:?}") };
    let text = error.to_string();
    assert!(text.contains("--lane tcp:127.0.0.1,rate=50000000 --lane tcp:127.0.0.1"), "{text}");
    // Without any, the lane that was made is named.
    let (sent, _) = advice(&[]);
    let text = sent.err().map(|error| error.to_string()).unwrap_or_default();
    assert!(text.contains("over TCP: --lane tcp:127.0.0.1"), "{text}");
}
