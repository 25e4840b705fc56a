//! The `linecard` command, as a program.

use std::process::ExitCode;

fn main() -> ExitCode {
    linecard_cli::main()
}
