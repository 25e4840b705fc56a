//! The command leaves nothing behind, however it ends.

use crate::bytes::{Transfer, Way, stream};
use crate::command::{adds_up, attach, count};
use crate::lab::{Lab, wait_for, with_lab};
use std::sync::mpsc::Sender;
use std::thread;
use std::time::Duration;

const MOMENT: Duration = Duration::from_millis(300);

/// The TAP is gone, and the program; a new attachment works at once.
fn nothing_is_left(lab: &Lab) {
    assert!(!lab.host.has("lc0") && !lab.has_program(), "{}", lab.host.run("ip -d link"));
}

/// [`stream`], when enough has passed for the account of an attachment that ends.
fn stream_under_way<'scope>(
    scope: &'scope thread::Scope<'scope, '_>,
    lab: &'scope Lab,
) -> Sender<()> {
    let stop = stream(scope, lab);
    wait_for("the stream", || lab.peer.packets("lcp")[1] > 20_000);
    stop
}

fn by_signal(signal: i32) {
    with_lab("a signal", |lab| {
        let running = attach(lab, "xdp:lcw tap:lc0");
        thread::scope(|scope| {
            let _stop = stream_under_way(scope, lab);
            running.signal(signal);
            let ended = running.wait();
            assert_eq!(ended.status.code(), Some(0), "{ended:?}");
            assert!(ended.lines.is_empty(), "{ended:?}");
            // Held packets are among the transmitted ones.
            adds_up(&ended.account);
            assert!(count(&ended.account, "merging", "merged") > 1_000, "{ended:?}");
            nothing_is_left(lab);
        });
    });
}

#[test]
fn by_sigterm() {
    by_signal(libc::SIGTERM);
}

#[test]
fn by_sigint() {
    by_signal(libc::SIGINT);
}

#[test]
fn by_sighup() {
    if !linecard_testkit::skips_hangup("the end of an attachment at SIGHUP") {
        by_signal(libc::SIGHUP);
    }
}

#[test]
fn sigusr1_asks_for_the_statistics_so_far() {
    with_lab("SIGUSR1", |lab| {
        let running = attach(lab, "xdp:lcw tap:lc0");
        Transfer::new(Way::In, 1 << 20).run(lab);
        // Counters are published every 50 ms.
        wait_for("the statistics of what has passed", || {
            running.signal(libc::SIGUSR1);
            running
                .printed("statistics")
                .iter()
                .any(|so_far| count(so_far, "near", "received") > 700)
        });
        let more = running.finish();
        assert_eq!(more["type"], "final");
        assert!(count(&more, "near", "received") > 700, "{more:#}");
    });
}

/// Promise (Live interfaces): After SIGKILL of an attachment its TAP device and its programs are
/// gone.
#[test]
fn by_sigkill() {
    with_lab("SIGKILL", |lab| {
        let running = attach(lab, "xdp:lcw tap:lc0");
        thread::scope(|scope| {
            let _stop = stream_under_way(scope, lab);
            running.signal(libc::SIGKILL);
            assert_eq!(running.wait().status.code(), None);
        });
        let again = attach(lab, "xdp:lcw tap:lc0");
        Transfer::new(Way::In, 4 << 20).run(lab);
        assert!(count(&again.finish(), "merging", "merged") > 0);
        wait_for("the program to go", || !lab.has_program());
        nothing_is_left(lab);
    });
}

/// Promise (Live interfaces): An attachment whose interface is removed ends in one line with its
/// documented exit code.
#[test]
fn when_the_near_interface_is_removed() {
    for port in ["xdp", "packet"] {
        with_lab("the near interface is removed", |lab| {
            let running = attach(lab, &format!("{port}:lcw tap:lc0"));
            thread::scope(|scope| {
                let _stop = stream_under_way(scope, lab);
                lab.host.run("ip link del lcw");
                // It loses its carrier and goes down first, which may be seen.
                let ended = running.wait().without("lcw is down").without("lcw has no carrier");
                ended.is(7, &[&format!("{port}:lcw is gone"), "removed"]);
                assert!(count(&ended.account, "merging", "merged") > 100, "{ended:?}");
                assert!(!lab.host.has("lc0"), "the TAP is still there");
            });
        });
    }
}

#[test]
fn when_the_tap_is_removed() {
    with_lab("the TAP is removed", |lab| {
        let running = attach(lab, "xdp:lcw tap:lc0");
        thread::scope(|scope| {
            let _stop = stream_under_way(scope, lab);
            lab.host.run("ip link del lc0");
            let ended = running.wait();
            ended.is(7, &["tap:lc0 is gone", "removed"]);
            assert!(count(&ended.account, "merging", "merged") > 100, "{ended:?}");
            nothing_is_left(lab);
        });
    });
}

#[test]
fn when_an_interface_is_removed_that_nobody_uses() {
    with_lab("an idle interface is removed", |lab| {
        let running = attach(lab, "xdp:lcw tap:lc0");
        thread::sleep(MOMENT);
        lab.host.run("ip link del lcw");
        running
            .wait()
            .without("lcw is down")
            .without("lcw has no carrier")
            .is(7, &["xdp:lcw is gone"]);
        lab.host.loses("lc0");
    });
}
