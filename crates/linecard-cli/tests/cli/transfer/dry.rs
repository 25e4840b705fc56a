//! Dry runs: they list the changes of a later transfer, and change nothing.

use super::ends::{Ends, Sender, noise, signal};
use crate::folder::CommandOutput;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};

/// Inode, mode, length, and times of data and of the inode, in ns.
type About = (u64, u32, u64, [i64; 4]);

/// All below a folder, itself included.
pub(super) fn snapshot(folder: &Path) -> BTreeMap<PathBuf, About> {
    let mut all = BTreeMap::new();
    let mut paths = vec![folder.to_path_buf()];
    while let Some(path) = paths.pop() {
        let about = fs::symlink_metadata(&path).unwrap();
        let times = [about.mtime(), about.mtime_nsec(), about.ctime(), about.ctime_nsec()];
        all.insert(path.clone(), (about.ino(), about.mode(), about.len(), times));
        if about.is_dir() {
            paths.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
    }
    all
}

/// The lines of JSON for objects, and that for all.
pub(super) fn lines(outcome: &CommandOutput) -> (Vec<Value>, Value) {
    let parsed = outcome.stdout.lines().map(serde_json::from_str);
    let mut lines: Vec<Value> =
        parsed.collect::<Result<_, _>>().unwrap_or_else(|_| panic!("{outcome:?}"));
    let all = lines.pop().unwrap_or_else(|| panic!("{outcome:?}"));
    (lines, all)
}

/// Name, action and bytes of objects that differ.
pub(super) fn steps(lines: &[Value]) -> Vec<(&str, &str, u64)> {
    lines
        .iter()
        .filter(|line| line["action"] != "equal")
        .map(|line| {
            let text = |key: &str| line[key].as_str().unwrap();
            (text("name"), text("action"), line["bytes"].as_u64().unwrap())
        })
        .collect()
}

/// A folder of which the receiver has some files, equal and not.
fn half_there() -> Ends {
    let ends = Ends::new();
    fs::create_dir_all(ends.folder.path("tree/old")).unwrap();
    for (name, bytes) in [("a", 5_000), ("b", 70_000), ("c", 300_000), ("old/d", 9)] {
        ends.folder.write(&format!("tree/{name}"), &noise(bytes));
    }
    symlink("a", ends.folder.path("tree/link")).unwrap();
    let (sent, got) = ends.both("tree", &[], &[]);
    assert_eq!((sent.code, got.code), (Some(0), Some(0)), "{sent:?} {got:?}");
    // Of the same length, longer, missing, in a new folder, and another link.
    ends.folder.write("to/tree/a", &noise(5_001)[..5_000]);
    ends.folder.write("to/tree/b", &noise(70_001));
    fs::remove_file(ends.folder.path("to/tree/c")).unwrap();
    fs::create_dir(ends.folder.path("tree/new")).unwrap();
    // Of a file that was called as the folder is now.
    ends.folder.write("to/tree/.new.linecard-part", b"");
    ends.folder.write("tree/new/e", b"e");
    symlink("b", ends.folder.path("tree/new/link")).unwrap();
    ends
}

/// Promise (Transfer): `send --dry-run` changes nothing at the receiver, and what it says is what `send` then does.
#[test]
fn a_dry_run_changes_nothing_and_says_what_happens() {
    for (recv, code, action) in [(&[][..], 17, "refuse"), (&["--overwrite"], 0, "replace")] {
        let ends = half_there();
        let receiver = ends.receiver(&[recv, &["--json"]].concat());
        let before = snapshot(&ends.folder.path("to"));
        let asked = ends.send("tree", &receiver, &["--dry-run", "--json"]);
        assert_eq!(asked.code, Some(code), "{asked:?}");
        assert!(snapshot(&ends.folder.path("to")) == before, "it changed something");
        let (of_each, all) = lines(&asked);
        let differ = |bytes: u64| if code == 0 { bytes } else { 0 };
        let expected = [
            ("tree/a", action, differ(5_000)),
            ("tree/b", action, differ(70_000)),
            ("tree/c", "send", 300_000),
            ("tree/new", "send", 0),
            ("tree/new/e", "send", 1),
            ("tree/new/link", "send", 1),
        ];
        let mut found = steps(&of_each);
        found.sort_unstable();
        assert_eq!(found, expected);
        // The root, `link`, `old` and `old/d`.
        assert_eq!(of_each.len(), expected.len() + 4, "{of_each:?}");
        assert_eq!((&all["dry_run"]["unchanged"], all.get("transfer")), (&4.into(), None));

        // The same in words, and the same receiver still waits.
        let words = ends.send("tree", &receiver, &["--dry-run"]);
        for text in ["send     file   tree/c, 300", "Dry run: nothing was sent", "folders to make"]
        {
            assert!(words.stdout.contains(text), "{text}: {}", words.stdout);
        }
        assert!(snapshot(&ends.folder.path("to")) == before, "it changed something");
        let sent = ends.send("tree", &receiver, &["--json"]);
        let got = receiver.end();
        assert_eq!((sent.code, got.code), (Some(code), Some(code)), "{sent:?} {got:?}");
        assert_eq!(got.stderr.matches("a dry run of 127.0.0.1:").count(), 2, "{}", got.stderr);
        let account: Value = serde_json::from_str(&sent.stdout).unwrap();
        let of = |key: &str| account["transfer"][key].as_u64().unwrap_or(0);
        assert_eq!(of("bytes") - of("had_bytes"), all["dry_run"]["bytes"].as_u64().unwrap());
        assert_eq!(of("failed"), all["dry_run"]["failed"].as_u64().unwrap());
    }
}

/// Chunks that an earlier run has left are not counted, and stay as they are.
#[test]
fn a_dry_run_sees_what_an_interrupted_transfer_has_left() {
    let ends = Ends::with_file(3_000_000);
    let receiver = ends.receiver(&[]);
    let slow = ["--chunk", "64K", "--rate", "10M"];
    let sender = Sender::start(ends.sender("from.bin", &receiver, &slow));
    ends.wait_for_records(5);
    signal("KILL", receiver.id());
    assert_eq!((sender.end().code, receiver.end().code), (Some(14), None));
    let receiver = ends.receiver(&[]);
    let before = snapshot(&ends.folder.path("to"));
    let asked = ends.send("from.bin", &receiver, &["--chunk", "64K", "--dry-run", "--json"]);
    assert_eq!(asked.code, Some(0), "{asked:?}");
    assert!(snapshot(&ends.folder.path("to")) == before, "it changed something");
    let (_, all) = lines(&asked);
    let left = all["dry_run"]["bytes"].as_u64().unwrap();
    assert!((1..=3_000_000 - 5 * 65_536).contains(&left), "{all}");
    let sent = ends.send("from.bin", &receiver, &["--chunk", "64K", "--json"]);
    assert_eq!(receiver.end().code, Some(0));
    let account: Value = serde_json::from_str(&sent.stdout).unwrap();
    assert_eq!(account["transfer"]["had_bytes"].as_u64(), Some(3_000_000 - left));
    ends.assert_equal();
}

/// Where no file exists, none is made; stdin is not read.
#[test]
fn a_dry_run_into_nothing() {
    let ends = half_there();
    fs::remove_dir_all(ends.folder.path("to")).unwrap();
    let receiver = ends.receiver(&["--keep"]);
    let asked = ends.send("tree", &receiver, &["--dry-run", "--json"]);
    assert_eq!(asked.code, Some(0), "{asked:?}");
    let (of_each, _) = lines(&asked);
    assert!(of_each.iter().all(|line| line["action"] == "send"), "{of_each:?}");
    let asked = ends.send("-", &receiver, &["--dry-run"]);
    assert!(asked.code == Some(0) && asked.stdout.contains("pipe   stdin"), "{asked:?}");
    assert_eq!(snapshot(&ends.folder.path("to")).len(), 1);
    // A file where a folder is to be, and a folder where a file is to be.
    fs::write(ends.folder.path("to/tree"), b"").unwrap();
    let asked = ends.send("tree", &receiver, &["--dry-run"]);
    assert_eq!(asked.code, Some(17), "{asked:?}");
    assert!(asked.stderr.contains("would fail: "), "{}", asked.stderr);
    signal("TERM", receiver.id());
    assert_eq!(receiver.end().code, Some(0));
}

/// Promise (Transfer): `send --probe` changes nothing at the receiver, measures no more than a lane's rate, and predicts
/// the time by what it has measured; the same receiver then takes the data.
#[test]
fn a_probe_changes_nothing_and_says_how_long_it_takes() {
    const RATE: f64 = 40e6;
    let ends = Ends::with_file(3_000_000);
    let receiver = ends.receiver(&[]);
    let before = snapshot(&ends.folder.path("to"));
    let lane = ["--lane", "127.0.0.1,rate=40M"];
    let asked = ends.send("from.bin", &receiver, &[&lane[..], &["--probe", "--json"]].concat());
    assert_eq!(asked.code, Some(0), "{asked:?}");
    assert!(snapshot(&ends.folder.path("to")) == before, "it changed something");
    let found: Value = serde_json::from_str(&asked.stdout).unwrap();
    let number = |value: &Value| value.as_f64().unwrap_or_else(|| panic!("{found:#}"));
    let probe = &found["probe"];
    assert_eq!((probe["bytes"].as_u64(), found.get("transfer")), (Some(3_000_000), None));
    let lanes = found["probed_lanes"].as_array().unwrap();
    assert_eq!(lanes.len(), 1, "{found:#}");
    let line = number(&lanes[0]["value"]["rate_bits_per_second"]);
    assert!((1.0..1.05 * RATE).contains(&line), "{found:#}");
    let goodput = number(&probe["goodput_bits_per_second"]);
    assert!(goodput > 0.0 && goodput < line, "{found:#}");
    let (seconds, least) = (number(&probe["seconds"]), 3_000_000.0 * 8.0 / goodput);
    assert!((least..least + 10.0).contains(&seconds), "{found:#}");
    let labels = found["advice"].as_array().unwrap().iter().map(|item| &item["label"]);
    assert_eq!(labels.collect::<Vec<_>>(), ["fec", "chunk"], "its rate is given: {found:#}");

    let words = ends.send("from.bin", &receiver, &[&lane[..], &["--probe"]].concat());
    assert!(words.stdout.starts_with("Probe: nothing was sent"), "{}", words.stdout);
    let (sent, got) = (ends.send("from.bin", &receiver, &lane), receiver.end());
    assert_eq!((sent.code, got.code), (Some(0), Some(0)), "{sent:?} {got:?}");
    // The command's own words for what it has seen.
    assert_eq!(got.stderr.matches("a dry run of 127.0.0.1:").count(), 2, "{}", got.stderr);
    assert_eq!(got.stderr.matches("a probe of 127.0.0.1:").count(), 2, "{}", got.stderr);
}

/// The time of a probe is not that of files which are refused.
#[test]
fn a_probe_fails_as_the_transfer_would() {
    let ends = half_there();
    let receiver = ends.receiver(&[]);
    let asked = ends.send("tree", &receiver, &["--probe"]);
    assert_eq!(asked.code, Some(17), "{asked:?}");
    assert!(asked.stderr.contains("would fail: "), "{asked:?}");
    assert!(asked.stdout.starts_with("Probe:"), "{asked:?}");
}
