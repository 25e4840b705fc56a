//! Every byte arrives, in both directions, over every link that carries TCP; and the statistics show how.

use crate::bytes::{Transfer, Way, Went};
use crate::command::{adds_up, attach, count, drops};
use crate::lab::{Host, Lab, with_lab};
use crate::tags::Tags;
use serde_json::Value;
use std::net::IpAddr;
use std::thread;
use std::time::Duration;

/// Segments of which one may be sent again where the port is a packet socket: its ring is emptied
/// block by block, and can overflow.
const SEGMENTS_PER_LOSS: u64 = 50;

/// The headers before TCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Ipv4,
    Ipv6,
    /// IPv4 behind an 802.1Q tag.
    Tagged,
}

impl Kind {
    /// The address of the receiver.
    fn receiver(self, way: Way) -> IpAddr {
        let end = if way == Way::In { 2 } else { 1 };
        match self {
            Self::Ipv4 | Self::Tagged => [10, 9, 0, end].into(),
            Self::Ipv6 => [0xFD09, 0, 0, 0, 0, 0, 0, u16::from(end)].into(),
        }
    }

    /// Makes what it needs, which is there until that is dropped.
    fn prepare(self, lab: &Lab) -> Result<Vec<Tags>, String> {
        if self != Self::Tagged {
            return Ok(Vec::new());
        }
        let ends = [(&lab.peer, "lcp", 1), (&lab.host, "lc0", 2)];
        let tag = |place: &Host, under: &str| {
            let add = format!("ip link add link {under} name {under}.5 type vlan id 5");
            place.try_run(&add).status.success()
        };
        if !ends.iter().all(|(place, under, _)| tag(place, under)) {
            // A kernel without VLAN devices (CONFIG_VLAN_8021Q) can still set and take tags.
            let tags = ends.map(|(place, under, _)| place.inside(|| Tags::on(under, 5)));
            let why = |error| format!("no VLAN devices, and no program that sets tags: {error}");
            return tags.into_iter().collect::<Result<_, _>>().map_err(why);
        }
        for (place, under, end) in ends {
            place.run(&format!("ip addr del 10.9.0.{end}/24 dev {under}"));
            place.run(&format!("ip addr add 10.9.0.{end}/24 dev {under}.5"));
            place.run(&format!("ip link set {under}.5 up"));
        }
        Ok(Vec::new())
    }
}

fn bytes() -> u64 {
    if std::env::var_os("LINECARD_LONG").is_some_and(|long| long == "1") {
        2 << 30
    } else {
        64 << 20
    }
}

fn both_ways(port: &str, kind: Kind) {
    for way in [Way::In, Way::Out] {
        let what = format!("{port}, {kind:?}, {way:?}");
        with_lab(&what, |lab| {
            let running = attach(lab, &format!("{port}:lcw tap:lc0"));
            let _tags = match kind.prepare(lab) {
                Ok(tags) => tags,
                Err(why) => return linecard_testkit::skip(format_args!("attach: {what}"), why),
            };
            let to = kind.receiver(way);
            let [before_in, before_out] = lab.peer.packets("lcp");
            let transfer = Transfer { to, ..Transfer::new(way, bytes()) };
            let went = transfer.run(lab);
            // The last acknowledgments are on their way.
            thread::sleep(Duration::from_millis(50));
            let [after_in, after_out] = lab.peer.packets("lcp");
            let account = running.finish();
            shown(&what, &transfer, went, &account);
            adds_up(&account);
            check(port, way, went.again.saturating_sub(lab.lost()), &account);
            let [sent, received] = [after_out - before_out, after_in - before_in];
            wire(&account, sent, received);
        });
    }
}

/// Checks of one direction, and of losses: `again` segments were retransmitted, none because of the cable.
fn check(port: &str, way: Way, again: u64, account: &Value) {
    let segments = bytes() / 1_448;
    if port == "xdp" {
        assert_eq!(again, 0, "retransmissions: {account:#}");
        assert_eq!([drops(account, "near"), drops(account, "far")], [[0; 2]; 2], "{account:#}");
    } else {
        assert!(again <= segments / SEGMENTS_PER_LOSS, "{again} were sent again: {account:#}");
    }
    if way == Way::In {
        let mean = account["merging"]["mean_aggregate"].as_f64().unwrap_or(0.0);
        assert!(mean > 5.0, "{mean} packets in one: {account:#}");
        assert!(count(account, "merging", "merged") > segments / 3, "{account:#}");
    } else {
        // Large packets came from the host, and were cut into at least two on average.
        assert!(count(account, "near", "cut") > 0, "{account:#}");
        assert!(count(account, "near", "transmitted") < segments / 2, "{account:#}");
    }
}

/// Compares with the counters of the peer's kernel at its end of the cable.
fn wire(account: &Value, sent: u64, received: u64) {
    let came = count(account, "near", "received") + drops(account, "near")[0];
    // Packets on their way at the beginning and the end: those that look for neighbours.
    let slack = 16;
    assert!(came.abs_diff(sent) <= slack, "{sent} were sent, {account:#}");
    let given = count(account, "near", "transmitted");
    assert!(received + slack >= given, "{received} arrived, {account:#}");
}

fn shown(what: &str, transfer: &Transfer, went: Went, account: &Value) {
    let rate = transfer.bytes as f64 * 8e-9 / went.seconds;
    let mean = account["merging"]["mean_aggregate"].as_f64().unwrap_or(0.0);
    let lost = [drops(account, "near"), drops(account, "far")];
    println!(
        "{what}: {rate:.2} Gbit/s, {} sent again, mean aggregate {mean:.1}, {} cut, lost {lost:?}",
        went.again,
        count(account, "near", "cut"),
    );
}

/// Promise (Live interfaces): Every byte of a TCP transfer passes an attachment, with its hash
/// equal at both ends, nothing retransmitted and all packets accounted for: 64 MB, or 2 GB with
/// `LINECARD_LONG=1`, over IPv4 by AF_XDP; further tests use IPv6, VLAN and packet sockets.
#[test]
fn ipv4_by_af_xdp() {
    both_ways("xdp", Kind::Ipv4);
}

#[test]
fn ipv6_by_af_xdp() {
    both_ways("xdp", Kind::Ipv6);
}

#[test]
fn vlan_by_af_xdp() {
    both_ways("xdp", Kind::Tagged);
}

#[test]
fn ipv4_by_packet_sockets() {
    both_ways("packet", Kind::Ipv4);
}

#[test]
fn ipv6_by_packet_sockets() {
    both_ways("packet", Kind::Ipv6);
}

#[test]
fn vlan_by_packet_sockets() {
    both_ways("packet", Kind::Tagged);
}
