//! Streams of this machine traced by each means: every packet is followed from end to end, and nothing
//! stays behind in tracefs.
#![cfg(target_os = "linux")]
#![expect(clippy::disallowed_methods, reason = "what is measured takes its time")]

use linecard_jitter::linux::session::{Conditions, Receive, SessionOutcome, TestNetwork, measure};
use linecard_jitter::linux::trace::{Identity, TraceBackend, TraceTarget, Tracer};
use linecard_jitter::trace::{EventKind, Joined};
use linecard_testkit::lab::Namespace;
use std::io::Write;
use std::net::{IpAddr, UdpSocket};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Other people's threads take a core away now and then, and BPF does not see some of them.
const TRIES: usize = 3;
const PACKETS: u64 = 2_000;
const WANTED_SHARE: f64 = 0.9999;
/// Held by tests that trace by tracefs: a trace that begins removes what others have left.
static TRACING: Mutex<()> = Mutex::new(());
/// Where a child finds that it is one.
const CHILD: &str = "LINECARD_TEST_TRACE_CHILD";

/// The content of tracefs, by a private mount of the shell; nothing without the privilege for it.
fn instances_of(process: u32) -> Option<Vec<String>> {
    let script = "d=$(mktemp -d) && mount -t tracefs t $d && ls $d/instances; umount $d; rmdir $d";
    let output = Command::new("unshare").args(["-m", "sh", "-c", script]).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let ours = format!("linecard-{process}-");
    let found = text.lines().filter(|name| name.starts_with(&ours));
    output.status.success().then(|| found.map(str::to_owned).collect())
}

fn skip(what: &str, why: &dyn std::fmt::Display) {
    linecard_testkit::skip(what, why);
}

fn session(place: &TestNetwork, means: TraceBackend) -> Option<SessionOutcome> {
    let is_loopback = matches!(place, TestNetwork::Loopback);
    let conditions = Conditions {
        period_ps: 100_000_000,
        count: PACKETS,
        receive: if is_loopback { Receive::Sender } else { Receive::Sink },
        traced: Some(means),
        is_counted: true,
        ..Conditions::default()
    };
    match measure(place, &conditions, &AtomicBool::new(false)) {
        Ok(outcome) => Some(outcome),
        Err(error) => {
            skip("a traced stream", &error);
            None
        }
    }
}

fn is_whole(outcome: &SessionOutcome) -> bool {
    let Ok(trace) = &outcome.trace else { return false };
    let joined = Joined::of(trace, &outcome.measured);
    let text = format!(
        "{:?}: {} events, {:?}, cost {:?} ns, counted {:?}\n",
        outcome.means,
        trace.events.len(),
        joined.counts,
        outcome.cost_ns,
        outcome.counted
    );
    let _ = std::io::stderr().write_all(text.as_bytes());
    joined.counts.joined_share() >= WANTED_SHARE
        && joined.counts.arrived == PACKETS
        && joined.counts.disordered == 0
        && outcome.counted.is_none_or(|counted| counted >= joined.counts.received)
}

fn follow(place: &TestNetwork, means: TraceBackend, name: &str) {
    for left in (0..TRIES).rev() {
        let Some(outcome) = session(place, means) else { return };
        match &outcome.trace {
            Err(error) => return skip(name, error),
            Ok(_) => assert_eq!(outcome.means, Some(name)),
        }
        if is_whole(&outcome) {
            return;
        }
        assert_ne!(left, 0, "{name}, {}: no session of {TRIES} was followed whole", place.name());
    }
}

#[test]
fn every_packet_is_followed_by_each_means() {
    let _alone = TRACING.lock().unwrap_or_else(PoisonError::into_inner);
    let cable = TestNetwork::cable();
    for (means, name) in [(TraceBackend::Bpf, "bpf"), (TraceBackend::Tracefs, "tracefs")] {
        follow(&TestNetwork::Loopback, means, name);
        match &cable {
            Ok(cable) => follow(cable, means, name),
            Err(error) => skip("the cable", error),
        }
    }
    if let Some(left) = instances_of(std::process::id()) {
        assert_eq!(left, [""; 0]);
    }
}

/// Not a test but the process that the next one kills: it traces until then.
#[test]
fn child_that_traces_until_it_is_killed() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    let _tracer =
        Tracer::start(TraceBackend::Tracefs, &TraceTarget::default(), &[0], 1_000).expect("rights");
    std::thread::sleep(Duration::from_secs(120));
}

/// A stream to another address with the same port is not traced.
#[test]
fn only_packets_to_the_address_are_traced() {
    let network = match Namespace::new() {
        Ok(network) => network,
        Err(error) => return skip("streams to two addresses", &error),
    };
    network.ip(&["link", "set", "lo", "up"]).expect("ours");
    network.ip(&["address", "add", "::2/128", "dev", "lo", "nodad"]).expect("ours");
    for addresses in [["127.0.0.1", "127.0.0.2"], ["::1", "::2"]] {
        if let Some(received) = network.inside(|| received_at_second(addresses)) {
            assert_eq!(received, [2], "{addresses:?}");
        }
    }
}

/// Packets that a trace for the second address has received, of packets 1 and 3 to the first, and 2 to the second.
fn received_at_second(addresses: [&str; 2]) -> Option<Vec<u64>> {
    let [first, second] = addresses.map(|ip| ip.parse::<IpAddr>().expect("an address"));
    let first = UdpSocket::bind((first, 0)).expect("an address of this host");
    let to_first = first.local_addr().expect("it is bound");
    let second = UdpSocket::bind((second, to_first.port())).expect("an address of this host");
    let to_second = second.local_addr().expect("it is bound");
    let mut target = TraceTarget { identity: Identity::Start, ..TraceTarget::default() };
    target.add(to_second);
    let cores: Vec<u16> = (0..16).collect();
    let tracer = Tracer::start(TraceBackend::Bpf, &target, &cores, 20_000);
    let tracer = tracer.map_err(|error| skip("streams to two addresses", &error)).ok()?;
    for (socket, to, number) in
        [(&first, to_first, 1_u64), (&second, to_second, 2), (&first, to_first, 3)]
    {
        first.send_to(&number.to_ne_bytes(), to).expect("it is up");
        socket.recv(&mut [0; 8]).expect("a packet");
    }
    let received = tracer.stop().events.into_iter().filter_map(|event| match event.what {
        EventKind::Receive { sequence } => Some(sequence),
        _ => None,
    });
    Some(received.collect())
}

#[test]
fn an_instance_of_a_killed_process_is_removed_by_the_next_trace() {
    let _alone = TRACING.lock().unwrap_or_else(PoisonError::into_inner);
    let tracer = match Tracer::start(TraceBackend::Tracefs, &TraceTarget::default(), &[0], 1_000) {
        Ok(tracer) => tracer,
        Err(error) => return skip("instances of killed processes", &error),
    };
    drop(tracer);
    let mut child = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "child_that_traces_until_it_is_killed"])
        .env(CHILD, "1")
        .spawn()
        .expect("this program");
    let begin = Instant::now();
    let has_any = || instances_of(child.id()).is_some_and(|found| !found.is_empty());
    while !has_any() && begin.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(20));
    }
    let was_there = has_any();
    let process = child.id();
    child.kill().expect("it is ours");
    child.wait().expect("it is ours");
    let Some(left) = instances_of(process) else {
        return skip("instances of killed processes", &"no mount to look into");
    };
    assert!(was_there && left.len() == 1, "{left:?}");
    let tracer = Tracer::start(TraceBackend::Tracefs, &TraceTarget::default(), &[0], 1_000)
        .expect("as before");
    assert_eq!(instances_of(process), Some(vec![]));
    assert_eq!(tracer.kind(), "tracefs");
    let trace = tracer.stop();
    assert!(!trace.events.iter().any(|event| matches!(event.what, EventKind::Ready { .. })));
}
