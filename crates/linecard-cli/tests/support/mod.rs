//! Common code of all tests of the command: the command, and a record of skipped tests.

use std::process::Command;

/// The command under test.
pub(crate) fn linecard() -> Command {
    Command::new(env!("CARGO_BIN_EXE_linecard"))
}
