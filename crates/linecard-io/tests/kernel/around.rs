//! What the tests find around them, and a loud way to say what they do not find.

use std::io::Write;
use std::path::{Path, PathBuf};

/// Says something although the test passes: the harness swallows what `eprintln!` prints.
pub(crate) fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Says that a test did nothing, and why.
pub(crate) fn skipped(what: &str, why: &str) {
    linecard_testkit::skip(what, why);
}

/// The root of the workspace.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The running kernel's release, as `6.18.44`.
pub(crate) fn kernel_release() -> String {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    release.trim().to_owned()
}

/// Whether the long run was asked for.
pub(crate) fn is_long() -> bool {
    std::env::var_os("LINECARD_LONG").is_some_and(|value| value == "1")
}
