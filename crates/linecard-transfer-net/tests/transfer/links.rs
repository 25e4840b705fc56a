//! Two hosts with several links between them: network namespaces and veth pairs.

use crate::ends;
use linecard_transfer_net::receive::{Got, ReceiveError, ReceiveOptions, receive};
use linecard_transfer_net::send::{SendError, SendOptions, SendProgress, Sent, send};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::{self, File};
use std::net::TcpListener;
use std::os::fd::AsFd;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

static NUMBER: AtomicU32 = AtomicU32::new(0);

/// The sender's host `a` and the receiver's host `b`. Link n has the interface `link<n>` on both, with the
/// addresses 10.9.n.1 and 10.9.n.2.
struct Links {
    names: [String; 2],
    folder: tempfile::TempDir,
}

type Ended = (Result<Sent, SendError>, Result<Got, ReceiveError>);

fn ip(arguments: &str) -> bool {
    let output = Command::new("ip").args(arguments.split(' ')).output();
    output.is_ok_and(|output| output.status.success())
}

impl Links {
    /// None, which is said, where namespaces cannot be made.
    fn new(test: &str, count: usize) -> Option<Self> {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = |end| format!("lc-links-{}-{number}-{end}", std::process::id());
        let links = Self { names: ["a", "b"].map(name), folder: tempfile::tempdir().ok()? };
        let [a, b] = &links.names;
        if !ip(&format!("netns add {a}")) || !ip(&format!("netns add {b}")) {
            linecard_testkit::skip(test, "it needs root and `ip` for network namespaces");
            return None;
        }
        for link in 1..=count {
            let ends = format!("link{link} netns {a} type veth peer name link{link} netns {b}");
            assert!(ip(&format!("link add {ends}")));
        }
        for (name, host) in [(a, 1), (b, 2)] {
            assert!(ip(&format!("-n {name} link set lo up")));
            for link in 1..=count {
                let address = format!("10.9.{link}.{host}/24");
                assert!(ip(&format!("-n {name} address add {address} dev link{link}")));
                assert!(ip(&format!("-n {name} link set link{link} up")));
            }
        }
        Some(links)
    }

    /// `ip` on one of the hosts.
    fn set(&self, host: usize, arguments: &str) {
        assert!(ip(&format!("-n {} {arguments}", self.names[host])), "ip {arguments}");
    }

    /// Does work on a host. Sockets stay where they were opened.
    fn on<T: Send>(&self, host: usize, work: impl FnOnce() -> T + Send) -> T {
        let namespace =
            File::open(format!("/run/netns/{}", self.names[host])).expect("it is there");
        std::thread::scope(|scope| {
            let working = scope.spawn(move || {
                move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
                    .expect("it can be entered");
                work()
            });
            working.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    fn sysctl(&self, host: usize, name: &str, value: &str) {
        self.on(host, || fs::write(format!("/proc/sys/net/ipv4/{name}"), value))
            .expect("it is set");
    }

    /// Bytes that host `a` has sent on each link.
    fn sent_bytes(&self) -> Vec<u64> {
        let table =
            self.on(0, || fs::read_to_string("/proc/thread-self/net/dev")).expect("it is there");
        let mut rows: Vec<(&str, &str)> =
            table.lines().filter_map(|line| line.trim().split_once(':')).collect();
        rows.sort_unstable();
        let bytes = |row: &str| row.split_whitespace().nth(8).and_then(|bytes| bytes.parse().ok());
        rows.into_iter()
            .filter(|(name, _)| name.starts_with("link"))
            .map(|(_, row)| bytes(row).expect("a number"))
            .collect()
    }

    /// Options of both, and where the receiver listens: at all of its addresses, reached by link 1.
    fn ends(&self, bytes: usize, lanes: &[&str]) -> (SendOptions, ReceiveOptions, TcpListener) {
        let from = self.folder.path().join("from.bin");
        let mut content = vec![0; bytes];
        linecard::rng::Rng::new(bytes as u64).fill(&mut content);
        fs::write(&from, content).expect("there is room");
        let (mut send, receive, _) = ends::options(&from, &self.folder.path().join("to"));
        let listener = self.on(1, || TcpListener::bind("0.0.0.0:0")).expect("it can listen");
        let port = listener.local_addr().expect("it listens").port();
        send.peer = ([10, 9, 1, 2], port).into();
        send.lanes = lanes.iter().map(|lane| lane.parse().expect("a lane")).collect();
        send.rate_bps = Some(40_000_000);
        (send, receive, listener)
    }

    fn run(
        &self,
        (send_options, receive_options, listener): &(SendOptions, ReceiveOptions, TcpListener),
        mut meanwhile: impl FnMut(&SendProgress) + Send,
    ) -> Ended {
        std::thread::scope(|scope| {
            let receiving =
                scope.spawn(|| self.on(1, || receive(receive_options, listener, &mut |_| {})));
            let sent = self.on(0, || send(send_options, &mut meanwhile));
            if matches!(sent, Err(SendError::NoLane(_))) {
                // The receiver goes on waiting for another sender.
                receive_options.stop.store(true, Ordering::Relaxed);
            }
            (sent, receiving.join().expect("the receiver does not panic"))
        })
    }

    /// Both have ended well, and what came is what was sent.
    fn whole(&self, (sent, got): Ended) -> (Sent, Got) {
        let (sent, got) = (sent.expect("sent"), got.expect("received"));
        let of = |name: &str| fs::read(self.folder.path().join(name)).expect("it is there");
        assert!(of("from.bin") == of("to/from.bin"), "other bytes came");
        (sent, got)
    }
}

impl Drop for Links {
    fn drop(&mut self) {
        for name in &self.names {
            // Another test that makes a namespace at the same moment may keep the file busy.
            let _removed = (0..3).any(|_| ip(&format!("netns del {name}")));
        }
    }
}

const TWO: [&str; 2] = ["10.9.1.1", "10.9.2.1"];

/// Promise (Transfer): Each lane uses its own link without an address given to the receiver: of 6 MiB over two lanes,
/// each link's interface counts more than 1 MiB.
#[test]
fn each_lane_uses_its_own_link() {
    let Some(links) = Links::new("each_lane_uses_its_own_link", 2) else { return };
    for lanes in [TWO, ["tcp:10.9.1.1", "tcp:10.9.2.1"], ["link1", "link2"]] {
        let before = links.sent_bytes();
        let _again = fs::remove_dir_all(links.folder.path().join("to"));
        let ended = links.run(&links.ends(6 << 20, &lanes), |_| {});
        let (sent, _) = links.whole(ended);
        let sent_bytes = links.sent_bytes();
        for (before, after) in before.iter().zip(&sent_bytes) {
            assert!(after - before > 1 << 20, "{lanes:?}: {before:?} then {sent_bytes:?}");
        }
        assert!(sent.notes.is_empty(), "{:?}", sent.notes);
    }
}

#[test]
fn a_lane_without_a_route_is_said_and_the_other_carries_on() {
    let name = "a_lane_without_a_route_is_said_and_the_other_carries_on";
    let Some(links) = Links::new(name, 2) else { return };
    links.set(0, "route del 10.9.2.0/24 dev link2");
    for lanes in [TWO, ["10.9.1.1", "tcp:10.9.2.1"]] {
        let _again = fs::remove_dir_all(links.folder.path().join("to"));
        let ended = links.run(&links.ends(1 << 20, &lanes), |_| {});
        let (sent, _) = links.whole(ended);
        let [note] = &sent.notes[..] else { panic!("{:?}", sent.notes) };
        assert!(note.starts_with("lane 2 (") && note.contains("no route"), "{note}");
    }
    // Without any that can be used, that is the error.
    let (sent, _) = links.run(&links.ends(1 << 20, &["10.9.2.1"]), |_| {});
    assert!(matches!(&sent, Err(SendError::NoLane(text)) if text.contains("no route")), "{sent:?}");
}

#[test]
fn a_lane_that_leaves_by_another_link_is_said() {
    let name = "a_lane_that_leaves_by_another_link_is_said";
    let Some(links) = Links::new(name, 2) else { return };
    // The receiver has no address on link 2, so its address on link 1 is all there is.
    links.set(1, "address del 10.9.2.2/24 dev link2");
    let ended = links.run(&links.ends(1 << 20, &TWO), |_| {});
    let (sent, _) = links.whole(ended);
    let [note] = &sent.notes[..] else { panic!("{:?}", sent.notes) };
    assert!(note.contains("lane 2 (") && note.contains("leave by link1, not by link2"), "{note}");
}

#[test]
fn a_lane_that_is_not_reached_is_said() {
    let Some(links) = Links::new("a_lane_that_is_not_reached_is_said", 2) else { return };
    links.sysctl(1, "conf/link2/arp_ignore", "8");
    let ended = links.run(&links.ends(12 << 20, &TWO), |_| {});
    let (sent, _) = links.whole(ended);
    let [note] = &sent.notes[..] else { panic!("{:?}", sent.notes) };
    assert!(note.contains("lane 2 (") && note.contains("arp_ignore"), "{note}");
}

/// Strict reverse-path filtering (RFC 3704, section 2.2): the receiver's way back to lane 2 is not the link on
/// which it comes, so its kernel drops what comes there.
#[test]
fn a_lane_that_the_reverse_path_filter_drops_is_said() {
    let name = "a_lane_that_the_reverse_path_filter_drops_is_said";
    let Some(links) = Links::new(name, 2) else { return };
    links.set(1, "route del 10.9.2.0/24 dev link2");
    links.set(1, "route add 10.9.2.0/24 dev link1");
    for is_strict in ["0", "1"] {
        for conf in ["all", "link1", "link2"] {
            links.sysctl(1, &format!("conf/{conf}/rp_filter"), is_strict);
        }
        let _again = fs::remove_dir_all(links.folder.path().join("to"));
        let mut ends = links.ends(12 << 20, &TWO);
        ends.1.lanes = ["10.9.1.2", "10.9.2.2"].map(|at| at.parse().expect("a lane")).into();
        let ended = links.run(&ends, |_| {});
        let (sent, _) = links.whole(ended);
        if is_strict == "0" {
            assert!(sent.notes.is_empty(), "{:?}", sent.notes);
            assert!(sent.lanes.iter().all(|lane| lane.rtt_ns.is_some()), "{:?}", sent.lanes);
            continue;
        }
        let [note] = &sent.notes[..] else { panic!("{:?}", sent.notes) };
        assert!(note.starts_with("lane 2 (") && note.contains("rp_filter"), "{note}");
        // What was never measured is not shown.
        assert_eq!((sent.lanes[1].rtt_ns, sent.lanes[1].counters.packets), (None, 0));
        assert!(sent.lanes[0].rtt_ns.is_some() && sent.lanes[1].silent > sent.elapsed / 2);
    }
}

#[test]
fn a_receiver_cannot_lead_a_lane_to_the_senders_own_host() {
    let name = "a_receiver_cannot_lead_a_lane_to_the_senders_own_host";
    let Some(links) = Links::new(name, 2) else { return };
    let mut ends = links.ends(1 << 20, &["10.9.1.1", "link2"]);
    let at = |text: &str| text.parse().expect("a lane");
    ends.1.lanes = vec![at("10.9.1.2"), at("127.0.0.1")];
    let ended = links.run(&ends, |_| {});
    let (sent, _) = links.whole(ended);
    let [note] = &sent.notes[..] else { panic!("{:?}", sent.notes) };
    assert!(note.contains("lane 2 (") && note.contains("address of this host"), "{note}");
}

/// How long a transfer may take to end after a link fails, beyond what it has to send and its patience.
const SOON: Duration = Duration::from_secs(10);

/// Takes a link down when something has arrived.
fn cut(links: &Links, numbers: &[usize], progress: &SendProgress, cut_at: &mut Option<Instant>) {
    if cut_at.is_none() && progress.done_bytes > 0 {
        for number in numbers {
            links.set(0, &format!("link set link{number} down"));
        }
        *cut_at = Some(Instant::now());
    }
}

/// Promise (Transfer): A transfer survives the loss of its control connection's link while a lane is left: control
/// messages go over lanes, sealed, in order and once each.
#[test]
fn the_link_of_the_control_connection_fails() {
    let Some(links) = Links::new("the_link_of_the_control_connection_fails", 2) else { return };
    for lanes in [&TWO[..], &["10.9.2.1"], &["tcp:10.9.1.1", "tcp:10.9.2.1"]] {
        let _again = fs::remove_dir_all(links.folder.path().join("to"));
        let mut ends = links.ends(8 << 20, lanes);
        (ends.0.patience, ends.1.patience) = (Duration::from_secs(8), Duration::from_secs(8));
        let mut cut_at = None;
        let ended = links.run(&ends, |progress| cut(&links, &[1], progress, &mut cut_at));
        let took = cut_at.expect("something had arrived").elapsed();
        let (sent, _) = links.whole(ended);
        assert!(took < SOON, "{lanes:?}: {took:?}");
        // The lane over that link is named, with the time for which it did not answer.
        let is_named = |note: &String| {
            note.starts_with("lane 1 (")
                && note.contains("did not answer for")
                && note.contains(" s of ")
        };
        let named = sent.notes.iter().filter(|note| is_named(note)).count();
        assert_eq!(named, usize::from(lanes.len() == 2), "{lanes:?}: {:?}", sent.notes);
        links.set(0, "link set link1 up");
    }
}

/// Many messages both ways, most of them when the control connection is gone.
#[test]
fn a_folder_goes_on_when_the_link_of_the_control_connection_fails() {
    let name = "a_folder_goes_on_when_the_link_of_the_control_connection_fails";
    let Some(links) = Links::new(name, 2) else { return };
    let mut ends = links.ends(0, &["10.9.2.1"]);
    let tree = links.folder.path().join("tree");
    fs::create_dir(&tree).expect("a folder");
    for number in 0..300_usize {
        fs::write(tree.join(number.to_string()), vec![number as u8; 20_000])
            .expect("there is room");
    }
    ends.0.input = linecard_transfer_net::file::Input::Path(tree.clone());
    let mut cut_at = None;
    let (sent, got) = links.run(&ends, |progress| cut(&links, &[1], progress, &mut cut_at));
    assert_eq!((sent.expect("sent").objects, got.expect("received").objects), (301, 301));
    assert!(cut_at.is_some_and(|at| at.elapsed() < 2 * SOON), "{cut_at:?}");
    for number in 0..300_usize {
        let came = fs::read(links.folder.path().join(format!("to/tree/{number}")));
        assert!(came.expect("it came") == vec![number as u8; 20_000], "{number}");
    }
}

#[test]
fn both_ends_keep_to_their_patience_when_all_links_fail() {
    let name = "both_ends_keep_to_their_patience_when_all_links_fail";
    let Some(links) = Links::new(name, 2) else { return };
    let mut ends = links.ends(8 << 20, &TWO);
    (ends.0.patience, ends.1.patience) = (Duration::from_secs(3), Duration::from_secs(3));
    let mut cut_at = None;
    let (sent, got) = links.run(&ends, |progress| cut(&links, &[1, 2], progress, &mut cut_at));
    let took = cut_at.expect("something had arrived").elapsed();
    assert!(took < Duration::from_secs(3) + SOON, "{took:?}");
    assert!(matches!(sent, Err(SendError::Silent(_) | SendError::Unconfirmed { .. })), "{sent:?}");
    assert!(matches!(got, Err(ReceiveError::Silent(_))), "{got:?}");
}
