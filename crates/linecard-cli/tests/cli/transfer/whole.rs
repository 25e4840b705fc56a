//! Transfers that complete: files, folders, pipes, and their statistics.

use super::ends::{Ends, beside_pauses, noise, says, signal};
use serde_json::Value;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

#[test]
fn a_file_over_four_lanes_in_each_mode() {
    for (mode, kind) in [("stable", "udp"), ("low-latency", "udp"), ("auto", "tcp")] {
        let ends = Ends::with_file((3 << 20) + 7);
        let lane = format!("{kind}:127.0.0.1");
        let lanes = ["--lane", &lane].repeat(4);
        let more = [&["--mode", mode, "--chunk", "256K"], &lanes[..]].concat();
        let (sent, got) = ends.both("from.bin", &more, &[]);
        assert_eq!((sent.code, got.code), (Some(0), Some(0)), "{sent:?} {got:?}");
        assert_eq!((&*beside_pauses(&sent.stderr), got.stderr.as_str()), ("", ""));
        assert!(sent.stdout.contains("goodput") && got.stdout.contains("goodput"));
        ends.assert_equal();
    }
}

/// A lane of 12 Mbit/s needs more than a second for 2 MiB, and nothing else is as slow.
#[test]
fn the_limit_of_a_transfer_is_named() {
    let ends = Ends::with_file(2 << 20);
    let more = ["--json", "--lane", "127.0.0.1,rate=12M"];
    let (sent, got) = ends.both("from.bin", &more, &["--json"]);
    assert_eq!((sent.code, got.code), (Some(0), Some(0)), "{sent:?} {got:?}");
    let sent: Value = serde_json::from_str(&sent.stdout).unwrap();
    let limit = sent["transfer"]["limited_by"].as_str().unwrap();
    assert!(limit.starts_with("the lanes"), "{limit}");
}

#[test]
fn the_account_as_json() {
    let ends = Ends::with_file(2 << 20);
    let lanes = ["--lane", "127.0.0.1", "--lane", "127.0.0.1", "--rate", "200M"];
    let more = [&["--chunk", "256K", "--json", "--payload", "1408"], &lanes[..]].concat();
    let (sent, got) = ends.both("from.bin", &more, &["--json"]);
    assert_eq!((sent.code, got.code), (Some(0), Some(0)), "{sent:?} {got:?}");
    assert!(
        [&sent, &got].iter().all(|account| !account.stdout.contains("5a5a")),
        "{sent:?} {got:?}"
    );
    let sent: Value = serde_json::from_str(&sent.stdout).unwrap();
    let got: Value = serde_json::from_str(&got.stdout).unwrap();
    for account in [&sent, &got] {
        assert_eq!(account["transfer"]["complete"], true);
        assert_eq!(account["transfer"]["bytes"], 2 << 20);
        assert!(account["transfer"]["goodput_bits_per_second"].as_f64().unwrap() > 1e6);
        assert_eq!(account["lanes"].as_array().unwrap().len(), 2);
    }
    // The file of the key is named; the key is nowhere.
    let (sender, receiver) = (&sent["config"], &got["config"]);
    assert_eq!(
        (&sender["chunk"], &sender["inputs"]),
        (&(256 << 10).into(), &serde_json::json!(["from.bin"]))
    );
    assert_eq!(sender["lanes"].as_array().map(Vec::len), Some(2));
    assert_eq!((&receiver["folder"], &receiver["memory"]), (&"to".into(), &(512 << 20).into()));
    for config in [sender, receiver] {
        assert_eq!(config["access"]["psk"], "psk", "{config}");
    }
    let latency = &sent["chunk_latency"];
    assert_eq!(latency["chunks"], 8);
    let of = |key: &str| latency[key].as_f64().unwrap();
    assert!(0.0 < of("p50_ns") && of("p50_ns") <= of("p99_ns") && of("p99_ns") <= of("max_ns"));
    // 1408 of 1490 bytes on the line, on two lanes.
    let bound = sent["bound"]["framing_bound_bits_per_second"].as_f64().unwrap();
    assert!((bound / (400e6 * 1_408.0 / 1_490.0) - 1.0).abs() < 1e-9, "{bound}");
    assert!(sent["bound"]["management_overhead"].as_f64().unwrap() < 1.0);
    let packets = sent["lanes"][0]["value"]["packets"].as_u64().unwrap();
    let state = sent["lanes"][0]["value"]["state"].as_str().unwrap();
    assert!(packets > 0 && ["alive", "suspect"].contains(&state), "{state}");
}

#[test]
fn a_folder() {
    let ends = Ends::new();
    let folder = &ends.folder;
    fs::create_dir_all(folder.path("tree/a/empty")).unwrap();
    folder.write("tree/a/one", &noise(300_000));
    folder.write("tree/nothing", b"");
    folder.write("tree/run", b"#!/bin/sh\n");
    fs::set_permissions(folder.path("tree/run"), fs::Permissions::from_mode(0o755)).unwrap();
    symlink("a/one", folder.path("tree/link")).unwrap();
    symlink("../elsewhere", folder.path("tree/out")).unwrap();
    let sparse = File::create(folder.path("tree/sparse")).unwrap();
    sparse.set_len(40 << 20).unwrap();
    sparse.write_all_at(&noise(4_096), 17 << 20).unwrap();
    let (sent, got) = ends.both("tree", &[], &[]);
    assert_eq!((sent.code, got.code), (Some(0), Some(0)), "{sent:?} {got:?}");
    says(
        &sent.stderr,
        &["not sent: tree/out is a link that leads out of the folder that is sent: --links-out"],
    );
    for name in ["a/one", "nothing", "run", "sparse"] {
        let of = |root: &str| folder.path(&format!("{root}/{name}"));
        assert!(fs::read(of("tree")).unwrap() == fs::read(of("to/tree")).unwrap(), "{name}");
        let about = |root| fs::metadata(of(root)).map(|data| (data.mode(), data.mtime())).unwrap();
        assert_eq!(about("tree"), about("to/tree"), "{name}");
    }
    assert!(folder.path("to/tree/a/empty").is_dir() && !folder.path("to/tree/out").is_symlink());
    assert_eq!(fs::read_link(folder.path("to/tree/link")).unwrap(), Path::new("a/one"));
    let blocks = |root| fs::metadata(folder.path(&format!("{root}/sparse"))).unwrap().blocks();
    if blocks("tree") < 1_000 {
        assert!(blocks("to/tree") < 1_000, "{} blocks of 512 bytes", blocks("to/tree"));
    } else {
        linecard_testkit::skip("holes in a file", "the file system makes none");
    }
    // Files that exist and are equal are not sent again, links included.
    let (sent, got) = ends.both("tree", &["--json"], &[]);
    assert_eq!((sent.code, got.code), (Some(0), Some(0)), "{sent:?} {got:?}");
}

#[test]
fn pipes_at_both_ends() {
    let ends = Ends::new();
    let bytes = noise((2 << 20) + 99);
    let mut receiver = ends.listen(&["-", "--psk", "psk", "--json"]);
    let mut out = receiver.stdout();
    let mut sender = ends.sender("-", &receiver, &["--chunk", "256K"]);
    let mut sender = sender.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let mut stdin = sender.stdin.take().unwrap();
    let given = bytes.clone();
    let writing = std::thread::spawn(move || stdin.write_all(&given));
    let mut came = Vec::new();
    out.read_to_end(&mut came).unwrap();
    writing.join().unwrap().unwrap();
    assert_eq!(sender.wait().unwrap().code(), Some(0));
    assert!(came == bytes);
    let got = receiver.end();
    assert_eq!(got.code, Some(0));
    let account: Value = serde_json::from_str(&got.stderr).unwrap();
    assert_eq!(account["transfer"]["bytes"], bytes.len());
}

/// A lane of 12 Mbit/s takes more than two seconds for 4 MiB.
#[test]
fn progress_is_a_line_of_json_each_second() {
    let ends = Ends::with_file(4 << 20);
    let more = ["--progress", "--chunk", "64K", "--lane", "127.0.0.1,rate=12M"];
    let (sent, got) = ends.both("from.bin", &more, &[]);
    assert_eq!((sent.code, got.code), (Some(0), Some(0)), "{sent:?} {got:?}");
    let lines = beside_pauses(&sent.stderr);
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(lines.len() >= 2, "{}", sent.stderr);
    let done: Vec<u64> = lines.iter().map(|line| line["done_bytes"].as_u64().unwrap()).collect();
    assert!(done.is_sorted() && done[done.len() - 1] == 4 << 20, "{done:?}");
    assert!(done.iter().any(|done| (1..4 << 20).contains(done)), "{done:?}");
    for line in &lines {
        assert_eq!(line["total_bytes"], 4 << 20);
        assert_eq!(line["lanes"].as_array().unwrap().len(), 1);
    }
    // A lane is doubted where the other end has stood still.
    let is_carried = |line: &Value| {
        line["lanes"][0]["state"] == "alive"
            && line["lanes_in_use"] == 1
            && line["left_ns"].is_u64()
    };
    assert!(lines.iter().any(is_carried), "{}", sent.stderr);
}

/// Promise (Transfer): What comes of a pipe goes on, however little it is: it does not wait until a chunk is full.
#[test]
fn a_pipe_goes_on_as_it_comes() {
    let ends = Ends::new();
    let mut receiver = ends.listen(&["-", "--psk", "psk"]);
    let mut out = receiver.stdout();
    let mut sender = ends.sender("-", &receiver, &[]);
    let mut sender = sender.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let mut stdin = sender.stdin.take().unwrap();
    for bytes in [1, 1_000, 300_000, 7] {
        let part = noise(bytes);
        stdin.write_all(&part).unwrap();
        let mut came = vec![0; bytes];
        out.read_exact(&mut came).unwrap();
        assert!(came == part, "{bytes} bytes");
    }
    drop(stdin);
    assert_eq!(sender.wait().unwrap().code(), Some(0));
    assert_eq!(receiver.end().code, Some(0));
}

/// Its chunks have other lengths, and no places but behind each other.
#[test]
fn a_pipe_that_pauses_is_the_same_file() {
    let ends = Ends::new();
    let receiver = ends.receiver(&["--json"]);
    let lanes = ["--lane", "127.0.0.1"].repeat(4);
    let mut sender = ends.sender("-", &receiver, &[&["--chunk", "64K"], &lanes[..]].concat());
    let mut sender = sender.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let mut stdin = sender.stdin.take().unwrap();
    let partial = ends.folder.path("to/.stdin.linecard-part");
    let bytes = noise(400_000);
    let mut written = 0;
    for part in bytes.chunks(40_001) {
        stdin.write_all(part).unwrap();
        written += part.len() as u64;
        while fs::metadata(&partial).map_or(0, |metadata| metadata.len()) < written {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    drop(stdin);
    assert_eq!(sender.wait().unwrap().code(), Some(0));
    assert!(ends.folder.read("to/stdin") == bytes);
    let account: Value = serde_json::from_str(&receiver.end().stdout).unwrap();
    assert_eq!(account["transfer"]["bytes"], bytes.len());
}

/// Neither a source nor a reader that rests for longer than the patience with silence ends anything.
#[test]
fn slow_pipes() {
    let ends = Ends::new();
    let bytes = noise(3 << 20);
    let rest = Duration::from_secs(6);
    let mut receiver = ends.listen(&["-", "--psk", "psk", "--patience", "2", "--memory", "128K"]);
    let mut out = receiver.stdout();
    let mut sender = ends.sender("-", &receiver, &["--chunk", "64K", "--patience", "2"]);
    let mut sender = sender.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let mut stdin = sender.stdin.take().unwrap();
    let given = bytes.clone();
    let writing = std::thread::spawn(move || {
        stdin.write_all(&given[..1_000])?;
        std::thread::sleep(rest);
        stdin.write_all(&given[1_000..])
    });
    let mut came = vec![0; 200_000];
    out.read_exact(&mut came).unwrap();
    std::thread::sleep(rest);
    out.read_to_end(&mut came).unwrap();
    writing.join().unwrap().unwrap();
    assert_eq!(sender.wait().unwrap().code(), Some(0));
    assert!(came == bytes);
    assert_eq!(receiver.end().code, Some(0));
}

#[test]
fn one_sender_after_the_other() {
    let ends = Ends::with_file(100_000);
    ends.folder.write("more.bin", &noise(200_000));
    let receiver = ends.receiver(&["--keep", "--json"]);
    for name in ["from.bin", "more.bin", "from.bin"] {
        let sent = ends.send(name, &receiver, &[]);
        assert_eq!(sent.code, Some(0), "{sent:?}");
    }
    // Equal is not an error, something else is.
    ends.folder.write("more.bin", &noise(200_001));
    let sent = ends.send("more.bin", &receiver, &[]);
    assert_eq!(sent.code, Some(16), "{sent:?}");
    signal("INT", receiver.id());
    let got = receiver.end();
    assert_eq!(got.code, Some(0), "{got:?}");
    let accounts = serde_json::Deserializer::from_str(&got.stdout).into_iter::<Value>();
    let complete: Vec<bool> =
        accounts.map(|account| account.unwrap()["transfer"]["complete"] == true).collect();
    assert_eq!(complete, [true, true, true, false]);
    says(&got.stderr, &["to/more.bin\" exists", "--overwrite"]);
}

/// Clap's tip was to send a file of that name.
#[test]
fn the_receiver_decides_what_is_replaced() {
    let ends = Ends::with_file(1_000);
    let parts = ["unexpected argument '--overwrite'", "`linecard recv DIR --overwrite`"];
    ends.folder.refuses(2, &["send", "from.bin", "127.0.0.1", "--overwrite"], &parts);
}

/// Modes travel as far as the receiver's umask lets them, as with cp; never those that give rights away.
#[test]
fn modes_and_the_umask() {
    let ends = Ends::new();
    fs::create_dir(ends.folder.path("tree")).unwrap();
    let chmod = |name: &str, mode| {
        let mode = fs::Permissions::from_mode(mode);
        fs::set_permissions(ends.folder.path(name), mode).unwrap();
    };
    for (name, mode) in [("tree/open", 0o666), ("tree/run", 0o4777), ("tree/own", 0o600)] {
        ends.folder.write(name, b"x");
        chmod(name, mode);
    }
    chmod("tree", 0o777);
    let receiver = ends.receiver_by_shell("umask 027; exec \"$@\"", &[]);
    let sent = ends.send("tree", &receiver, &[]);
    let got = receiver.end();
    assert_eq!((sent.code, got.code), (Some(0), Some(0)), "{sent:?} {got:?}");
    let modes = [("tree", 0o750), ("tree/open", 0o640), ("tree/run", 0o750), ("tree/own", 0o600)];
    for (name, mode) in modes {
        let about = fs::metadata(ends.folder.path("to").join(name)).unwrap();
        assert_eq!(about.permissions().mode() & 0o7777, mode, "{name}");
    }
}

#[test]
fn a_lane_that_cannot_be_used_is_said_and_the_other_carries_on() {
    let ends = Ends::with_file(300_000);
    let lanes = ["--lane", "127.0.0.1", "--lane", "127.0.0.1", "--json"];
    let (sent, got) =
        ends.both("from.bin", &lanes, &["--lane", "127.0.0.1", "--lane", "224.0.0.1"]);
    assert_eq!((sent.code, got.code), (Some(0), Some(0)), "{sent:?} {got:?}");
    let parts = ["lane 2 (udp:127.0.0.1)", "224.0.0.1", "is not used", "nothing goes over it"];
    says(&sent.stderr, &parts);
    let account: Value = serde_json::from_str(&sent.stdout).unwrap();
    assert!(account["lane_notes"][0]["value"].as_str().unwrap().contains("224.0.0.1"), "{account}");
    assert_eq!(account["lanes"][1]["value"]["state"], "closed");
    ends.assert_equal();
}

#[test]
fn an_address_that_the_sender_does_not_have_leaves_the_receiver_waiting() {
    let ends = Ends::with_file(300_000);
    let receiver = ends.receiver(&[]);
    let sent = ends.send("from.bin", &receiver, &["--lane", "203.0.113.9"]);
    assert_eq!(sent.code, Some(6), "{sent:?}");
    says(&sent.stderr, &["203.0.113.9", "no such address", "ip address"]);
    let sent = ends.send("from.bin", &receiver, &[]);
    let got = receiver.end();
    assert_eq!((sent.code, got.code), (Some(0), Some(0)), "{sent:?} {got:?}");
    ends.assert_equal();
}

/// It had the exit code of a report whose reader has seen enough: 0, with an incomplete file.
#[test]
fn a_reader_of_the_data_that_leaves_is_an_error() {
    let ends = Ends::with_file(3_000_000);
    let mut receiver = ends.listen(&["-", "--psk", "psk"]);
    drop(receiver.stdout());
    let sent = ends.send("from.bin", &receiver, &[]);
    let got = receiver.end();
    assert_eq!((sent.code, got.code), (Some(16), Some(1)), "{sent:?} {got:?}");
    says(&got.stderr, &["standard output", "its reader has closed it"]);
}

/// A full disk of logs ended it, and the transfers of others with it.
#[test]
fn a_receiver_goes_on_without_a_place_for_its_statistics() {
    let ends = Ends::with_file(3_000);
    let receiver = ends.receiver_by_shell("exec \"$@\" >/dev/full", &["--keep"]);
    for _ in 0..2 {
        let sent = ends.send("from.bin", &receiver, &[]);
        assert_eq!(sent.code, Some(0), "{sent:?}");
    }
    signal("TERM", receiver.id());
    let got = receiver.end();
    assert_eq!(got.stderr.matches("cannot write the report").count(), 2, "{got:?}");
}

#[test]
fn a_folder_in_the_place_of_a_file_is_named() {
    let ends = Ends::with_file(3_000);
    fs::create_dir_all(ends.folder.path("to/from.bin")).unwrap();
    let (sent, got) = ends.both("from.bin", &[], &["--overwrite"]);
    assert_eq!((sent.code, got.code), (Some(16), Some(1)), "{sent:?} {got:?}");
    says(&got.stderr, &["from.bin", "is a folder", "move it away"]);
    assert!(!got.stderr.contains("--overwrite"), "{got:?}");
}
