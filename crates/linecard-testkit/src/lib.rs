//! Common code of the tests of all crates.

pub mod captures;
#[cfg(all(feature = "lab", target_os = "linux"))]
pub mod lab;
#[cfg(feature = "packets")]
pub mod packets;

use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Names a file to which skipped tests are appended, a line each. `./test` prints it at its end.
const LIST: &str = "LINECARD_SKIPS";

/// Records that a test, or a part of it, did not run: on stderr, past the harness, which hides the output of tests
/// that pass, and in the file that `LINECARD_SKIPS` names. `why` names the missing facility and the remedy.
pub fn skip(what: impl Display, why: impl Display) {
    let line = format!("{what}: {why}");
    let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
    // A test whose stderr is closed is skipped all the same.
    let _ = writeln!(std::io::stderr(), "SKIPPED: {line}");
    let Some(path) = std::env::var_os(LIST).filter(|path| !path.is_empty()) else { return };
    // One write each: tests run in several threads and processes.
    let written = OpenOptions::new().create(true).append(true).open(&path);
    let written = written.and_then(|mut file| file.write_all(format!("{line}\n").as_bytes()));
    if let Err(error) = written {
        let _ = writeln!(std::io::stderr(), "{LIST}={}: {error}", path.display());
    }
}

/// Whether SIGHUP is ignored here, as under nohup, and so by every command that a test starts: then a test of the end at
/// SIGHUP cannot be had, and this records that it was skipped.
pub fn skips_hangup(what: impl Display) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap_or_default();
    // Signal 1 is the lowest bit.
    let is_ignored = u64::from_str_radix(mask.trim(), 16).is_ok_and(|mask| mask & 1 == 1);
    if is_ignored {
        skip(
            what,
            "SIGHUP is ignored here, as under nohup, and by started programs: run without nohup",
        );
    }
    is_ignored
}

/// Says something although the test passes: the harness swallows what `eprintln!` prints.
pub fn say(text: &str) {
    // A test whose stderr is closed goes on all the same.
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Whether a line of a transfer says that a lane was not answered for a while, as where this host had no time for it.
#[must_use]
pub fn is_pause(line: &str) -> bool {
    let pauses = ["did not answer for", "has stopped answering", "no lane is answered any more"];
    pauses.iter().any(|pause| line.contains(pause))
}

/// The root of the workspace.
#[must_use]
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Whether the long run was requested.
#[must_use]
pub fn is_long() -> bool {
    std::env::var_os("LINECARD_LONG").is_some_and(|value| value == "1")
}

/// Tests of many cases try one in this many: 1, or `LINECARD_PART` where all would take too long, as on an emulated
/// processor. A prime number shares no factor with what cases are made of, such as the bits of a byte.
///
/// # Panics
///
/// When `LINECARD_PART` is not a number, or 0.
#[must_use]
pub fn part() -> usize {
    let Some(text) = std::env::var_os("LINECARD_PART") else { return 1 };
    let part = text.to_str().and_then(|text| text.parse().ok()).filter(|part| *part > 0);
    part.expect("LINECARD_PART is a number from 1 on, say, 7")
}

/// The seeds of a test of many: the first `count`, or those of `LINECARD_SEEDS=FROM..END`.
///
/// # Panics
///
/// When `LINECARD_SEEDS` names none.
#[must_use]
pub fn seeds(count: u64) -> Range<u64> {
    let Some(text) = std::env::var_os("LINECARD_SEEDS") else { return 0..count };
    let range = text.to_str().and_then(|text| text.split_once(".."));
    let range = range.and_then(|(from, end)| Some(from.parse().ok()?..end.parse().ok()?));
    let range = range.filter(|range: &Range<u64>| !range.is_empty());
    range.expect("LINECARD_SEEDS is a range of numbers, say, 7..8")
}
