//! What all tests of the command share: the command, and a loud way to say what is skipped.

use std::io::Write;
use std::process::Command;

/// The command under test.
pub(crate) fn linecard() -> Command {
    Command::new(env!("CARGO_BIN_EXE_linecard"))
}

/// Says something although the test passes: the harness swallows what `eprintln!` prints.
pub(crate) fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}
