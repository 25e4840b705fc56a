//! Files that are sent over loopback are what they were.

use crate::ends;
use linecard::rng::Rng;
use linecard_transfer::control::Mode;
use linecard_transfer_net::end::Cores;
use linecard_transfer_net::lane::Spec;
use linecard_transfer_net::send::SendOptions;
use std::fs;
use std::path::Path;

fn file(path: &Path, bytes: usize, seed: u64) {
    let mut content = vec![0; bytes];
    Rng::new(seed).fill(&mut content);
    fs::write(path, content).expect("there is room");
}

fn lanes(options: &mut SendOptions, kind: &str, count: usize) {
    let spec: Spec = format!("{kind}:127.0.0.1").parse().expect("a lane");
    options.lanes = vec![spec; count];
}

fn there_and_back(bytes: usize, change: impl FnOnce(&mut SendOptions)) {
    let folder = tempfile::tempdir().expect("a folder");
    let (from, to) = (folder.path().join("from.bin"), folder.path().join("to"));
    file(&from, bytes, bytes as u64);
    let (mut send, receive, listener) = ends::options(&from, &to);
    change(&mut send);
    let (sent, got) = ends::run(&send, &receive, &listener);
    let (sent, got) = (sent.expect("sent"), got.expect("received"));
    assert_eq!((sent.bytes, got.bytes), (bytes as u64, bytes as u64));
    assert!(
        fs::read(&from).expect("it is there") == fs::read(to.join("from.bin")).expect("it came")
    );
    let left = fs::read_dir(&to).expect("a folder").count();
    assert_eq!(left, 1, "nothing else is left");
}

#[test]
fn one_lane() {
    there_and_back(10 << 20, |_| {});
}

#[test]
fn an_empty_file() {
    there_and_back(0, |_| {});
}

#[test]
fn a_byte() {
    there_and_back(1, |_| {});
}

#[test]
fn four_lanes_in_each_mode() {
    for mode in [Mode::Stable, Mode::LowLatency, Mode::Auto] {
        there_and_back((9 << 20) + 12_345, |options| {
            lanes(options, "udp", 4);
            options.mode = mode;
        });
    }
}

#[test]
fn tcp_lanes() {
    there_and_back((9 << 20) + 1, |options| lanes(options, "tcp", 3));
}

/// Ends with two and three threads for four lanes, all of them on one core, where they interrupt each other.
#[test]
fn several_threads_share_the_lanes() {
    let may = rustix::thread::sched_getaffinity(None).expect("it is known");
    let core = (0..).find(|core| may.is_set(*core)).expect("this thread runs");
    let cores =
        |more: usize| Cores { lanes: Some(core), files: Some(core), more: vec![core; more] };
    for kind in ["udp", "tcp"] {
        let folder = tempfile::tempdir().expect("a folder");
        let (from, to) = (folder.path().join("from.bin"), folder.path().join("to"));
        file(&from, (40 << 20) + 1, 3);
        let (mut send, mut receive, listener) = ends::options(&from, &to);
        lanes(&mut send, kind, 4);
        (send.cores, receive.cores) = (cores(1), cores(2));
        let (sent, got) = ends::run(&send, &receive, &listener);
        let (sent, got) = (sent.expect("sent"), got.expect("received"));
        assert_eq!((sent.bytes, got.bytes), ((40 << 20) + 1, (40 << 20) + 1));
        assert!(sent.lanes.iter().all(|lane| lane.socket.sent > 0), "{:?}", sent.lanes);
        let same = fs::read(&from).expect("it is there")
            == fs::read(to.join("from.bin")).expect("it came");
        assert!(same, "{kind}");
    }
}

#[test]
fn repair_that_is_not_needed() {
    there_and_back((5 << 20) + 1, |options| {
        lanes(options, "udp", 2);
        options.fec = "rs:10,2".parse().expect("a scheme");
    });
}

#[test]
fn a_folder_with_folders() {
    let folder = tempfile::tempdir().expect("a folder");
    let (from, to) = (folder.path().join("tree"), folder.path().join("to"));
    fs::create_dir_all(from.join("a/b/empty")).expect("folders");
    for number in 0..150 {
        file(&from.join(format!("a/f{number}")), number * 1_000, number as u64);
    }
    file(&from.join("a/b/large"), 3 << 20, 1);
    let (send, receive, listener) = ends::options(&from, &to);
    let (sent, got) = ends::run(&send, &receive, &listener);
    sent.expect("sent");
    assert_eq!(got.expect("received").objects, 155);
    for name in ["a/f0", "a/f1", "a/f149", "a/b/large"] {
        let (was, is) = (fs::read(from.join(name)), fs::read(to.join("tree").join(name)));
        assert_eq!(was.expect("it was there"), is.expect("it came"), "{name}");
    }
    assert!(to.join("tree/a/b/empty").is_dir());
}
