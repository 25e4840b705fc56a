//! Peers that connect to a receiver and are slow, silent, wrong, or too late: none keeps a sender out.

use super::{listener, sending, shared, soon, until};
use linecard::progress::Progress;
use linecard_transfer::control::{
    End, FecScheme, Hello, LaneKind, LaneOffer, List, Message, Mode, Object, RefuseCode, Remove,
    VERSION,
};
use linecard_transfer_net::control::{Access, Control};
use linecard_transfer_net::end::Cores;
use linecard_transfer_net::receive::{
    Acceptor, MAX_FROM_ADDRESS, MAX_HANDSHAKES, ReceiveError, ReceiveOptions, Received, TurnedAway,
};
use linecard_transfer_net::send::{SendError, SendOptions, Sent, send};
use socket2::{Domain, Socket, Type};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// Shorter than a handshake may take: a receiver that waits for a silent peer is too late.
const PATIENCE: Duration = Duration::from_secs(8);
/// Of a receiver whose visitors are to exceed it, and long enough for what a busy machine has to do within it.
const SHORT: Duration = Duration::from_secs(3);
const BYTES: u64 = 100_000;

/// A receiver of test data that runs until the end of the test.
pub(crate) struct Receiver {
    at: SocketAddr,
    pub(crate) folder: PathBuf,
    turned_away: Arc<Mutex<Vec<TurnedAway>>>,
    stop: Arc<Progress>,
    thread: Option<thread::JoinHandle<Vec<Result<Received, ReceiveError>>>>,
}

impl Receiver {
    pub(crate) fn start(access: &Access, patience: Duration) -> Self {
        Self::with(access, patience, false)
    }

    fn with(access: &Access, patience: Duration, allow_delete: bool) -> Self {
        let (listener, at) = listener();
        let turned_away = Arc::new(Mutex::new(Vec::new()));
        let stop = Arc::default();
        let folder = tempfile::tempdir().unwrap().keep();
        let options = ReceiveOptions {
            folder: Some(folder.clone()),
            bucket: None,
            overwrite: false,
            allow_delete,
            allow_links_out: false,
            access: access.clone(),
            lanes: Vec::new(),
            at_once: Some(1),
            memory_bytes: 1 << 20,
            cores: Cores::default(),
            patience,
            stop: Arc::clone(&stop),
        };
        let list = Arc::clone(&turned_away);
        let notice = Box::new(move |visitor| list.lock().unwrap().push(visitor));
        let acceptor = Acceptor::start(listener, options, notice).unwrap();
        let thread = thread::spawn(move || {
            let mut all = Vec::new();
            while !matches!(all.last(), Some(Err(_))) {
                all.push(acceptor.receive(&mut |_| {}));
            }
            all
        });
        Self { at, folder, turned_away, stop, thread: Some(thread) }
    }

    fn send(&self, access: &Access) -> Result<Sent, SendError> {
        send(&self.sender(access), &mut |_| {})
    }

    fn sender(&self, access: &Access) -> SendOptions {
        SendOptions { patience: PATIENCE, ..sending(BYTES, self.at, access) }
    }

    pub(crate) fn connect(&self, access: &Access) -> Control {
        Control::connect(self.at, "test", access, soon()).unwrap()
    }

    /// Waits until a peer was rejected for a reason with this text.
    fn has_turned_away(&self, part: &str) {
        until(|| self.says(part).then_some(()));
    }

    /// Whether a peer was rejected for a reason with this text.
    fn says(&self, part: &str) -> bool {
        let list = self.turned_away.lock().unwrap();
        list.iter().any(|visitor| visitor.why.to_string().contains(part))
    }

    /// How its last transfer ended, by itself.
    fn thread_end(mut self) -> Option<Result<Received, ReceiveError>> {
        self.thread.take().unwrap().join().unwrap().pop()
    }

    /// Ends it: transfers that came to their end, and that it was stopped from outside.
    fn end(mut self) -> usize {
        self.stop.stop();
        let mut all = self.thread.take().unwrap().join().unwrap();
        let last = all.pop();
        assert!(matches!(last, Some(Err(ReceiveError::Stopped))), "{last:?}");
        all.len()
    }
}

pub(crate) fn hello(control: &Control) -> Hello {
    Hello {
        versions: vec![VERSION],
        suites: control.suites().to_vec(),
        fec_kinds: vec![0],
        fec: FecScheme::NONE,
        chunk_bytes: 64 << 10,
        payload_bytes: 1_408,
        lanes: vec![LaneOffer { kind: LaneKind::Udp, rate_bits_per_second: 0 }],
        spares: 0,
        mode: Mode::Auto,
        sources: Vec::new(),
        dry_run: false,
        delete: false,
        links_out: false,
    }
}

pub(crate) fn say(control: &mut Control, message: &Message) {
    control.send(message).unwrap();
    assert!(control.flush().unwrap());
}

pub(crate) fn answer(control: &mut Control) -> Message {
    let answer = until(|| control.receive().unwrap());
    if let Message::Welcome(welcome) = &answer {
        control.pack(welcome.version);
    }
    answer
}

type Change = fn(&mut Hello);

/// A connection from an address of this host.
fn connect_from(source: [u8; 4], to: SocketAddr) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from((source, 0)).into()).unwrap();
    socket.connect(&to.into()).unwrap();
    socket.into()
}

/// Promise (Transfer): Up to 200 silent connections from up to 200 addresses do not keep an authorised sender out: at
/// most 64 handshakes run at a time, 16 from one address or IPv6 network.
#[test]
fn silent_connections_keep_nobody_out() {
    for access in [shared(1), Access::Open] {
        let (own, all) =
            ("more than 16 connections from its address or network", "more than 64 connections");
        let cases =
            [(4, 1, None), (100, 1, Some(own)), (100, 10, Some(all)), (200, 200, Some(all))];
        for (count, sources, crowd) in cases {
            let receiver = Receiver::start(&access, Duration::from_secs(60));
            let source = |number: u32| [127, 1, 0, (1 + number % sources) as u8];
            let silent: Vec<TcpStream> =
                (0..count).map(|number| connect_from(source(number), receiver.at)).collect();
            let sent = receiver.send(&access);
            assert_eq!(sent.unwrap().bytes, BYTES, "{count} from {sources}");
            if let Some(crowd) = crowd {
                receiver.has_turned_away(&format!("{crowd} wait to authenticate"));
                // The bound that was not reached is not named.
                let other = if crowd == own { all } else { own };
                assert!(!receiver.says(&format!("{other} wait")), "{count} from {sources}");
            }
            assert_eq!(receiver.end(), 1);
            drop(silent);
        }
    }
    const { assert!(MAX_FROM_ADDRESS > 4 && MAX_HANDSHAKES < 100) };
}

/// Promise (Transfer): Senders that authenticate and then say nothing do not keep others out.
#[test]
fn a_sender_that_authenticates_and_is_silent_keeps_nobody_out() {
    for access in [shared(1), Access::Open] {
        let receiver = Receiver::start(&access, SHORT);
        let silent: Vec<Control> = (0..40).map(|_| receiver.connect(&access)).collect();
        assert_eq!(receiver.send(&access).unwrap().bytes, BYTES);
        receiver.has_turned_away(&format!("has sent nothing for {SHORT:?} since it authenticated"));
        assert_eq!(receiver.end(), 1);
        drop(silent);
    }
}

#[test]
fn a_sender_that_is_welcome_and_announces_nothing_is_turned_away() {
    let receiver = Receiver::start(&shared(1), SHORT);
    let mut silent = receiver.connect(&shared(1));
    let hello = hello(&silent);
    say(&mut silent, &Message::Hello(hello));
    assert!(matches!(answer(&mut silent), Message::Welcome(_)));
    receiver.has_turned_away(&format!("has announced nothing for {SHORT:?}"));
    assert_eq!(receiver.send(&shared(1)).unwrap().bytes, BYTES);
    assert_eq!(receiver.end(), 1);
}

#[test]
fn who_comes_second_is_told_that_another_transfer_runs() {
    let receiver = Receiver::start(&shared(1), Duration::from_secs(60));
    let mut first = receiver.connect(&shared(1));
    let hello = hello(&first);
    say(&mut first, &Message::Hello(hello));
    assert!(matches!(answer(&mut first), Message::Welcome(_)));
    let object = Object {
        id: 0,
        name: b"slow".to_vec(),
        size: None,
        mode: 0,
        has_holes: false,
        by_time: false,
        has_others: false,
        has_links: false,
        link_of: None,
        modified_ns: 0,
        first_chunk: 0,
    };
    say(&mut first, &Message::Object(object));
    let (own, _) = first.addresses();
    match receiver.send(&shared(1)) {
        Err(SendError::Refused(refuse)) => {
            assert_eq!(refuse.code, RefuseCode::Busy);
            let text = refuse.text.to_string();
            let parts = [&format!("busy: receiving from {own}"), "try again later", "--at-once"];
            assert!(parts.iter().all(|part| text.contains(part)), "{text}");
        }
        other => panic!("{other:?}"),
    }
    // One that is stopped does not wait for its turn.
    let options = receiver.sender(&shared(1));
    let stop = Arc::clone(&options.stop);
    let mut lines = Vec::new();
    let stopped = send(&options, &mut |progress| {
        lines.extend(progress.notes.clone());
        stop.stop();
    });
    assert!(matches!(stopped, Err(SendError::Stopped)), "{stopped:?}");
    assert!(lines.len() == 1 && lines[0].contains("is asked again for up to 8s"), "{lines:?}");
    receiver.has_turned_away("busy");
    // Peers that do not authenticate are not told.
    assert!(Control::connect(receiver.at, "test", &shared(2), soon()).is_err());
    receiver.has_turned_away("another shared key");
    assert_eq!(receiver.end(), 0);
}

/// The next sender may connect before the last transfer has quite come to its end.
#[test]
fn senders_one_after_the_other_are_not_refused() {
    let receiver = Receiver::start(&shared(1), Duration::from_secs(60));
    for _ in 0..20 {
        assert_eq!(receiver.send(&shared(1)).unwrap().bytes, BYTES);
    }
    assert_eq!(receiver.end(), 20);
}

#[test]
fn an_offer_that_does_not_fit_ends_the_visit_only() {
    let receiver = Receiver::start(&shared(1), Duration::from_secs(60));
    let offers: [(&str, Change); 3] = [
        ("version", |hello| hello.versions = vec![VERSION + 1]),
        ("memory", |hello| hello.chunk_bytes = 32 << 20),
        ("error correction", |hello| hello.fec = FecScheme { kind: 77, k: 1, m: 1 }),
    ];
    for (part, change) in offers {
        let mut peer = receiver.connect(&shared(1));
        let mut hello = hello(&peer);
        change(&mut hello);
        say(&mut peer, &Message::Hello(hello));
        match answer(&mut peer) {
            Message::Refuse(refuse) => assert!(refuse.text.to_string().contains(part), "{refuse}"),
            other => panic!("{other:?}"),
        }
    }
    // Another first message than hello, and a connection that ends behind it.
    say(&mut receiver.connect(&shared(1)), &Message::Finish);
    receiver.has_turned_away("something before hello");
    let mut gone = receiver.connect(&shared(1));
    let hello = hello(&gone);
    say(&mut gone, &Message::Hello(hello));
    drop(gone);
    assert_eq!(receiver.send(&shared(1)).unwrap().bytes, BYTES);
    assert_eq!(receiver.end(), 1);
}

/// A receiver whose own lane cannot be opened says so before any sender connects.
#[test]
fn an_own_lane_that_cannot_be_is_found_out_at_once() {
    let (listener, _) = listener();
    let options = ReceiveOptions {
        folder: Some(Path::new("/nowhere").into()),
        bucket: None,
        overwrite: false,
        allow_delete: false,
        allow_links_out: false,
        access: shared(1),
        lanes: vec!["192.0.2.77".parse().unwrap()],
        at_once: Some(1),
        memory_bytes: 1 << 20,
        cores: Cores::default(),
        patience: PATIENCE,
        stop: Arc::default(),
    };
    let refused = Acceptor::start(listener, options, Box::new(|_| {}));
    assert!(matches!(refused, Err(ReceiveError::Open(_))), "{refused:?}");
}

/// Promise (Transfer): A sender that asks for a dry run and then sends something makes no file and ends no receiver.
#[test]
fn what_comes_in_a_dry_run_is_not_stored() {
    let receiver = Receiver::start(&shared(1), Duration::from_secs(60));
    let announced = |id: u32, mode: u32| {
        Message::Object(Object {
            id,
            name: format!("a/b{id}").into_bytes(),
            size: Some(0),
            mode,
            has_holes: false,
            by_time: true,
            has_others: true,
            has_links: false,
            link_of: None,
            modified_ns: 0,
            first_chunk: 0,
        })
    };
    let dry = || {
        let mut peer = receiver.connect(&shared(1));
        let hello = Hello { dry_run: true, ..hello(&peer) };
        say(&mut peer, &Message::Hello(hello));
        assert!(matches!(answer(&mut peer), Message::Welcome(_)));
        peer
    };
    let mut peer = dry();
    for (id, mode) in [(0, 0o040_755), (1, 0o644)] {
        say(&mut peer, &announced(id, mode));
        assert!(matches!(answer(&mut peer), Message::Have(have) if have.object == id));
    }
    say(&mut peer, &Message::End(End { object: 1, size: 0, root: [0; 32], proof: None }));
    receiver.has_turned_away("the end of an object that does not exist");
    // Test data of open length, which a probe sends, opens nothing for a file beside it.
    let mut peer = dry();
    say(&mut peer, &announced(0, 0o644));
    assert!(matches!(answer(&mut peer), Message::Have(have) if have.object == 0));
    let Message::Object(test) = announced(1, 0o020_600) else { unreachable!("it is one") };
    say(&mut peer, &Message::Object(Object { size: None, ..test }));
    assert!(matches!(answer(&mut peer), Message::Have(have) if have.object == 1));
    say(&mut peer, &Message::Finish);
    assert!(matches!(answer(&mut peer), Message::Finish));
    drop(peer);
    // Many questions without listening to the answers.
    for mode in [0o644, 0o020_600] {
        let mut peer = dry();
        for id in 0..200_000 {
            if peer.send(&announced(id, mode)).and_then(|()| peer.flush()).is_err() {
                break;
            }
        }
    }
    assert_eq!(std::fs::read_dir(&receiver.folder).unwrap().count(), 0);
    assert_eq!(receiver.send(&shared(1)).unwrap().bytes, BYTES);
    assert_eq!(receiver.end(), 1);
}

/// An empty file.
pub(crate) fn object(id: u32, name: &str) -> Object {
    Object {
        id,
        name: name.into(),
        size: Some(0),
        mode: 0o644,
        has_holes: false,
        by_time: false,
        has_others: true,
        has_links: false,
        link_of: None,
        modified_ns: 0,
        first_chunk: 0,
    }
}

/// Promise (Transfer): A sender can have nothing removed that is not below a folder which it has sent, nothing before all
/// that it announced is stored, and nothing at all unless the receiver permits it.
#[test]
fn a_sender_removes_nothing_elsewhere_and_nothing_early() {
    let folder =
        |id: u32, name: &str| Message::Object(Object { mode: 0o040_755, ..object(id, name) });
    let remove = |name: &str, is_folder: bool| {
        let mut remove = Remove::default();
        assert!(remove.names.push(name.as_bytes(), is_folder));
        Message::Remove(remove)
    };
    let list = |name: &str| Message::List(List { folder: name.into(), after: Vec::new() });
    let elsewhere = "not in a folder which it sent";
    let (early, late) = ("before everything has arrived", "after the end");
    let cases: [(Message, bool, Change, &str); 11] = [
        (remove("other/file", false), true, |_| {}, elsewhere),
        (remove("sent/../other/file", false), true, |_| {}, elsewhere),
        (remove("/etc/passwd", false), true, |_| {}, elsewhere),
        (remove("sent", true), true, |_| {}, elsewhere),
        (remove("sent/.a.linecard-part", false), true, |_| {}, elsewhere),
        (list("other"), true, |_| {}, elsewhere),
        (list(".."), true, |_| {}, elsewhere),
        (remove("sent/file", false), false, |_| {}, early),
        (remove("sent/file", false), true, |hello| hello.dry_run = true, early),
        (remove("sent/file", false), true, |_| {}, late),
        (list("sent"), true, |_| {}, late),
    ];
    for (message, stored, change, part) in cases {
        let receiver = Receiver::with(&shared(1), Duration::from_secs(60), true);
        for name in ["sent", "other"] {
            std::fs::create_dir(receiver.folder.join(name)).unwrap();
            std::fs::write(receiver.folder.join(name).join("file"), b"").unwrap();
        }
        let mut peer = receiver.connect(&shared(1));
        let mut hello = Hello { delete: true, ..hello(&peer) };
        change(&mut hello);
        let is_dry = hello.dry_run;
        say(&mut peer, &Message::Hello(hello));
        assert!(matches!(answer(&mut peer), Message::Welcome(_)));
        say(&mut peer, &folder(0, "sent"));
        assert!(matches!(answer(&mut peer), Message::Have(_)));
        if stored && !is_dry {
            say(&mut peer, &Message::End(End { object: 0, size: 0, root: [0; 32], proof: None }));
            assert_eq!(answer(&mut peer), Message::Stored { object: 0 });
        }
        if part == late {
            peer.send(&Message::Finish).unwrap();
        }
        say(&mut peer, &message);
        let text = loop {
            match peer.receive() {
                Ok(Some(Message::Failed(failed))) => break failed.text.to_string(),
                Ok(Some(Message::Finish)) if part == late => {}
                Ok(Some(other)) => panic!("{message:?}: {other:?}"),
                Ok(None) => thread::sleep(Duration::from_millis(1)),
                Err(error) => panic!("{message:?}: {error}"),
            }
        };
        assert!(text.contains(part), "{message:?}: {text}");
        for name in ["sent/file", "other/file"] {
            assert!(receiver.folder.join(name).exists(), "{message:?} removed {name}");
        }
    }
    // An unauthorized sender is refused before anything is announced.
    let receiver = Receiver::start(&shared(1), Duration::from_secs(60));
    let mut peer = receiver.connect(&shared(1));
    let hello = Hello { delete: true, ..hello(&peer) };
    say(&mut peer, &Message::Hello(hello));
    match answer(&mut peer) {
        Message::Refuse(refuse) => assert!(refuse.text.to_string().contains("--allow-delete")),
        other => panic!("{other:?}"),
    }
    assert_eq!(receiver.send(&shared(1)).unwrap().bytes, BYTES);
    assert_eq!(receiver.end(), 1);
}

/// Announcements of a sender take no more memory than is reserved for them.
#[test]
fn announced_folders_take_a_share_of_the_memory_only() {
    // And files with hard links.
    for (mode, has_links) in [(0o040_755, false), (0o644, true)] {
        announce_too_many(mode, has_links);
    }
}

/// Announces empty objects with long names until the receiver has no memory for them.
fn announce_too_many(mode: u32, has_links: bool) {
    let receiver = Receiver::start(&shared(1), Duration::from_secs(60));
    let mut peer = receiver.connect(&shared(1));
    let hello = hello(&peer);
    say(&mut peer, &Message::Hello(hello));
    assert!(matches!(answer(&mut peer), Message::Welcome(_)));
    let above = vec!["x".repeat(200); 18].join("/");
    let mut announced = 0_u32;
    let text = loop {
        let name = format!("{above}/{announced}").into_bytes();
        let object = Object {
            id: announced,
            name,
            size: Some(0),
            mode,
            has_holes: false,
            by_time: false,
            has_others: true,
            has_links,
            link_of: None,
            modified_ns: 0,
            first_chunk: 0,
        };
        say(&mut peer, &Message::Object(object));
        let root = *blake3::hash(b"").as_bytes();
        let end = End { object: announced, size: 0, root, proof: None };
        let told = loop {
            match answer(&mut peer) {
                Message::Failed(failed) => break Some(failed.text.to_string()),
                Message::Have(_) => say(&mut peer, &Message::End(end)),
                Message::Stored { .. } => break None,
                _ => {}
            }
        };
        if let Some(text) = told {
            break text;
        }
        announced += 1;
    };
    for part in ["files with hard links", "1048576 bytes", "--memory", "without --hard-links"] {
        assert!(text.contains(part), "{text}");
    }
    assert!((250..300).contains(&announced), "{announced} names of 3.6 KB in a mebibyte");
    let ended = receiver.thread_end();
    assert!(matches!(ended, Some(Err(ReceiveError::TooManyFolders { .. }))), "{ended:?}");
}
