//! The live ends of the jitter lab as commands: a stream over loopback, and every refusal.

use crate::around::is_there;
use crate::folder::Folder;
use crate::support::linecard;
use serde_json::Value as Json;
use std::fs;
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(20);

fn json(text: &str) -> Json {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

const PORT: u16 = 5_004;

/// An address of this host that no other test of this run uses: a port that is free now may be another's
/// a moment later.
fn free_address() -> String {
    static NEXT: AtomicU8 = AtomicU8::new(1);
    let [.., high, low] = std::process::id().to_be_bytes();
    let host = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("127.{}.{low}.{host}:{PORT}", high | 128)
}

/// Whether the process has a UDP socket on [`PORT`].
fn receives(process: u32) -> bool {
    let Ok(sockets) = fs::read_to_string(format!("/proc/{process}/net/udp")) else { return false };
    let Ok(files) = fs::read_dir(format!("/proc/{process}/fd")) else { return false };
    let links = files.filter_map(|file| fs::read_link(file.ok()?.path()).ok());
    let links: Vec<String> = links.map(|link| link.to_string_lossy().into_owned()).collect();
    sockets.lines().any(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (Some(local), Some(inode)) = (fields.get(1), fields.get(9)) else { return false };
        local.ends_with(&format!(":{PORT:04X}")) && links.contains(&format!("socket:[{inode}]"))
    })
}

/// A sink that receives there by now.
fn sink(folder: &Folder, address: &str, arguments: &[&str]) -> Child {
    let arguments = [&["jitter", "sink", address, "--json"], arguments].concat();
    let mut command = folder.command(&arguments);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let begun = Instant::now();
    // One that is refused ends at once.
    while !receives(child.id()) && child.try_wait().unwrap().is_none() {
        assert!(begun.elapsed() < PATIENCE, "the sink does not receive");
        std::thread::sleep(Duration::from_millis(2));
    }
    child
}

fn end(child: Child) -> (Option<i32>, String, String) {
    let output = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// Edited results, and files that are not results: a message or a page, and no waiting.
#[test]
fn a_page_of_strange_results_is_a_page_or_a_message() {
    let folder = Folder::new();
    fs::create_dir(folder.path("results")).unwrap();
    folder.refuses(2, &["jitter", "report", "results"], &["no results"]);
    fs::create_dir(folder.path("results/folder.json")).unwrap();
    // A pipe has no end: it must not be read. Elsewhere, for what compares folders would read it.
    let elsewhere = tempfile::tempdir().unwrap();
    let made = Command::new("mkfifo").arg(elsewhere.path().join("pipe.json")).status();
    assert!(made.unwrap().success());
    let path = elsewhere.path().to_str().unwrap();
    folder.refuses(2, &["jitter", "report", path], &["no results"]);
    let causes: Vec<String> = (0..20)
        .map(|n| {
            format!(r#"{{"kind":"thread","name":"</script>{n}","spikes":1,"ns":{}}}"#, u64::MAX)
        })
        .collect();
    let traced = format!(
        r#"{{"events":0,"lost":0,"breaks":0,"joined":0,"absent":[],"stages":[],"points":[],
        "excess_ns":0,"spikes":0,"named_share":1e308,"causes":[{}],"stage_ledger":[],"worst":[]}}"#,
        causes.join(",")
    );
    let result = format!(
        r#"{{"version":1,"id":"<script>alert(1)</script>","title":"t","place":"p","conditions":[],
        "period_ns":0,"sent":0,"arrived":0,"gates":[],"traced":{traced},
        "gaps":[[0,-1],[1e308,1e308],[-1e308,0]],"lateness":[],
        "histograms":[["h",[[0,0,1],[-5,1e308,{max}],[1e308,1e308,{max}]]]]}}"#,
        max = u64::MAX
    );
    folder.write("results/a.json", result.as_bytes());
    folder.succeeds(&["jitter", "report", "results"]);
    let page = String::from_utf8(folder.read("results/report.html")).unwrap();
    assert!(!page.contains("<script>alert") && !page.contains("</script>1"));
}

#[test]
fn a_stream_is_received_in_every_mode() {
    for mode in ["poll", "block", "busy-poll", "epoll", "recvmmsg", "io-uring", "io_uring"] {
        let (folder, address) = (Folder::new(), free_address());
        // However long the sender is not run.
        let patient = ["--mode", mode, "--expect", "300", "--idle", "60s", "--output", "in.csv"];
        let receiving = sink(&folder, &address, &patient);
        let sent = folder.run(&[
            "jitter", "send", &address, "--count", "300", "--period", "50us", "--json", "--output",
            "out.csv",
        ]);
        let (code, stdout, stderr) = end(receiving);
        if code == Some(6) {
            linecard_testkit::skip(format_args!("a live stream by {mode}"), stderr);
            continue;
        }
        assert_eq!((code, stderr.as_str()), (Some(0), ""), "{mode}");
        let (sent, received) = (json(&sent.stdout), json(&stdout));
        assert_eq!(
            (&sent["job"], &received["job"]),
            (&"jitter send".into(), &"jitter sink".into())
        );
        assert_eq!(sent["stream"]["packets"], 300);
        assert_eq!(sent["gate"]["lateness_limit_ns"], 50_000.0);
        for (key, count) in [("received", 300), ("lost", 0), ("duplicates", 0), ("reordered", 0)] {
            assert_eq!(received["packets"][key], count, "{mode}: {key}");
        }
        let period_ns = received["spikes"]["period_ns"].as_f64().unwrap();
        assert!((period_ns - 50_000.0).abs() < 1.0, "{mode}: {period_ns}");
        // On one clock no packet comes before it is due.
        assert!(received["lateness"]["min_ns"].as_f64().unwrap() > 0.0, "{mode}");
        assert!(received["gaps"]["p50"]["upper_ns"].is_number(), "{mode}");
        let rows = |name| String::from_utf8(folder.read(name)).unwrap();
        let (out, came) = (rows("out.csv"), rows("in.csv"));
        assert_eq!((out.lines().count(), came.lines().count()), (301, 301));
        assert!(out.starts_with("sequence,due_ns,sent_ns\n0,"));
        assert!(came.starts_with("sequence,at_ns\n0,"));
    }
}

#[test]
fn a_sink_ends_with_what_it_has_at_a_signal() {
    let (folder, address) = (Folder::new(), free_address());
    let receiving = sink(&folder, &address, &["--mode", "block"]);
    let kill = format!("kill -INT {}", receiving.id());
    // The handler may not be there yet when the port is.
    std::thread::sleep(Duration::from_millis(200));
    assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    let (code, stdout, stderr) = end(receiving);
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    let received = json(&stdout);
    assert_eq!(received["packets"]["received"], 0);
    assert!(received["notes"][0].as_str().unwrap().contains("Fewer than two"), "{received}");
}

#[test]
fn a_sink_ends_after_the_pause_that_it_is_given() {
    let (folder, address) = (Folder::new(), free_address());
    let receiving =
        sink(&folder, &address, &["--mode", "block", "--expect", "1k", "--idle", "1ms"]);
    folder.succeeds(&["jitter", "send", &address, "--count", "2"]);
    let (code, stdout, stderr) = end(receiving);
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    let received = json(&stdout)["packets"]["received"].as_u64().unwrap();
    assert!((1..=2).contains(&received), "{received}");
    folder.refuses(2, &["jitter", "sink", &address, "--idle", "0s"], &["--idle", "0", "1ms"]);
}

#[test]
fn a_stream_to_nobody_says_so() {
    let sent = Folder::new().succeeds(&["jitter", "send", &free_address(), "--duration", "2ms"]);
    assert!(sent.contains("good enough") && sent.contains("Connection refused"), "{sent}");
}

#[test]
fn formats_have_their_figures() {
    let folder = Folder::new();
    let _receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = _receiver.local_addr().unwrap().to_string();
    for (format, period_ns) in [("st2022-6:1080i50", 7_411.525), ("st2110-30:125us-2ch", 125_000.0)]
    {
        let sent = ["jitter", "send", &address, "--format", format, "--count", "20", "--json"];
        let sent = json(&folder.succeeds(&sent));
        assert_eq!(sent["spikes"]["period_ns"], period_ns, "{format}");
    }
}

#[test]
fn a_busy_loop_has_gaps_and_lateness() {
    let folder = Folder::new();
    for relative in [&[][..], &["--relative"]] {
        let arguments = [&["jitter", "dummy", "--count", "20k", "--json"], relative].concat();
        let laps = json(&folder.succeeds(&arguments));
        assert_eq!(laps["job"], "jitter dummy");
        for key in ["gaps", "lateness"] {
            assert!(laps[key]["p99"]["ns"].is_number(), "{key}");
            // 20,000 are too few for one in 10,000.
            assert_eq!(laps[key]["p9999"]["samples_needed"], 29_956, "{key}");
        }
        assert_eq!(laps["spikes"]["period_ns"], 7_410.0);
    }
    let text = folder.succeeds(&["jitter", "dummy", "--count", "2k", "--period", "5us"]);
    assert!(text.contains("Gaps between laps") && text.contains("Lateness"), "{text}");
}

#[test]
fn a_priority_is_had_or_refused_in_one_line() {
    let outcome =
        Folder::new().run(&["jitter", "dummy", "--count", "1k", "--core", "0", "--fifo", "1"]);
    if outcome.code == Some(0) {
        assert_eq!(outcome.stderr, "");
    } else {
        assert!(matches!(outcome.code, Some(2 | 6)), "{outcome:?}");
        assert_eq!(outcome.stderr.lines().count(), 1, "{outcome:?}");
    }
}

#[test]
fn without_rights_what_needs_them_is_refused_in_one_line() {
    if !is_there("setpriv", "jitter commands without rights") {
        return;
    }
    // Where this was built, nobody may be unable to look.
    let folder = Folder::new();
    fs::set_permissions(folder.path("."), fs::Permissions::from_mode(0o755)).unwrap();
    fs::copy(linecard().get_program(), folder.path("linecard")).unwrap();
    let refused = |arguments: &[&str], part: &str| {
        // A command that is not refused would continue to run.
        let mut command = Command::new("timeout");
        command.args(["10", "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]);
        command.arg(folder.path("linecard")).arg("jitter").args(arguments);
        let output = command.output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        if !stderr.starts_with("linecard: ") {
            return linecard_testkit::skip(format_args!("{arguments:?} without rights"), stderr);
        }
        assert_eq!(output.status.code(), Some(6), "{stderr}");
        assert!(stderr.lines().count() == 1 && stderr.contains(part), "{stderr}");
    };
    refused(&["dummy", "--count", "2", "--fifo", "7"], "ulimit -r 7");
    refused(&["sink", "127.0.0.1:0", "--mode", "af-xdp", "--interface", "lo"], "");
}

#[test]
fn wrong_arguments_are_refused() {
    let folder = Folder::new();
    let dummy = |arguments: &[&str], parts: &[&str]| {
        folder.refuses(2, &[&["jitter", "dummy"], arguments].concat(), parts);
    };
    dummy(&["--period", "7.41"], &["--period 7.41", "50us"]);
    dummy(&["--period", "0us"], &["0us"]);
    dummy(&["--count", "1"], &["--count 1", "2 to 100M"]);
    dummy(&["--count", "1G"], &["1G"]);
    dummy(&["--core", "100000"], &["core 100000"]);
    dummy(&["--fifo", "100"], &["100", "99"]);
    dummy(&["--fifo", "1", "--period", "1s", "--count", "100"], &["100 s", "60 s"]);
    let send = |arguments: &[&str], parts: &[&str]| {
        folder.refuses(2, &[&["jitter", "send"], arguments].concat(), parts);
    };
    send(&["127.0.0.1"], &["127.0.0.1"]);
    send(&["127.0.0.1:9", "--payload", "47"], &["47", "48", "65507"]);
    send(&["127.0.0.1:9", "--format", "st2022-7"], &["st2022-7", "st2022-6:1080i59.94"]);
    send(&["127.0.0.1:9", "--count", "0"], &["--count 0", "1 to 100M"]);
    send(&["127.0.0.1:9", "--count", "9", "--duration", "1s"], &["--duration"]);
    let sink = |arguments: &[&str], parts: &[&str]| {
        folder.refuses(2, &[&["jitter", "sink"], arguments].concat(), parts);
    };
    sink(&["127.0.0.1:0", "--mode", "smell"], &["smell", "recvmmsg"]);
    sink(&["127.0.0.1:0", "--mode", "af-xdp"], &["--interface"]);
    sink(&["127.0.0.1:0", "--expect", "0"], &["0 packets"]);
    folder.refuses(6, &["jitter", "sink", "192.0.2.1:9"], &["192.0.2.1:9"]);
    folder.refuses(6, &["jitter", "send", "127.0.0.1:9", "--bind", "192.0.2.1:0"], &["192.0.2.1"]);
}
