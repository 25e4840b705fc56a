//! Hard links of a folder, which are kept on request.

use super::dry::{lines, steps};
use super::ends::{Ends, Sender, noise, signal};
use crate::folder::CommandOutput;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::MetadataExt;

const BYTES: usize = 2_000_000;
const NAMES: [&str; 3] = ["tree/a/first", "tree/second", "tree/third"];

/// A folder in which a file has three names.
fn tree() -> Ends {
    let ends = Ends::new();
    fs::create_dir_all(ends.folder.path("tree/a")).unwrap();
    ends.folder.write(NAMES[0], &noise(BYTES));
    for name in &NAMES[1..] {
        fs::hard_link(ends.folder.path(NAMES[0]), ends.folder.path(name)).unwrap();
    }
    ends
}

fn number(outcome: &CommandOutput, key: &str) -> u64 {
    let account: Value =
        serde_json::from_str(&outcome.stdout).unwrap_or_else(|_| panic!("{outcome:?}"));
    account["transfer"][key].as_u64().unwrap_or(0)
}

/// How many names each of the files has at the receiver.
fn names_there(ends: &Ends) -> [u64; 3] {
    let content = ends.folder.read(NAMES[0]);
    NAMES.map(|name| {
        let name = format!("to/{name}");
        assert!(ends.folder.read(&name) == content, "{name}");
        fs::metadata(ends.folder.path(&name)).unwrap().nlink()
    })
}

#[test]
fn hard_links_are_kept_on_request_only() {
    for (options, names, bytes) in
        [(&["--json"][..], [1; 3], 3 * BYTES), (&["--json", "--hard-links"], [3; 3], BYTES)]
    {
        let ends = tree();
        for unchanged in [0, 3] {
            let (sent, got) = ends.both("tree", options, &["--json"]);
            assert_eq!((sent.code, got.code), (Some(0), Some(0)), "{sent:?} {got:?}");
            for outcome in [&sent, &got] {
                assert_eq!(number(outcome, "bytes"), bytes as u64);
                assert_eq!(number(outcome, "objects"), 5);
                assert_eq!(number(outcome, "unchanged"), unchanged);
            }
            assert_eq!(names_there(&ends), names);
        }
    }
}

#[test]
fn a_dry_run_lists_links() {
    let ends = tree();
    let receiver = ends.receiver(&["--json"]);
    let asked = ends.send("tree", &receiver, &["--dry-run", "--json", "--hard-links"]);
    assert_eq!(asked.code, Some(0), "{asked:?}");
    let (lines, all) = lines(&asked);
    let files: Vec<_> =
        steps(&lines).into_iter().filter(|(name, ..)| NAMES.contains(name)).collect();
    let expected = [(NAMES[0], "send", BYTES as u64), (NAMES[1], "send", 0), (NAMES[2], "send", 0)];
    assert_eq!(files, expected);
    let kinds = lines.iter().filter(|line| line["kind"] == "link").count();
    let sum = ["links", "files"].map(|key| all["dry_run"][key].as_u64());
    assert_eq!((kinds, sum), (2, [Some(2), Some(1)]), "{all:#}");
    assert!(!ends.folder.path("to/tree").exists());
    signal("INT", receiver.id());
    receiver.end();
}

/// The first name is at the receiver, and no other is: each is made when both ends run again.
#[test]
fn links_are_made_after_an_end_was_killed() {
    let ends = tree();
    let receiver = ends.receiver(&[]);
    let options = ["--hard-links", "--rate", "20M", "--chunk", "64K"];
    let sender = Sender::start(ends.sender("tree", &receiver, &options));
    let journal = ends.folder.path("to/tree/a/.first.linecard-journal");
    ends.wait_until(|| journal.exists());
    signal("KILL", receiver.id());
    assert_eq!((sender.end().code, receiver.end().code), (Some(14), None));
    for name in &NAMES[1..] {
        assert!(!ends.folder.path(&format!("to/{name}")).exists(), "{name}");
    }
    let (sent, got) = ends.both("tree", &["--hard-links"], &[]);
    assert_eq!((sent.code, got.code), (Some(0), Some(0)), "{sent:?} {got:?}");
    assert_eq!(names_there(&ends), [3; 3]);
}

/// What both ends say about a link that is not made.
#[test]
fn a_link_that_is_not_made_is_listed() {
    let ends = tree();
    fs::create_dir_all(ends.folder.path("to/tree/second")).unwrap();
    let (sent, got) = ends.both("tree", &["--hard-links"], &[]);
    assert_eq!((sent.code, got.code), (Some(17), Some(17)), "{sent:?} {got:?}");
    for outcome in [&sent, &got] {
        assert!(
            outcome.stderr.contains("second\\\" is a folder")
                || outcome.stderr.contains("second\" is a folder"),
            "{outcome:?}"
        );
    }
    let first = fs::metadata(ends.folder.path("to/tree/a/first")).unwrap();
    assert_eq!(first.nlink(), 2);
}
