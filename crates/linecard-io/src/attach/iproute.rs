//! Calls of `ip` (iproute2).

use super::heir::MoveError;
use super::netlink::{Message, Object};
use super::plan::{Action, Step};
use rustix::fs::{MemfdFlags, memfd_create};
use std::fs::File;
use std::io::{self, Seek, Write};
use std::process::Command;

/// Where `ip` is looked for, whatever the caller's environment says: this runs with its rights.
const PATH: &str = "/usr/sbin:/sbin:/usr/bin:/bin:/run/current-system/sw/bin";

/// A program, with nothing of this process's environment.
pub(super) fn command(program: &str) -> Command {
    let mut command = Command::new(program);
    command.env_clear().env("PATH", PATH).current_dir("/");
    command
}

/// Runs `ip` with these arguments, and returns its output.
pub(super) fn ip(arguments: &[&str]) -> Result<String, MoveError> {
    run(arguments, &[]).map(|said| String::from_utf8_lossy(&said).into_owned())
}

/// Addresses or routes with their lines of `ip -o`.
pub(super) fn saved(object: Object, which: &[&str]) -> Result<Vec<(Message, String)>, MoveError> {
    let saved = run(&[&[object.name(), "save"], which].concat(), &[])?;
    let shown = run(&["-o", object.name(), "showdump"], &saved)?;
    let shown = String::from_utf8_lossy(&shown);
    let lines: Vec<&str> = shown.lines().filter(|line| !line.trim().is_empty()).collect();
    let messages = Message::all(object, &saved).filter(|messages| messages.len() == lines.len());
    let messages = messages.ok_or_else(|| MoveError::Unknown { object: object.name() })?;
    Ok(messages.into_iter().zip(lines.into_iter().map(str::to_owned)).collect())
}

/// Takes a step.
pub(super) fn take(step: &Step) -> Result<(), MoveError> {
    let taken = match &step.action {
        Action::Words { words, device } => {
            run(&words.split(' ').chain(["dev", device]).collect::<Vec<_>>(), &[])
        }
        Action::Restore(message) => run(&[message.object().name(), "restore"], &message.saved()),
    };
    match (taken, &step.object) {
        (Err(MoveError::Refused { answer, .. }), Some(object)) => {
            Err(MoveError::Refused { what: object.clone(), answer })
        }
        (Err(error), Some(_)) => Err(error),
        (_, None) | (Ok(_), _) => Ok(()),
    }
}

fn run(arguments: &[&str], input: &[u8]) -> Result<Vec<u8>, MoveError> {
    let told = |source| MoveError::Run { arguments: arguments.join(" "), source };
    let mut command = command("ip");
    command.args(arguments).stdin(in_memory(input).map_err(told)?);
    let output = command.output().map_err(told)?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let answer = said.lines().next().unwrap_or("it refuses").to_owned();
    Err(MoveError::Refused { what: format!("ip {}", arguments.join(" ")), answer })
}

/// A file in memory. `ip` reads what it restores more than once, which a pipe does not allow.
pub(super) fn in_memory(content: &[u8]) -> io::Result<File> {
    let mut file = File::from(memfd_create("ip", MemfdFlags::CLOEXEC)?);
    file.write_all(content)?;
    file.rewind()?;
    Ok(file)
}
