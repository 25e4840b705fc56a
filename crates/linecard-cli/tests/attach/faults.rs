//! Faults on the path that are temporary.

use crate::bytes::{Transfer, Way};
use crate::command::{adds_up, attach, drops};
use crate::lab::with_lab;
use std::time::Duration;

/// Most memory of a default attachment: 110 MB with AF_XDP, 153 MB with packet sockets, of which
/// 8,192 buffers of 9 KB are the larger part; half as much again for other machines.
pub(crate) const MOST_MEMORY: u64 = 230 << 20;

/// Promise (Live interfaces): An attachment continues after its interface was down for a while.
#[test]
fn the_near_interface_goes_down_and_up_again() {
    for port in ["xdp", "packet"] {
        with_lab("down and up", |lab| {
            let running = attach(lab, &format!("{port}:lcw tap:lc0"));
            for way in [Way::In, Way::Out] {
                // A short one may be over before this host gets round to it.
                let was_interrupted = [64 << 20, 256 << 20, 1 << 30].into_iter().any(|bytes| {
                    let mut is_over = false;
                    Transfer::new(way, bytes).run_while(lab, |over| {
                        over(Duration::from_millis(100));
                        lab.host.run("ip link set lcw down");
                        is_over = over(Duration::from_millis(300));
                        lab.host.run("ip link set lcw up");
                    });
                    !is_over
                });
                assert!(was_interrupted, "no transfer was under way");
                Transfer::new(way, 1 << 20).run(lab);
            }
            running.signal(libc::SIGTERM);
            let ended = running.wait();
            let is_said = ended.lines.iter().all(|line| line.contains("carrier"));
            assert!(ended.status.success() && is_said, "{ended:?}");
            adds_up(&ended.account);
        });
    }
}

/// TCP's window closes; nothing is lost, and nothing piles up.
#[test]
fn a_receiver_that_does_not_read() {
    with_lab("no reader", |lab| {
        let running = attach(lab, "xdp:lcw tap:lc0");
        for way in [Way::In, Way::Out] {
            let pause = Duration::from_millis(1_500);
            let transfer = Transfer { pause, ..Transfer::new(way, 32 << 20) };
            let went = transfer.run_while(lab, |over| {
                assert!(!over(Duration::from_millis(1_000)), "nobody reads");
                let memory = running.most_memory();
                println!("{way:?}: {} MB", memory >> 20);
                assert!(memory < MOST_MEMORY, "{memory} bytes");
            });
            assert!(went.again <= lab.lost(), "{way:?}: {went:?}");
        }
        let account = running.finish();
        assert_eq!([drops(&account, "near"), drops(&account, "far")], [[0; 2]; 2], "{account:#}");
        adds_up(&account);
    });
}
