//! The MTU of the near interface changes during an attachment. The TAP's stays, because the privileges to change it
//! were dropped; a line on stderr tells the operator to change it by hand. Until then:
//!
//! - A larger near MTU is not used: the host tells peers the limit of the TAP.
//! - With a smaller one TCP continues, because the peer tells the host its limit; longer packets of other protocols
//!   from the host are dropped and counted as `above_mtu`.

use crate::bytes::{Transfer, Way};
use crate::command::{attach, count};
use crate::lab::{Lab, with_lab};
use std::net::UdpSocket;
use std::thread;
use std::time::Duration;

const BYTES: u64 = 8 << 20;
/// IP and TCP headers with timestamps.
const HEADERS: u64 = 52;

/// Both ways, in frames of this MTU.
fn transfers(lab: &Lab, port: &str, mtu: u64) {
    for way in [Way::In, Way::Out] {
        let before = lab.peer.packets("lcp");
        let went = Transfer::new(way, BYTES).run(lab);
        let after = lab.peer.packets("lcp");
        // Those with data, and a few for the connection.
        let frames = if way == Way::In { after[1] - before[1] } else { after[0] - before[0] };
        let fewest = BYTES / (mtu - HEADERS);
        println!("{port}, {mtu}, {way:?}: {frames} frames, at least {fewest}, {went:?}");
        assert!(frames >= fewest, "{frames} frames, {fewest} hold as much");
        assert!(frames < fewest + fewest / 2 + 500, "{frames} frames, {fewest} would do");
    }
}

#[test]
fn larger_and_smaller() {
    for port in ["xdp", "packet"] {
        with_lab("the MTU changes", |lab| {
            let running = attach(lab, &format!("{port}:lcw tap:lc0"));
            let mut tap = 1_500;
            for near in [1_500, 9_000, 1_500, 1_280] {
                lab.host.run(&format!("ip link set lcw mtu {near}"));
                lab.peer.run(&format!("ip link set lcp mtu {near}"));
                if near != tap {
                    running.says(&[&format!("`ip link set lc0 mtu {near}`")]);
                }
                transfers(lab, port, near.min(tap));
                if near < tap {
                    lab.host.inside(|| send_datagram(tap as usize - 100));
                }
                lab.host.run(&format!("ip link set lc0 mtu {near}"));
                tap = near;
                transfers(lab, port, near);
            }
            thread::sleep(Duration::from_millis(50));
            running.signal(libc::SIGTERM);
            let ended = running.wait();
            // Of each change of the near MTU it says what to do, and nothing else.
            let says = |line: &String| line.contains("`ip link set lc0 mtu ");
            assert!(ended.lines.len() == 3 && ended.lines.iter().all(says), "{ended:?}");
            let account = ended.account;
            // 8,900 bytes where 1,500 were the most, and 1,400 where 1,280 were.
            assert_eq!(count(&account, "near", "above_mtu"), 2, "{account:#}");
        });
    }
}

/// To the peer, where no socket receives it.
fn send_datagram(len: usize) {
    let socket = UdpSocket::bind("10.9.0.2:0").expect("the address is ours");
    let sent = socket.send_to(&vec![7; len], "10.9.0.1:9").expect("the TAP takes it");
    assert_eq!(sent, len);
}
