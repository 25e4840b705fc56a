//! Environment of the command: the workspace, and other programs.

use std::process::{Command, Stdio};

/// Whether a program of the system exists; otherwise records a skipped test.
pub(crate) fn is_there(program: &str, what_for: &str) -> bool {
    let mut command = Command::new(program);
    let run = command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    let is_there = run.is_ok_and(|status| status.success());
    if !is_there {
        linecard_testkit::skip(what_for, format_args!("{program} is not installed"));
    }
    is_there
}
