//! Common code of all tests of the command: the command, and a loud way to say what is skipped.

use std::process::Command;

/// The command under test.
pub(crate) fn linecard() -> Command {
    Command::new(env!("CARGO_BIN_EXE_linecard"))
}
