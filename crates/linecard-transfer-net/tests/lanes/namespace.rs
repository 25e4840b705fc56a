//! Behaviour that only another network shows: a small MTU, an interface that goes down.
//!
//! Both are changed in a network namespace of the test's own.

use super::{failure, loopback, random, take_all};
use linecard_testkit::lab;
use linecard_transfer_net::lane::{Datagrams, Lane, LaneError, Spec, Udp};
use std::process::Command;

/// Set for the child of this test that has lost a right.
const INSIDE: &str = "LINECARD_TEST_WITHOUT_NET_ADMIN";

fn ip(arguments: &str) {
    let status = Command::new("ip").args(arguments.split(' ')).status().unwrap();
    assert!(status.success(), "ip {arguments}");
}

/// A process that may not exceed the system's limits reports them.
#[test]
fn a_buffer_that_is_not_granted_is_said_in_one_line() {
    const TEST: &str = "namespace::a_buffer_that_is_not_granted_is_said_in_one_line";
    if std::env::var_os(INSIDE).is_some() {
        let lane = Udp::bind(&loopback()).unwrap();
        let note = lane.note().unwrap_or_default();
        eprintln!("NOTE {note}");
        let limit = std::fs::read_to_string("/proc/sys/net/core/rmem_max").unwrap();
        let is_low = limit.trim().parse::<u64>().unwrap() < 8 << 20;
        assert_eq!(note.contains("net.core.rmem_max"), is_low);
        assert!(note.lines().count() <= 1);
        return;
    }
    let program = std::env::current_exe().unwrap();
    let drop = ["--inh-caps=-net_admin", "--bounding-set=-net_admin"];
    let output = Command::new("setpriv")
        .args(drop)
        .arg(program)
        .args(["--exact", TEST, "--nocapture"])
        .env(INSIDE, "1")
        .output();
    let Ok(output) = output else {
        linecard_testkit::skip(TEST, "needs `setpriv`");
        return;
    };
    let text = String::from_utf8_lossy(&output.stderr);
    if text.contains("setpriv:") {
        linecard_testkit::skip(TEST, text);
        return;
    }
    assert!(output.status.success() && text.contains("NOTE"), "with fewer rights: {text}");
}

#[test]
fn an_mtu_that_shrinks_is_named_and_large_packets_stay_large() {
    lab::inside("an MTU that shrinks", |_| {
        ip("link set lo up mtu 9000");
        let mut far = Udp::bind(&loopback()).unwrap();
        let mut near = Udp::connect(&loopback(), far.local_addr().unwrap()).unwrap();
        assert_eq!(near.max_datagram(), 9_000 - 28);
        let bytes = random(64_000);
        assert_eq!(near.send(&Datagrams { bytes: &bytes[..62_804], stride: 8_972 }).unwrap(), 7);
        assert!(matches!(
            near.send(&Datagrams { bytes: &bytes, stride: 8_973 }),
            Err(LaneError::TooLong { bytes: 8_973, limit: 8_972 })
        ));
        ip("link set lo mtu 1500");
        for datagrams in [&bytes[..62_804], &bytes[..8_972]] {
            let refused = near.send(&Datagrams { bytes: datagrams, stride: 8_972 }).unwrap_err();
            assert!(
                matches!(refused, LaneError::TooLong { bytes: 8_972, limit: 1_472 }),
                "{refused} {refused:?}"
            );
        }
        let calls = near.send_calls();
        assert_eq!(
            near.send(&Datagrams { bytes: &bytes[..44 * 1_408], stride: 1_408 }).unwrap(),
            44
        );
        assert_eq!(near.send_calls(), calls + 1);
        assert_eq!(take_all(&mut far, 7 + 44).len(), 7 + 44);
    });
}

#[test]
fn an_interface_that_is_down_is_a_dead_lane() {
    lab::inside("an interface that is down", |_| {
        ip("link add v0 type veth peer name v1");
        ip("address add 10.9.9.1/24 dev v0");
        ip("link set v0 up");
        ip("link set v1 up");
        let at = "10.9.9.1".parse::<Spec>().unwrap().at();
        let mut near = Udp::connect(&at, "10.9.9.2:7000".parse().unwrap()).unwrap();
        assert_eq!(near.send(&Datagrams::one(b"up")).unwrap(), 1);
        ip("link set v0 down");
        let dead = failure(|| near.send(&Datagrams::one(b"down")));
        assert!(dead.may_recover(), "{dead:?}");
        ip("link set v0 up");
        // Errors noted meanwhile may be reported once more.
        let _told = near.send(&Datagrams::one(b"up again"));
        assert_eq!(near.send(&Datagrams::one(b"up again")).unwrap(), 1);
        ip("link delete v0");
        let gone = failure(|| near.send(&Datagrams::one(b"gone")));
        assert!(gone.may_recover(), "{gone:?}");
    });
}
