//! Interfaces as a new operator has them: offloads on, addresses still set, a device left by an earlier run.

use crate::bytes::{Transfer, Way};
use crate::command::{attach, attach_only, count};
use crate::lab::{Lab, wait_for, with_lab};

const BYTES: u64 = 8 << 20;

/// Promise (Live interfaces): Connections work and packets merge where the other end of a veth leaves
/// checksums open, with both kinds of ports for interfaces.
#[test]
fn open_checksums_are_completed() {
    for port in ["xdp", "packet"] {
        with_lab("open checksums", |lab| {
            lab.peer.run("ethtool -K lcp tx on");
            let running = attach(lab, &format!("{port}:lcw tap:lc0"));
            Transfer::new(Way::In, BYTES).run(lab);
            Transfer::new(Way::Out, BYTES).run(lab);
            let account = running.finish();
            let near = |key| count(&account, "near", key);
            let frames = BYTES / 1_460;
            assert!(near("open_checksums") > frames, "{port}: {account:#}");
            assert!(count(&account, "merging", "merged") > frames / 2, "{port}: {account:#}");
            assert_eq!(near("bad_header"), 0, "{port}: {account:#}");
        });
    }
}

fn has_carrier(lab: &Lab, device: &str) -> bool {
    lab.host.run(&format!("ip -o link show {device}")).contains("LOWER_UP")
}

#[test]
fn the_carrier_follows() {
    for port in ["xdp", "packet"] {
        with_lab("the carrier", |lab| {
            let running = attach(lab, &format!("{port}:lcw tap:lc0"));
            assert!(has_carrier(lab, "lc0"));
            lab.peer.run("ip link set lcp down");
            wait_for("lc0 to lose its carrier", || !has_carrier(lab, "lc0"));
            running.says(&["lcw has no carrier", "lc0 has none"]);
            lab.peer.run("ip link set lcp up");
            wait_for("lc0 to have a carrier", || has_carrier(lab, "lc0"));
            running.says(&["lcw has a carrier again", "lc0"]);
            // Addresses of IPv6 go with an interface that is down, and of IPv4 stay.
            Transfer::new(Way::In, 1 << 20).run(lab);
            running.signal(libc::SIGTERM);
            let ended = running.wait();
            assert!(ended.status.success() && ended.lines.len() == 2, "{ended:?}");
        });
    }
}

#[test]
fn a_device_of_before_is_brought_up_and_its_differences_are_said() {
    with_lab("a device of before", |lab| {
        lab.host.run("ip tuntap add lc0 mode tap");
        lab.host.run("ip link set lc0 mtu 1400");
        let running = attach(lab, "packet:lcw tap:lc0");
        running.says(&["lc0 was down, and is up now"]);
        running.says(&["lc0 has an MTU of 1400", "one of 1500", "`ip link set lc0 mtu 1500`"]);
        running.says(&["lc0 has the MAC address", "`ip link set lc0 address "]);
        let said = running.said();
        let advice = said.iter().find_map(|line| line.split_once("`ip link set lc0 address "));
        let (address, _) = advice.and_then(|(_, rest)| rest.split_once('`')).expect("an address");
        lab.host.run(&format!("ip link set lc0 address {address}"));
        Transfer::new(Way::In, 1 << 20).run(lab);
        running.finish();
        lab.host.run("ip link del lc0");
    });
}

#[test]
fn addresses_that_stay_behind_are_said() {
    with_lab("addresses", |lab| {
        lab.host.run("ip addr add 192.0.2.7/24 dev lcw");
        let running = attach(lab, "packet:lcw tap:lc0");
        running.says(&["lcw still has the address 192.0.2.7/24", "ip addr flush dev lcw"]);
        running.says(&["; ip addr add 192.0.2.7/24 dev lc0`"]);
        running.finish();
        lab.host.run("ip addr flush dev lcw");
        let running = attach(lab, "packet:lcw tap:lc0");
        assert!(!running.said().iter().any(|line| line.contains("still has")));
        running.finish();
        lab.host.run("ip link set lcw down");
        let running = attach_only(lab, "packet:lcw tap:lc0");
        running.says(&["lcw is down, and nothing passes", "`ip link set lcw up`"]);
        running.says(&["lcw is down, so lc0 has no carrier"]);
    });
}
