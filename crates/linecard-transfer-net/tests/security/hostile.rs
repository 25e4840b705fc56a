//! A receiver that authenticates and then breaks the protocol: the sender ends, and does not spin until then.

use super::{listener, sending, shared, soon, until};
use linecard_transfer::control::{Have, Hello, Message, Welcome};
use linecard_transfer::wire::{HEADER_BYTES, Header, Kind, OVERHEAD_BYTES, Probe};
use linecard_transfer_net::control::{Control, ControlError};
use linecard_transfer_net::file::{Choice, Input};
use linecard_transfer_net::seal::Sealer;
use linecard_transfer_net::send::{SendError, SendOptions, Sent, send};
use rustix::time::{ClockId, clock_gettime};
use std::net::{SocketAddr, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

/// How long the sender waits for lanes.
const PATIENCE: Duration = Duration::from_secs(3);
const CONNECTION: u32 = 7;
/// Processor time of a sender that waits: one that spins takes nearly all of [`PATIENCE`], or half on a busy machine.
const IDLE: Duration = Duration::from_millis(500);

/// The receiver, once it has welcomed the sender.
struct Hostile {
    control: Control,
    /// Each with where the sender is, and what seals packets to it.
    lanes: Vec<(UdpSocket, SocketAddr, Sealer)>,
}

impl Hostile {
    /// Welcomes a sender, orders all that it announces, and waits until it has probed each lane.
    fn welcome(mut control: Control) -> Self {
        let Message::Hello(hello) = next(&mut control) else { panic!("hello comes first") };
        let Hello { versions, suites, lanes, .. } = hello;
        let sockets: Vec<UdpSocket> =
            lanes.iter().map(|_| UdpSocket::bind("127.0.0.1:0").unwrap()).collect();
        let welcome = Welcome {
            version: versions[0],
            suite: suites[0],
            connection: CONNECTION,
            window_chunks: 4,
            lanes: sockets.iter().map(|socket| socket.local_addr().unwrap()).collect(),
        };
        say(&mut control, &Message::Welcome(welcome));
        let Message::Object(object) = next(&mut control) else { panic!("then an object") };
        let have = Have {
            object: object.id,
            ranges: Vec::new(),
            existing: None,
            is_same: false,
            replaces: false,
            proof_key: None,
            part: None,
        };
        say(&mut control, &Message::Have(have));
        let lanes = sockets.into_iter().enumerate().map(|(lane, socket)| {
            socket.set_read_timeout(Some(PATIENCE)).unwrap();
            let (_, sender) = socket.recv_from(&mut [0; 2_048]).unwrap();
            let (sealer, _) = control.lane(suites[0], CONNECTION, lane as u16).unwrap();
            (socket, sender, sealer)
        });
        let lanes = lanes.collect();
        Self { control, lanes }
    }

    /// Closes a lane, and asks for an answer on it.
    fn close(&mut self, lane: usize) {
        let (socket, sender, sealer) = &mut self.lanes[lane];
        let mut challenge = Vec::new();
        Probe { challenge: Some(1), response: None }.write(&mut challenge, Probe::BYTES);
        let packets = [(Kind::Close, Vec::new()), (Kind::Probe, challenge)];
        for (packet_number, (kind, body)) in (0..).zip(packets) {
            let header = Header::without_chunk(kind, lane as u16, CONNECTION, packet_number);
            let mut datagram = vec![0; OVERHEAD_BYTES + body.len()];
            datagram[HEADER_BYTES..HEADER_BYTES + body.len()].copy_from_slice(&body);
            sealer.seal(&header, &mut datagram).unwrap();
            socket.send_to(&datagram, *sender).unwrap();
        }
    }
}

fn say(control: &mut Control, message: &Message) {
    control.send(message).unwrap();
    assert!(control.flush().unwrap());
}

fn next(control: &mut Control) -> Message {
    until(|| control.receive().unwrap())
}

fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Sends to a receiver that does as `peer`: how it ended, how long that took, and how busy the sender was.
fn send_to(
    lanes: usize,
    peer: impl FnOnce(Control) + Send,
) -> (Result<Sent, SendError>, Duration, Duration) {
    let (listener, at) = listener();
    let access = shared(1);
    let options = SendOptions {
        lanes: vec!["127.0.0.1".parse().unwrap(); lanes],
        patience: PATIENCE,
        ..sending(1_000_000, at, &access)
    };
    thread::scope(|scope| {
        let sending = scope.spawn(move || {
            let began = Instant::now();
            let sent = send(&options, &mut |_| {});
            (sent, began.elapsed(), thread_time())
        });
        peer(Control::accept(listener.accept().unwrap().0, &access, soon()).unwrap());
        sending.join().unwrap()
    })
}

/// Waits until the sender has said that it ends, or closed the connection.
fn outlast(mut control: Control) {
    until(|| matches!(control.receive(), Err(_) | Ok(Some(Message::Failed(_)))).then_some(()));
}

/// A receiver that does not know of dry runs would receive, one that does not know of hard links would make empty files,
/// and one that does not know of links that lead out would refuse them when they have come.
#[test]
fn an_older_receiver_is_not_asked_for_what_it_does_not_know() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a"), "").unwrap();
    let input = || Input::Paths(vec![folder.path().into()]);
    std::fs::hard_link(folder.path().join("a"), folder.path().join("b")).unwrap();
    std::os::unix::fs::symlink("/", folder.path().join("out")).unwrap();
    for (newest, option) in [(1, "--dry-run"), (5, "--hard-links"), (6, "--links-out")] {
        let [dry_run, hard_links, links_out] =
            ["--dry-run", "--hard-links", "--links-out"].map(|other| other == option);
        let (listener, at) = listener();
        let access = shared(1);
        let options = sending(1_000, at, &access);
        let choice = Choice { hard_links, links_out, ..Choice::default() };
        let options = SendOptions { dry_run, choice, input: input(), ..options };
        let sent = thread::scope(|scope| {
            let sending = scope.spawn(|| send(&options, &mut |_| {}));
            let accepted = Control::accept(listener.accept().unwrap().0, &access, soon());
            let mut control = accepted.unwrap();
            let Message::Hello(hello) = next(&mut control) else { panic!("hello comes first") };
            let known: Vec<u16> = (1..=newest).collect();
            let refuse = hello.agree(&known, control.suites(), &[0]).unwrap_err();
            say(&mut control, &Message::Refuse(refuse));
            sending.join().unwrap()
        });
        let error = sent.unwrap_err();
        assert!(matches!(error, SendError::Older(_)), "{error}");
        let text = format!("older linecard, which has no {option}");
        assert!(error.to_string().contains(&text), "{error}");
    }
}

/// Without such files, `--hard-links` asks for nothing.
#[test]
fn an_older_receiver_does_where_there_are_no_hard_links() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a"), "").unwrap();
    let (listener, at) = listener();
    let access = shared(1);
    let input = Input::Paths(vec![folder.path().into()]);
    let choice = Choice { hard_links: true, ..Choice::default() };
    let options = SendOptions { choice, input, ..sending(1_000, at, &access) };
    thread::scope(|scope| {
        scope.spawn(|| send(&options, &mut |_| {}));
        let accepted = Control::accept(listener.accept().unwrap().0, &access, soon());
        let mut control = accepted.unwrap();
        let Message::Hello(hello) = next(&mut control) else { panic!("hello comes first") };
        assert!(hello.agree(&[1], control.suites(), &[0]).is_ok(), "{hello:?}");
    });
}

#[test]
fn a_lane_that_the_receiver_closes_and_challenges_does_not_keep_the_sender_busy() {
    let (sent, _, busy) = send_to(2, |control| {
        let mut hostile = Hostile::welcome(control);
        hostile.close(0);
        outlast(hostile.control);
    });
    assert!(matches!(sent, Err(SendError::Silent(_) | SendError::NeverReached { .. })), "{sent:?}");
    assert!(busy < IDLE, "{busy:?}");
}

#[test]
fn a_receiver_that_closes_all_lanes_ends_the_transfer_at_once() {
    let (sent, took, _) = send_to(1, |control| {
        let mut hostile = Hostile::welcome(control);
        hostile.close(0);
        outlast(hostile.control);
    });
    assert!(matches!(sent, Err(SendError::Unusable)), "{sent:?}");
    assert!(took < PATIENCE, "{took:?}");
}

#[test]
fn a_receiver_that_finishes_too_early_and_leaves_ends_the_transfer_at_once() {
    let (sent, took, busy) = send_to(1, |control| {
        let mut hostile = Hostile::welcome(control);
        say(&mut hostile.control, &Message::Finish);
    });
    let is_cut =
        matches!(sent, Err(SendError::Control(ControlError::Closed | ControlError::ClosedEarly)));
    assert!(is_cut && took < PATIENCE && busy < IDLE, "{sent:?} after {took:?}, busy {busy:?}");
}
