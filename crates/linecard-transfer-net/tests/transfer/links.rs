//! Two hosts with several links between them: network namespaces and veth pairs.

use crate::ends;
use linecard_testkit::lab::{self, End, Namespace};
use linecard_transfer_net::file::Input;
use linecard_transfer_net::receive::{ReceiveError, ReceiveOptions, Received, receive};
use linecard_transfer_net::send::{LaneProblem, SendError, SendOptions, SendProgress, Sent, send};
use std::fs;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The sender's host `a` and the receiver's host `b`. Link n has the interface `link<n>` on both, with the
/// addresses 10.9.n.1 and 10.9.n.2.
struct Links {
    hosts: [Namespace; 2],
    folder: tempfile::TempDir,
}

type Ended = (Result<Sent, SendError>, Result<Received, ReceiveError>);

impl Links {
    /// None, which is said, where namespaces cannot be made.
    fn new(test: &str, count: usize) -> Option<Self> {
        let hosts = Namespace::new().and_then(|a| Ok([a, Namespace::new()?]));
        let hosts = match hosts {
            Ok(hosts) => hosts,
            Err(why) => {
                linecard_testkit::skip(test, why);
                return None;
            }
        };
        let links = Self { hosts, folder: tempfile::tempdir().ok()? };
        for link in 1..=count {
            let device = format!("link{link}");
            let end = |namespace| End { namespace, device: &device, options: &[] };
            let [a, b] = &links.hosts;
            lab::cable(end(a), end(b)).expect("root may");
        }
        for host in [0, 1] {
            links.set(host, "link set lo up");
            for link in 1..=count {
                links.set(host, &format!("address add 10.9.{link}.{}/24 dev link{link}", host + 1));
                links.set(host, &format!("link set link{link} up"));
            }
        }
        Some(links)
    }

    /// `ip` on one of the hosts.
    fn set(&self, host: usize, arguments: &str) {
        let words: Vec<&str> = arguments.split(' ').collect();
        self.hosts[host].ip(&words).expect("it is done");
    }

    /// Does work on a host. Sockets stay where they were opened.
    fn on<T: Send>(&self, host: usize, work: impl FnOnce() -> T + Send) -> T {
        self.hosts[host].inside(work)
    }

    /// The kernel says it up to a second later.
    fn wait_for_carrier_to_go(&self, link: usize) {
        let state = || {
            let shown =
                self.hosts[0].command("ip").args(["link", "show", &format!("link{link}")]).output();
            String::from_utf8(shown.expect("ip is there").stdout).expect("text")
        };
        let end = Instant::now() + Duration::from_secs(60);
        while !state().contains("DOWN ") {
            assert!(Instant::now() < end, "{}", state());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn sysctl(&self, host: usize, name: &str, value: &str) {
        assert!(self.hosts[host].sysctl(&format!("ipv4/{name}"), value), "{name}");
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
        send.rate_bits_per_second = Some(40_000_000);
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
            let got = ends::received(receiving, receive_options, &sent);
            (sent, got)
        })
    }

    /// Both have succeeded, and the received data equals the sent data.
    fn whole(&self, (sent, got): Ended) -> (Sent, Received) {
        let (sent, got) = (sent.expect("sent"), got.expect("received"));
        let of = |name: &str| fs::read(self.folder.path().join(name)).expect("it is there");
        assert!(of("from.bin") == of("to/from.bin"), "other bytes came");
        (sent, got)
    }
}

/// `notes` without those about pauses of lanes.
fn beside_pauses(notes: &[String]) -> Vec<&str> {
    notes.iter().map(String::as_str).filter(|note| !linecard_testkit::is_pause(note)).collect()
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
        assert!(beside_pauses(&sent.notes).is_empty(), "{:?}", sent.notes);
    }
}

/// Promise (Transfer): Without a lane named, there is one on each link to the receiver; interfaces that do not lead there are left out.
#[test]
fn lanes_are_found_where_a_link_leads_to_the_receiver() {
    let Some(links) = Links::new("lanes_are_found", 4) else { return };
    // A link where the receiver is, but has no address; and one without a cable.
    links.set(1, "address del 10.9.3.2/24 dev link3");
    links.set(1, "link set link4 down");
    links.set(0, "address add 10.9.1.9/24 dev link1");
    let before = links.sent_bytes();
    let mut ends = links.ends(1, &[]);
    (ends.0.rate_bits_per_second, ends.0.input) = (None, Input::Test(1 << 34));
    let (stop, mut last) = (Arc::clone(&ends.0.stop), None);
    let (sent, _) = links.run(&ends, |progress| {
        let busy = progress.lanes.iter().filter(|lane| lane.socket.sent_bytes > 1 << 20);
        let names: Vec<String> = busy.map(|lane| lane.name.clone()).collect();
        if names.len() == 2 {
            stop.stop();
            last = Some((names, progress.notes.clone()));
        }
    });
    assert!(matches!(sent, Err(SendError::Stopped)), "{sent:?}");
    let sent_bytes = links.sent_bytes();
    let sent_on = |link: usize| sent_bytes[link] - before[link];
    assert!(sent_on(0) > 1 << 20 && sent_on(1) > 1 << 20, "{before:?} then {sent_bytes:?}");
    assert!(sent_on(2) < 1 << 16 && sent_on(3) < 1 << 16, "{before:?} then {sent_bytes:?}");
    let (names, notes) = last.expect("two lanes carry");
    assert!(names[1].contains("10.9.2.1"), "{names:?}");
    assert!(beside_pauses(&notes).is_empty(), "{notes:?}");

    // A rate may be that of a link which all share.
    let (sent, _) = links.whole(links.run(&links.ends(1 << 20, &[]), |_| {}));
    assert_eq!(sent.lanes.len(), 1);
}

/// Promise (Transfer): Where only the receiver has several interfaces, each that the sender reaches is a lane, and others
/// are left out.
#[test]
fn interfaces_of_the_receiver_are_lanes_from_the_only_one_of_the_sender() {
    let name = "interfaces_of_the_receiver_are_lanes_from_the_only_one_of_the_sender";
    let Some(links) = Links::new(name, 4) else { return };
    // The sender has an address on link 1, and a way to the receiver's address on link 2 by it. It has none to that on
    // link 3, and nobody answers at that on link 4.
    for link in 2..=4 {
        links.set(0, &format!("link set link{link} down"));
        links.set(0, &format!("address del 10.9.{link}.1/24 dev link{link}"));
    }
    links.set(0, "route add 10.9.2.0/24 via 10.9.1.2");
    links.set(0, "route add 10.9.4.0/24 via 10.9.1.3");
    let mut ends = links.ends(1, &[]);
    (ends.0.rate_bits_per_second, ends.0.input) = (None, Input::Test(1 << 34));
    let stop = Arc::clone(&ends.0.stop);
    let (mut names, mut most) = (Vec::new(), 0);
    let (sent, got) = links.run(&ends, |progress| {
        most = most.max(progress.lanes.len());
        assert!(beside_pauses(&progress.notes).is_empty(), "{:?}", progress.notes);
        let busy = progress.lanes.iter().filter(|lane| lane.socket.sent_bytes > 1 << 20);
        names = busy.map(|lane| lane.name.clone()).collect();
        // Also after the time in which lanes are said not to be reached.
        if names.len() == 2 && progress.elapsed > Duration::from_secs(3) {
            stop.stop();
        }
    });
    assert!(matches!(sent, Err(SendError::Stopped)), "{sent:?}");
    assert!(got.is_err(), "{got:?}");
    assert_eq!(most, 2, "{names:?}");
    assert!(names[0].contains("to 10.9.1.2:") && names[1].contains("to 10.9.2.2:"), "{names:?}");

    // One that names its address, or its lanes, has no others.
    for is_named in [false, true] {
        let (mut send, mut receive, mut listener) = links.ends(1 << 20, &[]);
        send.rate_bits_per_second = None;
        match is_named {
            true => receive.lanes = vec!["10.9.2.2".parse().expect("a lane")],
            false => {
                listener = links.on(1, || TcpListener::bind("10.9.1.2:0")).expect("it can listen");
                send.peer = listener.local_addr().expect("it listens");
            }
        }
        let (sent, got) = links.whole(links.run(&(send, receive, listener), |_| {}));
        let there = if is_named { "to 10.9.2.2:" } else { "to 10.9.1.2:" };
        let [lane] = &sent.lanes[..] else { panic!("{:?}", sent.lanes) };
        assert!(lane.name.contains(there) && got.lanes.len() == 1, "{lane:?} {:?}", got.lanes);
        let _again = fs::remove_dir_all(links.folder.path().join("to"));
    }
}

/// Addresses on `lo`, as of services that any link reaches, were one more lane on a link that had one.
#[test]
fn addresses_without_a_link_are_no_lanes_of_their_own() {
    let Some(links) = Links::new("addresses_without_a_link_are_no_lanes_of_their_own", 2) else {
        return;
    };
    for host in [0, 1] {
        links.set(host, &format!("address add 10.9.77.{}/32 dev lo", host + 1));
    }
    links.set(0, "route add 10.9.77.2 via 10.9.2.2 src 10.9.77.1");
    links.set(1, "route add 10.9.77.1 via 10.9.2.1");
    for (there, used) in [([10, 9, 1, 2], "10.9.2.2"), ([10, 9, 77, 2], "10.9.1.2")] {
        let _again = fs::remove_dir_all(links.folder.path().join("to"));
        let (mut send, receive, listener) = links.ends(1 << 20, &[]);
        send.rate_bits_per_second = None;
        send.peer.set_ip(there.into());
        let peer = send.peer.ip().to_string();
        let (sent, got) = links.whole(links.run(&(send, receive, listener), |_| {}));
        let is_detour = |note: &String| note.contains("leave by");
        assert!(!sent.notes.iter().any(is_detour), "{:?}", sent.notes);
        let names: Vec<&str> = got.lanes.iter().map(|(name, _)| &**name).collect();
        assert!(
            names.len() == 2 && names[0].contains(&peer) && names[1].contains(used),
            "{names:?}"
        );
    }
}

/// Promise (Transfer): A lane without a route is named with the reason, and the others carry the transfer.
#[test]
fn a_lane_without_a_route_is_said_and_the_other_carries_on() {
    let name = "a_lane_without_a_route_is_said_and_the_other_carries_on";
    let Some(links) = Links::new(name, 2) else { return };
    links.set(0, "route del 10.9.2.0/24 dev link2");
    for lanes in [TWO, ["10.9.1.1", "tcp:10.9.2.1"]] {
        let _again = fs::remove_dir_all(links.folder.path().join("to"));
        let ended = links.run(&links.ends(1 << 20, &lanes), |_| {});
        let (sent, _) = links.whole(ended);
        let [note] = &beside_pauses(&sent.notes)[..] else { panic!("{:?}", sent.notes) };
        assert!(note.starts_with("lane 2 (") && note.contains("no route"), "{note}");
    }
    // Without any that can be used, that is the error.
    let (sent, _) = links.run(&links.ends(1 << 20, &["10.9.2.1"]), |_| {});
    let says_so = |problem: &LaneProblem| problem.to_string().contains("no route");
    assert!(
        matches!(&sent, Err(SendError::NoLane(problems)) if problems.iter().all(says_so)),
        "{sent:?}"
    );
}

#[test]
fn a_lane_that_leaves_by_another_link_is_said() {
    let name = "a_lane_that_leaves_by_another_link_is_said";
    let Some(links) = Links::new(name, 2) else { return };
    // The receiver has no address on link 2, so its address on link 1 is all there is.
    links.set(1, "address del 10.9.2.2/24 dev link2");
    let ended = links.run(&links.ends(1 << 20, &TWO), |_| {});
    let (sent, _) = links.whole(ended);
    // A busy host may also have reached it late.
    let note = sent.notes.first().expect("a line");
    assert!(note.contains("lane 2 (") && note.contains("leave by link1, not by link2"), "{note}");
}

#[test]
fn a_lane_that_is_not_reached_is_said() {
    let Some(links) = Links::new("a_lane_that_is_not_reached_is_said", 2) else { return };
    links.sysctl(1, "conf/link2/arp_ignore", "8");
    let ended = links.run(&links.ends(12 << 20, &TWO), |_| {});
    let (sent, _) = links.whole(ended);
    let [note] = &beside_pauses(&sent.notes)[..] else { panic!("{:?}", sent.notes) };
    assert!(note.contains("lane 2 (") && note.contains("arp_ignore"), "{note}");
    // Nobody has to look for a firewall.
    links.set(1, "link set link2 down");
    links.wait_for_carrier_to_go(2);
    for lanes in [TWO, ["link1", "link2"]] {
        let _again = fs::remove_dir_all(links.folder.path().join("to"));
        let ended = links.run(&links.ends(12 << 20, &lanes), |_| {});
        let (sent, _) = links.whole(ended);
        let [note] = &beside_pauses(&sent.notes)[..] else { panic!("{:?}", sent.notes) };
        let why = "link2 is down or has no carrier; nothing goes over it";
        assert!(note.contains("lane 2 (") && note.contains(why), "{note}");
    }
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
            assert!(beside_pauses(&sent.notes).is_empty(), "{:?}", sent.notes);
            assert!(sent.lanes.iter().all(|lane| lane.rtt_ns.is_some()), "{:?}", sent.lanes);
            continue;
        }
        let [note] = &beside_pauses(&sent.notes)[..] else { panic!("{:?}", sent.notes) };
        assert!(note.starts_with("lane 2 (") && note.contains("rp_filter"), "{note}");
        // Values that were never measured are not shown.
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
    let [note] = &beside_pauses(&sent.notes)[..] else { panic!("{:?}", sent.notes) };
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
        assert!(cut_at.is_some(), "something had arrived");
        // Neither end has waited for longer than its patience.
        let (sent, _) = links.whole(ended);
        // The lane over that link is named, with the time for which it did not answer.
        let is_named = |note: &String| {
            note.starts_with("lane 1 (")
                && note.contains("did not answer for")
                && note.contains(" s of ")
        };
        let named = sent.notes.iter().filter(|note| is_named(note)).count();
        assert!(lanes.len() == 1 || named == 1, "{lanes:?}: {:?}", sent.notes);
        links.set(0, "link set link1 up");
    }
}

/// Promise (Transfer): A lane whose address changes during a transfer, by DHCP for example, goes on from the next address
/// of its interface, also if it is the only one and the control connection had that address.
#[test]
fn a_lane_goes_on_from_the_next_address_of_its_interface() {
    let Some(links) = Links::new("a_lane_goes_on_from_the_next_address_of_its_interface", 2) else {
        return;
    };
    for lanes in [&["10.9.1.1"][..], &TWO, &["tcp:10.9.1.1"]] {
        let _again = fs::remove_dir_all(links.folder.path().join("to"));
        // The other of two carries some for as long as it takes to make a new socket.
        let mut ends = links.ends(if lanes.len() == 1 { 8 << 20 } else { 24 << 20 }, lanes);
        (ends.0.patience, ends.1.patience) = (Duration::from_secs(60), Duration::from_secs(60));
        let mut has_changed = false;
        let ended = links.run(&ends, |progress| {
            if !has_changed && progress.there_bytes() > 0 {
                has_changed = true;
                links.set(0, "address del 10.9.1.1/24 dev link1");
                links.set(0, "address add 10.9.1.7/24 dev link1");
            }
        });
        let (sent, _) = links.whole(ended);
        let is_said = |note: &String| note.contains("10.9.1.1 is gone: it goes on from 10.9.1.7");
        assert_eq!(sent.notes.iter().filter(|note| is_said(note)).count(), 1, "{:?}", sent.notes);
        links.set(0, "address del 10.9.1.7/24 dev link1");
        links.set(0, "address add 10.9.1.1/24 dev link1");
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
    ends.0.input = Input::Paths(vec![tree.clone()]);
    let mut cut_at = None;
    let (sent, got) = links.run(&ends, |progress| cut(&links, &[1], progress, &mut cut_at));
    assert_eq!((sent.expect("sent").objects, got.expect("received").objects), (301, 301));
    assert!(cut_at.is_some(), "something had arrived");
    for number in 0..300_usize {
        let came = fs::read(links.folder.path().join(format!("to/tree/{number}")));
        assert!(came.expect("it came") == vec![number as u8; 20_000], "{number}");
    }
}

/// The end whose patience is over first says so over the control connection: the other ended as if it were refused (16).
#[test]
fn the_end_of_all_lanes_is_no_refusal() {
    let Some(links) = Links::new("the_end_of_all_lanes_is_no_refusal", 2) else { return };
    let mut ends = links.ends(8 << 20, &["10.9.2.1"]);
    (ends.0.patience, ends.1.patience) = (Duration::from_secs(60), Duration::from_secs(5));
    let mut cut_at = None;
    let (sent, got) = links.run(&ends, |progress| cut(&links, &[2], progress, &mut cut_at));
    assert!(matches!(sent, Err(SendError::LanesLost(_))), "{sent:?}");
    assert!(matches!(got, Err(ReceiveError::Silent(_))), "{got:?}");
}

/// Promise (Transfer): Without a lane that is left, both ends stop after `--patience`.
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
