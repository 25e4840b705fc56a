//! TCP lanes that break, and connections that are not the sender's.

use crate::ends;
use linecard_transfer_net::lane::Spec;
use linecard_transfer_net::receive::{ReceiveOptions, receive};
use linecard_transfer_net::send::{SendOptions, SendProgress, Sent, send};
use std::fs;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

/// No test waits longer.
const PATIENCE: Duration = Duration::from_secs(20);
/// A lane that was broken carries again within this: a second, and what a busy machine adds. Without a new
/// connection it never does.
const BACK: Duration = Duration::from_secs(10);
/// Longer than any time after which a lane might be taken for quiet.
const QUIET: Duration = Duration::from_millis(1_500);

/// Both ends with a file, TCP lanes at ports that are known beforehand, and a rate that leaves time.
struct Broken {
    folder: tempfile::TempDir,
    send: SendOptions,
    receive: ReceiveOptions,
    listener: TcpListener,
    ports: Vec<u16>,
}

impl Broken {
    fn new(bytes: usize, lanes: usize, rate_bits_per_second: u64) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let from = folder.path().join("from.bin");
        let mut content = vec![0; bytes];
        linecard::rng::Rng::new(bytes as u64).fill(&mut content);
        fs::write(&from, content).expect("there is room");
        let (mut send, mut receive, listener) = ends::options(&from, &folder.path().join("to"));
        let spec = |port: u16| -> Spec { format!("tcp:127.0.0.1:{port}").parse().expect("a lane") };
        // Held together, so that they differ, and then free.
        let held: Vec<TcpListener> =
            (0..lanes).map(|_| TcpListener::bind("127.0.0.1:0").expect("a port")).collect();
        let ports: Vec<u16> =
            held.iter().map(|held| held.local_addr().expect("its address").port()).collect();
        drop(held);
        receive.lanes = ports.iter().map(|port| spec(*port)).collect();
        send.lanes = vec![spec(0); lanes];
        send.rate_bits_per_second = Some(rate_bits_per_second);
        Self { folder, send, receive, listener, ports }
    }

    /// Runs both ends; `meanwhile` is called with the progress until it returns false.
    fn run(&self, mut meanwhile: impl FnMut(&SendProgress) -> bool) -> Sent {
        let (sent, got) = std::thread::scope(|scope| {
            let receiving = scope.spawn(|| receive(&self.receive, &self.listener, &mut |_| {}));
            let mut goes_on = true;
            let sent = send(&self.send, &mut |progress| {
                goes_on = goes_on && meanwhile(progress);
            });
            let got = ends::received(receiving, &self.receive, &sent);
            (sent, got)
        });
        got.expect("received");
        let of = |name: &str| fs::read(self.folder.path().join(name)).expect("it is there");
        assert!(of("from.bin") == of("to/from.bin"), "other bytes came");
        sent.expect("sent")
    }
}

/// Has the kernel break the connections to `port`; false if it cannot.
fn kill(port: u16) -> bool {
    let port = port.to_string();
    let killed = Command::new("ss").args(["-K", "-t", "-n", "dport", "=", &port]).output();
    killed.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains(&port))
}

fn can_kill(test: &str) -> bool {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = listener.local_addr().expect("its address");
    let _connection = TcpStream::connect(at).expect("it listens");
    let can = kill(at.port());
    if !can {
        linecard_testkit::skip(
            test,
            "it needs root, `ss` and CONFIG_INET_DIAG_DESTROY to break sockets",
        );
    }
    can
}

/// Breaks lane 0 again and again, each time when it has carried something since the last.
fn broken_lane_comes_back(lanes: usize) {
    let broken = Broken::new(12 << 20, lanes, 40_000_000);
    let (mut times, mut carried, mut since) = (0, 0, Instant::now());
    let sent = broken.run(|progress| {
        let packets = progress.lanes.first().map_or(0, |lane| lane.counters.packets);
        assert!(since.elapsed() < BACK, "not back after {:?}: {progress:?}", since.elapsed());
        if packets <= carried + 5 {
            return true;
        }
        // Packets that a connection was given after it was broken are counted, too. Between it and the next, which
        // may take a quarter of a second, there is nothing to break.
        if kill(broken.ports[0]) {
            (carried, since) = (packets, Instant::now());
            times += 1;
        }
        times < 3
    });
    assert!(times == 3 && sent.lanes[0].counters.deaths >= 2, "{times} {:?}", sent.lanes);
}

#[test]
fn a_lane_that_is_broken_comes_back_while_another_carries_on() {
    if can_kill("a_lane_that_is_broken_comes_back_while_another_carries_on") {
        broken_lane_comes_back(2);
    }
}

#[test]
fn the_only_lane_comes_back_when_it_is_broken() {
    if can_kill("the_only_lane_comes_back_when_it_is_broken") {
        broken_lane_comes_back(1);
    }
}

/// Connections of others to a lane's port, silent or not, while the lane has nothing to carry for longer than
/// any time after which it might be taken for quiet.
#[test]
fn connections_of_others_do_not_replace_a_quiet_lane() {
    let mut broken = Broken::new(0, 1, 40_000_000);
    let (read, mut write) = std::io::pipe().expect("a pipe");
    let pipe = std::os::fd::OwnedFd::from(read);
    let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&pipe));
    // There is room for one part. A write that has to wait stops the sender, which calls this.
    let is_read = || rustix::io::ioctl_fionread(&pipe).expect("it is a pipe") == 0;
    broken.send.input = linecard_transfer_net::file::Input::Paths(vec![path.into()]);
    broken.send.chunk_bytes =
        linecard_transfer_net::file::ChunkBytes::new(64 << 10).expect("a power");
    let part = vec![7; 64 << 10];
    write.write_all(&part).expect("it is read");
    let (mut strangers, mut name) = (Vec::new(), String::new());
    let mut left = Some((write, 2));
    let begun = Instant::now();
    let (sent, got) = std::thread::scope(|scope| {
        let receiving = scope.spawn(|| receive(&broken.receive, &broken.listener, &mut |_| {}));
        let sent = send(&broken.send, &mut |progress| {
            assert!(begun.elapsed() < PATIENCE, "it stalls: {progress:?}");
            // A chunk leaves when the next has begun.
            if let Some((write, left @ 2)) = &mut left
                && is_read()
            {
                write.write_all(&part).expect("it is read");
                *left = 1;
            }
            let is_quiet = progress.done_bytes >= 64 << 10 && begun.elapsed() > QUIET;
            if is_quiet && strangers.is_empty() {
                name.clone_from(&progress.lanes[0].name);
                for number in 0..40 {
                    let mut stranger =
                        TcpStream::connect(("127.0.0.1", broken.ports[0])).expect("it listens");
                    match number % 4 {
                        0 => {
                            let junk = stranger.write_all(&[0, 100, 1, 2]);
                            junk.and_then(|()| stranger.write_all(&[3; 200])).expect("it is read");
                        }
                        1 => stranger.write_all(&[0xff; 4]).expect("it is read"),
                        _ => {}
                    }
                    strangers.push(stranger);
                }
            } else if !strangers.is_empty()
                && is_read()
                && let Some((mut write, _)) = left.take()
            {
                write.write_all(&part).expect("it is read");
            }
        });
        let got = ends::received(receiving, &broken.receive, &sent);
        (sent, got)
    });
    let (sent, got) = (sent.expect("sent"), got.expect("received"));
    assert_eq!((sent.bytes, got.bytes), (192 << 10, 192 << 10));
    // Another connection has another port. A lane is also given one where it was not answered for long, as where this
    // host has no time for it.
    let has_paused = sent.notes.iter().any(|note| note.contains("did not answer for"));
    assert!(sent.lanes[0].name == name || has_paused, "not {name}: {:?}", sent.lanes);
}

/// The sender's own connection is accepted though others have come before it and keep coming.
#[test]
fn a_lane_comes_back_among_connections_of_others() {
    if !can_kill("a_lane_comes_back_among_connections_of_others") {
        return;
    }
    let broken = Broken::new(8 << 20, 1, 40_000_000);
    let mut strangers = Vec::new();
    let mut is_broken = false;
    let sent = broken.run(|progress| {
        if progress.lanes[0].counters.packets > 10 && !is_broken {
            let stranger =
                || TcpStream::connect(("127.0.0.1", broken.ports[0])).expect("it listens");
            is_broken = kill(broken.ports[0]);
            strangers.extend((0..100).map(|_| stranger()));
        }
        strangers.truncate(50);
        true
    });
    assert!(is_broken && sent.lanes[0].counters.deaths > 0, "{:?}", sent.lanes);
}
